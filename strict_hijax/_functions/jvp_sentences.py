"""What stock JAX says about faults of a jvp rule, word for word.

They are those of `_flatten_jvp` in `jax._src.custom_derivatives`, which its hijax
implementation repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import tree_util

from strict_hijax._types import describe, no_type_says, same_type

from .rules import FunctionRules

type _Shown = tuple[Any, list[Any]]  # structure and types


def no_jvp(rules: FunctionRules) -> str:
    """The function is called before `defjvp`."""
    return f"No JVP defined for custom_jvp function {rules.name} using defjvp."


def _rule(rules: FunctionRules) -> str:
    return (
        f"Custom JVP rule {rules.rule_name('jvp')} for function {rules.name} must "
        "produce "
    )


def _pair(rules: FunctionRules) -> str:
    return (
        f"{_rule(rules)}a pair (list or tuple of length two) where the first element "
        "represents the primal output (equal in value to the output of the "
        f"custom_jvp-decorated function {rules.name}, and in particular "
    )


def no_pair(rules: FunctionRules, got: str) -> str:
    """The rule returns no pair."""
    return (
        f"{_rule(rules)}a pair (list or tuple of length two) representing primal and "
        f"tangent outputs, but got {got}."
    )


def output_structure(rules: FunctionRules, got: _Shown, expected: _Shown) -> str:
    """The primal output has another structure than the function's."""
    return (
        f"{_pair(rules)}of the same container/pytree structure), but instead the JVP "
        "rule output's first element had container/pytree structure:\n"
        f"    {_tree(*got)}\nwhile the custom_jvp-decorated function {rules.name} had "
        f"output container/pytree structure:\n    {_tree(*expected)}."
    )


def output_types(rules: FunctionRules, got: _Shown, expected: _Shown) -> str:
    """The primal output has other types than the function's."""
    return (
        f"{_pair(rules)}with leaves of the same shape/dtype), but instead the JVP rule "
        f"output's first element had shapes/dtypes of:\n    {_tree(*got)}\nwhile the "
        f"custom_jvp-decorated function {rules.name} had output shapes/dtypes of:\n"
        f"    {_tree(*expected)}"
    )


def _tree(treedef: Any, avals: list[Any]) -> str:
    named = tree_util.tree_unflatten(treedef, [describe(aval) for aval in avals])
    return str(named).replace("'", "")


def tangent_structure(rules: FunctionRules, out: Any, tangents: Any) -> str:
    """The tangents have another structure than the output."""
    return (
        f"{_rule(rules)}primal and tangent outputs with equal container (pytree) "
        f"structures, but got {out} and {tangents} respectively."
    )


def tangent_types(
    outputs: Sequence[Any], expected: Sequence[Any], got: Sequence[Any]
) -> str:
    """A tangent has another type than its output asks for."""
    sentence = (
        "Custom JVP rule must produce primal and tangent outputs with corresponding "
        "shapes and dtypes"
    )
    rows = list(zip(outputs, expected, got, strict=True))
    if len(rows) == 1:
        out, want, has = map(describe, rows[0])
        return f"{sentence}. Expected {want} (tangent type of {out}) but got {has}."
    lines = [
        f"  primal {describe(out)} with tangent {describe(has)}, expecting tangent "
        f"{want}"
        for out, want, has in rows
        if not same_type(want, has)
    ]
    return "\n".join([f"{sentence}, but got:", *lines])


def no_value(leaf: Any) -> str:
    """A tangent is no JAX value."""
    return no_type_says(leaf)
