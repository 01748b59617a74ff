"""Checks on what `jvp` and `linearized` return: the tangents of the outputs.

The contracts are those of `_call_hi_primitive_jvp` and `flatten_user_linearized` in
`jax._src.hijax`; that a tangent has the type `to_tangent_aval` of its output is what
`jax.jvp` promises, and stock JAX does not look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strict_hijax import _jax
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding
from strict_hijax._jax_primitives import Refused, tangents_by_leaf
from strict_hijax._rules import RULES
from strict_hijax._types import (
    LEAF,
    Mismatch,
    describe_value,
    has_no_tangent,
    is_zero,
    no_type_says,
    paths_of,
    structure_mismatch,
    tangent_type,
    type_of,
    types_are,
)
from strict_hijax._wrong_types import wrong_type

from .outputs import output_findings


def jvp_findings(facts: ClassFacts, prim: Any, rule: str, result: Any) -> list[Finding]:
    """What is wrong with the pair that `jvp` returns."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        return [_no_pair(facts, rule, result)]
    out, tangents = result
    return [
        *output_findings(facts, prim, rule, out),
        *tangents_findings(facts, prim, rule, tangents),
    ]


def _no_pair(facts: ClassFacts, rule: str, result: Any) -> Finding:
    got = describe_value(result)
    names = ", ".join(facts.inputs)
    return facts.finding(
        "SH322",
        f"has a `{rule}` that returns {got} in place of a pair.",
        rule=rule,
        expected=RULES[rule].returns,
        got=got,
        jax_says=_unpacking_says(result),
        remedies=(f"return self({names}), out_dot   # the tangents of the output",),
    )


def _unpacking_says(result: Any) -> str:
    """What Python says where two values are unpacked from something else."""
    try:
        _, _ = result
    except (TypeError, ValueError) as error:
        return str(error)
    except Exception:  # a tracer has a long sentence of its own
        return ""
    return ""


def tangents_findings(
    facts: ClassFacts, prim: Any, rule: str, tangents: Any
) -> list[Finding]:
    """What is wrong with the tangents of the outputs."""
    expected = list(map(tangent_type, prim.out_avals_flat))
    if _tangents_fit(prim, tangents, expected):
        return []
    try:
        leaves = tangents_by_leaf(prim, rule, tangents)
    except Refused as refused:
        if tangents is not None or prim.out_tree != LEAF:
            return [_other_structure(facts, prim, rule, tangents, refused.says)]
        leaves = [None]
    if any(isinstance(leaf, tuple | list | dict) for leaf in leaves):
        return [_other_structure(facts, prim, rule, tangents, None)]
    findings: list[Finding] = []
    for leaf, wanted, path in zip(
        leaves, expected, paths_of(prim.out_tree), strict=True
    ):
        findings += _tangent_findings(facts, rule, f"tangents{path}", wanted, leaf)
    return findings


def announced_findings(
    facts: ClassFacts, prim: Any, announced: list[bool] | None, tangents: Any
) -> Iterator[Finding]:
    """Where `linearized` gives no tangent that `lin` announced, or one that it did not.

    JAX asserts it without a word (`maybe_linearize_tracer` in `interpreters/ad.py`).
    `announced` has a flag for each output; it is None where `lin` is wrong itself.
    """
    if announced is None:
        return
    leaves = prim.out_tree.flatten_up_to(tangents)
    paths = paths_of(prim.out_tree)
    for leaf, flag, path in zip(leaves, announced, paths, strict=True):
        if is_zero(leaf) == flag:
            yield _not_as_announced(facts, f"tangents{path}", flag)


def _not_as_announced(facts: ClassFacts, path: str, flag: bool) -> Finding:
    rule, given, said = "linearized", "a tangent", "that it is"
    if flag:
        given, said = "a zero", "not"
    return facts.finding(
        "SH318",
        f"has a `{rule}` that gives {given} at `{path}`, of which `nzs_out` of `lin` "
        f"says {said} zero.",
        rule=rule,
        path=path,
        expected="a tangent, and no symbolic zero" if flag else "a symbolic zero",
        got="a symbolic zero" if flag else "a tangent",
        facts=(
            "What `lin` returns third says which outputs have a tangent; without it,",
            "all of them do where an input has one.",
        ),
        remedies=(
            f"return out, residuals, {not flag}   # in `lin`; or one for each output",
            "jnp.zeros_like(out)   # in `linearized`, in place of the zero"
            if flag
            else "return out, residuals   # in `lin`: all outputs have a tangent",
        ),
    )


def _tangents_fit(prim: Any, tangents: Any, expected: list[Any]) -> bool:
    """Whether tangents are beyond doubt: all there, of exactly the right types."""
    leaves, treedef = _jax.tracing_registry.flatten(tangents)
    fits = treedef == prim.out_tree and None not in expected
    return fits and types_are(leaves, expected)


def _other_structure(
    facts: ClassFacts, prim: Any, rule: str, tangents: Any, jax_says: str | None
) -> Finding:
    mismatch = structure_mismatch(prim.out_tree, tangents, zeros=True, path="tangents")
    mismatch = mismatch or Mismatch("tangents", "the structure of the output", "")
    return facts.finding(
        "SH323",
        f"has a `{rule}` whose tangents have another structure than the output, at "
        f"`{mismatch.path}`.",
        rule=rule,
        path=mismatch.path,
        expected=mismatch.expected,
        got=mismatch.got or describe_value(tangents),
        jax_says=jax_says,
        remedies=("return tangents in the structure of `out_aval`",),
    )


def _tangent_findings(
    facts: ClassFacts, rule: str, path: str, expected: Any, tangent: Any
) -> Iterator[Finding]:
    if expected is None:  # a type without tangents
        return
    aval = tangent.aval if isinstance(tangent, _jax.Zero) else type_of(tangent)
    if has_no_tangent(expected) and (has_no_tangent(aval) or is_zero(tangent)):
        return
    if has_no_tangent(aval) and getattr(aval, "shape", ()) == expected.shape:
        return  # JAX takes float0 for a zero
    wrong = wrong_type("tangent", expected, tangent, aval)
    if wrong is None:
        return
    kind, remedies = wrong.kind, wrong.remedies
    if has_no_tangent(expected):
        kind = "value" if kind == "value" else "dtype"
        remedies = ("np.zeros(out.shape, jax.dtypes.float0)   # of an integer output",)
    elif kind == "value":
        remedies = ("jnp.zeros_like(out)   # for a tangent of zero",)
    taken = "Stock JAX takes it as it is, and the next operation fails."
    yield facts.finding(
        _CODES[kind],
        f"has a `{rule}` with a wrong tangent, at `{path}`: expected {wrong.expected}, "
        f"got {wrong.got}.",
        rule=rule,
        path=path,
        expected=wrong.expected,
        got=wrong.got,
        facts=() if kind == "value" else (taken,),
        jax_says=no_type_says(tangent) if kind == "value" else None,
        remedies=remedies,
    )


_CODES = {"value": "SH327", "shape": "SH324", "dtype": "SH325", "type": "SH326"}
