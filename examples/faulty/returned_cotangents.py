"""The interleaved rotation of feature pairs that encodes a position (RoPE).

The backward is the rotation the other way round, which the author has right. It is
named `vjp_bwd`, which gives cotangents to accumulators and returns nothing, and is
written like `vjp_bwd_retval`, which returns them.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH116"
STOCK = "grad"


def rotated(x, angle):
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    pairs = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return pairs.reshape(x.shape)


class Rotate(StrictHiPrim):
    """Features (n, d) with each pair of features turned by one angle a row."""

    def __init__(self, x, angle):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {"angle": angle}
        super().__init__()

    def expand(self, x):
        return rotated(x, self.angle)

    def vjp_fwd(self, nzs_in, x):
        return self(x), ()

    def vjp_bwd(self, residuals, out_ct, x_acc):
        return (rotated(out_ct, -self.angle),)

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((5, 4), jnp.dtype("float32")), 0.5)


def rotate(x, angle=0.5):
    return Rotate(jax.typeof(x), angle)(x)


def inputs():
    return (jnp.array([[1.0, 0.0, 2.0, -1.0]]),)


def loss(x):
    return jnp.sum(rotate(x)[:, 0::2])


def reference(x):
    return jnp.sum(x[:, 0::2] * jnp.cos(0.5) - x[:, 1::2] * jnp.sin(0.5))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
