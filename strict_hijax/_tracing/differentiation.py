"""The rules for values and derivatives, traced on the declared types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._checked import rule_of
from strict_hijax._definition import ClassFacts
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
    kept = _Kept()
    trace(traced, facts, "vjp_fwd", prim.in_avals_flat, _forward(prim, kept))
    if kept.whole:
        traced.residual_bytes = bytes_of(kept.residual_types)
    backward = next((name for name in BACKWARD_RULES if facts.provides(name)), "")
    if kept.whole and backward:
        _trace_backward(traced, facts, backward, prim, kept)


class _Kept:
    """What the forward rule kept: traced leaves by their types, others as they are."""

    whole = False

    def keep(self, residuals: Any, structured: Any) -> list[Any]:
        """Take what a forward rule gives; structured residuals are None for none."""
        leaves, self.treedef = tree_util.tree_flatten((residuals, structured))
        self.is_traced = [isinstance(leaf, _jax.Tracer) for leaf in leaves]
        traced = [x for x, t in zip(leaves, self.is_traced, strict=True) if t]
        self.others = [x for x, t in zip(leaves, self.is_traced, strict=True) if not t]
        self.types = [_jax.typeof(leaf) for leaf in traced]
        self.residual_types = self.types + [
            aval for aval in map(type_of, self.others) if aval is not None
        ]
        self.whole = True
        return traced

    def restore(self, traced: Iterator[Any]) -> list[Any]:
        """What a rule gets of these: `res`, and `sres` if there is one."""
        others = iter(self.others)
        leaves = [next(traced) if t else next(others) for t in self.is_traced]
        residuals, structured = tree_util.tree_unflatten(self.treedef, leaves)
        return [residuals] if structured is None else [residuals, structured]


def _forward(prim: Any, kept: _Kept, rule: str = "vjp_fwd") -> Callable[..., list[Any]]:
    flags = [_wants(aval) for aval in prim.in_avals_flat]

    def forward(*leaves: Any) -> list[Any]:
        nzs_in = _jax.mirrored(prim.in_tree, flags)
        args = tree_util.tree_unflatten(prim.in_tree, leaves)
        out, residuals, *rest = rule_of(prim, rule)(nzs_in, *args)
        structured = rest[1] if len(rest) == 2 else None
        refs = [x for x in leaves if isinstance(_jax.typeof(x), _jax.AbstractRef)]
        saved = kept.keep(residuals, structured)
        own = [x for x in saved if not any(x is ref for ref in refs)]
        return [*_values(out), *own]

    return forward


def _trace_backward(
    traced: Traced, facts: ClassFacts, rule: str, prim: Any, kept: _Kept
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

    def backward(*leaves: Any) -> list[Any]:
        values = iter(leaves)
        residuals = kept.restore(values)
        out_ct = tree_util.tree_unflatten(
            prim.out_tree,
            [_jax.Zero(ct) if has_no_tangent(ct) else next(values) for ct in out_types],
        )
        accums = [_accumulator(aval, values) for aval in prim.in_avals_flat]
        args = tree_util.tree_unflatten(prim.in_tree, accums)
        logs = rule_of(prim, "vjp_bwd")(*residuals, out_ct, *args)
        cotangents = [acc.freeze() for acc in accums if isinstance(acc, _jax.ValAccum)]
        return [*_values(logs), *(ct for ct in cotangents if not is_zero(ct))]

    trace(traced, facts, rule, [*kept.types, *given, *refs], backward)


def _accumulator(aval: Any, values: Iterator[Any]) -> Any:
    expected: Any = cotangent_type(aval)
    if not _wants(aval):
        return _jax.NullAccum(expected)
    if isinstance(aval, _jax.AbstractRef):
        return _jax.RefAccum(expected, next(values))
    return _jax.ValAccum(expected)


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
    kept = _Kept()
    trace(traced, facts, "lin", prim.in_avals_flat, _forward(prim, kept, "lin"))
    if not kept.whole or not facts.provides("linearized"):
        return
    given = [t for t in types if not has_no_tangent(t)]

    given_out: list[str] = []

    def linearized(*leaves: Any) -> list[Any]:
        values = iter(leaves)
        residuals = kept.restore(values)
        tangents = _unflattened_tangents(prim, types, values)
        out_tangents = rule_of(prim, "linearized")(*residuals, *tangents)
        if "linearize" in facts.supports:  # derived rules do not look at `nzs_out`
            flags = rule_of(prim, "lin").__self__.announced
            traced.findings += announced_findings(facts, prim, flags, out_tangents)
        return _nonzero(prim, out_tangents, given_out)

    jaxpr = trace(traced, facts, "linearized", [*kept.types, *given], linearized)
    if jaxpr is not None:
        are_tangents = [False] * len(kept.types) + [True] * len(given)
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
