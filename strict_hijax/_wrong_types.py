"""What is wrong with the type of one cotangent or tangent, and what to write.

It says nothing of rules: each half puts it into its own words and codes.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from . import _jax
from ._types import (
    describe,
    describe_pair,
    describe_value,
    has_no_tangent,
    same_type,
)


class WrongType(NamedTuple):
    """In what a value departs from the type that it must have."""

    kind: Literal["value", "shape", "dtype", "type"]
    expected: str
    got: str
    remedies: tuple[str, ...]


WHY_DTYPE = (
    "Alone, JAX lets another dtype pass and the gradient comes back in it. In company",
    "(a second use of the input, another op before, a scan, a cond) it fails, and the",
    "error never names this rule.",
)


def wrong_cotangent(
    path: str, expected: Any, cotangent: Any, aval: Any
) -> WrongType | None:
    """What is wrong with the cotangent, of type `aval`, for the input at `path`."""
    name = re.sub(r"^\w+", r"\g<0>_ct", path)
    wrong = wrong_type(name, expected, cotangent, aval)
    if wrong is None:
        return None
    if wrong.kind == "shape" and (axes := _summed(expected.shape, aval.shape)):
        line = f"{name}.sum({axes})   # over the axes that were broadcast"
        return wrong._replace(remedies=(line,))
    if wrong.kind == "value":
        return wrong._replace(remedies=(f"give {wrong.expected}, or None for zero",))
    if has_no_tangent(aval):
        return wrong._replace(remedies=("None   # for a cotangent of zero",))
    return wrong


def wrong_type(name: str, expected: Any, value: Any, aval: Any) -> WrongType | None:
    """What is wrong with a value of type `aval`, which the remedies call `name`."""
    if aval is None:
        give = f"give {describe(expected)}"
        return WrongType("value", describe(expected), describe_value(value), (give,))
    if same_type(aval, expected) or _is_extended(aval, expected):
        return None
    words = describe_pair(expected, aval)
    if not all(isinstance(each, _jax.ShapedArray) for each in (expected, aval)):
        return WrongType("type", *words, (f"give the type {describe(expected)}",))
    if expected.shape != aval.shape:
        return WrongType("shape", *words, _of_shape(name, expected.shape, aval.shape))
    if expected.dtype != aval.dtype:
        return WrongType("dtype", *words, (f"{name}.astype(jnp.{expected.dtype})",))
    typeof = "use jax.typeof(x) as the type of x: it has shardings and varying axes"
    return WrongType("type", *words, (typeof,))


def _is_extended(*avals: Any) -> bool:
    """Whether one is of an extended dtype, such as scaled float8: it has own rules."""
    dtypes = [getattr(aval, "dtype", None) for aval in avals]
    shapes = [getattr(aval, "shape", None) for aval in avals]
    return shapes[0] == shapes[1] and any(
        dtype is not None and jnp.issubdtype(dtype, jax.dtypes.extended)
        for dtype in dtypes
    )


def _of_shape(
    name: str, wanted: tuple[Any, ...], got: tuple[Any, ...]
) -> tuple[str, ...]:
    """What to write where a value has another shape than it must have."""
    look = f"look for a sum or a transpose too many: the shape must be {wanted}"
    pairs = zip(wanted[::-1], got[::-1], strict=False)  # from the last axis on
    if len(got) <= len(wanted) and all(b in (1, a) for a, b in pairs):
        same = "# only if it is the same all over"
        return look, f"jnp.broadcast_to({name}, {wanted})   {same}"
    return (look,)


def _summed(wanted: tuple[Any, ...], got: tuple[Any, ...]) -> str:
    """The arguments of a sum over what was broadcast; empty if nothing was."""
    extra = len(got) - len(wanted)
    if extra > 0:
        return f"axis={tuple(range(extra)) if got[extra:] == wanted else '...'}"
    pairs = list(zip(wanted, got, strict=False))
    ones = tuple(i for i, (a, b) in enumerate(pairs) if a == 1 != b)
    broadcast = not extra and ones and all(a in (1, b) for a, b in pairs)
    return f"axis={ones}, keepdims=True" if broadcast else ""
