"""Which value a rule closes over that JAX can no longer use."""

from __future__ import annotations

import functools
import re
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util
from jax.errors import UnexpectedTracerError

from strict_hijax import _jax, _jax_traces
from strict_hijax._errors import Finding, StrictHijaxError, error_for
from strict_hijax._ignoring import raise_findings, without_ignored
from strict_hijax._types import describe

from .call_keys import Remembered
from .rules import FunctionRules, positional_count
from .static_arrays import static_array


def is_about_a_tracer(error: Exception) -> bool:
    """Whether JAX complains of a tracer that it cannot use."""
    if isinstance(error, UnexpectedTracerError):
        return not isinstance(error, StrictHijaxError)
    return isinstance(error, TypeError) and "No constant handler for" in str(error)


def closed_over_finding(
    rules: FunctionRules, role: str, held: Sequence[tuple[str, Any]], says: str | None
) -> Finding:
    """A finding that names the tracers which a rule closes over."""
    names = ", ".join(f"`{name}`" for name, _ in held)
    arguments = (*rules.argument_names(positional_count(rules.fun)), held[0][0])
    signature = f"def {rules.called}({', '.join(arguments)}): ..."
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
        jax_says=None if says is None else says.strip().partition("\n")[0],
        remedies=(f"{signature}   # an argument: {rules.way_in}",),
    )


def explain_tracer(
    rules: FunctionRules,
    role: str,
    ignored: frozenset[str],
    error: Exception,
    args: Sequence[Any] = (),
) -> None:
    """Raise what names the tracer, if JAX complains of one that a rule closes over."""
    if not is_about_a_tracer(error):
        return
    if (kept := _kept_from_a_check(rules, role, str(error))) is not None:
        if without_ignored([kept], ignored):
            raise kept.error() from None
        return
    if held := list(held_tracers(rules.rule(role))):
        findings = [closed_over_finding(rules, role, held, str(error))]
    else:
        findings = [finding for _, finding in _static_tracers(rules, role, args)]
    if without_ignored(findings, ignored):
        raise error_for(findings[:1]) from error


def _kept_from_a_check(rules: FunctionRules, role: str, says: str) -> Finding | None:
    """The finding about a value that was kept from a trace of ours.

    At import it may have to be abstract: see `_jax_traces.trace_to_jaxpr`.
    """
    if not any(f"for {ahead(rules, each)}" in says for each in (role, *_ROLES)):
        return None
    made = re.search(r"created on line (.+?:\d+)(?::\d+)? \((\w+)\)", says)
    where = "" if made is None else f", by `{made[2]}` at {made[1]}"
    return rules.finding(
        "SH439",
        role,
        f"uses a value that was made when the rules were traced at import{where}, and "
        "was kept since.",
        expected="a value that is made when it is used, or by NumPy",
        got="a value of a trace that is over",
        facts=("No backend was there to compute it, and we start none at import.",),
        remedies=(
            "eager=False   # nothing is traced ahead",
            "np.arange(n)   # of NumPy, which needs no backend",
        ),
    )


def unusable_findings(
    rules: FunctionRules, role: str, args: Sequence[Any]
) -> list[Finding]:
    """Tracers that a rule closes over and uses, where JAX fails about them later.

    A tracer of a trace that has ended, or of one that JAX has left to run the rule, is
    taken for a constant, and JAX complains when it lowers or evaluates what the rule
    made of it: with none of our frames on the stack, and without the rule's name.
    """
    held = _held_findings(rules, role, args)
    for tracer, finding in held:
        _remember(tracer, finding)
    held = [each for each in held if _jax_traces.is_out_of_place(each[0])]
    if not held:
        return []
    constants = set(map(id, _constants_of(rules.rule(role), args)))
    return [finding for tracer, finding in held if id(tracer) in constants]


def _held_findings(
    rules: FunctionRules, role: str, args: Sequence[Any]
) -> list[tuple[Any, Finding]]:
    """Tracers that a rule has otherwise than as arguments that JAX traces."""
    held = [
        (each[1], closed_over_finding(rules, role, [each], None))
        for each in held_tracers(rules.rule(role))
    ]
    return [*held, *_static_tracers(rules, role, args)]


def _static_tracers(
    rules: FunctionRules, role: str, args: Sequence[Any]
) -> Iterator[tuple[Any, Finding]]:
    """Tracers among the static arguments of a call."""
    static = rules.nondiff_argnums if role in ("jvp", "bwd") else ()  # they come first
    for index, value in zip(sorted(static), args, strict=False):
        for leaf in tree_util.tree_leaves(value):
            if isinstance(leaf, _jax.Tracer):
                yield leaf, static_array(rules, index, leaf)


def _constants_of(rule: Any, args: Sequence[Any]) -> list[Any]:
    """What a rule takes from outside, seen by one more trace of it."""
    fresh = tree_util.tree_map(_jax_traces.fresh_accumulator, list(args))
    accums = [x for x in tree_util.tree_leaves(fresh) if isinstance(x, _jax.ValAccum)]

    def call() -> list[Any]:
        leaves = tree_util.tree_leaves(rule(*fresh))
        given = (accum.freeze() for accum in accums)
        return [x for x in (*leaves, *given) if isinstance(x, _jax.Tracer)]

    try:
        return list(_jax_traces.trace_to_jaxpr(call, (), "rule").consts)
    except Exception:  # it was run a moment ago: whatever it is, JAX will say it
        return []


_ROLES = ("primal", "fwd", "bwd", "jvp")


def ahead(rules: FunctionRules, role: str) -> str:
    """What a trace of ours is called in JAX's messages."""
    return f"{role} of {rules.name}, ahead of its use"


def _remember(tracer: Any, finding: Finding) -> None:
    """Remember a tracer that a rule closes over, for when JAX lowers it.

    That is after the rule has run, where nothing else tells whose constant it is.
    """
    if not _is_watching:
        _is_watching.append(True)
        _jax_traces.when_a_tracer_is_lowered(_explain)
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
