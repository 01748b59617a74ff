"""Advice about a function: what is worth a look, but may be meant. Never raised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from strict_hijax._dropped import dropped, is_dropped
from strict_hijax._errors import Finding
from strict_hijax._types import (
    cotangent_type,
    describe,
    describe_value,
    has_no_tangent,
    paths_of,
)

from .cotangents import LeafCotangent
from .rules import FunctionRules, Inputs, visible_arity


def order_advice(rules: FunctionRules) -> list[Finding]:
    """fwd or bwd takes arguments of the function in another order than JAX gives."""
    return [*_fwd_order(rules), *_bwd_order(rules)]


def _fwd_order(rules: FunctionRules) -> Iterator[Finding]:
    primal, fwd = visible_arity(rules.fun), visible_arity(rules.fwd)
    if primal is None or fwd is None or primal.names == fwd.names:
        return
    if sorted(primal.names) != sorted(fwd.names):
        return
    yield rules.finding(
        "SH902",
        "fwd",
        "takes the arguments of the function in another order: JAX gives them in "
        f"the order of the function, ({', '.join(primal.names)}).",
        expected=", ".join(primal.names),
        got=", ".join(fwd.names),
        remedies=(f"def {rules.rule_name('fwd')}({', '.join(primal.names)}): ...",),
    )


def _bwd_order(rules: FunctionRules) -> Iterator[Finding]:
    primal, bwd = visible_arity(rules.fun), visible_arity(rules.bwd)
    argnums = sorted(rules.nondiff_argnums)
    if primal is None or bwd is None or not argnums:
        return
    static = tuple(name for i, name in enumerate(primal.names) if i in argnums)
    others = tuple(name for name in bwd.names if name not in static)
    ordered = (*static, *others)
    if sorted(ordered) != sorted(bwd.names) or bwd.names == ordered:
        return
    yield rules.finding(
        "SH902",
        "bwd",
        f"takes the static arguments in another place: JAX gives those of "
        f"`nondiff_argnums` first, ({', '.join(ordered)}).",
        expected=", ".join(ordered),
        got=", ".join(bwd.names),
        remedies=(f"def {rules.rule_name('bwd')}({', '.join(ordered)}): ...",),
    )


def replaced_advice(
    before: Sequence[FunctionRules], rules: FunctionRules
) -> list[Finding]:
    """Rules that were defined, and then replaced by others of the same kind."""
    replaced = [
        old
        for old in before
        if old.has_rem == rules.has_rem and not _same_rules(old, rules)
    ]
    if not replaced:
        return []
    roles = ("fwd", "rem", "bwd") if rules.has_rem else ("fwd", "bwd")
    places = [
        f"{role} rule: `{replaced[-1].rule_name(role)}` "
        f"({replaced[-1].location(role)}), and then `{rules.rule_name(role)}` "
        f"({rules.location(role)})"
        for role in roles
        if replaced[-1].rule(role) is not rules.rule(role)
    ]
    how = "defremat" if rules.has_rem else "defvjp"
    return [
        rules.finding(
            "SH903",
            None,
            "has its rules defined twice: the second replace the first.",
            location=rules.location("primal"),
            expected=f"one call of {rules.name}.{how}",
            got="; ".join(places),
            remedies=(f"delete one of the two calls of {rules.name}.{how}",),
        )
    ]


def _same_rules(a: FunctionRules, b: FunctionRules) -> bool:
    return a.fwd is b.fwd and a.bwd is b.bwd and a.rem is b.rem


def cotangents_advice(
    rules: FunctionRules, inputs: Inputs, given: Sequence[Sequence[LeafCotangent]]
) -> Iterator[Finding]:
    """What is worth a look in the cotangents that bwd gives, by argument."""
    names = rules.dynamic_names(inputs.count)
    for name, leaves in zip(names, given, strict=True):
        for value, is_copy in leaves:
            if is_copy and value is not None:
                yield _copied(rules, name, value)
                break
    yield from _in_vain(
        rules, inputs, [value for leaves in given for value, _ in leaves]
    )


def _copied(rules: FunctionRules, name: str, value: Any) -> Finding:
    return rules.finding(
        "SH901",
        "bwd",
        f"returns one cotangent for several leaves of `{name}`: JAX copies it to each "
        "of them.",
        path=name,
        expected=f"a cotangent for each leaf of `{name}`",
        got=f"{describe_value(value)} for all of them",
        remedies=(f"return for `{name}` the structure that it has",),
    )


def _in_vain(
    rules: FunctionRules, inputs: Inputs, values: Sequence[Any]
) -> Iterator[Finding]:
    """Numbers for an input without tangent, perhaps in place of one that has None."""
    paths = list(paths_of(inputs.treedef, rules.dynamic_names(inputs.count)))
    without: list[tuple[str, Any]] = []
    in_vain: list[tuple[str, Any, Any]] = []
    for path, aval, value in zip(paths, inputs.avals, values, strict=True):
        if not has_no_tangent(cotangent_type(aval)):
            without += [(path, aval)] if value is None else []
        elif is_dropped(aval, value):
            in_vain.append((path, aval, value))
    if not without or not in_vain:
        for each in in_vain:
            what = f"gives a cotangent for `{each[0]}`, which JAX drops without a word."
            yield rules.finding("SH907", "bwd", what, **dropped(*each))
        return
    (path, aval, value), (empty, wants) = in_vain[0], without[0]
    yield rules.finding(
        "SH905",
        "bwd",
        f"gives a cotangent for `{path}` ({describe(aval)}), which JAX ignores, and "
        f"None for `{empty}` ({describe(wants)}): are they swapped?",
        path=empty,
        expected=f"a cotangent for `{empty}`, and None for `{path}`",
        got=f"None for `{empty}`, and {describe_value(value)} for `{path}`",
        remedies=(f"give `{empty}` what is given to `{path}`, and give `{path}` None",),
    )
