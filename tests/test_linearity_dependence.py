"""Outputs that are made of tangents, found where stock JAX refuses them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from strict_hijax import StrictHijaxError, checked_custom_jvp
from strict_hijax._linearity import Fault, faulty_equations

X = jax.ShapeDtypeStruct((3,), jnp.float32)


@jax.custom_jvp
def twice(t):
    return 2 * t


twice.defjvps(lambda t, ans, x: 2 * t)


@jax.custom_vjp
def both(p, t):
    return p, t


both.defvjp(lambda p, t: ((p, t), None), lambda _, g: g)


def looped(step):
    return lambda p, t: lax.fori_loop(0, 3, lambda i, c: step(*c), (p, t))[0]


def by_jvp(function):
    return lambda p, t: jax.jvp(function, (p,), (t,))[0]


DEPENDENT: dict[str, Callable[[Any, Any], Any]] = {
    "the tangent": lambda p, t: t,
    "the sum": lambda p, t: p + t,
    "beside it": lambda p, t: jnp.concatenate([p, t])[:3],
    "stacked": lambda p, t: jnp.stack([p, t])[0],
    "padded": lambda p, t: lax.pad(p, t[0], [(0, 1, 0)])[:3],
    "updated": lambda p, t: p.at[:].set(t).at[:].set(p),
    "zero times it": lambda p, t: p + 0 * t,
    "zeros times it": lambda p, t: p + jnp.zeros(3) * t,
    "it minus itself": lambda p, t: p + (t - t),
    "none of it": lambda p, t: jnp.concatenate([p, t[:0]]),
    "stopped": lambda p, t: p + lax.stop_gradient(t),
    "as an integer": lambda p, t: p + 0 * t.astype(int),
    "where true": lambda p, t: jnp.where(True, p, t),
    "sorted along": lambda p, t: lax.sort((p, t), num_keys=1)[0],
    "behind a barrier": lambda p, t: lax.optimization_barrier((p, t))[0],
    "in a jit": lambda p, t: jax.jit(lambda p, t: p + 0 * t)(p, t),
    "closed over by a jit": lambda p, t: jax.jit(lambda p: p + 0 * t)(p),
    "in a vmap": lambda p, t: jax.vmap(lambda a, b: a + 0 * b)(p, t),
    "in one branch": lambda p, t: lax.cond(
        p[0] > 0, lambda p, t: p, lambda p, t: p + 0 * t, p, t
    ),
    "a predicate": lambda p, t: lax.cond(t[0] > 0, lambda p: p, lambda p: p * 1, p),
    "in a scan": lambda p, t: lax.scan(lambda c, a: (c, a[0] + 0 * a[1]), 0.0, (p, t))[
        1
    ],
    "in the end of a scan": lambda p, t: lax.scan(
        lambda c, _: ((c[0] + c[1], 0 * c[2], c[2]), None),
        (p, jnp.zeros(3), t),
        length=3,
    )[0][0],
    "in a loop": looped(lambda p, t: (p + t * 0, t * 2)),
    "by a function with a jvp": lambda p, t: p + 0 * twice(t),
    "by a function with a vjp": lambda p, t: both(p, t)[0],
    "by a callback": lambda p, t: jax.pure_callback(lambda p, t: p, p, p, t),
}

INDEPENDENT: dict[str, Callable[[Any, Any], Any]] = {
    "the primal": lambda p, t: p * 1,
    "zeros like it": lambda p, t: p + jnp.zeros_like(t),
    "ones like it": lambda p, t: p * jnp.ones_like(t),
    "its shape": lambda p, t: p * t.shape[0] / 3,
    "its dtype": lambda p, t: p.astype(t.dtype),
    "beside it in a jit": lambda p, t: jax.jit(lambda p, t: (p * 2, t))(p, t)[0],
    "beside it in a jit in a jit": lambda p, t: jax.jit(
        lambda p, t: jax.jit(lambda p, t: (p * 2, t * 2))(p, t)
    )(p, t)[0],
    "beside it in a checkpoint": lambda p, t: jax.checkpoint(lambda p, t: (p * 1, t))(
        p, t
    )[0],
    "beside it in a vmap": lambda p, t: jax.vmap(lambda a, b: (a * 1, b))(p, t)[0],
    "beside it in branches": lambda p, t: lax.cond(
        p[0] > 0, lambda p, t: (p, t), lambda p, t: (p * 1, t), p, t
    )[0],
    "beside it in a scan": lambda p, t: lax.scan(
        lambda c, a: (c, (a[0] * 1, a[1] * a[0])), 0.0, (p, t)
    )[1][0],
    "beside it in a loop": looped(lambda p, t: (p * 1, t * p)),
    "what is printed": lambda p, t: (jax.debug.callback(lambda t: None, t), p * 1)[1],
    "of a jvp": by_jvp(jnp.sin),
    "of the jvp of a jit": by_jvp(jax.jit(jnp.sin)),
    "of the jvp of relu": by_jvp(jax.nn.relu),
    "of the jvp of softmax": by_jvp(jax.nn.softmax),
    "of the jvp of a scan": by_jvp(
        lambda p: lax.scan(lambda c, a: (c * a, jnp.sin(a)), 1.0, p)[1]
    ),
    "of the jvp of a loop": by_jvp(
        lambda p: lax.fori_loop(0, 3, lambda i, c: c * c, p)
    ),
    "of the jvp of branches": by_jvp(
        lambda p: lax.cond(p[0] > 0, lambda p: p * 2, lambda p: p * 1, p)
    ),
    "of the jvp of a checkpoint": by_jvp(jax.checkpoint(jnp.sin)),
    "of the jvp of a solve": by_jvp(lambda p: jnp.linalg.solve(jnp.eye(3), p)),
    "of the jvp of a function with a jvp": by_jvp(twice),
    "of linearize": lambda p, t: jax.linearize(jnp.sin, p)[0],
}


def is_refused_by_jax(output: Callable[[Any, Any], Any]) -> bool:
    function = jax.custom_jvp(lambda x: x * 1)
    function.defjvp(lambda p, t: (output(p[0], t[0]), t[0]))
    try:
        jax.grad(lambda x: function(x).sum())(jnp.array([0.3, -0.5, 0.7]))
    except ValueError as error:
        return "Linearization failed to produce known values" in str(error)
    return False


def found(output: Callable[[Any, Any], Any]) -> Any:
    jaxpr = jax.make_jaxpr(lambda p, t: (output(p, t), t))(X, X)
    return next(iter(faulty_equations(jaxpr, [False, True], 1)), None)


@pytest.mark.parametrize("output", DEPENDENT.values(), ids=DEPENDENT)
def test_an_output_that_jax_refuses_is_found(output):
    equation = found(output)
    assert is_refused_by_jax(output)
    assert (equation.fault, equation.output) == (Fault.DEPENDS, 0)
    assert not equation.primitive or equation.location.filename == __file__


@pytest.mark.parametrize("output", INDEPENDENT.values(), ids=INDEPENDENT)
def test_an_output_that_jax_takes_is_accepted(output):
    assert not is_refused_by_jax(output)
    assert found(output) is None


@pytest.mark.parametrize("name", ["beside it", "stacked", "zero times it", "in a scan"])
def test_such_a_rule_of_a_function_is_told_when_it_is_defined(name):
    function = checked_custom_jvp(lambda x: x * 1, example_args=(X,))
    with pytest.raises(StrictHijaxError) as caught:
        function.defjvp(lambda p, t: (DEPENDENT[name](p[0], t[0]), t[0]))
    error = caught.value
    assert (error.code, error.path) == ("SH442", "output")
    assert "made of primals alone" in str(error.expected)
    assert "swapped" not in str(error)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_a_right_rule_of_a_function_is_accepted(name):
    output = INDEPENDENT[name]
    function = checked_custom_jvp(
        lambda x: output(x, jnp.zeros_like(x)) * 1, example_args=(X,)
    )
    function.defjvp(lambda p, t: (output(p[0], t[0]), t[0]))
    jax.grad(lambda x: function(x).sum())(jnp.array([0.3, -0.5, 0.7]))


def test_the_equation_that_brings_the_tangent_in_is_named():
    def output(p, t):
        mixed = p + 0 * t
        return jnp.sin(jnp.sin(mixed))

    equation = found(output)
    assert equation.primitive == "add"
    assert equation.location.line == output.__code__.co_firstlineno + 1
