"""The demonstration shows what it claims, and can fail."""

import re
import sys
from math import nan

import jax
import jax.numpy as jnp
import pytest

import strict_hijax
from examples import digits
from examples.demo import __main__ as command
from examples.demo import faults, programs, stock, text, training
from examples.plain import plain_module

NAMES = stock.module_names()


@pytest.fixture(scope="session")
def records():
    """What stock JAX does with each faulty module, measured once."""
    return {record["name"]: record for record in stock.measure_all()}


@pytest.fixture(params=NAMES)
def record(request, records):
    found = records[request.param]
    if not stock.applies(found):
        pytest.skip(f"right on jax {jax.__version__}")
    return found


def test_there_are_faulty_modules():
    assert len(NAMES) >= 12


def test_the_import_fails_with_the_declared_code(record):
    error = faults.import_error(record["name"])
    assert isinstance(error, strict_hijax.StrictHijaxError)
    assert error.code == record["expected_code"]


def test_the_error_names_the_subject_and_the_rule(record):
    error = faults.import_error(record["name"])
    message = str(error)
    assert f"{stock.FAULTY}.{record['name']}." in error.subject
    assert error.subject in message
    assert error.rule
    assert re.search(rf"\b{re.escape(error.rule)}\b", message)


def test_the_error_points_into_the_module(record):
    message = str(faults.import_error(record["name"]))
    assert re.search(rf"{record['name']}\.py:\d+", message)


def test_a_failed_import_leaves_no_module_behind(record):
    faults.import_error(record["name"])
    assert f"{stock.FAULTY}.{record['name']}" not in sys.modules


def test_stock_does_what_the_module_declares(record):
    assert stock.outcome(record) == record["expected_stock"]
    assert record["stages"]["import"] is None
    assert record["stages"]["forward"] is None


def test_silent_mistakes_raise_nothing_eagerly(record):
    if record["expected_stock"] != "silent":
        assert not record["differences"]
        return
    assert faults.verdict(record).startswith("SILENT: ")
    if record["name"] != "undeclared_axis":  # its jitted and its eager form differ
        stages = ("forward", "jit", "grad", "jit of grad")
        assert [record["stages"][stage] for stage in stages] == [None] * 4


def test_untouched_accumulator_is_a_zero_gradient(records):
    (difference,) = records["untouched_accumulator"]["differences"]
    assert difference["what"] == "gradient for `shift`"
    assert difference["got"] == "[0., 0.]"


def test_no_claim_is_broken(record):
    error = faults.import_error(record["name"])
    assert faults.broken_claims(record, error) == []


def test_a_module_that_imports_breaks_a_claim(record):
    (claim,) = faults.broken_claims(record, None)
    assert "let it be imported" in claim


def test_an_error_that_is_not_ours_breaks_a_claim(record):
    (claim,) = faults.broken_claims(record, TypeError("from elsewhere"))
    assert "TypeError" in claim


def test_another_outcome_in_stock_breaks_a_claim(record):
    error = faults.import_error(record["name"])
    other = {**record, "expected_stock": "right"}
    assert len(faults.broken_claims(other, error)) == 1


def test_a_right_rule_is_no_mistake():
    record = {"stages": {"import": None, "grad": None}, "differences": []}
    assert stock.outcome(record) == "right"
    assert faults.verdict(record) == "no mistake is seen"


def test_agreement_is_of_type_and_value():
    true = jnp.ones(3)
    assert stock.agrees(true + 1e-6, true)
    assert not stock.agrees(true + 1e-2, true)
    assert not stock.agrees(true.astype(jnp.bfloat16), true)
    assert not stock.agrees(true[None], true)


def traced(constant):
    def step(x):
        return jnp.sin(x) + constant

    return jax.jit(step).trace(jnp.ones(3))


def test_the_same_program_is_identical():
    comparisons = programs.compare(traced(1.0), traced(1.0))
    assert len(comparisons) == len(programs.PLATFORMS) + 1
    assert all(comparison.same for comparison in comparisons)
    assert programs.broken_claims(comparisons) == []
    assert "DIFFERENT" not in programs.rows(comparisons)


def test_a_different_program_is_not():
    comparisons = programs.compare(traced(1.0), traced(2.0))
    assert not any(comparison.same for comparison in comparisons)
    assert len(programs.broken_claims(comparisons)) == len(comparisons)
    assert programs.rows(comparisons).count("DIFFERENT") == len(comparisons)


def test_the_training_step_is_the_same_program(capsys):
    assert training.run_comparison() == []
    assert "identical" in capsys.readouterr().out


def test_a_twin_that_is_strict_too_breaks_a_claim():
    (claim,) = training.twin_claims(digits, digits)
    assert claim == "the plain loss has strict primitives"


def test_a_poor_history_breaks_claims():
    good = [digits.Epoch(1, 2.0, 0.5, 0.1), digits.Epoch(2, 1.0, 0.96, 0.1)]
    poor = [digits.Epoch(1, 2.0, 0.5, 0.1), digits.Epoch(2, 2.5, 0.9499, 0.1)]
    lost = [digits.Epoch(1, 2.0, 0.5, 0.1), digits.Epoch(2, nan, nan, 0.1)]
    assert training.training_claims(good) == []
    assert len(training.training_claims(poor)) == 2
    assert len(training.training_claims(lost)) == 2


def test_lines_fit_the_width(record, capsys):
    print(faults.describe(record, faults.import_error(record["name"])))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= text.WIDTH


def test_use_raises_where_a_stage_does(record, capsys):
    module = plain_module(f"{stock.FAULTY}.{record['name']}")
    _, error = stock.attempt(module.use)
    failed = {stage for stage, failure in record["stages"].items() if failure}
    assert (error is not None) == bool(failed - {"jit", "jit of grad"})
    assert capsys.readouterr().out.startswith("loss ")


@pytest.mark.parametrize("claims", [[], ["a program that differs"]])
def test_the_exit_code_says_whether_all_is_as_claimed(claims, monkeypatch, capsys):
    monkeypatch.setattr(faults, "run", list)
    monkeypatch.setattr(training, "run_training", list)
    monkeypatch.setattr(training, "run_comparison", lambda: claims)
    assert command.main() == len(claims)
    assert ("NOT AS CLAIMED" in capsys.readouterr().out) == bool(claims)
