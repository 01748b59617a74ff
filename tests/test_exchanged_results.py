"""Results of rules in a wrong order: one fault, which asks whether they are swapped."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from strict_hijax import RuleTypeError, StrictHijaxError, checked_custom_vjp

X, W = jnp.ones((4, 3)), jnp.ones(3)
PARAMS = {"b": jnp.ones(4), "w": jnp.ones((4, 3))}


def error_of(fun: Any, fwd: Any, bwd: Any, *args: Any, how: str = "defvjp") -> Any:
    checked = checked_custom_vjp(fun, example_args=args)
    with pytest.raises(StrictHijaxError) as caught:
        getattr(checked, how)(fwd, bwd)
    assert len(caught.value.findings) == 1
    return caught.value


def times(x: Any, w: Any) -> Any:
    return x * w


def times_fwd(x: Any, w: Any) -> Any:
    return x * w, (x, w)


def times_bwd(res: Any, g: Any) -> Any:
    x, w = res
    return (g * x).sum(0), g * w


def test_cotangents_of_two_arguments() -> None:
    error = error_of(times, times_fwd, times_bwd, X, W)
    assert error.code == "SH416"
    assert "are the cotangents swapped?" in str(error)
    assert error.hint == "give to `x` what is for `w`, and to `w` what is for `x`"
    assert (error.expected, error.got) == ("float32[4,3]", "float32[3]")
    assert "Custom VJP bwd rule attached to times" in str(error)


def test_cotangents_along_with_logs() -> None:
    error = error_of(
        times,
        times_fwd,
        lambda res, g: (times_bwd(res, g), {"size": g.sum()}),
        X,
        W,
        how="defvjp_with_logs",
    )
    assert "are the cotangents swapped?" in str(error)


@pytest.mark.skipif(
    not hasattr(jax.custom_vjp, "defvjp_with_accums"), reason="of jax 0.12"
)
def test_accumulators_of_two_arguments() -> None:
    def bwd(res: Any, g: Any, x_acc: Any, w_acc: Any) -> None:
        w_ct, x_ct = times_bwd(res, g)
        x_acc.accum(w_ct)
        w_acc.accum(x_ct)

    error = error_of(times, times_fwd, bwd, X, W, how="defvjp_with_accums")
    assert error.code == "SH416"
    assert "are the cotangents swapped?" in str(error)
    assert error.hint.startswith("give to `x` what is for `w`, and to `w` ")


def test_three_in_a_circle_and_one_in_its_place() -> None:
    def fun(a: Any, b: Any, c: Any, d: Any) -> Any:
        return a.sum() + b.sum() + c.sum() + d.sum()

    args = [jnp.ones(n) for n in (1, 2, 3, 4)]
    error = error_of(
        fun,
        lambda *args: (fun(*args), args),
        lambda res, g: (res[2] * g, res[0] * g, res[1] * g, res[3] * g),
        *args,
    )
    assert "for `a`, `b` and `c` fit one" in str(error)
    assert "`d`" not in error.hint


def test_dtypes_alone() -> None:
    h = W.astype(jnp.bfloat16)
    error = error_of(
        times,
        times_fwd,
        lambda res, g: (g.astype(jnp.bfloat16), g),
        W,
        h,
    )
    assert error.code == "SH417"
    assert "swapped?" in str(error)


def test_dtypes_alone_where_other_dtypes_are_meant() -> None:
    h = W.astype(jnp.bfloat16)
    fun = checked_custom_vjp(times, example_args=(W, h), ignore=("SH417",))
    fun.defvjp(times_fwd, lambda res, g: (g.astype(jnp.bfloat16), g))
    jax.grad(lambda x: fun(x, h).sum())(W)


def test_a_container_and_an_array() -> None:
    def dense(params: Any, x: Any) -> Any:
        return params["w"] @ x + params["b"]

    def bwd(res: Any, g: Any) -> Any:
        params, x = res
        return g @ params["w"], {"w": jnp.outer(g, x), "b": g}

    def fwd(params: Any, x: Any) -> Any:
        return dense(params, x), (params, x)

    error = error_of(dense, fwd, bwd, PARAMS, W)
    assert error.code == "SH415"
    assert error.hint.startswith("give to `params` what is for `x`, ")
    assert "Custom VJP bwd rule must produce" in str(error)


def test_leaves_of_one_container() -> None:
    def dense(params: Any, x: Any) -> Any:
        return params["w"] @ x + params["b"]

    def bwd(res: Any, g: Any) -> Any:
        params, x = res
        return {"b": jnp.outer(g, x), "w": g}, g @ params["w"]

    error = error_of(dense, lambda p, x: (dense(p, x), (p, x)), bwd, PARAMS, W)
    assert "to `params['b']` what is for `params['w']`" in error.hint


def test_where_an_exchange_does_not_mend_it() -> None:
    error = error_of(times, times_fwd, lambda res, g: (g * res[1], g * res[0]), X, W)
    assert "swapped" not in str(error)
    assert error.path == "w"
    assert error.hint.startswith("w_ct.sum(axis=(0,)) ")


@pytest.mark.parametrize(
    ("x", "bwd", "lines"),
    [
        (X, lambda r, g: (jnp.ones(3),), ["look for a sum", "jnp.broadcast_to(x_ct"]),
        (X, lambda r, g: (jnp.ones((3, 4)),), ["look for a sum or a transpose"]),
        (X, lambda r, g: (jnp.ones(4),), ["look for a sum or a transpose"]),
        (X[:1], lambda r, g: (X,), ["x_ct.sum(axis=(0,), keepdims=True)"]),
        (W, lambda r, g: (X,), ["x_ct.sum(axis=(0,))"]),
        (W, lambda r, g: (X.T,), ["x_ct.sum(axis=...)"]),
    ],
)
def test_what_to_write_for_another_shape(x: Any, bwd: Any, lines: list[str]) -> None:
    error = error_of(lambda x: x.sum(), lambda x: (x.sum(), None), bwd, x)
    hints = error.hint.splitlines()
    assert len(hints) == len(lines)
    assert all(map(str.startswith, hints, lines))


# --- fwd ------------------------------------------------------------------------------


def total(x: Any) -> Any:
    return (x * 2).sum()


def total_bwd(res: Any, g: Any) -> Any:
    return (2 * g * jnp.ones((4, 3)),)


@pytest.mark.parametrize("res", [lambda x: x, lambda x: (x, None), lambda x: None])
def test_residuals_before_the_output(res: Any) -> None:
    error = error_of(total, lambda x: (res(x), total(x)), total_bwd, X)
    assert "are output and residuals" in str(error)
    assert error.hint.splitlines()[0].startswith("return out, residuals ")


def test_residuals_that_may_be_an_argument_are_no_question() -> None:
    error = error_of(lambda x: x * 2, lambda x: (x[0], x), lambda res, g: (g * 2,), X)
    assert error.code == "SH412"
    assert "swapped" not in str(error)


def test_an_output_of_another_dtype_is_the_output() -> None:
    error = error_of(
        lambda x: x * 2,
        lambda x: ((x * 2).astype(jnp.bfloat16), x),
        lambda res, g: (g * 2,),
        X,
    )
    assert "swapped" not in str(error)


# --- the number of cotangents ---------------------------------------------------------


@pytest.mark.parametrize(("given", "words"), [(1, "1 cotangent"), (3, "3 cotangents")])
def test_a_wrong_number_is_told_in_the_right_number(given: int, words: str) -> None:
    error = error_of(times, times_fwd, lambda res, g: (g,) * given, X, W)
    assert f"returns {words};" in str(error)
    assert "2 arguments" in str(error)
    assert type(error).__name__ == "RuleTypeError"
    assert isinstance(error, RuleTypeError)
    jax.config.update("jax_custom_vjp3", True)  # where JAX raises ValueError
    try:
        error = error_of(times, times_fwd, lambda res, g: (g,) * given, X, W)
    finally:
        jax.config.update("jax_custom_vjp3", False)
    assert isinstance(error, RuleTypeError)
    assert isinstance(error, ValueError)
    one = error_of(lambda x: x, lambda x: (x, None), lambda res, g: (g, g), X)
    assert "1 argument that" in str(one)
