"""An int8 matrix product that can be trained through, by straight-through estimation.

Both factors are rounded to 8 bits, each row of the left and each column of the right
with a scale of its own, and multiplied in integers. Rounding has derivative zero almost
everywhere, so JAX alone would train nothing. A straight-through estimator takes the
derivative of rounding to be one: the product is then linear in each factor, with the
rounded value of the other as its coefficient.

That is what `lin` and `linearized` say, and every other rule is derived from them.
`lin` is told which factors are perturbed and keeps only what these need.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.hijax import ShapedArray, jvp_from_lin, vjp_from_lin

from strict_hijax import StrictHiPrim

from .common import at_front, widened


def quantized(x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """`x` as 8-bit integers, and the scale of each slice along `axis`."""
    x = widened(x)
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True)
    scale = jnp.where(largest == 0, 1, largest / 127)
    return jnp.round(x / scale).astype(jnp.int8), scale


def rounded(x: jax.Array, axis: int) -> jax.Array:
    """`x` with the precision that is left of it, and the derivative of `x`."""
    integers, scale = quantized(x, axis)
    return x + lax.stop_gradient((integers * scale).astype(x.dtype) - x)


def product(x: jax.Array, w: jax.Array) -> jax.Array:
    x_integers, x_scale = quantized(x, axis=-1)
    w_integers, w_scale = quantized(w, axis=-2)
    out = jnp.matmul(x_integers, w_integers, preferred_element_type=jnp.int32)
    return (out * x_scale * w_scale).astype(x.dtype)


class QuantizedMatmul(
    StrictHiPrim, supports=("grad", "jvp", "linearize", "vmap", "remat")
):
    """x @ w in 8 bits, for x (*batch, m, k) and w (*batch, k, n) of one type."""

    def __init__(self, x: ShapedArray, w: ShapedArray):
        self.in_avals = (x, w)
        self.out_aval = jax.typeof(jax.eval_shape(product, x, w))
        self.params = {}
        super().__init__()

    def expand(self, x, w):
        return product(x, w)

    def lin(self, nzs_in, x, w):
        x_perturbed, w_perturbed = nzs_in
        for_x = rounded(w, axis=-2) if x_perturbed else None
        for_w = rounded(x, axis=-1) if w_perturbed else None
        return self(x, w), (for_x, for_w)

    def linearized(self, residuals, x_dot, w_dot):
        for_x, for_w = residuals
        if for_w is None:
            return x_dot @ for_x
        if for_x is None:
            return for_w @ w_dot
        return x_dot @ for_x + for_w @ w_dot

    jvp = jvp_from_lin
    vjp_fwd, vjp_bwd_retval = vjp_from_lin

    def batch(self, axis_data, args, dims):
        (x, w), (x_dim, w_dim) = args, dims
        if x_dim is not None and w_dim is None:  # more rows for the same weights
            x = jnp.moveaxis(x, x_dim, -3)
            rows = x.reshape(*x.shape[:-3], -1, x.shape[-1])
            out = QuantizedMatmul(jax.typeof(rows), jax.typeof(w))(rows, w)
            return out.reshape(*x.shape[:-1], w.shape[-1]), x.ndim - 3
        args, dim = at_front(axis_data, args, dims)
        return QuantizedMatmul(*map(jax.typeof, args))(*args), dim

    @classmethod
    def examples(cls):
        for batch, dtype in [((), jnp.float32), ((2,), jnp.bfloat16)]:
            x, w = (
                jax.typeof(jax.ShapeDtypeStruct((*batch, *shape), dtype))
                for shape in [(4, 8), (8, 3)]
            )
            yield cls(x, w)


def quantized_matmul(x: jax.Array, w: jax.Array) -> jax.Array:
    """`x @ w` with both rounded to 8 bits; gradients flow as if they were not.

    Args:
      x: floating point, of shape (rows, k).
      w: floating point, of shape (k, columns), with a scale for each column.
    """
    dtype = jnp.result_type(x, w)
    x, w = jnp.asarray(x, dtype), jnp.asarray(w, dtype)
    return QuantizedMatmul(jax.typeof(x), jax.typeof(w))(x, w)
