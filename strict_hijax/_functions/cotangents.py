"""Cotangents of a function's inputs: which leaf each is for, and what it must be.

Exactly `to_ct_aval` of the input is asked; of a Ref, that of what it holds.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding, Location
from strict_hijax._types import (
    cotangent_type,
    describe,
    describe_pair,
    describe_value,
    has_no_tangent,
    is_zero,
    same_type,
    type_of,
)

from .rules import FunctionRules, Inputs

type LeafCotangent = tuple[Any, bool]
"""What is given for one leaf, and whether it is a copy for several."""


def is_none(value: Any) -> bool:
    """Whether a cotangent is None, which stands for zero."""
    return value is None


def spread(treedef: Any, ct: Any) -> list[LeafCotangent] | None:
    """The cotangent of each leaf of an argument; None where the structures do not fit.

    As in JAX, None or a lone value stands for all leaves of the container in its place.
    """
    leaves, prefix = tree_util.tree_flatten(ct, is_leaf=is_none)
    whole = tree_util.tree_unflatten(treedef, [object()] * treedef.num_leaves)
    places = [object() for _ in leaves]
    try:
        spread_out = _jax.broadcast_prefix(
            tree_util.tree_unflatten(prefix, places), whole
        )
    except ValueError:
        return None
    given = dict(zip(places, leaves, strict=True))
    return [(given[place], spread_out.count(place) > 1) for place in spread_out]


def by_argument(cotangents: Any, inputs: Inputs) -> list[list[LeafCotangent]] | None:
    """What bwd returns for the leaves of each argument; None where it does not fit."""
    if not isinstance(cotangents, tuple | list) or len(cotangents) != inputs.count:
        return None
    children = inputs.treedef.children()
    found = [spread(child, ct) for child, ct in zip(children, cotangents, strict=True)]
    complete = [leaves for leaves in found if leaves is not None]
    return complete if len(complete) == len(found) else None


def shown_type(value: Any) -> Any:
    """What a report shows of a value: its type, or None, or words where it has none."""
    if value is None:
        return None
    aval = value.aval if is_zero(value) else type_of(value)
    return describe_value(value) if aval is None else aval


def cotangent_finding(
    rules: FunctionRules,
    path: str,
    aval: Any,
    ct: Any,
    *,
    location: Location | None = None,
    copied: bool = False,
) -> Finding | None:
    """What is wrong with the cotangent for one leaf of the inputs; None if it fits."""
    expected = cotangent_type(aval)
    if ct is None or expected is None or has_no_tangent(expected):
        return None
    got = ct.aval if is_zero(ct) else type_of(ct)
    if got is None:
        return rules.finding(
            "SH419",
            "bwd",
            f"returns a cotangent for `{path}` that is no JAX value: "
            f"{describe_value(ct)}.",
            path=path,
            expected=describe(expected),
            got=describe_value(ct),
            remedies=(f"{describe(expected)}, or None for zero",),
        )
    if same_type(got, expected) or _extended(got, expected):
        return None
    if isinstance(got, _jax.AbstractRef) and same_type(got.inner_aval, expected):
        return None
    code, why, remedies = _how_types_differ(path, expected, got)
    words = describe_pair(expected, got)
    place = rules.location("bwd") if location is None else location
    return rules.finding(
        code,
        "bwd",
        f"returns a wrong cotangent for `{path}`: expected {words[0]}, got {words[1]}.",
        path=path,
        expected=words[0],
        got=words[1],
        facts=(
            *why,
            *(("One cotangent is given for several leaves.",) if copied else ()),
        ),
        remedies=remedies,
        location=place,
    )


def _extended(*avals: Any) -> bool:
    """Whether one is of an extended dtype, such as scaled float8: it has own rules."""
    dtypes = [getattr(aval, "dtype", None) for aval in avals]
    shapes = [getattr(aval, "shape", None) for aval in avals]
    extended = any(
        dtype is not None and jnp.issubdtype(dtype, jax.dtypes.extended)
        for dtype in dtypes
    )
    return extended and shapes[0] == shapes[1]


_WHY_DTYPE = (
    "Alone, JAX lets another dtype pass and the gradient comes back in it. In company",
    "(a second use of the argument, another op before, a scan, a cond) it fails, and",
    "the error never names this rule.",
)


def _how_types_differ(
    path: str, expected: Any, got: Any
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The code for two types, why it matters, and what to write."""
    avals = (expected, got)
    if not all(hasattr(a, "shape") and hasattr(a, "dtype") for a in avals):
        return "SH418", (), (f"return a cotangent of type {describe(expected)}",)
    shapes, dtypes = [a.shape for a in avals], [a.dtype for a in avals]
    ct = re.sub(r"^\w+", r"\g<0>_ct", path)
    if shapes[0] != shapes[1]:
        return "SH416", (), _of_shape(ct, path, *shapes)
    if dtypes[0] != dtypes[1]:
        return (
            "SH417",
            _WHY_DTYPE,
            (
                f"{ct}.astype(jnp.{dtypes[0]})",
                '@checked_custom_vjp(..., ignore=("SH417",))   # if it is meant',
            ),
        )
    return "SH418", (), ("see the sharding and varying axes of the argument",)


def _of_shape(
    ct: str, path: str, wanted: tuple[Any, ...], got: tuple[Any, ...]
) -> tuple[str, ...]:
    """What to write where a cotangent has another shape than its argument."""
    extra = len(got) - len(wanted)
    if extra > 0:
        axes = tuple(range(extra)) if got[extra:] == wanted else "..."
        return (f"{ct}.sum(axis={axes})   # over the axes that were broadcast",)
    pairs = list(zip(wanted[::-1], got[::-1], strict=False))  # from the last axis on
    ones = tuple(i for i, (a, b) in enumerate(pairs[::-1]) if a == 1 != b)
    if not extra and ones and all(a in (1, b) for a, b in pairs):
        return (f"{ct}.sum(axis={ones}, keepdims=True)   # they were broadcast",)
    look = f"look for a sum or a transpose too many: `{path}` has the shape {wanted}"
    if all(b in (1, a) for a, b in pairs):
        same = f"# only if it is the same for all of `{path}`"
        return look, f"jnp.broadcast_to({ct}, {wanted})   {same}"
    return (look,)
