"""Results in another order than JAX takes them: each fits, and none in its place."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding, Location
from strict_hijax._jax_primitives import Refused, cotangents_by_leaf
from strict_hijax._types import (
    cotangent_type,
    describe,
    describe_value,
    has_no_tangent,
    is_zero,
    same_type,
    type_of,
)

_MOST_IN_ANOTHER_ORDER = 5


def _are_exchanged(count: int, fits: Callable[[int, int], bool]) -> bool:
    """Whether things that fit no place of their own fit, each, the place of another.

    `fits(i, j)` says whether what is given for place i fits place j.
    """
    wrong = [i for i in range(count) if not fits(i, i)]
    if not 2 <= len(wrong) <= _MOST_IN_ANOTHER_ORDER:
        return False
    return any(
        all(fits(given, place) for given, place in zip(order, wrong, strict=True))
        for order in itertools.permutations(wrong)
    )


def exchanged_cotangents(
    facts: ClassFacts, prim: Any, rule: str, result: Any, names: Sequence[str]
) -> Finding | None:
    """The finding about right cotangents in a wrong order, if that is what they are."""
    children, start = prim.in_tree.children(), 0
    wanted: list[list[Any]] = []
    for child in children:
        avals = prim.in_avals_flat[start : start + child.num_leaves]
        wanted.append(list(map(cotangent_type, avals)))
        start += child.num_leaves

    def fits(given: int, place: int) -> bool:
        child, entry = children[place], result[given]
        try:
            leaves = cotangents_by_leaf([child], (entry,))
        except Refused:
            return False
        return all(map(_is_of, leaves, wanted[place]))

    if not isinstance(result, tuple | list) or not _are_exchanged(len(result), fits):
        return None
    wrong = [i for i in range(len(result)) if not fits(i, i)]
    told = [
        (names[i], _in_words(children[i], wanted[i]), describe_value(result[i]))
        for i in wrong
    ]
    returning = ", ".join(f"{name}_ct" for name in names)
    remedy = f"return {returning}   # each cotangent in the place of its own input"
    return _finding(facts, rule, told, remedy, facts.where(rule))


def exchanged_accumulators(
    facts: ClassFacts,
    rule: str,
    given: Sequence[tuple[str, str, Any, Any, Location]],
) -> Finding | None:
    """The same of what accumulators are given: path, name, type, cotangent, place."""

    def fits(cotangent: int, place: int) -> bool:
        return _is_of(given[cotangent][3], given[place][2])

    if not _are_exchanged(len(given), fits):
        return None
    told = [
        (path, describe(aval), describe_value(ct)) for path, _, aval, ct, _ in given
    ]
    remedy = "; ".join(
        f"{name}.accum({path.partition('[')[0]}_ct)" for path, name, *_ in given
    )
    return _finding(facts, rule, told, remedy, given[0][4])


def _is_of(cotangent: Any, wanted: Any) -> bool:
    if cotangent is None or wanted is None or has_no_tangent(wanted):
        return True
    aval = cotangent.aval if is_zero(cotangent) else type_of(cotangent)
    return aval is not None and same_type(aval, wanted)


def _in_words(treedef: Any, wanted: Sequence[Any]) -> str:
    return ", ".join(map(describe, wanted)) or str(treedef)


def _finding(
    facts: ClassFacts,
    rule: str,
    told: Sequence[tuple[str, str, str]],
    remedy: str,
    location: Location | None,
) -> Finding:
    *others, last = [f"`{path}`" for path, _, _ in told]
    path, expected, got = told[0]
    return facts.finding(
        "SH315",
        f"has a `{rule}` whose cotangents for {', '.join(others)} and {last} fit one "
        "another's places: are the cotangents swapped?",
        rule=rule,
        path=path,
        location=location,
        expected="; ".join(f"{path}: {wanted}" for path, wanted, _ in told),
        got="; ".join(f"{path}: {given}" for path, _, given in told),
        jax_says=f"Expected cotangent type {expected} but got {got}",
        remedies=(remedy,),
    )


def is_output_alone(prim: Any) -> bool:
    """Whether no input, which may well be a residual, has the type of the output."""
    outputs, start = prim.out_avals_flat, 0
    for child in prim.in_tree.children():
        avals = prim.in_avals_flat[start : start + child.num_leaves]
        start += child.num_leaves
        if child == prim.out_tree and all(map(same_type, avals, outputs)):
            return False
    return True


def swapped_forward(
    facts: ClassFacts, rule: str, found: Sequence[Finding]
) -> list[Finding]:
    """What is wrong with an output where the residuals are what it should be."""
    headline = (
        f"`{facts.subject}` has a `{rule}` whose second result has the type of the "
        "output, and the first has not: are output and residuals swapped?"
    )
    remedies = ("return out, residuals   # the output first",)
    return [found[0]._replace(headline=headline, remedies=remedies)]
