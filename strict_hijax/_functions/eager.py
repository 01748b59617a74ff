"""The rules of a function traced abstractly, before JAX has a reason to call them.

Primal, fwd and bwd are traced to jaxprs on the types of one call, each on fresh
tracers, and held to their contracts. Nothing is computed and nothing is kept but types
and findings.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._accumulators import Watches
from strict_hijax._effects import EffectPolicy, effect_findings
from strict_hijax._errors import Finding, StrictHijaxError
from strict_hijax._report import RuleReport, bytes_of, describe_all
from strict_hijax._signatures import only_raises
from strict_hijax._types import cotangent_type, has_no_tangent

from .backward_results import advice_findings, backward_findings
from .forward_results import OutputTypes, forward_findings
from .progress import KnownCall, knowing
from .rules import FunctionRules, Inputs


class Depth(enum.IntEnum):
    """How far the rules of a function are traced."""

    PRIMAL = 1
    FULL = 2


@dataclasses.dataclass(frozen=True, slots=True)
class TracedRule:
    """Types in and out of one rule, and the names of its effects."""

    role: str
    takes: tuple[Any, ...]
    gives: tuple[Any, ...]
    effects: set[str]

    def report(self) -> RuleReport:
        """The same in words."""
        takes, gives = describe_all(self.takes), describe_all(self.gives)
        return RuleReport(self.role, takes, gives, tuple(sorted(self.effects)))


@dataclasses.dataclass(slots=True)
class Examination:
    """What came of tracing a function's rules on the types of one call.

    Attributes:
      findings: faults of the rules.
      advice: what is worth a look, and never raised.
      outputs: what the function returns; None if the primal raised.
      traced: each rule that was traced.
      residual_bytes: what fwd keeps for bwd in one call.
      stopped: role and exception of the rule that raised, where one did.
      backends: backends that a rule initialised, by role.
    """

    findings: list[Finding] = dataclasses.field(default_factory=list[Finding])
    advice: list[Finding] = dataclasses.field(default_factory=list[Finding])
    outputs: OutputTypes | None = None
    traced: list[TracedRule] = dataclasses.field(default_factory=list[TracedRule])
    residual_bytes: int | None = None
    stopped: tuple[str, Exception] | None = None
    backends: dict[str, frozenset[str]] = dataclasses.field(
        default_factory=dict[str, frozenset[str]]
    )


def examine(
    rules: FunctionRules, inputs: Inputs, policy: EffectPolicy, depth: Depth
) -> Examination:
    """Trace the primal, and at full depth fwd and bwd, on the types of one call.

    A function with no input that has a tangent is never differentiated: of it, only
    the primal is traced.
    """
    seen = Examination()
    trace = _Tracing(rules, inputs, policy, seen)
    if not trace.primal() or depth is Depth.PRIMAL:
        return seen
    if any(map(_has_tangent, inputs.avals)) and trace.fwd():
        trace.bwd()
    return seen


def _declines(rules: FunctionRules, role: str) -> bool:
    """Whether a rule raised because it can do nothing else, with any signature."""
    played = [rules.fwd, rules.rem] if role == "fwd" else [rules.rule(role)]
    return role != "primal" and any(only_raises(rule) for rule in played)


def _has_tangent(aval: Any) -> bool:
    expected = cotangent_type(aval)
    return expected is None or not has_no_tangent(expected)


@dataclasses.dataclass(slots=True)
class _Tracing:
    """One examination under way, rule by rule; each says whether to go on."""

    rules: FunctionRules
    inputs: Inputs
    policy: EffectPolicy
    seen: Examination
    residuals: _Residuals | None = None

    def primal(self) -> bool:
        trees: list[Any] = []

        def primal(*leaves: Any) -> list[Any]:
            out = self.rules.fun(*self.inputs.arguments(leaves))
            flat, treedef = tree_util.tree_flatten(out)
            trees.append(treedef)
            return flat

        avals = self._trace("primal", primal, self.inputs.avals)
        if avals is not None:
            self.seen.outputs = OutputTypes(trees[-1], tuple(avals))
        return avals is not None

    def fwd(self) -> bool:
        """Trace fwd (and rem after it), and keep what bwd will be given."""
        kept: list[_Residuals] = []

        def fwd(*leaves: Any) -> list[Any]:
            result = self._call_fwd(leaves)
            if self.seen.findings or result is None:
                return []
            record, traced = _Residuals.of(result[1], leaves)
            kept.append(record)
            return traced

        known = None
        if self.seen.outputs is not None:
            known = KnownCall(self.rules, self.inputs, self.seen.outputs)
        avals = self._trace("fwd", fwd, self.inputs.avals, known)
        if avals is None or not kept:
            return False
        self.residuals = kept[-1]
        self.residuals.types = tuple(avals)
        self.seen.residual_bytes = self.residuals.count_bytes(self.inputs.avals)
        return True

    def _call_fwd(self, leaves: Sequence[Any]) -> Any:
        values = leaves
        if self.rules.symbolic_zeros:
            values = [
                _jax.CustomVJPPrimal(leaf, _has_tangent(aval))
                for leaf, aval in zip(leaves, self.inputs.avals, strict=True)
            ]
        args = self.inputs.arguments(values)
        result = self.rules.fwd(*args)
        self._judge(forward_findings(self.rules, result, self.seen.outputs))
        if self.rules.rem is None or self.seen.findings:
            return result
        result = self.rules.rem(result[1], *args)
        self._judge(forward_findings(self.rules, result, self.seen.outputs, "rem"))
        return result

    def bwd(self) -> None:
        residuals, outputs = self.residuals, self.seen.outputs
        if residuals is None or outputs is None:
            return
        ct_types = [cotangent_type(aval) for aval in outputs.avals]
        if None in ct_types:
            return  # a hijax type that does not say
        given = [ct for ct in ct_types if not has_no_tangent(ct)]
        count, kept = len(self.inputs.avals), len(residuals.types)

        def bwd(*leaves: Any) -> list[Any]:
            cts = _cotangents(self.rules, ct_types, iter(leaves[count + kept :]))
            self._judge(
                self._call_bwd(
                    residuals.restored(leaves[:count], leaves[count : count + kept]),
                    tree_util.tree_unflatten(outputs.treedef, cts),
                )
            )
            return []

        self._trace("bwd", bwd, [*self.inputs.avals, *residuals.types, *given])

    def _call_bwd(self, residuals: Any, cts: Any) -> list[Finding]:
        args = [*self.inputs.static_values, residuals, cts]
        if not self.rules.with_accums:
            result = self.rules.bwd(*args)
            findings = backward_findings(self.rules, result, self.inputs)
            if not findings:
                self.seen.advice += advice_findings(self.rules, result, self.inputs)
            return findings
        watches = Watches()
        accums = [watches.stand_in(_accumulator(aval)) for aval in self.inputs.avals]
        grouped = tree_util.tree_unflatten(self.inputs.treedef, accums)
        result = self.rules.bwd(*args, *grouped)
        return backward_findings(self.rules, result, self.inputs, watches)

    def _judge(self, findings: list[Finding]) -> None:
        self.seen.findings += findings

    def _trace(
        self,
        role: str,
        call: Callable[..., list[Any]],
        avals: Sequence[Any],
        known: KnownCall | None = None,
    ) -> list[Any] | None:
        """Trace a rule and note its effects; its output types, or None if it raised."""
        backends = _jax.initialised_backends()

        def traced(*leaves: Any) -> list[Any]:
            with knowing(known):
                return call(*leaves)

        try:
            jaxpr = _jax.trace_to_jaxpr(traced, avals, f"{role} of {self.rules.name}")
        except StrictHijaxError as error:  # of a checked function inside of the rule
            self.seen.stopped = (role, error)
            return None
        except Exception as error:
            if not _declines(self.rules, role):
                self.seen.stopped = (role, error)
            return None
        if new := _jax.initialised_backends() - backends:
            self.seen.backends[role] = new
        self._judge(list(self._new_effects(role, jaxpr)))
        outputs = [v.aval for v in jaxpr.outvars]
        effects = {type(effect).__name__ for effect in jaxpr.effects}
        if known is not None and known.was_made:
            effects |= self.seen.traced[0].effects
        rule = TracedRule(role, tuple(avals), tuple(outputs), effects)
        self.seen.traced.append(rule)
        return outputs

    def _new_effects(self, role: str, jaxpr: Any) -> Iterator[Finding]:
        """Effects that were not found in a rule before this one, at the same line."""
        known = {(f.code, f.path, f.location) for f in self.seen.findings}
        for finding in effect_findings(self.rules, role, jaxpr, self.policy):
            if (finding.code, finding.path, finding.location) not in known:
                yield finding


@dataclasses.dataclass(slots=True)
class _Residuals:
    """What fwd keeps: inputs by position, traced values by type, others as they are.

    Plain Python values reach bwd as those values, since rules build on them.
    """

    treedef: Any
    places: list[tuple[str, Any]]
    types: tuple[Any, ...] = ()

    @classmethod
    def of(cls, residuals: Any, inputs: Sequence[Any]) -> tuple[_Residuals, list[Any]]:
        """The record, and the traced values that fwd has to return."""
        leaves, treedef = tree_util.tree_flatten(residuals)
        positions = {id(leaf): i for i, leaf in enumerate(inputs)}
        places: list[tuple[str, Any]] = []
        traced: list[Any] = []
        for leaf in leaves:
            if id(leaf) in positions:
                places.append(("input", positions[id(leaf)]))
            elif _can_be_returned(leaf):
                places.append(("traced", len(traced)))
                traced.append(leaf)
            else:
                places.append(("constant", leaf))
        return cls(treedef, places), traced

    def restored(self, inputs: Sequence[Any], traced: Sequence[Any]) -> Any:
        """The residuals with fresh tracers in place of those that fwd was traced on."""
        sources = {"input": inputs, "traced": traced}
        leaves = [
            place if kind == "constant" else sources[kind][place]
            for kind, place in self.places
        ]
        return tree_util.tree_unflatten(self.treedef, leaves)

    def count_bytes(self, inputs: Sequence[Any]) -> int:
        """How much memory the residuals take, those that are inputs included."""
        kept = [inputs[place] for kind, place in self.places if kind == "input"]
        constants = [_jax.typeof(p) for kind, p in self.places if kind == "constant"]
        return bytes_of([*kept, *self.types, *constants])


def _can_be_returned(leaf: Any) -> bool:
    if not isinstance(leaf, _jax.Tracer):
        return False
    return not isinstance(_jax.typeof(leaf), _jax.AbstractRef)


def _cotangents(
    rules: FunctionRules, types: Sequence[Any], given: Iterator[Any]
) -> list[Any]:
    """Cotangents of the outputs, as JAX gives them; of integers, zeros of float0."""
    zeros = _jax.SymbolicZero if rules.symbolic_zeros else _jax.zeros_of_float0
    return [zeros(ct) if has_no_tangent(ct) else next(given) for ct in types]


def _accumulator(aval: Any) -> Any:
    expected = cotangent_type(aval)
    if expected is None or has_no_tangent(expected):
        return _jax.NullAccum(expected)
    return _jax.ValAccum(expected)
