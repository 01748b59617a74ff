"""A Huber loss of residuals whose backward needs only the clipped residual.

The author wrote `vjp_bwd_ret_val` for `vjp_bwd_retval`. Nothing refers to it, and
nothing says so until the training job takes its first gradient.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH112"
STOCK = "grad"


class Huber(StrictHiPrim):
    """Quadratic within delta of zero, linear beyond."""

    def __init__(self, error, delta):
        self.in_avals = (error,)
        self.out_aval = error
        self.params = {"delta": delta}
        super().__init__()

    def expand(self, error):
        size = jnp.abs(error)
        inside = jnp.minimum(size, self.delta)
        return inside * (size - 0.5 * inside)

    def vjp_fwd(self, nzs_in, error):
        return self(error), jnp.clip(error, -self.delta, self.delta)

    def vjp_bwd_ret_val(self, clipped, out_ct):
        return (out_ct * clipped,)

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((3,), jnp.dtype("float32")), 1.0)


def huber(error, delta=1.0):
    return Huber(jax.typeof(error), delta)(error)


def inputs():
    return (jnp.array([-3.0, 0.25, 2.0]),)


def loss(error):
    return jnp.mean(huber(error))


def reference(error):
    size = jnp.abs(error)
    inside = jnp.minimum(size, 1.0)
    return jnp.mean(inside * (size - 0.5 * inside))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
