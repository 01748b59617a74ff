"""Softmax as a pair of Pallas kernels, of which the second is every derivative.

The Jacobian of softmax at y = softmax(x) is diag(y) - y y^T. It is symmetric, so one
kernel that multiplies by it is the tangent rule and the backward rule at once. JAX
cannot differentiate a kernel that asks for its place in the grid, so that product is a
primitive too: its own derivative is written in jax.numpy, and gradients of gradients
work.

Whether a kernel is compiled or interpreted is decided when `pallas_softmax` is
called. Importing this module, and the checks of the examples, start no backend.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.hijax import ShapedArray, instantiate_zeros, vjp_from_jvp

from strict_hijax import StrictHiPrim

from .common import at_front, widened

ROWS = 8  # in a block


def softmax_kernel(x_ref, y_ref):
    x = widened(x_ref[...])
    exponential = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    total = jnp.sum(exponential, axis=-1, keepdims=True)
    y_ref[...] = (exponential / total).astype(y_ref.dtype)


def product_kernel(y_ref, u_ref, out_ref):
    y, u = widened(y_ref[...]), widened(u_ref[...])
    along = jnp.sum(y * u, axis=-1, keepdims=True)
    out_ref[...] = (y * (u - along)).astype(out_ref.dtype)


def over_rows(kernel, interpret: bool, *inputs: jax.Array) -> jax.Array:
    """Run a kernel on blocks of rows, a row being the last axis."""
    shape = inputs[0].shape
    rows = [x.reshape(-1, shape[-1]) for x in inputs]
    block = pl.BlockSpec((ROWS, shape[-1]), lambda i: (i, 0))
    run = pl.pallas_call(
        kernel,
        grid=(pl.cdiv(rows[0].shape[0], ROWS),),
        in_specs=[block] * len(rows),
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(rows[0].shape, rows[0].dtype),
        interpret=interpret,
    )
    return run(*rows).reshape(shape)


class SoftmaxProduct(StrictHiPrim, supports=("grad", "jvp", "transpose", "vmap")):
    """The Jacobian of softmax, given by its value y, times u: y * (u - sum(y * u)).

    It is linear in u, and in that its own transpose.
    """

    def __init__(self, y: ShapedArray, u: ShapedArray, interpret: bool):
        self.in_avals = (y, u)
        self.out_aval = y
        self.params = {"interpret": interpret}
        super().__init__()

    def expand(self, y, u):
        return over_rows(product_kernel, self.interpret, y, u)

    def jvp(self, primals, tangents):
        (y, u), (y_dot, u_dot) = primals, map(instantiate_zeros, tangents)
        wide_y, wide_u, wide_y_dot = map(widened, (y, u, y_dot))
        along = jnp.sum(wide_y * wide_u, axis=-1, keepdims=True)
        along_dot = jnp.sum(wide_y_dot * wide_u, axis=-1, keepdims=True)
        from_y = wide_y_dot * (wide_u - along) - wide_y * along_dot
        return self(y, u), from_y.astype(y.dtype) + self(y, u_dot)

    vjp_fwd, vjp_bwd_retval = vjp_from_jvp

    def transpose(self, out_ct, y, u_acc):
        u_acc.accum(self(y, instantiate_zeros(out_ct)))

    def batch(self, axis_data, args, dims):
        args, dim = at_front(axis_data, args, dims)
        return SoftmaxProduct(*map(jax.typeof, args), self.interpret)(*args), dim

    @classmethod
    def examples(cls):
        for dtype in (jnp.float32, jnp.bfloat16):
            y = jax.typeof(jax.ShapeDtypeStruct((3, 5), dtype))
            yield cls(y, y, interpret=True)


class Softmax(
    StrictHiPrim,
    supports=("grad", "jvp", "vmap", "remat"),
    ignore=("SH906",),  # under checkpoint JAX takes `jvp`: it is of the same gradient
):
    """exp(x) / sum(exp(x)) over the last axis, in the type of x."""

    def __init__(self, x: ShapedArray, interpret: bool):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {"interpret": interpret}
        super().__init__()

    def expand(self, x):
        return over_rows(softmax_kernel, self.interpret, x)

    def jacobian_times(self, y, u):
        return SoftmaxProduct(*map(jax.typeof, (y, u)), self.interpret)(y, u)

    def vjp_fwd(self, nzs_in, x):
        y = self(x)
        return y, y

    def vjp_bwd_retval(self, y, ct):
        return (self.jacobian_times(y, instantiate_zeros(ct)),)

    def jvp(self, primals, tangents):
        y = self(*primals)
        return y, self.jacobian_times(y, *tangents)

    def batch(self, axis_data, args, dims):
        (x,), dim = at_front(axis_data, args, dims)
        return Softmax(jax.typeof(x), self.interpret)(x), dim

    @classmethod
    def examples(cls):
        for shape, dtype in [((3, 5), jnp.float32), ((2, 9, 4), jnp.bfloat16)]:
            yield cls(jax.typeof(jax.ShapeDtypeStruct(shape, dtype)), interpret=True)


def pallas_softmax(x: jax.Array) -> jax.Array:
    """Softmax over the last axis of `x`, floating point, of shape (..., features).

    The kernels are interpreted where the default backend is the CPU.
    """
    x = jnp.asarray(x, jnp.result_type(x, float))
    return Softmax(jax.typeof(x), jax.default_backend() == "cpu")(x)
