"""Rounding to the nearest integer, with a straight-through gradient inside [-1, 1].

The function has one argument, so its author returns one cotangent. JAX wants a tuple
of one.
"""

import jax
import jax.numpy as jnp

from strict_hijax import checked_custom_vjp

EXPECTED_CODE = "SH414"
STOCK = "grad"


@checked_custom_vjp(example_args=(jax.ShapeDtypeStruct((4,), jnp.float32),))
def round_through(x):
    return jnp.round(x)


def round_through_fwd(x):
    return round_through(x), jnp.abs(x) <= 1


def round_through_bwd(inside, out_ct):
    return jnp.where(inside, out_ct, 0)


round_through.defvjp(round_through_fwd, round_through_bwd)


def inputs():
    return (jnp.array([-1.6, -0.4, 0.6, 1.2]),)


def loss(x):
    return jnp.sum(x * round_through(x))


def reference(x):
    clipped = jnp.clip(x, -1, 1)
    through = clipped + jax.lax.stop_gradient(jnp.round(x) - clipped)
    return jnp.sum(x * through)


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
