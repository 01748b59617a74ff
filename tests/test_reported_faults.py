"""Faults that users reported: each is told where it can be; what is right is not."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import zero_from_primal
from jax.errors import UnexpectedTracerError

from strict_hijax import (
    StrictHijaxError,
    StrictHiPrim,
    check,
    checked_custom_jvp,
    checked_custom_vjp,
)
from tests.primitives import X

TWO = jnp.float32(2)
NUMBER = jax.ShapeDtypeStruct((), jnp.float32)
TYPED = {"example_args": (NUMBER,)}


def found(run: Callable[[], Any], code: str, *kinds: type[Exception]) -> Any:
    """The error of this code, and of these kinds of JAX's."""
    with pytest.raises(StrictHijaxError) as caught:
        run()
    assert caught.value.code == code
    assert all(isinstance(caught.value, kind) for kind in kinds)
    return caught.value


# --- a SymbolicZero from a rule that was not defined for them -------------------------


def zero(x: Any) -> Any:
    return zero_from_primal(x, symbolic_zeros=True)


def floored(
    decorator: Any = checked_custom_jvp, symbolic_zeros: bool = False, **options: Any
) -> Any:
    f = decorator(jnp.floor, **options)
    f.defjvp(lambda p, t: (f(*p), zero(p[0])), symbolic_zeros=symbolic_zeros)
    return f


def split(decorator: Any = checked_custom_jvp, **options: Any) -> Any:
    f = decorator(lambda x: {"whole": jnp.floor(x), "rest": x}, **options)
    f.defjvp(lambda p, t: (f(*p), {"whole": zero(p[0]), "rest": t[0]}))
    return f


def branching(decorator: Any = checked_custom_jvp, **options: Any) -> Any:
    f = decorator(lambda x: x * 1, **options)
    f.defjvp(lambda p, t: (f(*p), zero(p[0]) if p[0].ndim == 0 else t[0]))
    return f


def differentiate(f: Any) -> Any:
    return jax.jacrev(f)(TWO)


def refuses(make: Any) -> bool:
    """Whether stock refuses the zero: not so where `jax_custom_jvp3` is on."""
    try:
        differentiate(make(jax.custom_jvp))
    except TypeError:
        return True
    return False


@pytest.mark.parametrize("make", [floored, split, branching])
@pytest.mark.parametrize(
    "run",
    [
        lambda make: make(**TYPED),
        lambda make: make()(TWO),
        lambda make: differentiate(make(eager=False)),
        lambda make: jax.jvp(make(eager=False), (TWO,), (TWO,)),
        lambda make: check(make(), TWO),
    ],
    ids=["import", "call", "grad", "jvp", "check"],
)
def test_a_symbolic_zero_that_jax_refuses(make: Any, run: Any) -> None:
    if not refuses(make):
        run(make)
        return
    error = found(lambda: run(make), "SH436", TypeError)
    assert "is not defined with `symbolic_zeros=True`" in str(error)
    assert "_jvp, symbolic_zeros=True)" in error.hint
    assert "Argument 'SymbolicZero'" in error.finding.jax_says


def test_a_symbolic_zero_from_a_rule_that_takes_them() -> None:
    f = floored(symbolic_zeros=True, **TYPED)
    assert jax.grad(f)(2.5) == jax.grad(jax.jit(f))(2.5) == 0
    assert branching()(X).shape == X.shape


# --- an output that depends on tangents -----------------------------------------------


def joined(p: Any, t: Any) -> Any:
    return jnp.concatenate([p[0], t[0]])[:3]


def updated(p: Any, t: Any) -> Any:
    return jax.lax.dynamic_update_slice(p[0], t[0][:1], (1,))


def selected(p: Any, t: Any) -> Any:
    return jnp.where(p[0] > 0, p[0], t[0])


@pytest.mark.parametrize("out", [joined, updated, selected])
def test_an_output_made_of_tangents(out: Any) -> None:
    f = checked_custom_jvp(lambda x: x * 1, example_args=(X,))
    found(lambda: f.defjvp(lambda p, t: (out(p, t), t[0])), "SH442")
    f.defjvp(lambda p, t: (out(p, p), t[0]))


# --- an array in a static position of a custom_jvp ------------------------------------


IX = jnp.array([0, 2])


def indexed(decorator: Any) -> Any:
    f = decorator(lambda x, i: x.at[i].mul(1.0), nondiff_argnums=(1,))
    f.defjvp(lambda i, p, t: (f(p[0], i), t[0].at[i].mul(1.0)))
    return f


def scaled(decorator: Any) -> Any:
    f = decorator(lambda x, i: x * i["a"].sum(), nondiff_argnums=(1,))
    f.defjvp(lambda i, p, t: (f(p[0], i), t[0] * i["a"].sum()))
    return lambda x, i: f(x, {"a": i})


def gathered(decorator: Any) -> Any:
    f = decorator(lambda i, x: x[i].sum(), nondiff_argnums=(0,))
    f.defjvp(lambda i, p, t: (f(i, p[0]), t[0][i].sum()))
    return lambda x, i: f(i, x)


FAIL = {
    "jit": lambda f: jax.grad(lambda x: jax.jit(f)(x, IX).sum())(X),
    "checkpoint": lambda f: jax.grad(lambda x: jax.checkpoint(f)(x, IX).sum())(X),
    "cond": lambda f: jax.grad(lambda x: jax.lax.cond(True, f, f, x, IX).sum())(X),
    "scan": lambda f: jax.grad(
        lambda x: jax.lax.scan(lambda c, i: (c * f(x, i).sum(), None), 1.0, IX)[0]
    )(X),
}
WORK = {
    "eager": lambda f: jax.grad(lambda x: f(x, IX).sum())(X),
    "jit of grad": lambda f: jax.jit(jax.grad(lambda x, i: f(x, i).sum()))(X, IX),
    "jit forward": lambda f: jax.jit(f)(X, IX),
    "vmap": lambda f: jax.grad(lambda x: jax.vmap(f, (None, 0))(x, IX).sum())(X),
    "closed over": lambda f: jax.grad(jax.jit(lambda x: f(x, IX).sum()))(X),
}
takes_static_arrays = pytest.mark.skipif(
    jax.__version_info__ < (0, 12) and jax.config.jax_custom_jvp3,
    reason="there each is refused at the call",
)


@takes_static_arrays
@pytest.mark.parametrize("make", [indexed, scaled, gathered])
@pytest.mark.parametrize("way", [*FAIL, *WORK])
def test_an_array_in_a_static_position_of_a_jvp_function(make: Any, way: str) -> None:
    run = (FAIL | WORK)[way]
    try:
        wanted, fails = run(make(jax.custom_jvp)), False
    except (UnexpectedTracerError, TypeError):
        wanted, fails = None, True
    if not jax.config.jax_custom_jvp3:
        assert fails == (way in FAIL)
    if not fails:
        np.testing.assert_array_equal(run(make(checked_custom_jvp)), wanted)
        return
    error = found(lambda: run(make(checked_custom_jvp)), "SH422", UnexpectedTracerError)
    assert error.path == "i"
    assert "take `i` from `primals`" in error.hint


@takes_static_arrays
def test_an_array_in_a_static_position_is_advice_of_check() -> None:
    (advice,) = check(indexed(checked_custom_jvp), X, IX).advice
    assert advice.startswith("SH422 ")
    assert check(indexed(checked_custom_jvp), X, np.array([0, 2])).advice == ()


# --- a keyword-only parameter among `nondiff_argnames` --------------------------------


def keyword(x: Any, *, block: Any = False) -> Any:
    return x * 1


def needed(x: Any, *, block: Any) -> Any:
    return x * 1


def last_of_two(x: Any, n: Any, *, block: Any = False) -> Any:
    return x * n


@pytest.mark.parametrize("decorator", [checked_custom_jvp, checked_custom_vjp])
@pytest.mark.parametrize("fun", [keyword, needed, last_of_two])
def test_a_keyword_only_name_is_refused(decorator: Any, fun: Any) -> None:
    names = ("n", "block") if fun is last_of_two else ("block",)
    make = functools.partial(decorator, fun, nondiff_argnames=names)
    error = found(make, "SH406", TypeError)
    assert error.path == "block"
    assert "`nondiff_argnames` with 'block', which is keyword-only" in str(error)


def test_a_keyword_only_default_that_nobody_names() -> None:
    f = checked_custom_jvp(keyword)
    f.defjvp(lambda p, t: (f(*p), t[0]))
    assert jax.grad(f)(TWO) == 1


def test_a_positional_name() -> None:
    f = checked_custom_jvp(lambda x, block=2: x * block, nondiff_argnames=("block",))
    f.defjvp(lambda block, p, t: (f(*p, block), t[0] * block))
    assert jax.grad(f)(TWO) == 2
    assert jax.grad(lambda x: f(x, block=3))(TWO) == 3


# --- arithmetic on a float0 -----------------------------------------------------------


def summed(tangent: Any) -> Any:
    f = checked_custom_jvp(lambda x, y: x + y)
    f.defjvp(lambda p, t: (f(*p), tangent(*t)))
    return f


def weighted(tangent: Any) -> Any:
    f = checked_custom_jvp(lambda n, x, p: x * p["y"], nondiff_argnums=(0,))
    f.defjvp(lambda n, p, t: (f(n, *p), tangent(t[0] * p[1]["y"], t[1]["y"])))
    return lambda x, y: f("n", x, {"y": y})


def each_part(tangent: Any) -> Any:
    f = checked_custom_jvp(lambda x, y: x + y)
    f.defjvps(lambda t, out, x, y: t, lambda t, out, *_: tangent(out * 0, t))
    return f


@pytest.mark.parametrize(
    ("make", "path"), [(summed, "y"), (weighted, "p['y']"), (each_part, "y")]
)
@pytest.mark.parametrize("wrong", [jnp.add, jnp.subtract, jnp.multiply])
def test_a_float0_tangent_in_arithmetic(make: Any, path: str, wrong: Any) -> None:
    for differentiate in (jax.grad, lambda f: jax.jit(jax.grad(f))):
        error = found(
            lambda d=differentiate: d(make(wrong))(1.0, 1), "SH424", TypeError
        )
        assert f"the tangent of `{path}`, which is float0" in str(error)
        assert "raised at tests/test_reported_faults.py:" in str(error)
    assert jax.grad(make(lambda x, y: x))(1.0, 1) == 1
    assert jax.jvp(make(jnp.add), (TWO, TWO), (TWO, TWO))  # of floats it is right


def test_a_float0_tangent_is_told_at_import() -> None:
    f = checked_custom_jvp(lambda x, y: x + y, example_args=(1.0, 1))
    error = found(
        lambda: f.defjvp(lambda p, t: (f(*p), t[0] + t[1])), "SH424", TypeError
    )
    assert "the tangent of `y`, which is float0" in str(error)


def counted(cotangent: Any, **options: Any) -> Any:
    f = checked_custom_vjp(lambda x: (x * 2, jnp.int32(1)), **options)
    f.defvjp(lambda x: (f(x), None), lambda _, g: (cotangent(g[0] * 2, g[1]),))
    return lambda x: f(x)[0]


@pytest.mark.parametrize("wrong", [jnp.add, jnp.subtract, jnp.multiply])
def test_a_float0_cotangent_in_arithmetic(wrong: Any) -> None:
    error = found(lambda: jax.grad(counted(wrong))(1.0), "SH424", TypeError)
    assert "the cotangent of an output of integers, which is float0" in str(error)
    found(lambda: counted(wrong, **TYPED), "SH424", TypeError)
    assert jax.grad(counted(lambda g, _: g, **TYPED))(1.0) == 2


# --- numbers as the cotangent of integers ---------------------------------------------


def bits(ct: Any, how: str = "defvjp") -> Any:
    f = checked_custom_vjp(lambda q, s: q.astype(jnp.float32) * s)
    if how == "defvjp":
        f.defvjp(lambda q, s: (f(q, s), s), lambda s, g: (ct(g * s), g))
    else:
        f.defvjp_with_accums(
            lambda q, s: (f(q, s), s),
            lambda s, g, q_acc, s_acc: (
                [q_acc.accum(ct(g * s)), s_acc.accum(g)][:0] or None
            ),
        )
    return f


class Bits(StrictHiPrim, abstract=True):
    """The same as a primitive."""

    ct: Any

    def __init__(self, dtype: Any) -> None:
        self.in_avals = jax.typeof(jnp.zeros(3, dtype)), jax.typeof(X)
        self.out_aval, self.params = jax.typeof(X), {}
        super().__init__()

    def expand(self, q: Any, s: Any) -> Any:
        return q.astype(jnp.float32) * s

    def vjp_fwd(self, nzs_in: Any, q: Any, s: Any) -> Any:
        return self(q, s), (q, s)


def bits_prim(ct: Any, rule: str = "vjp_bwd_retval") -> type[StrictHiPrim]:
    def retval(self: Any, res: Any, g: Any) -> Any:
        return ct(g * res[1]), g * res[0].astype(jnp.float32)

    def accumulating(self: Any, res: Any, g: Any, q_acc: Any, s_acc: Any) -> None:
        for accum, value in zip((q_acc, s_acc), retval(self, res, g), strict=True):
            accum.accum(value)

    def logs(self: Any, res: Any, g: Any) -> Any:
        return retval(self, res, g), None

    rules = {"vjp_bwd": accumulating, "vjp_bwd_retval_logs": logs}
    return types.new_class(
        "Bits", (Bits,), {}, lambda ns: ns.update({rule: rules.get(rule, retval)})
    )


FINE = {
    "None": lambda ct: None,
    "zeros": lambda ct: jnp.zeros(ct.shape),
    "float0": lambda ct: np.zeros(ct.shape, jax.dtypes.float0),
    "integers": lambda ct: ct.astype(jnp.uint8),
}
HOWS = ["defvjp"] + ["defvjp_with_accums"] * (jax.__version_info__ >= (0, 12))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
@pytest.mark.parametrize("how", HOWS)
def test_numbers_for_integers_are_advice_for_functions(dtype: str, how: str) -> None:
    args = jax.ShapeDtypeStruct((3,), dtype), X
    (advice,) = check(bits(lambda ct: ct, how), *args).advice
    assert advice.startswith("SH907 ")
    assert "cotangent for `q`" in advice
    assert ("bitcast_convert_type(q" in advice) == (dtype == "uint8")
    for right in FINE.values():
        assert check(bits(right, how), *args).advice == ()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
@pytest.mark.parametrize("rule", ["vjp_bwd_retval", "vjp_bwd", "vjp_bwd_retval_logs"])
def test_numbers_for_integers_are_advice_for_primitives(dtype: str, rule: str) -> None:
    (advice,) = check(bits_prim(lambda ct: ct, rule)(dtype)).advice
    assert advice.startswith("SH907 ")
    assert f"`{rule}` that gives a cotangent for `q`" in advice
    for right in FINE.values():
        assert check(bits_prim(right, rule)(dtype)).advice == ()


def test_zeros_are_seen_before_there_is_a_backend(clean_process: Any) -> None:
    result = clean_process(
        "import jax, jax.numpy as jnp\n"
        "from strict_hijax import check, checked_custom_vjp\n"
        "for zero in (lambda g: jnp.zeros_like(g), lambda g: g):\n"
        "    f = checked_custom_vjp(lambda q, s: q * s)\n"
        "    f.defvjp(lambda q, s: (f(q, s), q), lambda q, g: (zero(g), g * q))\n"
        "    S = jax.ShapeDtypeStruct\n"
        "    print(len(check(f, S((3,), 'int32'), S((3,), 'float32')).advice))\n"
    )
    assert result.stdout.split() == ["0", "1"], result.stderr
