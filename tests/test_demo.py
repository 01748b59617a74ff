"""The demonstration shows what it claims, and can fail."""

import importlib
import re
import sys

import jax
import jax.numpy as jnp
import pytest

import strict_hijax
from examples.demo import faults, programs, stock, text

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


def test_the_substitute_drops_only_our_keywords():
    plain = stock.substitute()

    class Named(plain.StrictHiPrim, supports=("grad",), ignore=("SH314",)):
        pass

    assert Named.vjp_bwd is stock.HiPrim.vjp_bwd
    power = plain.checked_custom_vjp(nondiff_argnums=(1,), effects="pure")(pow)
    assert type(power) is type(jax.custom_vjp(pow))
    assert tuple(power.nondiff_argnums) == (1,)


def test_agreement_is_of_type_and_value():
    true = jnp.ones(3)
    assert stock.agrees(true + 1e-6, true)
    assert not stock.agrees(true + 1e-2, true)
    assert not stock.agrees(true.astype(jnp.bfloat16), true)
    assert not stock.agrees(true[None], true)


def step(x):
    return jnp.sin(x) + 1


def test_the_same_program_is_identical():
    def again(x):
        return jnp.sin(x) + 1

    again.__name__ = step.__name__
    comparisons = programs.compare(step, again, (jnp.ones(3),))
    assert [c.platform for c in comparisons] == ["cpu", "cuda", "rocm", "tpu"]
    assert all(c.same for c in comparisons)
    assert programs.broken_claims(comparisons) == []
    assert "DIFFERENT" not in programs.rows(comparisons)


def test_a_different_program_is_not():
    def other(x):
        return jnp.sin(x) + 2

    other.__name__ = step.__name__
    comparisons = programs.compare(step, other, (jnp.ones(3),))
    assert not any(c.same for c in comparisons)
    assert len(programs.broken_claims(comparisons)) == len(programs.PLATFORMS)
    assert programs.rows(comparisons).count("DIFFERENT") == len(programs.PLATFORMS)


def test_lines_fit_the_width(record, capsys):
    print(faults.describe(record, faults.import_error(record["name"])))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= text.WIDTH


def test_use_raises_where_a_stage_does(record, monkeypatch, capsys):
    qualified = f"{stock.FAULTY}.{record['name']}"
    monkeypatch.setitem(sys.modules, "strict_hijax", stock.substitute())
    monkeypatch.delitem(sys.modules, qualified, raising=False)
    module = importlib.import_module(qualified)
    del sys.modules[qualified]
    _, error = stock.attempt(module.use)
    failed = {stage for stage, failure in record["stages"].items() if failure}
    assert (error is not None) == bool(failed - {"jit", "jit of grad"})
    assert capsys.readouterr().out.startswith("loss ")
