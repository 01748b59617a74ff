"""Cotangents of a function's inputs: which leaf each is for, and what it must be.

Exactly `to_ct_aval` of the input is asked; of a Ref, that of what it holds.
"""

from __future__ import annotations

from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding, Location
from strict_hijax._types import (
    cotangent_type,
    describe_value,
    has_no_tangent,
    inner_type,
    is_zero,
    type_of,
)
from strict_hijax._wrong_types import WHY_DTYPE, wrong_cotangent

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
    aval = ct.aval if is_zero(ct) else type_of(ct)
    wrong = wrong_cotangent(path, expected, ct, inner_type(aval))
    if wrong is None:
        return None
    code = _CODES[wrong.kind]
    facts, meant = list[str](), list[str]()
    if wrong.kind == "dtype":
        facts += WHY_DTYPE
        meant = [f'@checked_custom_vjp(..., ignore=("{code}",))   # if it is meant']
    if copied:
        facts.append("One cotangent is given for several leaves.")
    return rules.finding(
        code,
        "bwd",
        f"returns a wrong cotangent for `{path}`: expected {wrong.expected}, got "
        f"{wrong.got}.",
        path=path,
        expected=wrong.expected,
        got=wrong.got,
        facts=tuple(facts),
        remedies=(*wrong.remedies, *meant),
        location=rules.location("bwd") if location is None else location,
    )


_CODES = {"value": "SH419", "shape": "SH416", "dtype": "SH417", "type": "SH418"}
