"""A matrix product whose backward skips what cannot be differentiated.

The author returns None in place of a cotangent for integer inputs, and tells them by
`dtype is jnp.float32`. A dtype is never that object, only equal to it, so that every
input counts as an integer, and None is a zero without a word.
"""

import jax
import jax.numpy as jnp

from strict_hijax import checked_custom_vjp

EXPECTED_CODE = "SH421"
STOCK = "silent"

S = jax.ShapeDtypeStruct


@checked_custom_vjp(
    example_args=(S((4, 3), jnp.float32), S((3, 2), jnp.float32)),
)
def product(x, w):
    return x @ w


def product_fwd(x, w):
    return product(x, w), (x, w)


def product_bwd(residuals, out_ct):
    x, w = residuals
    cotangents = (out_ct @ w.T, x.T @ out_ct)
    return tuple(ct if ct.dtype is jnp.float32 else None for ct in cotangents)


product.defvjp(product_fwd, product_bwd)


def inputs():
    x = jnp.array([[1.0, -2.0], [0.5, 3.0]])
    return x, jnp.array([[2.0], [-1.0]])


def loss(x, w):
    return jnp.sum(jnp.square(product(x, w)))


def reference(x, w):
    return jnp.sum(jnp.square(x @ w))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss, argnums=(0, 1))(*inputs()))
