"""Checks on outputs, and on what forward rules return with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jax import tree_util

from strict_hijax import _jax
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding
from strict_hijax._exchanged import asked_if_second, is_output_second
from strict_hijax._jax_primitives import Refused, announced_flags, output_flags
from strict_hijax._rules import RULES, derived_half
from strict_hijax._types import (
    describe,
    describe_pair,
    describe_value,
    is_zero,
    no_type_says,
    paths_of,
    same_type,
    structure_mismatch,
    type_of,
    types_are,
)

_flatten = _jax.tracing_registry.flatten

# --- the primal output ----------------------------------------------------------------


def output_fits(prim: Any, out: Any) -> bool:
    """Whether an output has the structure and types of `out_aval`; the quick answer."""
    leaves, treedef = _flatten(out)
    return (
        treedef == prim.out_tree
        and types_are(leaves, prim.out_avals_flat)
        and not any(map(_is_foreign_numpy, leaves))
    )


def _is_foreign_numpy(leaf: Any) -> bool:
    """Whether a NumPy value has a dtype that JAX would change, such as float64.

    `typeof` does not show it, and the value fails where it is what a jit returns.
    """
    return isinstance(leaf, _OF_NUMPY) and leaf.dtype != _dtype_of(leaf)


_OF_NUMPY = (np.ndarray, np.generic)


def _dtype_of(leaf: Any) -> Any:
    return getattr(type_of(leaf), "dtype", None)


def output_findings(facts: ClassFacts, prim: Any, rule: str, out: Any) -> list[Finding]:
    """What is wrong with the primal output that a rule gives."""
    if output_fits(prim, out):
        return []
    found = output_structure_findings(facts, prim, rule, out)
    return found or list(_output_types(facts, prim, rule, out))


def output_structure_findings(
    facts: ClassFacts, prim: Any, rule: str, out: Any
) -> list[Finding]:
    """Where an output has another structure than `out_aval`."""
    mismatch = structure_mismatch(prim.out_tree, out, path="out")
    if mismatch is None:
        return []
    return [
        facts.finding(
            "SH301",
            f"has {_whose(rule)} has another structure than `out_aval`"
            f"{_at(mismatch.path)}.",
            rule=rule,
            path=mismatch.path,
            expected=mismatch.expected,
            got=mismatch.got,
            remedies=_output_remedies(rule, "return the structure of `out_aval`"),
        )
    ]


def _output_types(
    facts: ClassFacts, prim: Any, rule: str, out: Any
) -> Iterator[Finding]:
    leaves = _jax.tracing_registry.flatten(out)[0]
    paths = paths_of(prim.out_tree)
    for leaf, declared, path in zip(leaves, prim.out_avals_flat, paths, strict=True):
        aval = type_of(leaf)
        numpy = _is_foreign_numpy(leaf)
        if aval is not None and same_type(aval, declared) and not numpy:
            continue
        if aval is None or numpy:
            expected, got = describe(declared), describe_value(leaf)
            got = f"NumPy's {leaf.dtype}{list(leaf.shape)}" if numpy else got
        else:
            expected, got = describe_pair(declared, aval)
        yield facts.finding(
            "SH302",
            f"has {_whose(rule)} has another type than `out_aval`{_at('out' + path)}.",
            rule=rule,
            path="out" + path,
            expected=expected,
            got=got,
            remedies=_output_remedies(rule, _convert(declared, aval, "out")),
        )


def _whose(rule: str) -> str:
    return {
        "expand": "an `expand` whose output",
        "batch": "a `batch` whose output",
        "remat": "a `remat` whose output, or that of its `rem`,",
    }.get(rule, f"a `{rule}` whose primal output")


def _output_remedies(rule: str, first: str) -> tuple[str, ...]:
    if rule == "expand":
        return first, "or declare in __init__ what it returns: self.out_aval = ..."
    with_it = {"vjp_fwd": "residuals", "lin": "residuals", "jvp": "tangents"}.get(rule)
    if with_it is None:
        return (first,)
    return first, f"return self(...), {with_it}   # the output is then right by itself"


def _at(path: str) -> str:
    return "" if path == "out" else f", at `{path}`"


def _convert(declared: Any, got: Any, name: str) -> str:
    dtype = getattr(declared, "dtype", None)
    if dtype is None:
        return f"return the declared type, {describe(declared)}"
    if getattr(got, "shape", declared.shape) != declared.shape:
        return f"return an output of the declared shape, {declared.shape}"
    return f"jnp.asarray({name}, jnp.{dtype.name})   # of shape {declared.shape}"


# --- forward rules --------------------------------------------------------------------


def forward_findings(
    facts: ClassFacts, prim: Any, rule: str, result: Any
) -> list[Finding]:
    """What is wrong with the result of `vjp_fwd` or `lin`."""
    if _is_plain_pair(prim, result):
        return []
    if not isinstance(result, tuple | list) or not 2 <= len(result) <= 4:
        return [_no_pair(facts, prim, rule, result)]
    out, residuals, *rest = result
    findings = output_findings(facts, prim, rule, out)
    declared = prim.out_tree, prim.out_avals_flat
    if findings and is_output_second(
        _types(out), _types(residuals), declared, prim.in_avals_flat
    ):
        return [asked_if_second(findings[0])]
    if _keeps_values(facts, rule):
        findings += _residual_findings(facts, rule, residuals)
    if rest:
        findings += _flag_findings(facts, prim, rule, rest[0])
    if len(rest) == 2 and rest[1] is not None and rule == "vjp_fwd":
        findings += _structured_residual_findings(facts, prim)
    return findings


def _types(value: Any) -> tuple[Any, list[Any]]:
    leaves, treedef = _jax.tracing_registry.flatten(value)
    return treedef, list(map(type_of, leaves))


def _keeps_values(facts: ClassFacts, rule: str) -> bool:
    """Whether residuals must be JAX values.

    Those of `lin` may be any objects, since JAX calls `linearized` at once; but not
    where the reverse rules are derived from it.
    """
    half = derived_half(facts.rules.get("vjp_fwd"))
    return rule == "vjp_fwd" or (half is not None and "lin" in half[0].needs)


def _is_plain_pair(prim: Any, result: Any) -> bool:
    """Whether a result is beyond doubt: (output, residuals), all of the right types."""
    return (
        type(result) is tuple
        and len(result) == 2
        and output_fits(prim, result[0])
        and all(type_of(x) is not None for x in tree_util.tree_leaves(result[1]))
    )


def _no_pair(facts: ClassFacts, prim: Any, rule: str, result: Any) -> Finding:
    forgot = not isinstance(result, Iterator) and output_fits(prim, result)
    return facts.finding(
        "SH305",
        f"has a `{rule}` that returns only its output, and no residuals."
        if forgot
        else f"has a `{rule}` that returns {describe_value(result)}.",
        rule=rule,
        expected=RULES[rule].returns,
        got=describe_value(result),
        remedies=(
            "return out, None   # no residuals" if forgot else "return out, residuals",
        ),
    )


def _residual_findings(
    facts: ClassFacts, rule: str, residuals: Any
) -> Iterator[Finding]:
    for keypath, leaf in tree_util.tree_leaves_with_path(residuals):
        if type_of(leaf) is None and not is_zero(leaf):
            path = "res" + _jax.keystr(keypath)
            yield facts.finding(
                "SH306",
                f"has a `{rule}` with a residual that is no JAX value, at `{path}`.",
                rule=rule,
                path=path,
                expected="arrays, numbers, and pytrees of them",
                got=describe_value(leaf),
                jax_says=no_type_says(leaf),
                remedies=(
                    "self.params = dict(name=...)   # self.name in the backward rule",
                ),
            )


def _flag_findings(
    facts: ClassFacts, prim: Any, rule: str, flags: Any
) -> Iterator[Finding]:
    try:
        output_flags(prim, rule, flags)
    except Refused as error:
        yield facts.finding(
            "SH307",
            f"has a `{rule}` with a wrong `nzs_out`, its third result.",
            rule=rule,
            path="nzs_out",
            jax_says=error.says,
            expected="True or False, or a tree of them shaped like the output",
            got=describe_value(flags),
            remedies=(
                "return out, residuals   # every output then counts as differentiated",
                "return out, residuals, True",
            ),
        )


def flags_announced_by_lin(
    prim: Any, nzs_in: Any, args: Sequence[Any], result: Any
) -> list[bool] | None:
    """Which outputs have a tangent, from what `lin` returns; None where it is wrong."""
    if not isinstance(result, tuple | list) or len(result) < 2:
        return None  # where the fault is ignored
    flags = tree_util.tree_leaves(nzs_in)
    leaves = prim.in_tree.flatten_up_to(args)
    try:
        return announced_flags(prim, result, flags, leaves)
    except Refused:
        return None


def _structured_residual_findings(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    if type(prim).vjp_bwd is _jax.HiPrim.vjp_bwd:
        yield facts.finding(
            "SH308",
            "has a `vjp_fwd` with structured residuals, which only `vjp_bwd` receives.",
            rule="vjp_fwd",
            path="sres",
            jax_says=f"{facts.cls.__name__} returned structured residuals from "
            "`vjp_fwd`, which requires overriding `vjp_bwd(res, sres, outgrad, "
            "*arg_accums)`",
            remedies=(
                "def vjp_bwd(self, res, sres, outgrad, *arg_accums): ...",
                "return out, residuals, nzs_out   # without the fourth",
            ),
        )
