"""Rules that close over arrays and tracers are traced as any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.errors import UnexpectedTracerError

from strict_hijax import (
    ClosedOverTracerError,
    StrictHijaxError,
    checked_custom_jvp,
    checked_custom_vjp,
)

X = jnp.arange(1.0, 4.0)
TABLE = jnp.array([2.0, 5.0, 7.0])
ZEROS = jnp.zeros(3)


def scaled_by_table():
    scaled = checked_custom_jvp(lambda x: x * TABLE)
    scaled.defjvp(lambda primals, tangents: (scaled(*primals), tangents[0] * TABLE))
    return scaled


def test_an_array():
    out, tangent = jax.jvp(scaled_by_table(), (X,), (X,))
    np.testing.assert_array_equal(out, X * TABLE)
    np.testing.assert_array_equal(tangent, X * TABLE)


def test_an_array_of_zeros_that_is_added():
    f = checked_custom_jvp(jnp.sin)
    f.defjvp(lambda ps, ts: (jnp.sin(*ps), jnp.cos(*ps) * ts[0] + ZEROS))
    np.testing.assert_allclose(jax.grad(lambda x: f(x).sum())(X), jnp.cos(X))


def test_an_array_that_is_added_is_a_fault():
    f = checked_custom_jvp(jnp.sin)
    f.defjvp(lambda ps, ts: (jnp.sin(*ps), jnp.cos(*ps) * ts[0] + TABLE))
    with pytest.raises(StrictHijaxError) as raised:
        f(X)
    assert raised.value.code == "SH441"


def test_a_tracer_of_an_outer_jit():
    @jax.jit
    def outer(y):
        f = checked_custom_jvp(lambda x: x * y)
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * y))
        return jax.grad(lambda x: f(x).sum())(X)

    np.testing.assert_array_equal(outer(2.0), 2 * jnp.ones(3))


@pytest.mark.skipif(
    jax.__version_info__ < (0, 12), reason="0.11.2 takes no tracer there"
)
def test_a_tracer_where_nondiff_argnums_declares_a_static_value():
    f = checked_custom_jvp(lambda n, x: x * n, nondiff_argnums=(0,))
    f.defjvp(lambda n, primals, tangents: (f(n, *primals), tangents[0] * n))
    pushed = jax.jit(lambda n: jax.jvp(lambda x: f(n, x), (X,), (X,)))
    np.testing.assert_array_equal(pushed(3.0)[1], 3 * X)


# --- every rule, under every transformation -------------------------------------------
#
# Stock decides: where it runs, so does ours and with the same value; where it complains
# of a tracer, ours names the rule and the value.


def vjp_function(decorator, where, use=lambda s: s):
    def outer(x, s):
        scale = dict.fromkeys(("primal", "fwd", "bwd"), 3.0) | {where: s}
        primal, fwd, bwd = (lambda value=v: use(value) for v in scale.values())
        f = decorator(lambda x: x * primal())
        f.defvjp(lambda x: (x * fwd(), None), lambda _, g: (g * bwd(),))
        return f(x)

    return outer


def jvp_function(decorator, where, use=lambda s: s):
    def outer(x, s):
        scale = dict.fromkeys(("primal", "out", "tangent"), 3.0) | {where: s}
        primal, out, tangent = (lambda value=v: use(value) for v in scale.values())
        f = decorator(lambda x: x * primal())
        f.defjvp(lambda p, t: (p[0] * out(), t[0] * tangent()))
        return f(x)

    return outer


def scanned(f, over_s):
    def g(x, s):
        xs = jnp.stack([s, s]) if over_s else jnp.zeros(2)
        return jax.lax.scan(lambda c, each: (f(c, each if over_s else s), None), x, xs)[
            0
        ]

    return g


ONE, TWO = jnp.float32(2), jnp.ones(2)
WAYS = {
    "a call": lambda f: f(2.0, 3.0),
    "grad": lambda f: jax.grad(f)(2.0, 3.0),
    "grad of both": lambda f: jax.grad(f, (0, 1))(2.0, 3.0),
    "grad of the other": lambda f: jax.grad(f, 1)(2.0, 3.0),
    "grad of jit": lambda f: jax.grad(jax.jit(f))(2.0, 3.0),
    "grad of both of jit": lambda f: jax.grad(jax.jit(f), (0, 1))(2.0, 3.0),
    "jit of grad": lambda f: jax.jit(jax.grad(f))(2.0, 3.0),
    "jit of grad of both": lambda f: jax.jit(jax.grad(f, (0, 1)))(2.0, 3.0),
    "grad of checkpoint": lambda f: jax.grad(jax.checkpoint(f))(2.0, 3.0),
    "grad of scan": lambda f: jax.grad(scanned(f, False))(2.0, 3.0),
    "grad of scan over it": lambda f: jax.grad(scanned(f, True))(2.0, ONE),
    "scan of grad": lambda f: scanned(jax.grad(f), False)(2.0, 3.0),
    "vmap": lambda f: jax.vmap(f)(TWO, TWO),
    "grad of vmap": lambda f: jax.grad(lambda x, s: jax.vmap(f)(x, s).sum())(TWO, TWO),
    "grad of vmap over it": lambda f: jax.grad(
        lambda x, s: jax.vmap(f, (None, 0))(x, s).sum()
    )(ONE, TWO),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(TWO, TWO),
    "vmap over it of grad": lambda f: jax.vmap(jax.grad(f), (None, 0))(ONE, TWO),
    "jit of vmap": lambda f: jax.jit(jax.vmap(f))(TWO, TWO),
    "grad of cond": lambda f: jax.grad(
        lambda x, s: jax.lax.cond(x > 0, lambda: f(x, s), lambda: x)
    )(2.0, 3.0),
    "jvp of jit": lambda f: jax.jvp(jax.jit(f), (2.0, 3.0), (1.0, 0.0)),
    "linearize": lambda f: jax.linearize(f, 2.0, 3.0)[1](1.0, 1.0),
}
KINDS = [
    *((vjp_function, checked_custom_vjp, jax.custom_vjp, r) for r in ("fwd", "bwd")),
    *(
        (jvp_function, checked_custom_jvp, jax.custom_jvp, r)
        for r in ("out", "tangent")
    ),
]
USES = {
    "as it is": lambda s: s,
    "in a jitted helper": lambda s: jax.jit(lambda: s + 0.0)(),
    "for its shape alone": lambda s: 3.0 + 0.0 * len(jnp.shape(s)),
}


def complains_of_a_tracer(error):
    constant = isinstance(error, TypeError) and "No constant handler" in str(error)
    return constant or isinstance(error, UnexpectedTracerError)


def run_or_error(function, *args):
    try:
        return jax.tree.map(np.asarray, function(*args)), None
    except Exception as error:
        return None, error


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("make", "checked", "stock", "where"), KINDS, ids=[kind[-1] for kind in KINDS]
)
def test_a_rule_fails_for_a_tracer_where_it_does_on_stock(
    make, checked, stock, where, use
):
    told = 0
    for name, way in WAYS.items():
        wanted, complaint = run_or_error(way, make(stock, where, USES[use]))
        got, error = run_or_error(way, make(checked, where, USES[use]))
        if complaint is None:
            assert error is None, name
            jax.tree.map(np.testing.assert_array_equal, got, wanted)
        elif complains_of_a_tracer(complaint):
            assert isinstance(error, ClosedOverTracerError), name
            assert (error.code, error.path) == ("SH423", "value"), name
            told += 1
    assert (told > 3) == (use != "for its shape alone")


# --- a tracer of a transformation around the whole ------------------------------------


OUTER = {
    "jit": lambda g: jax.jit(g)(3.0),
    "vmap": lambda g: jax.vmap(g)(TWO),
    "grad": lambda g: jax.grad(g)(3.0),
    "jvp": lambda g: jax.jvp(g, (3.0,), (1.0,)),
    "scan": lambda g: jax.lax.scan(lambda c, s: (c + g(s), None), 0.0, TWO)[0],
}
INNER = {
    "grad": lambda f: jax.grad(f)(2.0),
    "grad of jit": lambda f: jax.grad(jax.jit(f))(2.0),
    "jit of grad": lambda f: jax.jit(jax.grad(f))(2.0),
    "grad of checkpoint": lambda f: jax.grad(jax.checkpoint(f))(2.0),
    "grad of scan": lambda f: jax.grad(lambda x: scanned(lambda c, _: f(c), 0)(x, 0.0))(
        2.0
    ),
    "grad of cond": lambda f: jax.grad(
        lambda x: jax.lax.cond(x > 0, lambda: f(x), lambda: x)
    )(2.0),
    "jvp of jit": lambda f: jax.jvp(jax.jit(f), (2.0,), (1.0,))[1],
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize(
    ("make", "checked", "stock", "where"), KINDS, ids=[kind[-1] for kind in KINDS]
)
def test_a_rule_fails_for_a_tracer_from_outside_where_it_does_on_stock(
    make, checked, stock, where, outer
):
    def whole(decorator, way):
        f = make(decorator, where)
        return OUTER[outer](lambda s: way(lambda x: f(x, s)))

    for name, way in INNER.items():
        wanted, complaint = run_or_error(whole, stock, way)
        got, error = run_or_error(whole, checked, way)
        if complaint is None:
            assert error is None, name
            jax.tree.map(np.testing.assert_array_equal, got, wanted)
        elif complains_of_a_tracer(complaint):
            assert isinstance(error, ClosedOverTracerError), name
