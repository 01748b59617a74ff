"""Attention logits kept below a cap by tanh, as some language models do.

The first version of the operation was tanh(x / cap), and had a `vjp_bwd`. When the
factor of `cap` was added, its author wrote a `vjp_bwd_retval` for it, which is right,
and left the older rule where it was. JAX calls the older one.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH109"
STOCK = "silent"


class SoftCap(StrictHiPrim):
    """cap * tanh(x / cap)."""

    def __init__(self, x, cap):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {"cap": cap}
        super().__init__()

    def expand(self, x):
        return self.cap * jnp.tanh(x / self.cap)

    def vjp_fwd(self, nzs_in, x):
        return self(x), jnp.tanh(x / self.cap)

    def vjp_bwd(self, t, out_ct, x_acc):
        x_acc.accum(out_ct * (1 - t * t) / self.cap)

    def vjp_bwd_retval(self, t, out_ct):
        return (out_ct * (1 - t * t),)

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((4,), jnp.dtype("float32")), 30.0)


def soft_cap(x, cap=30.0):
    return SoftCap(jax.typeof(x), cap)(x)


def inputs():
    return (jnp.array([-40.0, 0.0, 10.0, 60.0]),)


def loss(x):
    return jnp.sum(soft_cap(x))


def reference(x):
    return jnp.sum(30.0 * jnp.tanh(x / 30.0))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
