"""The detection benchmark: a small slice of it, and whether it can be believed."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.detection import (
    counting,
    measuring,
    running,
    stages,
    strategies,
    uses,
)
from benchmarks.detection.kinds import KINDS
from benchmarks.detection.operators import FAMILIES, OPERATORS, Operator
from benchmarks.detection.primitives import primitive
from benchmarks.detection.stages import Outcome, Stage

PAGE = Path(__file__).parent.parent / "benchmarks/detection/README.md"
SEED = 2026


def test_every_kind_of_fault_has_an_operator() -> None:
    assert sorted({operator.kind for operator in OPERATORS}) == sorted(KINDS)
    assert sorted(KINDS) == list(range(1, 37))


def test_operators_have_names_of_their_own() -> None:
    names = [operator.name for operator in OPERATORS]
    assert len(names) == len(set(names))


# --- a slice --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_mutants_are_caught_in_time(kind: int) -> None:
    operators = measuring.operators_of([kind])
    verdicts = list(measuring.verdicts(operators, 2, SEED, stock=False))
    assert len(verdicts) >= len(operators)
    missed = [v for v in verdicts if v.is_fault and not v.caught]
    assert not missed, counting.Record.of(missed[0])
    alarms = [v.alarm for v in verdicts if v.alarm is not None]
    assert not alarms, (alarms[0].outcome, alarms[0].source)


@pytest.mark.parametrize("family", FAMILIES)
def test_right_programs_are_accepted(family: str) -> None:
    seen: list[int] = []
    alarms = list(measuring.alarms([family], 15, SEED, seen.append))
    assert not alarms, (alarms[0].outcome, alarms[0].source)
    assert sum(seen) == 15


# --- whether programs are right -------------------------------------------------------


def test_gradients_of_right_primitives_are_those_of_their_expand() -> None:
    specs = measuring.drawn(strategies.primitive_specs(needs={"refs": False}), 15, SEED)
    for spec in specs:
        program = primitive(spec)
        scope = stages.executed(program.source(strict=False, typed=False), program.name)
        prim = eval(program.construct, scope)
        args = tuple(eval(arg, scope) for arg in program.args)
        with stages.quiet():
            found, true = (gradient(uses.Call(f, args)) for f in (prim, prim.expand))
        jax.tree.map(assert_close, found, true)


def gradient(call: uses.Call) -> Any:
    return jax.jit(jax.grad(lambda moved: uses.total(call.on(moved))))(call.values)


def assert_close(found: Any, true: Any) -> None:
    assert (found.shape, found.dtype) == (true.shape, true.dtype)
    wide = jnp.promote_types(found.dtype, jnp.float32)
    tolerance = 10 * float(jnp.finfo(found.dtype).eps) ** 0.5
    np.testing.assert_allclose(found.astype(wide), true.astype(wide), tolerance)


# --- whether the count can be believed ------------------------------------------------


def harmless(*codes: str, stage: Stage = Stage.RULE) -> Operator:
    """An operator that changes nothing, so that its mutants are not caught."""
    return Operator(
        1, "nothing", stage, frozenset(codes), lambda program: iter([program])
    )


def test_a_program_without_a_fault_is_not_caught() -> None:
    operator = harmless("SH311")
    (verdict,) = measuring.verdicts([operator], 1, SEED)
    assert not verdict.caught
    assert verdict.in_stock == "silent"
    record = counting.Record.of(verdict)
    assert (record.without, record.given, record.caught) == ("never", "never", False)
    assert "class Op" in record.source
    run = running.Run(0, [record], {"primitive": 1})
    assert not run.is_clean
    assert "missed: kind 1, nothing" in running.summary(run)
    assert run.rows[0].cells()[4] == "0.0 %"


@pytest.mark.parametrize(
    ("without", "caught"),
    [
        (Outcome(Stage.RULE, frozenset({"SH311"})), True),
        (Outcome(Stage.CALL, frozenset({"SH311", "SH302"})), True),
        (Outcome(Stage.CHECK, frozenset({"SH311"})), False),
        (Outcome(Stage.RULE, frozenset({"SH302"})), False),
        (Outcome(Stage.RULE, error="ValueError"), False),
        (Outcome(None), False),
    ],
    ids=["in time", "early", "late", "as something else", "by JAX", "never"],
)
def test_what_counts_as_caught(without: Outcome, caught: bool) -> None:
    given = Outcome(Stage.IMPORT, frozenset({"SH311"}))
    verdict = measuring.Verdict(harmless("SH311"), without, given, None, "")
    assert verdict.caught == caught


def test_types_that_are_known_ask_for_the_import() -> None:
    given = Outcome(Stage.RULE, frozenset({"SH311"}))
    verdict = measuring.Verdict(harmless("SH311"), given, given, None, "")
    assert verdict.is_caught(typed=False)
    assert not verdict.is_caught(typed=True)


def test_a_right_program_that_is_refused_is_an_alarm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = Outcome(Stage.DEF, frozenset({"SH101"}))
    monkeypatch.setattr(
        measuring, "run", lambda *_, strict, **__: refused if strict else Outcome(None)
    )
    alarms = list(measuring.alarms(["function"], 3, SEED, lambda _: None))
    assert [alarm.stock for alarm in alarms] == [False] * 3


def test_mutants_of_a_run_follow_from_its_seed() -> None:
    operator = OPERATORS[0]

    def sources(seed: int) -> list[str]:
        found = measuring.mutants(operator, 8, seed)
        return [mutant.source(strict=True, typed=False) for mutant in found]

    assert sources(1) == sources(1)
    assert sources(1) != sources(2)
    assert len(set(sources(1))) == len(sources(1))


# --- the command and its page ---------------------------------------------------------


def test_the_command_prints_each_kind_and_writes_json(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    records = [
        counting.Record(kind, f"operator {kind}", "def", "def", "import", "late", True)
        for kind in KINDS
    ]

    def run_all(size: running.Size, seed: int, say: Any) -> running.Run:
        assert size == running.QUICK
        return running.Run(seed, records, {"primitive": 3}, [], 1.0)

    monkeypatch.setattr(running, "run_all", run_all)
    file = tmp_path / "found.json"
    arguments = ["detection", "--quick", "--seed", "7", "--json", str(file)]
    assert command.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "36 of 36 mutants caught in time (100.00 %)" in printed
    assert "0 false alarms on 3 right programs; seed 7" in printed
    found = json.loads(file.read_text())["detection"]
    assert [row["kind"] for row in found["kinds"]] == list(KINDS)


def test_a_missed_fault_is_in_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    record = counting.Record(1, "one", "def", "never", "never", "silent", False)
    monkeypatch.setattr(running, "run_all", lambda *_: running.Run(0, [record]))
    assert command.main(["detection", "--quick"]) == 1


def test_the_page_has_the_table_with_a_row_for_each_kind() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    header = "| " + " | ".join(counting.COLUMNS) + " |"
    start = lines.index(header) + 2
    rows = [line.strip("| ").split(" | ") for line in lines[start : start + len(KINDS)]]
    assert [(int(row[0]), row[1]) for row in rows] == list(KINDS.items())
    assert {row[4] for row in rows} == {"100.0 %"}
