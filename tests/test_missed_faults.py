"""Faults that once passed without a word: one of many, or raised inside of JAX."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import HiPrim

from strict_hijax import (
    StrictHijaxError,
    UntraceableRuleError,
    checked_custom_jvp,
    checked_custom_vjp,
)
from tests.primitives import found_in

X = jnp.arange(1.0, 4.0)
SPEC = jax.ShapeDtypeStruct((3,), "float32")


def total(f: Any, *args: Any) -> Any:
    return jax.grad(lambda *args: f(*args).sum())(*args)


# --- what JAX says about what a rule calls --------------------------------------------


class Old(HiPrim):
    def __init__(self, aval: Any) -> None:
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return x * 2


def of_a_primitive_without_rules(x: Any) -> Any:
    return Old(jax.typeof(x))(x)


def of_apply(x: Any) -> Any:
    return x.at[0].apply(jnp.sin)


def of_a_full_svd(x: Any) -> Any:
    return jnp.linalg.svd(jnp.outer(x, jnp.ones(2)), full_matrices=True)[0].sum() + x


UNDIFFERENTIABLE = [of_a_primitive_without_rules, of_apply, of_a_full_svd]


@pytest.mark.parametrize("op", UNDIFFERENTIABLE)
def test_a_bwd_that_differentiates_what_jax_cannot(op):
    def define(**options: Any) -> Any:
        f = checked_custom_vjp(lambda x: x * 2, **options)
        f.defvjp(lambda x: (x * 2, x), lambda r, g: jax.vjp(op, r)[1](g))
        return f

    error = found_in(lambda: define(example_args=(SPEC,)))
    assert isinstance(error, UntraceableRuleError)
    assert isinstance(error, NotImplementedError)
    assert (error.code, error.rule) == ("SH424", "bwd")
    assert str(error.__cause__)[:40] in str(error)
    f = define()
    np.testing.assert_array_equal(f(X), X * 2)
    with pytest.raises(NotImplementedError):
        total(f, X)


def test_a_bwd_or_its_library_declines():
    def bwd(_: Any, g: Any) -> Any:
        raise NotImplementedError("only for scalars")

    f = checked_custom_vjp(lambda x: x * 2, example_args=(SPEC,))
    f.defvjp(lambda x: (x * 2, None), bwd)
    np.testing.assert_array_equal(f(X), X * 2)


def test_an_error_of_jax_experimental_is_one_of_jax():
    from jax.experimental.ode import odeint

    def bwd(r: Any, g: Any) -> Any:
        return (odeint(lambda y, t: -y, r, jnp.arange(3))[-1] * g,)

    f = checked_custom_vjp(lambda x: x * 2, example_args=(SPEC,))
    error = found_in(lambda: f.defvjp(lambda x: (x * 2, x), bwd))
    assert (error.code, error.rule) == ("SH424", "bwd")


def test_a_jvp_rule_that_differentiates_what_jax_cannot():
    f = checked_custom_jvp(lambda x: x * 2, example_args=(SPEC,))
    error = found_in(
        lambda: f.defjvp(lambda p, t: (p[0] * 2, jax.jvp(of_apply, p, t)[1]))
    )
    assert (error.code, error.rule) == ("SH424", "jvp")
    assert isinstance(error, NotImplementedError)


# --- one of many ----------------------------------------------------------------------


def scaled(dtype: Any) -> Any:
    f = checked_custom_vjp(lambda x: x * 2)
    f.defvjp(
        lambda x: ((x * 2).astype(dtype), None), lambda _, g: (g.astype("float32") * 2,)
    )
    return f


def test_the_last_function_of_a_factory():
    for _ in range(30):
        scaled("float32")(X)
    bad = scaled("bfloat16")
    assert found_in(lambda: bad(X)).code == "SH412"
    assert found_in(lambda: total(bad, X)).code == "SH412"


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_the_last_shape_of_a_function(transform):
    def bwd(r: Any, g: Any) -> Any:
        return ((g * 2).astype("float16" if r.size > 25 else "float32"),)

    f = checked_custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, x), bwd)
    for n in range(1, 26):
        transform(f)(jnp.ones(n))
    assert found_in(lambda: transform(f)(jnp.ones(26))).code == "SH417"


def test_no_fault_is_lost_where_there_is_no_time(monkeypatch):
    from strict_hijax._functions import call_keys

    monkeypatch.setattr(call_keys, "_SECONDS_WITHOUT_LIMIT", 0.0)
    monkeypatch.setattr(call_keys, "_SHARE_OF_TIME", 0.0)
    scaled("float32")(X)
    bad = scaled("bfloat16")
    bad(X)  # checked no more, and not differentiated
    assert found_in(lambda: total(bad, X)).code == "SH412"


def test_a_rule_that_is_set_late_is_checked():
    f = checked_custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 2,))
    f(X)
    f.bwd = lambda _, g: g * 2
    assert found_in(lambda: f(X)).code == "SH414"
    f.bwd = lambda g: (g * 2,)
    assert isinstance(found_in(lambda: f(X)), StrictHijaxError)
    f.bwd = lambda _, g: (g * 3,)
    np.testing.assert_array_equal(total(f, X), 3 * jnp.ones(3))


# --- static arguments that look alike -------------------------------------------------


class Config:
    dtype = "float32"


class Named(str):
    dtype = "bfloat16"


def dtype_of_sign(number: float) -> str:
    return "bfloat16" if math.copysign(1, number) < 0 else "float32"


def dtype_of_name(name: str) -> str:
    return getattr(name, "dtype", "float32")


@pytest.mark.parametrize(
    ("dtype_of", "right", "wrong"),
    [
        (dtype_of_sign, 0.0, -0.0),
        (dtype_of_name, "a", Named("a")),
        (lambda t: dtype_of_sign(t[0]), (0.0, 1), (-0.0, 1)),
        (lambda t: "bfloat16" if t is True else "float32", 1, True),
    ],
)
def test_static_arguments_that_are_equal_and_not_the_same(dtype_of, right, wrong):
    f = checked_custom_vjp(lambda s, x: x * 2, nondiff_argnums=(0,))
    f.defvjp(
        lambda s, x: ((x * 2).astype(dtype_of(s)), None),
        lambda s, _, g: (g.astype("float32") * 2,),
    )
    np.testing.assert_array_equal(f(right, X), X * 2)
    assert found_in(lambda: f(wrong, X)).code == "SH412"


def test_a_static_argument_that_changes():
    config = Config()
    f = checked_custom_vjp(lambda c, x: x * 2, nondiff_argnums=(0,))
    f.defvjp(
        lambda c, x: ((x * 2).astype(c.dtype), None),
        lambda c, _, g: (g.astype("float32") * 2,),
    )
    np.testing.assert_array_equal(f(config, X), X * 2)
    config.dtype = "bfloat16"
    assert found_in(lambda: f(config, X)).code == "SH412"


# --- what is known of the function ----------------------------------------------------


def test_a_function_that_needs_values_and_a_fwd_of_another_dtype():
    def primal(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x * 3

    f = checked_custom_vjp(primal)
    f.defvjp(
        lambda x: ((x * 2).astype("bfloat16"), None),
        lambda _, g: (g.astype("float32") * 2,),
    )
    assert found_in(lambda: f(X)).code == "SH412"


def test_records_of_symbolic_zeros_whose_value_is_forgotten():
    f = checked_custom_vjp(lambda x: x * 2, example_args=(SPEC,))
    error = found_in(
        lambda: f.defvjp(
            lambda x: (x * 2, None), lambda _, g: (g * 2,), symbolic_zeros=True
        )
    )
    assert (error.code, error.rule) == ("SH424", "fwd")
    kept = checked_custom_vjp(lambda x: x * 2)
    kept.defvjp(lambda x: (x.value * 2, x), lambda r, g: (g * 2,), symbolic_zeros=True)
    assert found_in(lambda: kept(X)).code == "SH413"


# --- messages -------------------------------------------------------------------------


def test_a_message_about_many_leaves_is_short():
    params = {f"w{i}": X for i in range(200)}

    def bwd(_: Any, g: Any) -> Any:
        return ({name: g.astype("bfloat16") for name in params},)

    f = checked_custom_vjp(lambda p: sum(p.values()))
    f.defvjp(lambda p: (sum(p.values()), None), bwd)
    error = found_in(lambda: f(params))
    assert len(error.findings) == 200
    assert "200 faults" in str(error)
    assert "and 196 more: SH417 " in str(error)
    assert len(str(error).splitlines()) < 80
    assert len(str(error)) < 4000
