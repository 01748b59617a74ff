"""Checks on the cotangents that backward rules of a primitive return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding, Location
from strict_hijax._exchanged import (
    Place,
    ask_if_exchanged,
    places_of_arguments,
)
from strict_hijax._jax_primitives import Refused, cotangents_by_leaf
from strict_hijax._types import (
    LEAF,
    Mismatch,
    cotangent_type,
    describe,
    describe_value,
    has_no_tangent,
    is_zero,
    no_type_says,
    paths_of,
    structure_mismatch,
    type_of,
    types_are,
)
from strict_hijax._wrong_types import WHY_DTYPE, wrong_cotangent


def names_of_inputs(facts: ClassFacts, prim: Any) -> tuple[str, ...]:
    """What the user calls the inputs of an instance."""
    n = len(prim.in_avals)
    return facts.inputs if len(facts.inputs) == n else tuple(f"x{i}" for i in range(n))


def cotangents_findings(
    facts: ClassFacts, prim: Any, rule: str, result: Any
) -> list[Finding]:
    """What is wrong with the cotangents that `vjp_bwd_retval` returns."""
    if _cotangents_fit(prim, result) or _jax.bwd_checks_disabled():
        return []
    names = names_of_inputs(facts, prim)
    try:
        leaves = cotangents_by_leaf(prim.in_tree.children(), result)
    except Refused as refused:
        return _refused(facts, prim, rule, result, names, refused)
    no_tree = result is None or isinstance(result, Iterator)
    if no_tree or (len(names) > 1 and type_of(result) is not None):
        return [_one_for_all(facts, rule, result, names)]
    paths = paths_of(prim.in_tree, names)
    found: dict[tuple[int, str], Finding] = {}  # of what JAX copies to several leaves
    for leaf, aval, path in zip(leaves, prim.in_avals_flat, paths, strict=True):
        expected = cotangent_type(aval)
        if expected is None or has_no_tangent(expected):
            continue
        if isinstance(leaf, tuple | list | dict):  # which JAX takes before 0.12.1
            told: Finding | None = _other_structure(facts, rule, LEAF, leaf, path, None)
        else:
            where = facts.where(rule)
            told = cotangent_finding(facts, rule, path, expected, leaf, where)
        if told is not None:
            found.setdefault((id(leaf), str(told.expected)), told)
    if not found:
        return list(_copied(facts, prim, rule, result, names))
    return ask_if_exchanged(list(found.values()), _places(prim, names, result))


def _copied(
    facts: ClassFacts, prim: Any, rule: str, result: Any, names: Sequence[str]
) -> Iterator[Finding]:
    """Advice about one cotangent that JAX copies to several leaves of an input.

    It takes it since 0.12.1, and of `custom_vjp` always did; it is right for a sum.
    """
    alone = type_of(result) is not None  # of the only input
    one_level = [] if alone else _jax.flatten_one_level_with_keys(result)[0]
    entries = [result] if alone else [entry for _, entry in one_level]
    for child, entry, name in zip(prim.in_tree.children(), entries, names, strict=True):
        filled = cotangents_by_leaf([child], (entry,))
        wanted = [ct for ct in filled if ct is not None and not is_zero(ct)]
        if len(tree_util.tree_leaves(entry)) < len(wanted):
            yield facts.finding(
                "SH901",
                f"has a `{rule}` that returns one cotangent for several leaves of "
                f"`{name}`: JAX copies it to each of them.",
                rule=rule,
                path=name,
                location=facts.where(rule),
                expected=f"a cotangent for each leaf of `{name}`",
                got=f"{describe_value(entry)} for several of them",
                remedies=(f"return for `{name}` the structure that it has",),
            )


def _places(prim: Any, names: Sequence[str], result: Any) -> list[Place]:
    if not isinstance(result, tuple | list):
        return []
    wanted = list(map(cotangent_type, prim.in_avals_flat))
    return places_of_arguments(names, prim.in_tree, wanted, result)


def _cotangents_fit(prim: Any, result: Any) -> bool:
    """Whether cotangents are beyond doubt: all there, of exactly the right types."""
    if type(result) is not tuple:
        return False
    leaves, treedef = _jax.tracing_registry.flatten(result)
    if treedef != prim.in_tree:
        return False
    try:
        wanted = [aval.to_ct_aval() for aval in prim.in_avals_flat]
    except (NotImplementedError, AttributeError, TypeError):
        return False
    return types_are(leaves, wanted)


def _refused(
    facts: ClassFacts,
    prim: Any,
    rule: str,
    result: Any,
    names: Sequence[str],
    refused: Refused,
) -> list[Finding]:
    """Why JAX does not take what a rule returns: as a whole, or entry by entry."""
    if not isinstance(result, tuple | list) or len(result) != len(names):
        return [_no_tuple(facts, rule, result, names, refused.says)]
    found: list[Finding] = []
    for child, entry, name in zip(prim.in_tree.children(), result, names, strict=True):
        try:
            cotangents_by_leaf([child], (entry,))
        except Refused as error:
            found.append(_other_structure(facts, rule, child, entry, name, error.says))
    if not found:
        return [_no_tuple(facts, rule, result, names, refused.says)]
    return ask_if_exchanged(found, _places(prim, names, result))


def _one_for_all(
    facts: ClassFacts, rule: str, result: Any, names: Sequence[str]
) -> Finding:
    """JAX takes it since 0.12.1; `custom_vjp` never did, and no older rule does it."""
    if result is not None and type_of(result) is None:
        return _no_tuple(facts, rule, result, names, no_type_says(result))
    copies = "JAX takes it for the cotangent of every input, without a word."
    return _no_tuple(facts, rule, result, names, None)._replace(facts=(copies,))


def _no_tuple(
    facts: ClassFacts,
    rule: str,
    result: Any,
    names: Sequence[str],
    jax_says: str | None,
) -> Finding:
    returning = ", ".join(f"{name}_ct" for name in names) + "," * (len(names) == 1)
    n, got = len(names), describe_value(result)
    if type(result) is tuple and len(result) != n:
        what = f"returns {len(result)} cotangents for {n} inputs."
    else:
        what = f"returns {got} in place of a tuple."
    return facts.finding(
        "SH313",
        f"has a `{rule}` that {what}",
        rule=rule,
        expected=f"a tuple of {n}: one cotangent for each of {', '.join(names)}",
        got=got,
        jax_says=jax_says,
        remedies=(f"return ({returning})",),
    )


def _other_structure(
    facts: ClassFacts,
    rule: str,
    treedef: Any,
    entry: Any,
    name: str,
    jax_says: str | None,
) -> Finding:
    mismatch = structure_mismatch(treedef, entry, zeros=True, path=name)
    mismatch = mismatch or Mismatch(name, "the structure of the input", "")
    whole = mismatch.got == "None"
    return facts.finding(
        "SH314",
        f"has a `{rule}` whose cotangent for `{mismatch.path}` has another structure "
        "than the input.",
        rule=rule,
        path=mismatch.path,
        expected=mismatch.expected,
        got=mismatch.got or describe_value(entry),
        facts=("None may stand for an array, not for a container.",) if whole else (),
        jax_says=jax_says,
        remedies=(
            f"jax.tree.map(lambda _: None, {mismatch.path})   # zero for all of it"
            if whole
            else f"return for `{mismatch.path}` the structure that the input has",
        ),
    )


def cotangent_finding(
    facts: ClassFacts,
    rule: str,
    path: str,
    expected: Any,
    cotangent: Any,
    location: Location | None,
) -> Finding | None:
    """What is wrong with the cotangent for one leaf; None where it fits."""
    if cotangent is None:
        return None
    zero = isinstance(cotangent, _jax.Zero)  # no `SymbolicZero`, as of custom_vjp
    aval = cotangent.aval if zero else type_of(cotangent)
    wrong = wrong_cotangent(path, expected, cotangent, aval)
    if wrong is None:
        return None
    code = _CODES[wrong.kind]
    meant = facts.class_line(f'ignore=("{code}",)') + "   # another dtype is meant"
    jax_says = f"Expected cotangent type {describe(expected)} but got "
    return facts.finding(
        code,
        f"has a `{rule}` with a wrong cotangent for `{path}`: expected "
        f"{wrong.expected}, got {wrong.got}.",
        rule=rule,
        path=path,
        location=location,
        expected=wrong.expected,
        got=wrong.got,
        facts=WHY_DTYPE if wrong.kind == "dtype" else (),
        jax_says=no_type_says(cotangent)
        if wrong.kind == "value"
        else jax_says + describe(aval)
        if wrong.kind == "shape"
        else None,
        remedies=(*wrong.remedies, *([meant] if wrong.kind == "dtype" else [])),
    )


_CODES = {"value": "SH312", "shape": "SH315", "dtype": "SH316", "type": "SH317"}
