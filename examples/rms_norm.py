"""RMS normalisation with a fused backward, in float32 inside for bfloat16 outside.

JAX alone would keep several float32 copies of the activations for the backward pass.
Here only the inputs are kept, and one pass over them gives both gradients. Statistics
and sums are in float32 whatever the inputs are; a cotangent goes back in exactly the
type of its input, without which a stack of layers in a scan would not even trace.

The tangent rule is for `jax.checkpoint`, which by default takes the gradient from it.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.hijax import ShapedArray, instantiate_zeros

from strict_hijax import StrictHiPrim

from .common import at_front, widened


def summed_to(shape: tuple[int, ...], x: jax.Array) -> jax.Array:
    """`x` added up along the axes that broadcasting from `shape` gave it."""
    padded = (1,) * (x.ndim - len(shape)) + shape
    repeated = tuple(axis for axis, size in enumerate(padded) if size == 1)
    return jnp.sum(x, axis=repeated).reshape(shape)


class RMSNorm(
    StrictHiPrim,
    supports=("grad", "jvp", "vmap", "remat"),
    ignore=("SH906",),  # under checkpoint JAX takes `jvp`: it is of the same gradient
):
    """x / rms(x) * scale over the last axis, in the type of x.

    `scale` broadcasts against x, so that a batch of scales is nothing special.
    """

    def __init__(self, x: ShapedArray, scale: ShapedArray, epsilon: float):
        self.in_avals = (x, scale)
        self.out_aval = x
        self.params = {"epsilon": epsilon}
        super().__init__()

    def expand(self, x, scale):
        y, _ = self.normalised(x)
        return (y * widened(scale)).astype(x.dtype)

    def normalised(self, x):
        """x / rms(x) and 1 / rms(x), in float32 at least."""
        x = widened(x)
        square = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
        inverse = lax.rsqrt(square + self.epsilon)
        return x * inverse, inverse

    def vjp_fwd(self, nzs_in, x, scale):
        return self(x, scale), (x, scale)

    def vjp_bwd(self, residuals, ct, x_acc, scale_acc):
        x, scale = residuals
        ct = widened(instantiate_zeros(ct))
        y, inverse = self.normalised(x)
        y_ct = ct * widened(scale)
        along = jnp.mean(y_ct * y, axis=-1, keepdims=True)
        x_acc.accum((inverse * (y_ct - along * y)).astype(x.dtype))
        scale_acc.accum(summed_to(scale.shape, ct * y).astype(scale.dtype))

    def jvp(self, primals, tangents):
        (x, scale), (x_dot, scale_dot) = primals, map(instantiate_zeros, tangents)
        y, inverse = self.normalised(x)
        x_dot = widened(x_dot)
        along = jnp.mean(x_dot * y, axis=-1, keepdims=True)
        y_dot = inverse * (x_dot - along * y)
        out_dot = y_dot * widened(scale) + y * widened(scale_dot)
        return self(x, scale), out_dot.astype(x.dtype)

    def batch(self, axis_data, args, dims):
        (x, scale), dim = at_front(axis_data, args, dims)
        if dim is not None:
            missing = range(1, 1 + x.ndim - scale.ndim)
            scale = jnp.expand_dims(scale, tuple(missing))
        return RMSNorm(*map(jax.typeof, (x, scale)), self.epsilon)(x, scale), dim

    @classmethod
    def examples(cls):
        for dtype in (jnp.float32, jnp.bfloat16):
            x = jax.typeof(jax.ShapeDtypeStruct((4, 8), dtype))
            for shape in [(8,), (4, 1)]:
                scale = jax.typeof(jax.ShapeDtypeStruct(shape, jnp.float32))
                yield cls(x, scale, epsilon=1e-6)


def rms_norm(x: jax.Array, scale: jax.Array, epsilon: float = 1e-6) -> jax.Array:
    """Normalise the last axis of `x` to a root mean square of 1, times `scale`.

    Args:
      x: floating point, of shape (..., features).
      scale: of shape (features,).
      epsilon: a Python number, added to the mean square.
    """
    return RMSNorm(jax.typeof(x), jax.typeof(scale), epsilon)(x, scale)
