"""The abstract check of one primitive: every rule traced on the declared types.

No FLOPs, no device memory, no backend: the rules are run on tracers, outside of any
trace, mesh and axis that happens to be active.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strict_hijax import _jax_traces
from strict_hijax._construction import input_names
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding, untraceable_error
from strict_hijax._ignoring import collecting_advice, raise_findings, without_ignored
from strict_hijax._rules import RULES
from strict_hijax._types import describe, paths_of

from .differentiation import trace_expand, trace_jvp, trace_lin, trace_vjp
from .record import Traced as Traced
from .transformations import trace_batch, trace_dce, trace_remat, trace_transpose

_EACH_RULE = {
    "expand": trace_expand,
    "jvp": trace_jvp,
    "lin": trace_lin,
    "vjp_fwd": trace_vjp,
    "transpose": trace_transpose,
    "batch": trace_batch,
    "batch_dim_rule": trace_batch,
    "dce": trace_dce,
    "remat": trace_remat,
}
"""What traces a rule, and those that JAX calls with what it gives.

Those that others are derived from come first: what is derived from a rule at fault
fails in words about JAX's own code, and is not tried.
"""


def trace_rules(facts: ClassFacts, prim: Any) -> Traced:
    """Trace each rule of a checked copy that its class provides."""
    traced = Traced()
    with _jax_traces.clean_context(), collecting_advice(traced.advice):
        for rule, trace in _EACH_RULE.items():
            at_fault = {finding.rule for finding in traced.findings}
            derived = facts.sources(rule) - {rule}
            provided = rule == "expand" or facts.provides(rule)
            if provided and not derived & at_fault:
                trace(traced, facts, prim)
    order = list(RULES)
    traced.reports.sort(key=lambda report: order.index(report.name))
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


def subject_of(facts: ClassFacts, prim: Any) -> str:
    """An instance in words: its class and its declared types."""
    takes = ", ".join(describe(aval) for aval in prim.in_avals_flat)
    if prim.in_tree.num_leaves != len(prim.in_avals):  # which is which is not plain
        paths = paths_of(prim.in_tree, input_names(facts, len(prim.in_avals)))
        named = zip(paths, prim.in_avals_flat, strict=True)
        takes = ", ".join(f"{path}: {describe(aval)}" for path, aval in named)
    gives = ", ".join(describe(aval) for aval in prim.out_avals_flat)
    return f"{facts.subject}: ({takes}) -> ({gives})"
