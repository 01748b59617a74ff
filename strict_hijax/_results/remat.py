"""Checks on what `remat` returns, under `jax_remat3`: an output, and how to redo it.

The contract is that of `_call_hi_primitive_remat` in `jax._src.hijax`, which differs
between versions: `REMAT_RETURNS` has the names of what is returned.
"""

from __future__ import annotations

from typing import Any

from strict_hijax import _jax
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding
from strict_hijax._signatures import arity_of_function
from strict_hijax._types import describe_value

from .outputs import output_findings


def remat_findings(
    facts: ClassFacts, prim: Any, rule: str, result: Any
) -> list[Finding]:
    """What is wrong with the result of `remat`."""
    names = _jax.REMAT_RETURNS
    if not isinstance(result, tuple | list) or len(result) != len(names):
        return [_no_tuple(facts, rule, result, names)]
    found = output_findings(facts, prim, rule, result[0])
    rem, wanted = result[-1], len(prim.in_avals) + ("res" in names)
    if not callable(rem):
        got = f"{describe_value(rem)}, which cannot be called"
        found.append(_uncallable(facts, rule, got, names))
    elif (arity := arity_of_function(rem)) is not None and not arity.takes(wanted):
        got = f"a function of {arity} arguments, which is given {wanted}"
        found.append(_uncallable(facts, rule, got, names))
    return found


def _no_tuple(
    facts: ClassFacts, rule: str, result: Any, names: tuple[str, ...]
) -> Finding:
    got = describe_value(result)
    return facts.finding(
        "SH345",
        f"has a `{rule}` that returns {got}.",
        rule=rule,
        expected=f"({', '.join(names)})",
        got=got,
        remedies=_remedies(facts, names),
    )


def _uncallable(
    facts: ClassFacts, rule: str, got: str, names: tuple[str, ...]
) -> Finding:
    return facts.finding(
        "SH346",
        f"has a `{rule}` whose `rem` is {got}.",
        rule=rule,
        path="rem",
        expected="a function that computes the output once more",
        got=got,
        remedies=_remedies(facts, names),
    )


def _remedies(facts: ClassFacts, names: tuple[str, ...]) -> tuple[str, ...]:
    args = ", ".join(facts.inputs)
    if "res" in names:
        return (f"return self({args}), (), lambda res, {args}: self({args})",)
    return (f"return self({args}), lambda {args}: self({args})",)
