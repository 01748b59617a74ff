"""RMS normalisation of bfloat16 activations, with its statistics in float32.

The author computes the backward in float32 as well, which is right, and returns the
result as it is, which is not: the input is bfloat16, so its cotangent must be too.
Alone it works and the gradient only comes back wider. A layer stack in a scan does
not work: the carry changes its type.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH316"
STOCK = "silent"


def normalised(x):
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + 1e-6)
    return wide * inverse, inverse


class RMSNorm(StrictHiPrim):
    """x / sqrt(mean(x**2)) over the last axis, in the type of x."""

    def __init__(self, x):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {}
        super().__init__()

    def expand(self, x):
        return normalised(x)[0].astype(x.dtype)

    def vjp_fwd(self, nzs_in, x):
        return self(x), x

    def vjp_bwd_retval(self, x, out_ct):
        y, inverse = normalised(x)
        wide_ct = out_ct.astype(jnp.float32)
        along = jnp.mean(wide_ct * y, axis=-1, keepdims=True)
        return (inverse * (wide_ct - y * along),)

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((4, 8), jnp.dtype("bfloat16")))


def rms_norm(x):
    return RMSNorm(jax.typeof(x))(x)


def inputs():
    return (jnp.array([[1.0, -2.0, 0.5, 3.0]], jnp.bfloat16),)


def loss(x):
    return jnp.sum(rms_norm(x)[:, :2])


def reference(x):
    return jnp.sum(normalised(x)[0].astype(x.dtype)[:, :2])


def stacked_loss(x):
    layer = lambda carry, _: (rms_norm(carry), None)  # noqa: E731
    return jnp.sum(jax.lax.scan(layer, x, None, length=3)[0])


COMPANY = {"grad of scan": jax.grad(stacked_loss)}


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
    print("in a stack", jax.grad(stacked_loss)(*inputs()))
