"""Which value a rule closes over that JAX can no longer use."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

from jax import tree_util

from . import _jax
from ._errors import Finding
from ._function_rules import FunctionRules
from ._types import describe


def closed_over_finding(
    rules: FunctionRules, role: str, error: Exception
) -> Finding | None:
    """A finding that names the tracers in a rule's closure; None if it has none."""
    held = list(held_tracers(rules.rule(role)))
    if not held:
        return None
    names = ", ".join(f"`{name}`" for name, _ in held)
    lines = str(error).strip().splitlines()
    return rules.finding(
        "SH423",
        role,
        f"closes over {names}, which JAX cannot use where it runs the rule.",
        path=held[0][0],
        expected="values of the call, given as arguments or kept as residuals",
        got=", ".join(f"{name}: {describe(value.aval)}" for name, value in held),
        facts=(
            "The value belongs to a transformation outside of the function; rules are "
            "run",
            "when the function is differentiated, where it is not valid.",
        ),
        jax_says=lines[0] if lines else None,
        remedies=(
            f"make {names} an argument of `{rules.name}`: bwd gives it a cotangent",
            f"jax.lax.stop_gradient({held[0][0]})   # if it is no input, and keep it in "
            "the residuals",
        ),
    )


def held_tracers(rule: Any) -> Iterator[tuple[str, Any]]:
    """Names and tracers that a rule closes over, in its cells, defaults and bindings."""
    for name, value in _held(rule):
        for keypath, leaf in _leaves(value):
            if isinstance(leaf, _jax.Tracer):
                yield name + _jax.keystr(keypath), leaf


def _leaves(value: Any) -> list[tuple[Any, Any]]:
    try:
        return tree_util.tree_leaves_with_path(value)
    except Exception:  # a pytree of the user's that cannot be flattened
        return []


def _held(rule: Any, depth: int = 4) -> Iterator[tuple[str, Any]]:
    if depth == 0:
        return
    if isinstance(rule, functools.partial):
        yield from ((f"args[{i}]", value) for i, value in enumerate(rule.args))
        yield from rule.keywords.items()
        yield from _held(rule.func, depth - 1)
    elif isinstance(rule, types.MethodType):
        yield from getattr(rule.__self__, "__dict__", {}).items()
        yield from _held(rule.__func__, depth - 1)
    elif isinstance(rule, types.FunctionType):
        cells = zip(rule.__code__.co_freevars, rule.__closure__ or (), strict=True)
        for name, cell in cells:
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            yield name, value
            if isinstance(value, types.FunctionType | functools.partial):
                yield from _held(value, depth - 1)
        yield from _defaults(rule)
    if hasattr(rule, "__wrapped__"):
        yield from _held(rule.__wrapped__, depth - 1)


def _defaults(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    yield from zip(names, values, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
