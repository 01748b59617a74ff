"""A SwiGLU gate, u * v * sigmoid(v), of bfloat16 inputs.

`vjp_fwd` computes in float32, to save an accurate sigmoid for the backward, and
forgets to bring its output back to bfloat16 as `expand` does. So the model has one
type when it is evaluated and another when it is trained.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH302"
STOCK = "silent"


class SwiGLU(StrictHiPrim):
    """u * v * sigmoid(v), computed in float32, in the type of u."""

    def __init__(self, u, v):
        self.in_avals = (u, v)
        self.out_aval = u
        self.params = {}
        super().__init__()

    def expand(self, u, v):
        wide_u, wide_v = u.astype(jnp.float32), v.astype(jnp.float32)
        return (wide_u * wide_v * jax.nn.sigmoid(wide_v)).astype(u.dtype)

    def vjp_fwd(self, nzs_in, u, v):
        wide_u, wide_v = u.astype(jnp.float32), v.astype(jnp.float32)
        gate = jax.nn.sigmoid(wide_v)
        return wide_u * wide_v * gate, (u, v, gate)

    def vjp_bwd_retval(self, residuals, out_ct):
        u, v, gate = residuals
        u_ct = out_ct * v * gate
        v_ct = out_ct * u * (gate + v * gate * (1 - gate))
        return u_ct.astype(u.dtype), v_ct.astype(v.dtype)

    @classmethod
    def examples(cls):
        aval = ShapedArray((4, 8), jnp.dtype("bfloat16"))
        yield cls(aval, aval)


def swiglu(u, v):
    return SwiGLU(jax.typeof(u), jax.typeof(v))(u, v)


def inputs():
    u = jnp.array([1.0, -2.0, 0.5], jnp.bfloat16)
    return u, jnp.array([0.25, 1.5, -1.0], jnp.bfloat16)


def loss(u, v):
    return jnp.sum(swiglu(u, v))


def reference(u, v):
    wide_u, wide_v = u.astype(jnp.float32), v.astype(jnp.float32)
    return jnp.sum((wide_u * wide_v * jax.nn.sigmoid(wide_v)).astype(u.dtype))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss, argnums=(0, 1))(*inputs()))
