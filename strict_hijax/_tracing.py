"""The abstract check of one primitive: every rule traced on the declared types.

No FLOPs, no device memory, no backend: the rules are run on tracers, outside of any
trace, mesh and axis that happens to be active.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax import tree_util

from . import _jax
from ._definition import ClassFacts
from ._errors import (
    Finding,
    StrictHijaxError,
    raise_findings,
    untraceable_error,
    without_ignored,
)
from ._report import RuleReport, bytes_of, describe_all
from ._rules import BACKWARD_RULES
from ._types import (
    cotangent_type,
    describe,
    has_no_tangent,
    is_zero,
    lowered_types,
    lowered_value,
    raised,
    type_of,
)


@dataclasses.dataclass
class Traced:
    """What came of tracing the rules of one instance.

    Attributes:
      findings: what is wrong.
      causes: the exception behind a finding of a rule that raised.
      reports: what each rule takes and gives.
      unchecked: rules that decline, or are not ready to be traced, and why.
      residual_bytes: what the forward rule keeps.
    """

    findings: list[Finding] = dataclasses.field(default_factory=list[Finding])
    causes: dict[Finding, Exception] = dataclasses.field(
        default_factory=dict[Finding, Exception]
    )
    reports: list[RuleReport] = dataclasses.field(default_factory=list[RuleReport])
    unchecked: list[tuple[str, Exception]] = dataclasses.field(
        default_factory=list[tuple[str, Exception]]
    )
    residual_bytes: int | None = None


def trace_rules(facts: ClassFacts, twin: Any) -> Traced:
    """Trace `expand`, the forward rule and the backward rule of a checked twin."""
    traced = Traced()
    with _jax.clean_context():
        _trace_expand(traced, facts, twin)
        if facts.provides("vjp_fwd"):
            kept = _Kept()
            _trace(traced, facts, "vjp_fwd", twin.in_avals_flat, _forward(twin, kept))
            if kept.whole:
                traced.residual_bytes = bytes_of(kept.residual_types)
            backward = next(
                (name for name in BACKWARD_RULES if facts.provides(name)), ""
            )
            if kept.whole and backward:
                _trace_backward(traced, facts, backward, twin, kept)
        if facts.provides("jvp"):
            _trace_jvp(traced, facts, twin)
    return traced


def raise_traced(all_traced: Sequence[Traced], ignored: frozenset[str]) -> None:
    """Raise what was found, a fault of several instances once."""
    found: dict[Any, tuple[Finding, Exception | None]] = {}
    for traced in all_traced:
        for finding in traced.findings:
            key = finding.code, finding.rule, finding.path
            found.setdefault(key, (finding, traced.causes.get(finding)))
    left = without_ignored((finding for finding, _ in found.values()), ignored)
    causes = {finding: cause for finding, cause in found.values() if cause is not None}
    if len(left) == 1 and left[0] in causes:
        raise untraceable_error(left[0], causes[left[0]])
    raise_findings(left, ignored)


def _trace(
    traced: Traced,
    facts: ClassFacts,
    rule: str,
    in_avals: Sequence[Any],
    call: Callable[..., Sequence[Any]],
    shown: tuple[Sequence[Any], Sequence[Any]] | None = None,
) -> None:
    backends = _jax.initialised_backends()
    try:
        jaxpr = _jax.trace_to_jaxpr(call, in_avals, rule)
    except StrictHijaxError as error:
        traced.findings += error.findings
        return
    except Exception as error:
        _not_traced(traced, facts, rule, in_avals, error)
        return
    if new := _jax.initialised_backends() - backends:
        traced.findings.append(_backend_finding(facts, rule, new))
    takes, gives = shown or (in_avals, [v.aval for v in jaxpr.outvars])
    effects = sorted(type(effect).__name__ for effect in jaxpr.effects)
    traced.reports.append(
        RuleReport(rule, describe_all(takes), describe_all(gives), tuple(effects))
    )


def _not_traced(
    traced: Traced,
    facts: ClassFacts,
    rule: str,
    in_avals: Sequence[Any],
    error: Exception,
) -> None:
    """A rule that raised: it declines, is not ready yet, or cannot work."""
    if isinstance(error, NotImplementedError | NameError):
        traced.unchecked.append((rule, error))
        return
    first = str(error).strip().splitlines()
    finding = facts.finding(
        "SH320",
        f"has {_a(rule)} that raises {type(error).__name__} when it is traced.",
        rule=rule,
        location=facts.where(rule),
        facts=(
            f"{type(error).__name__}: {first[0] if first else ''}",
            f"traced for: {', '.join(describe_all(in_avals))}",
        ),
        remedies=(
            f"mend `{rule}`; the exception above this one has the line",
            "raise NotImplementedError   # where the rule declines on purpose",
        ),
    )
    traced.findings.append(finding)
    traced.causes[finding] = error


def _a(rule: str) -> str:
    return f"an `{rule}`" if rule == "expand" else f"a `{rule}`"


def _backend_finding(facts: ClassFacts, rule: str, backends: frozenset[str]) -> Finding:
    return facts.finding(
        "SH321",
        f"has {_a(rule)} that initialises a backend ({', '.join(sorted(backends))}) "
        "while it is traced: `jax.distributed.initialize` no longer works after that.",
        rule=rule,
        location=facts.where(rule),
        remedies=(
            "pass what it needs of the device in `self.params`",
            "jax.lax.platform_dependent(...)   # to choose by platform",
        ),
    )


# --- one function for each rule -------------------------------------------------------


def _trace_expand(traced: Traced, facts: ClassFacts, twin: Any) -> None:
    """JAX runs `expand` when it lowers: on hijax values, made of what is inside."""

    def expand(*lowered: Any) -> list[Any]:
        values = iter(lowered)
        leaves = [raised(aval, values) for aval in twin.in_avals_flat]
        out = twin.expand(*tree_util.tree_unflatten(twin.in_tree, leaves))
        return [part for value in _values(out) for part in lowered_value(value)]

    try:
        lo_types = [t for aval in twin.in_avals_flat for t in lowered_types(aval)]
    except NotImplementedError as error:  # a hijax type without `lo_ty`
        traced.unchecked.append(("expand", error))
        return
    shown = twin.in_avals_flat, twin.out_avals_flat
    _trace(traced, facts, "expand", lo_types, expand, shown)


def _values(tree: Any) -> list[Any]:
    """The leaves of a result that a jaxpr can return."""
    leaves = _jax.tracing_registry.flatten(tree)[0]
    return [leaf for leaf in leaves if type_of(leaf) is not None]


def _wants(aval: Any) -> bool:
    expected = cotangent_type(aval)
    return expected is not None and not has_no_tangent(expected)


class _Kept:
    """What the forward rule kept: traced leaves by their types, others as they are."""

    whole = False

    def keep(self, residuals: Any, structured: Any, has_structured: bool) -> list[Any]:
        leaves, self.treedef = tree_util.tree_flatten(residuals)
        self.structured = structured
        self.has_structured = has_structured
        self.is_traced = [isinstance(leaf, _jax.Tracer) for leaf in leaves]
        traced = [x for x, t in zip(leaves, self.is_traced, strict=True) if t]
        self.others = [x for x, t in zip(leaves, self.is_traced, strict=True) if not t]
        self.types = [_jax.typeof(leaf) for leaf in traced]
        self.residual_types = self.types + [
            aval for aval in map(type_of, self.others) if aval is not None
        ]
        self.whole = not any(
            isinstance(leaf, _jax.Tracer) for leaf in tree_util.tree_leaves(structured)
        )
        return traced

    def restore(self, traced: Iterator[Any]) -> Any:
        others = iter(self.others)
        leaves = [next(traced) if t else next(others) for t in self.is_traced]
        return tree_util.tree_unflatten(self.treedef, leaves)


def _forward(twin: Any, kept: _Kept) -> Callable[..., list[Any]]:
    flags = [_wants(aval) for aval in twin.in_avals_flat]

    def vjp_fwd(*leaves: Any) -> list[Any]:
        nzs_in = tree_util.tree_unflatten(twin.in_tree, flags)
        args = tree_util.tree_unflatten(twin.in_tree, leaves)
        out, residuals, *rest = twin.vjp_fwd(nzs_in, *args)
        structured = rest[1] if len(rest) == 2 else None
        refs = [x for x in leaves if isinstance(_jax.typeof(x), _jax.AbstractRef)]
        saved = kept.keep(residuals, structured, structured is not None)
        own = [x for x in saved if not any(x is ref for ref in refs)]
        return [*_values(out), *own]

    return vjp_fwd


def _trace_backward(
    traced: Traced, facts: ClassFacts, rule: str, twin: Any, kept: _Kept
) -> None:
    out_types: list[Any] = [cotangent_type(aval) for aval in twin.out_avals_flat]
    if any(ct is None for ct in out_types):
        return
    given = [ct for ct in out_types if not has_no_tangent(ct)]
    wanted: list[Any] = [
        cotangent_type(aval)
        for aval in twin.in_avals_flat
        if isinstance(aval, _jax.AbstractRef) and _wants(aval)
    ]
    refs = [_jax.AbstractRef(aval) for aval in wanted]

    def backward(*leaves: Any) -> list[Any]:
        values = iter(leaves)
        residuals = kept.restore(values)
        out_ct = tree_util.tree_unflatten(
            twin.out_tree,
            [_jax.Zero(ct) if has_no_tangent(ct) else next(values) for ct in out_types],
        )
        accums = [_accumulator(aval, values) for aval in twin.in_avals_flat]
        extra = (kept.structured,) if kept.has_structured else ()
        args = tree_util.tree_unflatten(twin.in_tree, accums)
        logs = twin.vjp_bwd(residuals, *extra, out_ct, *args)
        cotangents = [acc.freeze() for acc in accums if isinstance(acc, _jax.ValAccum)]
        return [*_values(logs), *(ct for ct in cotangents if not is_zero(ct))]

    _trace(traced, facts, rule, [*kept.types, *given, *refs], backward)


def _accumulator(aval: Any, values: Iterator[Any]) -> Any:
    expected: Any = cotangent_type(aval)
    if not _wants(aval):
        return _jax.NullAccum(expected)
    if isinstance(aval, _jax.AbstractRef):
        return _jax.RefAccum(expected, next(values))
    return _jax.ValAccum(expected)


def _trace_jvp(traced: Traced, facts: ClassFacts, twin: Any) -> None:
    tangent_types: list[Any] = []
    for aval in twin.in_avals_flat:
        try:
            tangent_types.append(aval.to_tangent_aval())
        except (NotImplementedError, AttributeError, TypeError):
            return
    n = len(tangent_types)
    given = [t for t in tangent_types if not has_no_tangent(t)]

    def jvp(*leaves: Any) -> list[Any]:
        primals = tree_util.tree_unflatten(twin.in_tree, leaves[:n])
        values = iter(leaves[n:])
        tangents = tree_util.tree_unflatten(
            twin.in_tree,
            [
                _jax.Zero(t) if has_no_tangent(t) else next(values)
                for t in tangent_types
            ],
        )
        out, out_tangents = twin.jvp(primals, tangents)
        flat = tree_util.tree_leaves(out_tangents, is_leaf=is_zero)
        return [*_values(out), *(t for t in flat if not is_zero(t))]

    _trace(traced, facts, "jvp", [*twin.in_avals_flat, *given], jvp)


def subject_of(facts: ClassFacts, prim: Any) -> str:
    """An instance in words: its class and its declared types."""
    takes = ", ".join(describe(aval) for aval in prim.in_avals_flat)
    gives = ", ".join(describe(aval) for aval in prim.out_avals_flat)
    return f"{facts.subject}: ({takes}) -> ({gives})"
