"""Rules that close over arrays and tracers are traced as any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import StrictHijaxError, checked_custom_jvp

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
