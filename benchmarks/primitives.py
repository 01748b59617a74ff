"""Small primitives, one factory for each shape that a primitive can have."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.hijax import (
    Zero,
    instantiate_zeros,
    jvp_from_lin,
    linearize_from_jvp,
    vjp_from_jvp,
    vjp_from_lin,
)

from .kit import Kit

type Fun = Callable[..., Any]


def at_front(size: int, x: Any, dim: int | None) -> Any:
    """`x` with its mapped axis first, or repeated along a new one."""
    if dim is None:
        return jnp.broadcast_to(x, (size, *x.shape))
    return jnp.moveaxis(x, dim, 0)


def _apply_batched(apply: Fun, axis_data: Any, args: Any, dims: Any) -> tuple[Any, int]:
    """Batch an elementwise primitive: the same one, on larger arrays."""
    size = axis_data.size
    return apply(*(at_front(size, x, d) for x, d in zip(args, dims, strict=True))), 0


def elementwise(kit: Kit) -> Fun:
    """One input, rules written by hand."""
    prim = sine_class(kit)

    def sine(x):
        return prim(jax.typeof(x))(x)

    return sine


def instance(kit: Kit) -> Fun:
    """One instance of a primitive with one input."""
    return sine_class(kit)(jax.typeof(jnp.zeros((8, 16), jnp.float32)))


def sine_class(kit: Kit) -> type[Any]:
    """The class statement alone."""

    class Sine(kit.prim, **kit.promise("grad", "jvp", "vmap")):
        def __init__(self, x: Any) -> None:
            self.in_avals = (x,)
            self.out_aval = x
            self.params = {}
            super().__init__()

        def expand(self, x):
            return jnp.sin(x)

        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        def vjp_bwd_retval(self, res, ct):
            return (ct * jnp.cos(res),)

        def jvp(self, primals, tangents):
            (x,), (t,) = primals, tangents
            return self(x), t * jnp.cos(x)

        def batch(self, axis_data, args, dims):
            def apply(x):
                return type(self)(jax.typeof(x))(x)

            return _apply_batched(apply, axis_data, args, dims)

    return Sine


def accumulating(kit: Kit) -> Fun:
    """Two inputs, and a backward rule that takes gradient accumulators."""

    class Multiply(kit.prim, **kit.promise("grad", "jvp", "vmap")):
        def __init__(self, x: Any, y: Any) -> None:
            self.in_avals = (x, y)
            self.out_aval = x
            self.params = {}
            super().__init__()

        def expand(self, x, y):
            return x * y

        def vjp_fwd(self, nzs_in, x, y):
            return self(x, y), (x, y)

        def vjp_bwd(self, res, ct, x_acc, y_acc):
            x, y = res
            x_acc.accum(ct * y)
            y_acc.accum(ct * x)

        def jvp(self, primals, tangents):
            (x, y), (dx, dy) = primals, map(instantiate_zeros, tangents)
            return self(x, y), dx * y + x * dy

        def batch(self, axis_data, args, dims):
            return _apply_batched(multiply, axis_data, args, dims)

    def multiply(x, y):
        return Multiply(jax.typeof(x), jax.typeof(y))(x, y)

    return multiply


def hypotenuse(kit: Kit) -> Fun:
    """Two inputs, one cotangent returned for each, no forward-mode rule."""

    class Hypot(kit.prim, **kit.promise("grad", "vmap")):
        def __init__(self, x: Any, y: Any) -> None:
            self.in_avals = (x, y)
            self.out_aval = x
            self.params = {}
            super().__init__()

        def expand(self, x, y):
            return jnp.sqrt(x * x + y * y)

        def vjp_fwd(self, nzs_in, x, y):
            out = self(x, y)
            return out, (x / out, y / out)

        def vjp_bwd_retval(self, res, ct):
            along_x, along_y = res
            return ct * along_x, ct * along_y

        def batch(self, axis_data, args, dims):
            return _apply_batched(hypot, axis_data, args, dims)

    def hypot(x, y):
        return Hypot(jax.typeof(x), jax.typeof(y))(x, y)

    return hypot


def pytrees(kit: Kit) -> Fun:
    """A dict of parameters in, a dict of outputs out."""

    class Dense(kit.prim, **kit.promise("grad", "vmap")):
        def __init__(self, params: Any, x: Any) -> None:
            self.in_avals = (params, x)
            scale = jax.typeof(jnp.zeros((), x.dtype))
            self.out_aval = {"y": params["b"], "scale": scale}
            self.params = {}
            super().__init__()

        def expand(self, params, x):
            y = params["w"] @ x + params["b"]
            return {"y": y, "scale": jnp.sum(y * y)}

        def vjp_fwd(self, nzs_in, params, x):
            out = self(params, x)
            return out, (params["w"], x, out["y"])

        def vjp_bwd_retval(self, res, ct):
            w, x, y = res
            dy = instantiate_zeros(ct["y"]) + 2 * instantiate_zeros(ct["scale"]) * y
            return {"w": jnp.outer(dy, x), "b": dy}, w.T @ dy

        def batch(self, axis_data, args, dims):
            mapped = jax.vmap(self.expand, in_axes=dims, axis_size=axis_data.size)
            return mapped(*args), {"y": 0, "scale": 0}

    def dense(params, x):
        return Dense(jax.tree.map(jax.typeof, params), jax.typeof(x))(params, x)

    return dense


def unused_output(kit: Kit) -> Fun:
    """Two outputs, of which the program uses one: its cotangent is a symbolic zero."""

    class SinCos(kit.prim, **kit.promise("grad", "vmap")):
        def __init__(self, x: Any) -> None:
            self.in_avals = (x,)
            self.out_aval = (x, x)
            self.params = {}
            super().__init__()

        def expand(self, x):
            return jnp.sin(x), jnp.cos(x)

        def vjp_fwd(self, nzs_in, x):
            out = self(x)
            return out, out

        def vjp_bwd(self, res, cts, x_acc):
            (sin, cos), (dsin, dcos) = res, cts
            if not isinstance(dsin, Zero):
                x_acc.accum(dsin * cos)
            if not isinstance(dcos, Zero):
                x_acc.accum(-dcos * sin)

        def batch(self, axis_data, args, dims):
            out, dim = _apply_batched(sincos, axis_data, args, dims)
            return out, (dim, dim)

    def sincos(x):
        return SinCos(jax.typeof(x))(x)

    return lambda x: sincos(x)[0]


def static_param(kit: Kit) -> Fun:
    """A static parameter; reverse mode and linearisation derived from `jvp`."""

    class Power(kit.prim, **kit.promise("grad", "jvp", "linearize", "vmap")):
        def __init__(self, x: Any, *, exponent: int) -> None:
            self.in_avals = (x,)
            self.out_aval = x
            self.params = {"exponent": exponent}
            super().__init__()

        def expand(self, x):
            return x**self.exponent

        def jvp(self, primals, tangents):
            (x,), (t,) = primals, tangents
            return self(x), t * (self.exponent * x ** (self.exponent - 1))

        vjp_fwd, vjp_bwd_retval = vjp_from_jvp
        lin, linearized = linearize_from_jvp

        def batch(self, axis_data, args, dims):
            return _apply_batched(power, axis_data, args, dims)

    def power(x, exponent=3):
        return Power(jax.typeof(x), exponent=exponent)(x)

    return power


def from_linearization(kit: Kit) -> Fun:
    """Forward and reverse mode derived from `lin` and `linearized`."""

    class Tanh(kit.prim, **kit.promise("grad", "jvp", "linearize", "vmap")):
        def __init__(self, x: Any) -> None:
            self.in_avals = (x,)
            self.out_aval = x
            self.params = {}
            super().__init__()

        def expand(self, x):
            return jnp.tanh(x)

        def lin(self, nzs_in, x):
            out = self(x)
            return out, 1 - out * out

        def linearized(self, res, t):
            return t * res

        jvp = jvp_from_lin
        vjp_fwd, vjp_bwd_retval = vjp_from_lin

        def batch(self, axis_data, args, dims):
            return _apply_batched(tanh, axis_data, args, dims)

    def tanh(x):
        return Tanh(jax.typeof(x))(x)

    return tanh


def linear(kit: Kit) -> Fun:
    """A linear primitive: its reverse mode is its transpose."""

    class Scale(kit.prim, **kit.promise("grad", "jvp", "transpose", "vmap")):
        def __init__(self, x: Any, *, factor: float) -> None:
            self.in_avals = (x,)
            self.out_aval = x
            self.params = {"factor": factor}
            super().__init__()

        def expand(self, x):
            return x * jnp.asarray(self.factor, x.dtype)

        def jvp(self, primals, tangents):
            (x,), (t,) = primals, tangents
            return self(x), self(t)

        def transpose(self, ct, x_acc):
            x_acc.accum(self(ct))

        vjp_fwd, vjp_bwd_retval = vjp_from_jvp

        def batch(self, axis_data, args, dims):
            return _apply_batched(scale, axis_data, args, dims)

    def scale(x):
        return Scale(jax.typeof(x), factor=0.5)(x)

    return scale


def integer_input(kit: Kit) -> Fun:
    """An integer input, which takes no cotangent."""

    class Shift(kit.prim, **kit.promise("grad", "vmap")):
        def __init__(self, x: Any, bits: Any) -> None:
            self.in_avals = (x, bits)
            self.out_aval = x
            self.params = {}
            super().__init__()

        def expand(self, x, bits):
            return x * jnp.exp2(bits.astype(x.dtype))

        def vjp_fwd(self, nzs_in, x, bits):
            return self(x, bits), bits

        def vjp_bwd_retval(self, res, ct):
            return ct * jnp.exp2(res.astype(ct.dtype)), None

        def batch(self, axis_data, args, dims):
            return _apply_batched(shift, axis_data, args, dims)

    def shift(x, bits):
        return Shift(jax.typeof(x), jax.typeof(bits))(x, bits)

    return shift


def chain(kit: Kit) -> Fun:
    """Four primitives in a row, each with other rules."""
    sine, power = elementwise(kit), static_param(kit)
    tanh, multiply = from_linearization(kit), accumulating(kit)

    def chained(x):
        return multiply(tanh(power(sine(x))), x)

    return chained
