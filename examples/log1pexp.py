"""log(1 + exp(x)), whose derivative is right for every x.

Left to itself, JAX differentiates through `exp`. That overflows from x = 89 on in
float32, and the gradient is nan where the true one is 1. The derivative is the
logistic function, which never overflows, and needs nothing kept but x.

The tangent rule says all there is to say: JAX derives the reverse-mode rules from it
by transposition, so both modes, and `jax.checkpoint`, which uses the tangent rule,
agree by construction.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray, vjp_from_jvp

from strict_hijax import StrictHiPrim


class Log1pExp(StrictHiPrim, supports=("grad", "jvp", "vmap", "remat")):
    """log(1 + exp(x)), elementwise, in the type of x."""

    def __init__(self, x: ShapedArray):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {}
        super().__init__()

    def expand(self, x):
        return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))

    def jvp(self, primals, tangents):
        (x,), (x_dot,) = primals, tangents
        return self(x), x_dot * jax.nn.sigmoid(x)

    vjp_fwd, vjp_bwd_retval = vjp_from_jvp

    def batch(self, axis_data, args, dims):
        (x,), (dim,) = args, dims
        return Log1pExp(jax.typeof(x))(x), dim

    @classmethod
    def examples(cls):
        for dtype in (jnp.float32, jnp.bfloat16):
            yield cls(jax.typeof(jax.ShapeDtypeStruct((3, 5), dtype)))


def log1pexp(x: jax.Array) -> jax.Array:
    """log(1 + exp(x)), also called softplus, of an array of any shape."""
    x = jnp.asarray(x, jnp.result_type(x, float))
    return Log1pExp(jax.typeof(x))(x)
