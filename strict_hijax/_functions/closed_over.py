"""Which value a rule closes over that JAX can no longer use."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterator
from typing import Any

from jax import tree_util
from jax.errors import UnexpectedTracerError

from strict_hijax import _jax
from strict_hijax._errors import (
    Finding,
    StrictHijaxError,
    raise_findings,
    without_ignored,
)
from strict_hijax._types import describe

from .call_keys import Remembered
from .rules import FunctionRules


def is_about_a_tracer(error: Exception) -> bool:
    """Whether JAX complains of a tracer that it cannot use."""
    if isinstance(error, UnexpectedTracerError):
        return not isinstance(error, StrictHijaxError)
    return isinstance(error, TypeError) and "No constant handler for" in str(error)


def closed_over_finding(rules: FunctionRules, role: str, says: str) -> Finding | None:
    """A finding that names the tracers in a rule's closure; None if it has none."""
    held = list(held_tracers(rules.rule(role)))
    if not held:
        return None
    names = ", ".join(f"`{name}`" for name, _ in held)
    return rules.finding(
        "SH423",
        role,
        f"closes over {names}, which JAX cannot use where it runs the rule.",
        path=held[0][0],
        expected="values of the call, given as arguments or kept as residuals",
        got=", ".join(f"{name}: {describe(value.aval)}" for name, value in held),
        facts=(
            "It belongs to a transformation outside of the function. Rules are run",
            "when the function is differentiated, and it is not valid there.",
        ),
        jax_says=says.strip().partition("\n")[0],
        remedies=(
            f"make {names} an argument of `{rules.name}`: {rules.way_in}",
            f"jax.lax.stop_gradient({held[0][0]})   # where it is closed over",
        ),
    )


def explain_tracer(
    rules: FunctionRules, role: str, ignored: frozenset[str], error: Exception
) -> None:
    """Raise what names the tracer, if JAX complains of one that a rule closes over."""
    if is_about_a_tracer(error):
        finding = closed_over_finding(rules, role, str(error))
        if finding is not None and without_ignored([finding], ignored):
            raise finding.error() from error


def remember_held(rules: FunctionRules, role: str) -> None:
    """Remember which tracers a rule closes over, for when JAX lowers one of them.

    That is after the rule has run, where nothing else tells whose constant it is.
    """
    for _, tracer in held_tracers(rules.rule(role)):
        if not _is_watching:
            _is_watching.append(True)
            _jax.when_a_tracer_is_lowered(_explain)
        says = f"No constant handler for type: {type(tracer)}"
        if (finding := closed_over_finding(rules, role, says)) is not None:
            _held_by_rules.put(id(tracer), (weakref.ref(tracer), finding))


def _explain(tracer: Any) -> None:
    known = _held_by_rules.get(id(tracer))
    if known is not None and known[0]() is tracer:
        raise_findings([known[1]])


_is_watching: list[bool] = []
_held_by_rules: Remembered[tuple[weakref.ref[Any], Finding]] = Remembered()


def held_tracers(rule: Any) -> Iterator[tuple[str, Any]]:
    """Names and tracers that a rule closes over: in cells, defaults and bindings."""
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
    wrapped = getattr(rule, "__wrapped__", None)
    if wrapped is not None:
        yield from _held(wrapped, depth - 1)


def _defaults(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    yield from zip(names, values, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
