"""The rules for values and derivatives, traced on the declared types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._accumulators import Unwanted
from strict_hijax._checked import rule_of
from strict_hijax._construction import input_names
from strict_hijax._definition import ClassFacts
from strict_hijax._dropped import dropped, is_dropped
from strict_hijax._errors import Finding
from strict_hijax._kept import Kept
from strict_hijax._report import bytes_of
from strict_hijax._results.linearity import linearity_findings
from strict_hijax._results.tangents import announced_findings
from strict_hijax._rules import BACKWARD_RULES, derived_half
from strict_hijax._types import (
    cotangent_type,
    has_no_tangent,
    is_zero,
    lowered_types,
    lowered_value,
    paths_of,
    raised,
    tangent_type,
    type_of,
)

from .record import Traced, trace


def trace_expand(traced: Traced, facts: ClassFacts, prim: Any) -> None:
    """JAX runs `expand` when it lowers: on hijax values, made of what is inside."""

    def expand(*lowered: Any) -> list[Any]:
        values = iter(lowered)
        leaves = [raised(aval, values) for aval in prim.in_avals_flat]
        out = rule_of(prim, "expand")(*tree_util.tree_unflatten(prim.in_tree, leaves))
        return [part for value in _values(out) for part in lowered_value(value)]

    try:
        lo_types = [t for aval in prim.in_avals_flat for t in lowered_types(aval)]
    except NotImplementedError as error:  # a hijax type without `lo_ty`
        traced.unchecked.append(("expand", error))
        return
    shown = prim.in_avals_flat, prim.out_avals_flat
    trace(traced, facts, "expand", lo_types, expand, shown)


def _values(tree: Any) -> list[Any]:
    """The leaves of a result that a jaxpr can return."""
    leaves = _jax.tracing_registry.flatten(tree)[0]
    return [leaf for leaf in leaves if type_of(leaf) is not None]


def _wants(aval: Any) -> bool:
    expected = cotangent_type(aval)
    return expected is not None and not has_no_tangent(expected)


def trace_vjp(traced: Traced, facts: ClassFacts, prim: Any) -> None:
    """The forward rule, and then the backward rule on what it keeps."""
    kept = _trace_forward(traced, facts, prim, "vjp_fwd")
    if kept is None:
        return
    traced.residual_bytes = bytes_of(kept.leaf_types(prim.in_avals_flat))
    backward = next((name for name in BACKWARD_RULES if facts.provides(name)), "")
    if backward:
        _trace_backward(traced, facts, backward, prim, kept)


def _trace_forward(
    traced: Traced, facts: ClassFacts, prim: Any, rule: str
) -> Kept | None:
    """Trace `vjp_fwd` or `lin`; what it keeps, where it does not raise."""
    flags = [_wants(aval) for aval in prim.in_avals_flat]
    found: list[Kept] = []
    gives: list[Any] = []

    def forward(*leaves: Any) -> list[Any]:
        nzs_in = _jax.mirrored(prim.in_tree, flags)
        args = tree_util.tree_unflatten(prim.in_tree, leaves)
        out, residuals, *rest = rule_of(prim, rule)(nzs_in, *args)
        structured = rest[1] if len(rest) == 2 else None
        kept, saved = Kept.of((residuals, structured), leaves)
        kept.types = tuple(map(_jax.typeof, saved))
        found.append(kept)
        outputs = _values(out)
        gives.extend(map(_jax.typeof, outputs))
        gives.extend(kept.leaf_types(prim.in_avals_flat))
        return [*outputs, *saved]

    avals = prim.in_avals_flat
    trace(traced, facts, rule, avals, forward, (avals, gives))
    return found[-1] if found else None


def _restored(kept: Kept, inputs: Sequence[Any], traced: Sequence[Any]) -> list[Any]:
    """What a rule gets of what is kept: `res`, and `sres` if there is one."""
    residuals, structured = kept.restored(inputs, traced)
    return [residuals] if structured is None else [residuals, structured]


def _trace_backward(
    traced: Traced, facts: ClassFacts, rule: str, prim: Any, kept: Kept
) -> None:
    out_types: list[Any] = [cotangent_type(aval) for aval in prim.out_avals_flat]
    if any(ct is None for ct in out_types):
        return
    given = [ct for ct in out_types if not has_no_tangent(ct)]
    wanted: list[Any] = [
        cotangent_type(aval)
        for aval in prim.in_avals_flat
        if isinstance(aval, _jax.AbstractRef) and _wants(aval)
    ]
    refs = [_jax.AbstractRef(aval) for aval in wanted]
    n = len(prim.in_avals_flat)

    def backward(*leaves: Any) -> list[Any]:
        inputs, values = leaves[:n], iter(leaves[n + len(kept.types) :])
        residuals = _restored(kept, inputs, leaves[n:])
        out_ct = tree_util.tree_unflatten(
            prim.out_tree,
            [_jax.Zero(ct) if has_no_tangent(ct) else next(values) for ct in out_types],
        )
        accums = [_accumulator(aval, values) for aval in prim.in_avals_flat]
        args = tree_util.tree_unflatten(prim.in_tree, accums)
        logs = rule_of(prim, "vjp_bwd")(*residuals, out_ct, *args)
        traced.advice += _in_vain(facts, rule, prim, accums)
        cotangents = [acc.freeze() for acc in accums if isinstance(acc, _jax.ValAccum)]
        return [*_values(logs), *(ct for ct in cotangents if not is_zero(ct))]

    avals = [*prim.in_avals_flat, *kept.types, *given, *refs]
    takes = [*kept.leaf_types(prim.in_avals_flat), *given, *refs]
    trace(traced, facts, rule, avals, backward, (takes, None))


def _accumulator(aval: Any, values: Iterator[Any]) -> Any:
    expected: Any = cotangent_type(aval)
    if not _wants(aval):
        return Unwanted(expected)
    if isinstance(aval, _jax.AbstractRef):
        return _jax.RefAccum(expected, next(values))
    return _jax.ValAccum(expected)


def _in_vain(
    facts: ClassFacts, rule: str, prim: Any, accums: Sequence[Any]
) -> Iterator[Finding]:
    """Advice about numbers that are given for inputs without tangents."""
    paths = paths_of(prim.in_tree, input_names(facts, len(prim.in_avals)))
    for path, aval, accum in zip(paths, prim.in_avals_flat, accums, strict=True):
        if isinstance(accum, Unwanted) and is_dropped(aval, accum.given):
            yield facts.finding(
                "SH907",
                f"has a `{rule}` that gives a cotangent for `{path}`, which JAX drops "
                "without a word.",
                rule=rule,
                location=facts.where(rule),
                **dropped(path, aval, accum.given),
            )


def trace_jvp(traced: Traced, facts: ClassFacts, prim: Any) -> None:
    """`jvp`, with a tangent for each input that can have one."""
    types = _tangent_types(prim)
    if types is None:
        return
    n = len(types)
    given = [t for t in types if not has_no_tangent(t)]

    given_out: list[str] = []

    def jvp(*leaves: Any) -> list[Any]:
        primals = tree_util.tree_unflatten(prim.in_tree, leaves[:n])
        tangents = _unflattened_tangents(prim, types, iter(leaves[n:]))
        out, out_tangents = rule_of(prim, "jvp")(primals, tangents)
        return [*_values(out), *_nonzero(prim, out_tangents, given_out)]

    jaxpr = trace(traced, facts, "jvp", [*prim.in_avals_flat, *given], jvp)
    if jaxpr is not None:
        are_tangents = [False] * n + [True] * len(given)
        outputs = list(paths_of(prim.out_tree))
        traced.findings += linearity_findings(
            facts, "jvp", jaxpr, are_tangents, given_out, outputs
        )


def trace_lin(traced: Traced, facts: ClassFacts, prim: Any) -> None:
    """`lin`, and then `linearized` on what it keeps."""
    types = _tangent_types(prim)
    if types is None or derived_half(facts.rules["lin"]) is not None:
        return  # a derived `lin` is as right as the `jvp` that it comes from
    kept = _trace_forward(traced, facts, prim, "lin")
    if kept is None or not facts.provides("linearized"):
        return
    given = [t for t in types if not has_no_tangent(t)]
    n = len(prim.in_avals_flat)
    many = n + len(kept.types)
    given_out: list[str] = []

    def linearized(*leaves: Any) -> list[Any]:
        residuals = _restored(kept, leaves[:n], leaves[n:])
        tangents = _unflattened_tangents(prim, types, iter(leaves[many:]))
        out_tangents = rule_of(prim, "linearized")(*residuals, *tangents)
        if "linearize" in facts.supports:  # derived rules do not look at `nzs_out`
            flags = rule_of(prim, "lin").__self__.announced
            traced.findings += announced_findings(facts, prim, flags, out_tangents)
        return _nonzero(prim, out_tangents, given_out)

    avals = [*prim.in_avals_flat, *kept.types, *given]
    takes = [*kept.leaf_types(prim.in_avals_flat), *given]
    jaxpr = trace(traced, facts, "linearized", avals, linearized, (takes, None))
    if jaxpr is not None:
        are_tangents = [False] * many + [True] * len(given)
        traced.findings += linearity_findings(
            facts, "linearized", jaxpr, are_tangents, given_out
        )


def _tangent_types(prim: Any) -> list[Any] | None:
    """The types of the tangents of the inputs; None where one does not say."""
    types = [tangent_type(aval) for aval in prim.in_avals_flat]
    return None if None in types else types


def _unflattened_tangents(
    prim: Any, types: Sequence[Any], values: Iterator[Any]
) -> Any:
    tangents = [_jax.Zero(t) if has_no_tangent(t) else next(values) for t in types]
    return tree_util.tree_unflatten(prim.in_tree, tangents)


def _nonzero(prim: Any, tangents: Any, paths: list[str]) -> list[Any]:
    """The tangents that are not symbolic zeros; `paths` is set to their key paths."""
    flat = prim.out_tree.flatten_up_to(tangents)
    found = [
        (path, tangent)
        for path, tangent in zip(paths_of(prim.out_tree), flat, strict=True)
        if not is_zero(tangent) and type_of(tangent) is not None
    ]
    paths[:] = [path for path, _ in found]
    return [tangent for _, tangent in found]
