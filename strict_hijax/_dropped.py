"""A number given as the cotangent of integers, which JAX drops without a word."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ._jax_traces import is_zeros
from ._types import cotangent_type, describe, describe_value, has_no_tangent, type_of


def is_dropped(aval: Any, cotangent: Any) -> bool:
    """Whether a cotangent for an input of this type is one of numbers, and in vain."""
    dtype = getattr(type_of(cotangent), "dtype", None)
    if dtype is None or not has_no_tangent(cotangent_type(aval)):
        return False
    return jnp.issubdtype(dtype, jnp.inexact) and not is_zeros(cotangent)


def dropped(path: str, aval: Any, cotangent: Any) -> dict[str, Any]:
    """What a finding says of such a cotangent."""
    is_float = "# at the call, if it is to have a gradient"
    remedies = [f"None   # for `{path}`"]
    if jnp.issubdtype(aval.dtype, jnp.integer):
        remedies.append(f"{path}.astype(jnp.float32)   {is_float}")
    if aval.dtype == jnp.uint8:
        bits = f"jax.lax.bitcast_convert_type({path}, jnp.float8_e4m3fn)"
        remedies[-1] = f"{bits}   {is_float}"
    return {
        "path": path,
        "expected": f"None for `{path}`, which is {describe(aval)}",
        "got": describe_value(cotangent),
        "facts": ("Integers, booleans and keys have no gradient: JAX drops it.",),
        "remedies": tuple(remedies),
    }
