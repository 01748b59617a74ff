"""A learned scale and shift of each channel, as at the end of a normalisation layer.

The author wrote the accumulator form of the backward to avoid building a tuple of
cotangents, added `shift` to the operation some weeks later, and took its accumulator
as a parameter without giving it anything.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH311"
STOCK = "silent"


class ChannelAffine(StrictHiPrim):
    """x * scale + shift, for x of shape (batch, channels)."""

    def __init__(self, x, scale, shift):
        self.in_avals = (x, scale, shift)
        self.out_aval = x
        self.params = {}
        super().__init__()

    def expand(self, x, scale, shift):
        return x * scale + shift

    def vjp_fwd(self, nzs_in, x, scale, shift):
        return self(x, scale, shift), (x, scale)

    def vjp_bwd(self, residuals, out_ct, x_acc, scale_acc, shift_acc):
        x, scale = residuals
        x_acc.accum(out_ct * scale)
        scale_acc.accum(jnp.sum(out_ct * x, axis=0))

    @classmethod
    def examples(cls):
        channels = ShapedArray((2,), jnp.dtype("float32"))
        yield cls(ShapedArray((3, 2), jnp.dtype("float32")), channels, channels)


def channel_affine(x, scale, shift):
    return ChannelAffine(*map(jax.typeof, (x, scale, shift)))(x, scale, shift)


def inputs():
    x = jnp.array([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0]])
    return x, jnp.array([1.5, 0.5]), jnp.array([0.1, -0.1])


def loss(x, scale, shift):
    return jnp.sum(jnp.square(channel_affine(x, scale, shift)))


def reference(x, scale, shift):
    return jnp.sum(jnp.square(x * scale + shift))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss, argnums=(0, 1, 2))(*inputs()))
