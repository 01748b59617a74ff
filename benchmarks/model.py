"""A network of twelve layers whose normalisation and activation have custom rules.

It exists twice: with primitives, and with custom_vjp functions.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .kit import Kit

type Fun = Callable[..., Any]

LAYERS, BATCH, WIDTH = 12, 16, 64
EPSILON = 1e-6


def specs() -> tuple[Any, ...]:
    """The types of the weights and of one batch."""
    f32 = jnp.float32
    layer = {
        "scale": jax.ShapeDtypeStruct((WIDTH,), f32),
        "in": jax.ShapeDtypeStruct((WIDTH, 2 * WIDTH), f32),
        "out": jax.ShapeDtypeStruct((2 * WIDTH, WIDTH), f32),
    }
    return [layer] * LAYERS, jax.ShapeDtypeStruct((BATCH, WIDTH), f32)


def _network(norm: Fun, activation: Fun) -> Fun:
    def network(layers, x):
        for layer in layers:
            x = x + activation(norm(x, layer["scale"]) @ layer["in"]) @ layer["out"]
        return x

    return network


def _norm_cotangents(x, scale, inverse, ct):
    """Cotangents of `x * inverse * scale` for both inputs."""
    ct_scaled = ct * scale
    along = jnp.mean(ct_scaled * x, axis=-1, keepdims=True) * inverse**2
    rows = tuple(range(x.ndim - 1))
    return (ct_scaled - x * along) * inverse, jnp.sum(ct * x * inverse, axis=rows)


def _inverse_rms(x):
    return jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPSILON)


def of_primitives(kit: Kit) -> Fun:
    """The network with a primitive for each normalisation and activation."""

    class RMSNorm(kit.prim, **kit.promise("grad", "vmap")):
        def __init__(self, x: Any, scale: Any) -> None:
            self.in_avals = (x, scale)
            self.out_aval = x
            self.params = {}
            super().__init__()

        def expand(self, x, scale):
            return x * _inverse_rms(x) * scale

        def vjp_fwd(self, nzs_in, x, scale):
            return self(x, scale), (x, scale, _inverse_rms(x))

        def vjp_bwd_retval(self, res, ct):
            return _norm_cotangents(*res, ct)

        def batch(self, axis_data, args, dims):
            mapped = jax.vmap(self.expand, in_axes=dims, axis_size=axis_data.size)
            return mapped(*args), 0

    class Silu(kit.prim, **kit.promise("grad", "vmap")):
        def __init__(self, x: Any) -> None:
            self.in_avals = (x,)
            self.out_aval = x
            self.params = {}
            super().__init__()

        def expand(self, x):
            return x * jax.nn.sigmoid(x)

        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        def vjp_bwd(self, x, ct, x_acc):
            gate = jax.nn.sigmoid(x)
            x_acc.accum(ct * gate * (1 + x * (1 - gate)))

        def batch(self, axis_data, args, dims):
            mapped = jax.vmap(self.expand, in_axes=dims, axis_size=axis_data.size)
            return mapped(*args), 0

    def norm(x, scale):
        return RMSNorm(jax.typeof(x), jax.typeof(scale))(x, scale)

    def silu(x):
        return Silu(jax.typeof(x))(x)

    return _network(norm, silu)


def of_functions(kit: Kit) -> Fun:
    """The network with a custom_vjp function for normalisation and activation."""

    @kit.custom_vjp
    def norm(x, scale):
        return x * _inverse_rms(x) * scale

    def norm_fwd(x, scale):
        return norm(x, scale), (x, scale, _inverse_rms(x))

    def norm_bwd(res, ct):
        return _norm_cotangents(*res, ct)

    norm.defvjp(norm_fwd, norm_bwd)

    @kit.custom_vjp
    def silu(x):
        return x * jax.nn.sigmoid(x)

    def silu_fwd(x):
        return silu(x), x

    def silu_bwd(x, ct):
        gate = jax.nn.sigmoid(x)
        return (ct * gate * (1 + x * (1 - gate)),)

    silu.defvjp(silu_fwd, silu_bwd)
    return _network(norm, silu)
