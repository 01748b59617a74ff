"""The demonstration shows what it claims, and can fail."""

import functools
import importlib.util
import re
import sys
from math import nan
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import strict_hijax
from examples import digits, faulty
from examples.demo import __main__ as command
from examples.demo import faults, programs, stock, text, training
from examples.plain import plain_module

NAMES = stock.module_names()


# A failed import leaves nothing behind, so that each is tried once and remembered.
import_error = functools.cache(faults.import_error)


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
    error = import_error(record["name"])
    assert isinstance(error, strict_hijax.StrictHijaxError)
    assert error.code == record["expected_code"]


def test_the_error_names_the_subject_and_the_rule(record):
    error = import_error(record["name"])
    message = str(error)
    assert f"{stock.FAULTY}.{record['name']}." in error.subject
    assert error.subject in message
    assert error.rule
    assert re.search(rf"\b{re.escape(error.rule)}\b", message)


def test_the_error_points_into_the_module(record):
    message = str(import_error(record["name"]))
    assert re.search(rf"{record['name']}\.py:\d+", message)


def test_a_failed_import_leaves_no_module_behind(record):
    import_error(record["name"])
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
    error = import_error(record["name"])
    assert faults.broken_claims(record, error) == []


def test_a_module_that_imports_breaks_a_claim(record):
    (claim,) = faults.broken_claims(record, None)
    assert "let it be imported" in claim


def test_an_error_that_is_not_ours_breaks_a_claim(record):
    (claim,) = faults.broken_claims(record, TypeError("from elsewhere"))
    assert "TypeError" in claim


def test_another_outcome_in_stock_breaks_a_claim(record):
    error = import_error(record["name"])
    other = {**record, "expected_stock": "right"}
    assert len(faults.broken_claims(other, error)) == 1


def test_a_right_rule_is_no_mistake():
    record = {"stages": {"import": None, "grad": None}, "differences": []}
    assert stock.outcome(record) == "right"
    assert faults.verdict(record) == "no mistake is seen"


# The one mistake of each module, and the line without it.
MENDED = {
    "bare_cotangent": ("return jnp.where(inside, out_ct, 0)", "{old},"),
    "float32_cotangent": (
        "return (inverse * (wide_ct - y * along),)",
        "return ((inverse * (wide_ct - y * along)).astype(x.dtype),)",
    ),
    "forgotten_sum": ("return x_ct, x_ct", "{old}.sum(0)"),
    "forward_in_float32": (
        "return wide_u * wide_v * gate,",
        "return (wide_u * wide_v * gate).astype(u.dtype),",
    ),
    "forward_without_nzs": (
        "def vjp_fwd(self, points",
        "def vjp_fwd(self, nzs_in, points",
    ),
    "kernel_backward": (
        "return jax.vjp(run_kernel, *residuals)",
        "return jax.vjp(lambda x, w: jax.nn.logsumexp(x @ w, axis=1), *residuals)",
    ),
    "missing_reverse_rule": (
        "    @classmethod",
        "    vjp_fwd, vjp_bwd_retval = jax.experimental.hijax.vjp_from_jvp\n\n{old}",
    ),
    "misspelt_rule": ("vjp_bwd_ret_val(", "vjp_bwd_retval("),
    "nondiff_order": ("def softmax_fwd(axis, x)", "def softmax_fwd(x, axis)"),
    "outdated_rule": (
        """def batch_dim_rule(self, axis_data, dims):
        (dim,) = dims
        return dim""",
        """def batch(self, axis_data, args, dims):
        (x,), (dim,) = args, dims
        return LeakyReLU(jax.typeof(x), self.slope)(x), dim""",
    ),
    "pair_not_unpacked": (
        "vjp_fwd = vjp_from_jvp",
        "vjp_fwd, vjp_bwd_retval = vjp_from_jvp",
    ),
    "residual_string": (
        """return y, (y, kind)


def activate_bwd(kind, residuals, out_ct):
    y, kind = residuals""",
        """return y, y


def activate_bwd(kind, y, out_ct):""",
    ),
    "returned_cotangents": (
        "vjp_bwd(self, residuals, out_ct, x_acc)",
        "vjp_bwd_retval(self, residuals, out_ct)",
    ),
    "two_backward_rules": (
        """    def vjp_bwd(self, t, out_ct, x_acc):
        x_acc.accum(out_ct * (1 - t * t) / self.cap)
""",
        "",
    ),
    "undeclared_axis": (
        "return largest + jnp.log(total)",
        "return (largest + jnp.log(total))[..., 0]",
    ),
    "unregistered_effect": ("has_side_effect=True", "has_side_effect=False"),
    "untouched_accumulator": (
        "scale_acc.accum(jnp.sum(out_ct * x, axis=0))",
        "{old}\n        shift_acc.accum(jnp.sum(out_ct, axis=0))",
    ),
    "vanished_gradient": ("ct.dtype is jnp", "ct.dtype == jnp"),
}


def mended(name, folder):
    """A faulty module without its mistake, imported from a file under strict_hijax."""
    old, new = MENDED[name]
    source = Path(faulty.__path__[0], f"{name}.py").read_text()
    assert source.count(old) == 1
    path = folder / f"mended_{name}.py"
    path.write_text(source.replace(old, new.replace("{old}", old)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_mistake_is_the_only_one(record, tmp_path):
    module = mended(record["name"], tmp_path)
    results = {}
    for stage, action in stock.stages(module):
        results[stage], error = stock.attempt(action)
        assert error is None, stage
    assert stock.differences(module, results) == []


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
    print(faults.describe(record, import_error(record["name"])))
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
