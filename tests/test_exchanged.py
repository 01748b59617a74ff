"""Results in another order than JAX takes them: one question, and the right order."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from strict_hijax import check, ignore
from tests.primitives import found_in, gradient, init, sine

X, W = jnp.ones((4, 3)), jnp.ones(4)
TYPES = jax.typeof(X), jax.typeof(W)
PRODUCT: dict[str, Any] = {
    "__init__": init(TYPES),
    "expand": lambda self, x, w: x * w[:, None],
    "vjp_fwd": lambda self, nz, x, w: (self(x, w), (x, w)),
    "vjp_bwd": None,
}


def backward(res: Any, g: Any) -> tuple[Any, Any]:
    x, w = res
    return g * w[:, None], (g * x).sum(1)


def product(**body: Any) -> Any:
    return sine(**(PRODUCT | body))()


def test_swapped_cotangents_are_one_finding_and_a_question() -> None:
    prim = product(vjp_bwd_retval=lambda self, res, g: backward(res, g)[::-1])
    error = found_in(lambda: gradient(prim, X, W))
    assert (error.code, error.path, len(error.findings)) == ("SH315", "x", 1)
    assert isinstance(error, ValueError)
    assert "are the cotangents swapped?" in str(error)
    assert error.hint == "give to `x` what is for `w`, and to `w` what is for `x`"
    assert (error.expected, error.got) == ("float32[4,3]", "float32[4]")


def swapped_dtypes() -> Any:
    return product(
        __init__=init((jax.typeof(W), jax.typeof(W.astype("bfloat16")))),
        expand=lambda self, x, w: x,
        vjp_bwd_retval=lambda self, res, g: (g.astype("bfloat16"), g),
    )


def test_swapped_dtypes_alone_are_told_alike() -> None:
    error = found_in(lambda: gradient(swapped_dtypes(), W, W.astype("bfloat16")))
    assert (error.code, len(error.findings)) == ("SH316", 1)
    assert "are the cotangents swapped?" in str(error)


def test_swapped_dtypes_are_accepted_where_other_dtypes_are_meant() -> None:
    with ignore("SH316"):
        gradient(swapped_dtypes(), W, W.astype("bfloat16"))


def test_a_swapped_container_is_no_other_structure() -> None:
    tree = {"w": TYPES[1]}
    prim = product(
        __init__=init((TYPES[0], tree)),
        expand=lambda self, x, p: x * p["w"][:, None],
        vjp_bwd_retval=lambda self, res, g: ({"w": g[:, 0]}, g),
    )
    error = found_in(lambda: gradient(prim, X, {"w": W}))
    assert error.code == "SH314"
    assert "for `x` and `p` fit one" in str(error)


def test_accumulators_given_each_other_s_are_one_finding_in_its_place() -> None:
    def vjp_bwd(self: Any, res: Any, g: Any, dx: Any, dw: Any) -> None:
        x_ct, w_ct = backward(res, g)
        dx.accum(w_ct)
        dw.accum(x_ct)

    error = found_in(lambda: check(product(vjp_bwd=vjp_bwd)))
    assert (error.code, len(error.findings)) == ("SH315", 1)
    assert error.hint.startswith("give to `x` what is for `w`, ")
    assert error.location is not None
    assert error.location.filename == __file__


@pytest.mark.parametrize(
    "wrong", [lambda a, b: (b, b), lambda a, b: (a[:2], b), lambda a, b: (b, None)]
)
def test_what_is_no_permutation_is_no_question(wrong: Any) -> None:
    def vjp_bwd_retval(self: Any, res: Any, g: Any) -> Any:
        return wrong(*backward(res, g))

    error = found_in(lambda: gradient(product(vjp_bwd_retval=vjp_bwd_retval), X, W))
    assert "swapped" not in str(error)


@pytest.mark.parametrize("rule", ["vjp_fwd", "lin"])
def test_swapped_output_and_residuals_are_a_question(rule: str) -> None:
    def forward(self: Any, nzs_in: Any, x: Any, w: Any) -> Any:
        return (x, w), self(x, w)

    rules: dict[str, Any] = {
        "__init__": init(TYPES, jax.typeof(1.0)),
        "expand": lambda self, x, w: jnp.sum(x * w[:, None]),
        "vjp_bwd_retval": lambda self, res, g: (g * X, g * W),
        rule: forward,
    }
    if rule == "lin":
        rules["linearized"] = lambda self, res, x_dot, w_dot: x_dot.sum()
    error = found_in(lambda: check(product(**rules)))
    assert (error.rule, len(error.findings)) == (rule, 1)
    assert "are output and residuals" in str(error)
    assert error.hint.startswith("return out, residuals ")


def test_residuals_that_may_be_an_input_are_no_question() -> None:
    def vjp_fwd(self: Any, nzs_in: Any, x: Any, w: Any) -> Any:
        return x[0], x

    rules = {"vjp_fwd": vjp_fwd, "vjp_bwd_retval": lambda self, x, g: (g, W)}
    error = found_in(lambda: gradient(product(**rules), X, W))
    assert (error.code, error.rule) == ("SH302", "vjp_fwd")
    assert "swapped" not in str(error)


def test_an_untouched_accumulator_has_the_name_that_the_user_gave_it() -> None:
    def vjp_bwd(self: Any, res: Any, g: Any, *accs: Any) -> None:
        accs[0].accum(g)

    error = found_in(lambda: check(product(vjp_bwd=vjp_bwd)))
    assert error.hint.splitlines()[0] == "accs[1].accum(w_ct)"


def test_another_shape_is_not_mended_by_another_dtype() -> None:
    prim = product(
        expand=lambda self, x, w: w,
        vjp_bwd_retval=lambda self, res, g: backward(res, g),
    )
    error = found_in(lambda: prim(X, W))
    assert error.code == "SH302"
    assert "asarray" not in error.hint
    assert "return an output of the declared shape, (4, 3)" in error.hint


def test_to_ignore_a_dtype_the_class_statement_is_the_user_s() -> None:
    def vjp_bwd_retval(self: Any, res: Any, g: Any) -> Any:
        x_ct, w_ct = backward(res, g)
        return x_ct, w_ct.astype("bfloat16")

    error = found_in(lambda: gradient(product(vjp_bwd_retval=vjp_bwd_retval), X, W))
    assert 'class Sine(StrictHiPrim, ignore=("SH316",)): ...' in error.hint
