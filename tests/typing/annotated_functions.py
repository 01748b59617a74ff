# pyright: strict
# mypy: disallow-untyped-defs, disallow-incomplete-defs
"""Functions with a custom backward in a code base that annotates everything.

A checked function keeps the type of its result, as one of `jax.custom_vjp` does.
"""

from typing import Any, NamedTuple, assert_type

import jax
import jax.numpy as jnp
from jax import Array, ShapeDtypeStruct

from strict_hijax import checked_custom_vjp


class Moments(NamedTuple):
    mean: Array
    variance: Array


@checked_custom_vjp
def scale(x: Array, factor: float) -> Array:
    return x * factor


def scale_fwd(x: Array, factor: float) -> tuple[Array, float]:
    return scale(x, factor), factor


def scale_bwd(factor: float, g: Array) -> tuple[Array, None]:
    return g * factor, None


scale.defvjp(scale_fwd, scale_bwd)


@checked_custom_vjp(
    example_args=(ShapeDtypeStruct((8, 128), jnp.dtype("bfloat16")),), effects="remat"
)
def moments(x: Array) -> Moments:
    return Moments(jnp.mean(x), jnp.var(x))


def moments_fwd(x: Array) -> tuple[Moments, Array]:
    return moments(x), x


def moments_bwd(x: Array, g: Moments) -> tuple[Array]:
    centred = x - jnp.mean(x)
    return ((g.mean + 2 * g.variance * centred) / x.size,)


moments.defvjp(moments_fwd, moments_bwd, symbolic_zeros=False)


@jax.custom_vjp
def foreign(x: Array) -> Array:
    return x


own = checked_custom_vjp(foreign)


def apply(function: "jax.custom_vjp[Array]", x: Array) -> Array:
    return function(x)


def use(x: Array) -> dict[str, Any]:
    assert_type(scale(x, 2.0), Array)
    assert_type(moments(x), Moments)
    assert_type(own(x), Array)
    return {"mean": moments(x).mean, "scaled": apply(scale, x)}
