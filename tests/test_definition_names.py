"""Names that people write for rules: told where a promise lacks the rule, else fine."""

from typing import Any

import pytest

from strict_hijax import StrictHiPrim
from strict_hijax._rules import RULES
from tests.primitives import found_in, sine

NO_RULES = {"expand": None, "vjp_fwd": None, "vjp_bwd": None}


def expand(self: Any, x: Any) -> Any:
    return x


def vjp_fwd(self: Any, nzs_in: Any, x: Any) -> Any:
    return x, None


def vjp_bwd(self: Any, res: Any, g: Any, x_acc: Any) -> None:
    x_acc.accum(g)


def vjp_bwd_retval(self: Any, res: Any, g: Any) -> Any:
    return (g,)


def jvp(self: Any, primals: Any, tangents: Any) -> Any:
    return primals, tangents


def lin(self: Any, nzs_in: Any, x: Any) -> Any:
    return x, None


def linearized(self: Any, res: Any, x_dot: Any) -> Any:
    return x_dot


def batch(self: Any, data: Any, args: Any, dims: Any) -> Any:
    return args, dims


def transpose(self: Any, out_ct: Any, x_acc: Any) -> None:
    x_acc.accum(out_ct)


ROWS: list[tuple[Any, str, tuple[str, ...], str]] = [
    (expand, "supports=()", ("forward", "call", "apply", "lowering", "expanded"), ""),
    (
        vjp_fwd,
        "grad",
        ("forward", "fwd", "fwd_rule", "vjp_fwd_rule", "vjp_forward", "vjp_fw"),
        "vjp_bwd",
    ),
    (
        vjp_bwd,
        "grad",
        ("backward", "bwd", "vjp_bwd_rule", "vjp_backward", "vjp_bw", "backward_rule"),
        "vjp_fwd",
    ),
    (
        vjp_bwd_retval,
        "grad",
        ("backward", "bwd", "vjp", "vjp_rule", "pullback", "vjp_bwd_ret"),
        "vjp_fwd",
    ),
    (jvp, "jvp", ("jvp_rule", "jvp_fn", "pushforward", "forward_mode"), ""),
    (lin, "linearize", ("linearise", "lin_rule", "linearize_rule"), "linearized"),
    (linearized, "linearize", ("linear", "linearized_rule", "linearised"), "lin"),
    (
        batch,
        "vmap",
        (
            *("vmap", "vmap_rule", "batched", "batcher", "batching", "batch_rule"),
            *("batching_rule", "vectorized", "bach", "batchs"),
        ),
        "",
    ),
    (
        transpose,
        "transpose",
        ("transposed", "transpose_rule", "linear_transpose", "tranpose"),
        "",
    ),
]
CASES = [
    pytest.param(rule, promise, name, beside, id=f"{name} for {rule.__name__}")
    for rule, promise, names, beside in ROWS
    for name in names
]
MISSPELT = {"tranpose", "linearised", "vjp_fw", "vjp_bw", "vjp_bwd_ret"}
WORDS = sorted({name for *_, names, _ in ROWS for name in names} - MISSPELT)


def body(rule: Any, name: str, beside: str) -> dict[str, Any]:
    others = [expand, vjp_fwd, vjp_bwd, lin, linearized]
    kept = {f.__name__: f for f in others if f.__name__ in ("expand", beside)}
    kept = {k: f for k, f in kept.items() if f is not rule}
    return NO_RULES | kept | {name: rule}


@pytest.mark.parametrize(("rule", "promise", "name", "beside"), CASES)
def test_a_promise_without_its_rule_names_the_rule_that_was_meant(
    rule: Any, promise: str, name: str, beside: str
) -> None:
    supports = () if promise == "supports=()" else (promise,)
    members = body(rule, name, beside)
    error = found_in(lambda: sine(keywords={"supports": supports}, **members))
    assert (error.code, error.rule) == ("SH112", name)
    assert f"did you mean `{rule.__name__}`?" in str(error)
    assert f"def {rule.__name__}(self" in error.hint
    assert isinstance(error, NotImplementedError)


def accepting(self: Any, a: Any, b: Any, c: Any = None) -> Any:
    return a


@pytest.mark.parametrize("like", [vjp_fwd, vjp_bwd, vjp_bwd_retval, jvp, batch])
@pytest.mark.parametrize("name", WORDS)
def test_a_helper_where_the_rule_is_not_promised(name: str, like: Any) -> None:
    helper: dict[str, Any] = {name: accepting}
    rules: dict[str, Any] = NO_RULES | {"expand": expand}
    assert sine(keywords={"supports": ()}, **rules, **helper) is not None
    rules |= {like.__name__: like}
    assert sine(keywords={"supports": ()}, **rules, **helper) is not None


@pytest.mark.parametrize("name", WORDS)
def test_a_helper_beside_the_rules_that_are_promised(name: str) -> None:
    rules = [expand, vjp_fwd, vjp_bwd, jvp, lin, linearized, batch, transpose]
    promised = ("grad", "jvp", "linearize", "vmap", "transpose")
    members: dict[str, Any] = {rule.__name__: rule for rule in rules}
    members[name] = vjp_bwd_retval
    assert issubclass(sine(keywords={"supports": promised}, **members), StrictHiPrim)


@pytest.mark.parametrize("name", ["vmap", "batching", "batched", "batch_rule"])
def test_the_parameters_of_a_rule_leave_no_doubt(name: str) -> None:
    def rule(self: Any, axis_data: Any, args: Any, dims: Any) -> Any:
        return args, dims

    members: dict[str, Any] = {name: rule}
    error = found_in(lambda: sine(**members))
    assert (error.code, error.rule) == ("SH112", name)
    assert "did you mean `batch`?" in str(error)


@pytest.mark.parametrize("name", ["abstract_eval", "partial_eval", "setup", "dce_rule"])
def test_rules_of_other_systems_that_hijax_has_no_rule_for(name: str) -> None:
    members: dict[str, Any] = {name: accepting}
    assert sine(**members) is not None


def test_a_missing_rule_that_no_name_is_like_is_told_beside_the_name() -> None:
    error = found_in(lambda: sine(vjp_fwd=None, vjp_bwd=None, forward=vjp_fwd))
    assert [finding.code for finding in error.findings] == ["SH102", "SH112"]


def test_the_rules_of_the_table_are_those_of_the_installed_jax() -> None:
    assert {row[0].__name__ for row in ROWS} <= set(RULES)
