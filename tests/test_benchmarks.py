"""The benchmarks' statistics on synthetic samples, and their command line."""

import json
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import definition, runtime, timing
from benchmarks.kit import PLAIN, STRICT, fresh
from benchmarks.programs import Program, X, values
from benchmarks.rows import NOT_MEASURED, Row, Settings
from benchmarks.statistics import (
    AtMost,
    Estimate,
    Within,
    estimate,
    exponent,
    geometric_mean_ratio,
    ratio,
)
from benchmarks.timing import interleaved, repeated

ROOT = Path(__file__).parent.parent


def noisy(median: float, rounds: int, seed: int, spread: float = 0.05) -> np.ndarray:
    return median * np.random.default_rng(seed).lognormal(0, spread, rounds)


def test_ratio_is_that_of_the_medians() -> None:
    found = ratio({"strict": [2.0, 4.0, 90.0], "plain": [1.0, 2.0, 3.0]})
    assert found.value == 2.0
    assert found.low <= found.value <= found.high


def test_constant_samples_have_an_interval_of_no_width() -> None:
    found = ratio({"strict": [3.0] * 9, "plain": [2.0] * 9})
    assert found == Estimate(1.5, 1.5, 1.5)


def test_interval_contains_the_true_ratio_about_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(100):
        strict, plain = noisy(1.1, 40, 2 * seed), noisy(1.0, 40, 2 * seed + 1)
        found = ratio({"strict": strict, "plain": plain})
        hits += found.low <= 1.1 <= found.high
    assert 88 <= hits <= 100


def test_interval_narrows_with_more_rounds() -> None:
    def width(rounds: int) -> float:
        samples = {"strict": noisy(1, rounds, 0), "plain": noisy(1, rounds, 1)}
        found = ratio(samples)
        return found.high - found.low

    assert width(400) < width(25) / 2


def test_drift_that_is_common_to_a_round_does_not_widen_the_interval() -> None:
    drift = np.linspace(1, 3, 60)
    found = ratio({"strict": 1.2 * drift, "plain": drift})
    assert found.high - found.low < 0.01
    assert found.value == pytest.approx(1.2)


def test_outliers_do_not_move_the_ratio() -> None:
    strict, plain = noisy(1.05, 60, 0, 0.01), noisy(1.0, 60, 1, 0.01)
    strict[::10] *= 50
    found = ratio({"strict": strict, "plain": plain})
    assert found.value == pytest.approx(1.05, rel=0.02)


def test_contenders_with_different_numbers_of_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="too many values"):
        ratio({"strict": [1.0, 2.0], "plain": [1.0]})


def test_estimate_of_any_figure() -> None:
    samples = {"strict": [5.0] * 4, "plain": [3.0] * 4, "rules": [4.0] * 4}
    found = estimate(samples, lambda m: (m["strict"] - m["plain"]) / m["rules"])
    assert found.value == 0.5


def test_geometric_mean_of_several_measurements() -> None:
    slower = {"strict": [4.0] * 5, "plain": [2.0] * 5}
    faster = {"strict": [1.0] * 5, "plain": [2.0] * 5}
    several = [slower, faster]
    assert geometric_mean_ratio(several).value == pytest.approx(1)


@pytest.mark.parametrize("power", [1, 2, 0.5])
def test_exponent_of_a_power(power: float) -> None:
    sizes = np.array([1, 10, 100, 1000])
    assert exponent(sizes, list(3.0 * sizes**power)) == pytest.approx(power)


def test_growth_of_synthetic_samples() -> None:
    samples = {str(size): np.full(6, 2e-4 * size) for size in (10, 100, 1000)}
    assert definition.growth(samples).value == pytest.approx(1)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Estimate(1.0, 0.9, 1.05), "met"),
        (Estimate(1.0, 0.9, 1.2), "met, within noise"),
        (Estimate(1.2, 1.0, 1.3), "not met, within noise"),
        (Estimate(1.2, 1.15, 1.3), "not met"),
    ],
)
def test_verdict_on_an_upper_bound(found: Estimate, verdict: str) -> None:
    assert AtMost(1.1).verdict(found) == verdict


def test_verdict_on_a_value() -> None:
    assert Within(1).verdict(Estimate(1.01, 0.99, 1.03)) == "met"
    assert Within(1).verdict(Estimate(1.03, 1.01, 1.05)) == "not met"


def test_row_without_a_device_says_so() -> None:
    row = Row("run time", "on tpu", None, Within(1))
    assert row.verdict == NOT_MEASURED
    assert row.as_json()["value"] is None


def test_contenders_take_turns_in_alternating_order() -> None:
    calls: list[str] = []

    def contender(name: str):
        return lambda number: float(not calls.append(name))

    contenders = {name: contender(name) for name in ("strict", "plain")}
    samples = interleaved(contenders, 4, warmup=0)
    pairs = [tuple(calls[i : i + 2]) for i in range(0, 8, 2)]
    assert pairs[0] == pairs[2] == pairs[1][::-1] == pairs[3][::-1]
    assert {name: len(series) for name, series in samples.items()} == {
        "strict": 4,
        "plain": 4,
    }


@pytest.mark.parametrize(("name", "least"), [("wall", 0.02), ("cpu", 0)])
def test_clock_counts_waiting_or_not(name: str, least: float) -> None:
    timing.use_clock(name)
    try:
        seconds = timing.seconds_of(lambda: time.sleep(0.02))
    finally:
        timing.use_clock("wall")
    assert least <= seconds
    assert (seconds < 0.01) == (name == "cpu")


def test_repeated_calls_are_averaged() -> None:
    calls: list[None] = []
    contenders = repeated({"one": lambda: calls.append(None)}, at_least=1e-4)
    before = len(calls)
    assert 0 < contenders["one"](0) < 1e-4
    assert len(calls) - before > 1


def test_all_contenders_repeat_the_same_number_of_calls() -> None:
    calls = {"slow": 0, "quick": 0}

    def slow() -> None:
        calls["slow"] += 1
        time.sleep(1e-5)

    def quick() -> None:
        calls["quick"] += 1

    contenders = repeated({"slow": slow, "quick": quick}, at_least=1e-5)
    before = dict(calls)
    for contender in contenders.values():
        contender(0)
    assert calls["slow"] - before["slow"] == calls["quick"] - before["quick"] > 1


def test_fresh_copies_share_no_code() -> None:
    def factory():
        return lambda x: x + 1

    functions = [factory(), fresh(factory, 0)(), fresh(factory, 1)()]
    assert len({function.__code__ for function in functions}) == 3
    assert [function(1) for function in functions] == [2, 2, 2]


def different(kit):
    return jnp.sin if kit is STRICT else jnp.cos


def same(kit):
    return jnp.sin


@pytest.mark.parametrize(("build", "code"), [(same, 0), (different, 1)])
def test_exit_code_tells_whether_programs_differ(
    build, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = (Program("one", build, (X,)),)
    monkeypatch.setattr(command, "programs", lambda: programs)
    file = tmp_path / "figures.json"
    assert command.main(["hlo", "--quick", "--json", str(file)]) == code
    statuses = {c["status"] for c in json.loads(file.read_text())["stablehlo"]}
    assert statuses == {"differs" if code else "identical"}


def test_hlo_runs_from_the_command_line() -> None:
    arguments = [sys.executable, "-m", "benchmarks", "hlo", "--quick"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 differs" in done.stdout


def test_unknown_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["runtme"])
    assert caught.value.code == 2
    assert "runtme" in capsys.readouterr().err


def test_tables_print_without_rich(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.report.Table", None)
    row = Row("a figure", "a program", Estimate(1.25, 1.2, 1.3), AtMost(1.1))
    command.report.print_rows("eager", [row])
    printed = capsys.readouterr().out
    assert "a program" in printed
    assert "1.250" in printed
    assert "not met" in printed


def test_control_is_among_the_run_time_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = (Program("one", same, (X,)),)
    monkeypatch.setattr(runtime, "programs", lambda: programs)
    found = list(runtime.rows(Settings(quick=True)))
    assert [row.subject for row in found if row.verdict == NOT_MEASURED]
    assert any(row.figure.startswith("control") for row in found)


def test_values_have_the_types_of_their_specs() -> None:
    (array,) = values((X,))
    assert (array.shape, array.dtype) == (X.shape, X.dtype)
    assert not PLAIN.promise("grad")
