"""A bias added to every row of a batch, fused with the ReLU after it.

The bias is broadcast over the batch in the forward, so its cotangent is a sum over
the batch in the backward. The author forgot the sum.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH315"
STOCK = "grad"


class BiasReLU(StrictHiPrim):
    """max(x + bias, 0), for x of shape (batch, features) and a bias of features."""

    def __init__(self, x, bias):
        self.in_avals = (x, bias)
        self.out_aval = x
        self.params = {}
        super().__init__()

    def expand(self, x, bias):
        return jnp.maximum(x + bias, 0)

    def vjp_fwd(self, nzs_in, x, bias):
        y = self(x, bias)
        return y, y > 0

    def vjp_bwd_retval(self, active, out_ct):
        x_ct = jnp.where(active, out_ct, 0)
        return x_ct, x_ct

    @classmethod
    def examples(cls):
        dtype = jnp.dtype("float32")
        yield cls(ShapedArray((4, 3), dtype), ShapedArray((3,), dtype))


def bias_relu(x, bias):
    return BiasReLU(jax.typeof(x), jax.typeof(bias))(x, bias)


def inputs():
    x = jnp.array([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]])
    return x, jnp.array([0.5, -0.5, 0.25])


def loss(x, bias):
    return jnp.sum(bias_relu(x, bias))


def reference(x, bias):
    return jnp.sum(jnp.maximum(x + bias, 0))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss, argnums=(0, 1))(*inputs()))
