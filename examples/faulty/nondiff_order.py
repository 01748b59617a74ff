"""A softmax over a given axis, with the usual backward.

With `nondiff_argnums`, the backward rule takes the static arguments first. The author
has put them first in the forward rule too, which keeps the order of the function.
"""

import jax
import jax.numpy as jnp

from strict_hijax import checked_custom_vjp

EXPECTED_CODE = "SH424"
STOCK = "grad"


@checked_custom_vjp(
    nondiff_argnums=(1,),
    example_args=(jax.ShapeDtypeStruct((4, 10), jnp.float32), -1),
)
def softmax(x, axis):
    unnormalised = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True))
    return unnormalised / jnp.sum(unnormalised, axis=axis, keepdims=True)


def softmax_fwd(axis, x):
    y = softmax(x, axis)
    return y, y


def softmax_bwd(axis, y, out_ct):
    return (y * (out_ct - jnp.sum(out_ct * y, axis=axis, keepdims=True)),)


softmax.defvjp(softmax_fwd, softmax_bwd)


def inputs():
    return (jnp.array([[2.0, 0.0, -1.0], [0.5, 3.0, 1.0]]),)


def loss(x):
    return jnp.sum(jnp.square(softmax(x, -1)))


def reference(x):
    return jnp.sum(jnp.square(jax.nn.softmax(x, axis=-1)))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
