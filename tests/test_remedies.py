"""Remedies that work when they are pasted, and none where it would not."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.hijax import vjp_from_lin

from strict_hijax import AdviceWarning, StrictHiPrim, check
from tests.primitives import AVAL, X, found_in, init, sine


def failing(**body: Any) -> Any:
    return found_in(lambda: check(sine(**body)()))


# --- a rule that raises ---------------------------------------------------------------


def test_a_rule_that_raises_has_the_line() -> None:
    error = failing(expand=lambda self, x: x @ jnp.ones(2))
    assert error.code == "SH320"
    assert "raised at tests/test_remedies.py:" in str(error)


def _unpacks(self: Any, res: Any, g: Any, x_acc: Any) -> None:
    _a, _b, _c, _d = res


def _refuses(self: Any, res: Any, g: Any, x_acc: Any) -> None:
    raise ValueError("only even sizes")


def _asserts(self: Any, res: Any, g: Any, x_acc: Any) -> None:
    assert res is None


@pytest.mark.parametrize(
    ("vjp_bwd", "declines"),
    [
        (_unpacks, False),
        (lambda self, res, g, x_acc: g.nothing, False),
        (lambda self, res, g, x_acc: g @ jnp.ones(2), False),
        (_refuses, True),
        (_asserts, True),
    ],
)
def test_only_what_may_decline_is_told_how(vjp_bwd: Any, declines: bool) -> None:
    error = failing(vjp_bwd=vjp_bwd)
    assert ("raise NotImplementedError" in error.hint) == declines


def test_a_missing_parameter_is_one_fault() -> None:
    error = failing(
        expand=lambda self, x: x * self.n,
        vjp_bwd=lambda self, x, g, x_acc: x_acc.accum(g * self.n),
    )
    assert (error.code, error.rule, len(error.findings)) == ("SH320", "expand", 1)
    assert error.hint.startswith("self.params = dict(n=...) ")


def test_two_missing_parameters_are_two_faults() -> None:
    error = failing(
        expand=lambda self, x: x * self.n,
        vjp_bwd=lambda self, x, g, x_acc: x_acc.accum(g * self.m),
    )
    assert [finding.rule for finding in error.findings] == ["expand", "vjp_bwd"]


def test_accumulators_of_a_pytree_are_given_one_by_one() -> None:
    error = failing(
        __init__=init(({"w": AVAL},), AVAL),
        expand=lambda self, p: p["w"],
        vjp_bwd=lambda self, p, g, p_acc: p_acc.accum({"w": g}),
    )
    assert error.hint.startswith("jax.tree.map(lambda acc, ct: acc.accum(ct)")


# --- the class and its attributes -----------------------------------------------------


def test_params_that_are_never_set() -> None:
    class Bad(StrictHiPrim, supports=()):
        def __init__(self) -> None:
            self.in_avals, self.out_aval = (AVAL,), AVAL
            super().__init__()

        def expand(self, x: Any) -> Any:
            return x

    error = found_in(Bad)
    assert (error.code, error.path) == ("SH202", "params")
    assert "never sets `self.params`" in str(error)
    assert error.hint == "self.params = {}   # above super().__init__()"


def test_an_array_for_a_type_is_one_fault_and_is_called_an_array() -> None:
    error = found_in(sine(__init__=init((X,), X)))
    assert [finding.path for finding in error.findings] == ["in_avals[0]"]
    assert error.got == "an array of float32[3]"


def test_examples_that_yield_nothing_check_nothing() -> None:
    def examples(cls: Any) -> Any:
        return []

    error = found_in(lambda: sine(examples=classmethod(examples)))
    assert error.code == "SH121"
    assert "has an `examples` that yields nothing." in str(error)


def test_no_jvp_for_remat_is_told_by_name() -> None:
    rules: dict[str, Any] = {
        "remat": lambda self, trace, x: None,
        "keywords": {"supports": ("grad", "remat")},
    }
    error = found_in(lambda: sine(**rules))
    assert error.code == "SH103"
    assert "has no `jvp`, which `jax.checkpoint` differentiates" in str(error)
    assert "With `jax_remat3`" in str(error)


def test_advice_on_checkpoint_says_what_is_beside_what() -> None:
    def lin(self: Any, nzs_in: Any, x: Any) -> Any:
        return self(x), jnp.cos(x)

    first, second = vjp_from_lin
    with pytest.warns(AdviceWarning, match="SH906") as caught:
        sine(
            jvp=lambda self, p, t: (self(*p), jnp.cos(p[0]) * t[0]),
            lin=lin,
            linearized=lambda self, res, x_dot: res * x_dot,
            vjp_fwd=first,
            vjp_bwd_retval=second,
            keywords={"supports": ("grad", "remat")},
        )
    (warning,) = caught
    assert "`jvp` written by hand, and `vjp_fwd` from `vjp_from_lin`" in str(
        warning.message
    )


@pytest.mark.parametrize("keyword", ["eager", "example_args", "dims"])
def test_what_is_said_of_functions_is_no_keyword_of_a_class(keyword: str) -> None:
    error = found_in(lambda: sine(keywords={keyword: False}))
    assert error.code == "SH117"
    assert "It is for `checked_custom_vjp`." in str(error)
    assert error.hint.startswith(f"# delete `{keyword}=`")


def test_codes_in_one_string_are_taken_apart() -> None:
    error = found_in(lambda: sine(keywords={"ignore": ("SH316,SH311",)}))
    assert error.code == "SH120"
    assert error.hint.startswith('ignore=("SH316", "SH311") ')


# --- reports --------------------------------------------------------------------------


def test_a_report_of_a_class_has_its_transforms_once() -> None:
    text = str(check(sine(examples=True)))
    assert text.count("vmap: missing") == 1
    assert jax.typeof(X).str_short() in text


def test_inputs_of_a_pytree_are_named_in_a_report() -> None:
    prim = sine(
        __init__=init((AVAL, {"b": AVAL, "w": AVAL}), AVAL),
        expand=lambda self, x, p: p["w"],
        vjp_fwd=lambda self, nz, x, p: (self(x, p), None),
        vjp_bwd=lambda self, res, g, x, p: [x.accum(g), p["w"].accum(g)][0],
        keywords={"ignore": ("SH311",)},
    )
    subject = check(prim()).subject
    assert "(x: float32[3], p['b']: float32[3], p['w']: float32[3]) ->" in subject


def test_rules_that_all_lack_self_are_told_so() -> None:
    rules: dict[str, Any] = {
        "expand": lambda x: x,
        "vjp_fwd": lambda nzs, x: (x, None),
        "vjp_bwd": lambda res, g, acc: acc.accum(g),
    }
    error = found_in(sine("Bad", **rules))
    assert [finding.rule for finding in error.findings] == list(rules)
    assert all("lack `self`?" in finding.headline for finding in error.findings)
