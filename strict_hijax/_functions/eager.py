"""The rules of a function traced abstractly, before JAX has a reason to call them.

Primal, fwd and bwd are traced to jaxprs on the types of one call, each on fresh
tracers, and held to their contracts. Nothing is computed and nothing is kept but types
and findings.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax, _jax_traces
from strict_hijax._accumulators import Unwanted, Watch, Watches
from strict_hijax._effects import EffectPolicy, effect_findings
from strict_hijax._errors import Finding, StrictHijaxError
from strict_hijax._kept import Kept
from strict_hijax._report import RuleReport, bytes_of, describe_all
from strict_hijax._signatures import only_raises
from strict_hijax._types import (
    cotangent_type,
    describe_value,
    has_no_tangent,
    is_zero,
)

from .advice import cotangents_advice
from .backward_results import backward_findings, refused_results
from .closed_over import ahead
from .cotangents import by_argument, shown_type
from .forward_results import OutputTypes, forward_findings
from .progress import KnownCall, knowing, known_call
from .rules import FunctionRules, Inputs


class Depth(enum.IntEnum):
    """How far the rules of a function are traced."""

    PRIMAL = 1
    CALLED = 2  # an input is differentiated: JAX has called the rules itself
    FULL = 3


@dataclasses.dataclass(slots=True)
class TracedRule:
    """Types in and out of one rule, and the names of its effects.

    What a rule gives has words in place of a type where it is no JAX value.
    """

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
    rules: FunctionRules,
    inputs: Inputs,
    policy: EffectPolicy,
    depth: Depth,
    outputs: OutputTypes | None = None,
) -> Examination:
    """Trace fwd and bwd on the types of one call, as far as the depth says.

    The primal is traced where it is not known what it returns. A function with no input
    that has a tangent is never differentiated: of it, only the primal is traced.
    """
    seen = Examination(outputs=outputs)
    trace = Tracing(rules, inputs, policy, seen)
    if (outputs is None and not trace.primal()) or depth is not Depth.FULL:
        return seen
    if any(map(has_tangent, inputs.avals)) and trace.fwd():
        trace.bwd()
    return seen


def _declines(rules: FunctionRules, role: str) -> bool:
    """Whether a rule raised because it can do nothing else, with any signature."""
    played = [rules.fwd, rules.rem] if role == "fwd" else [rules.rule(role)]
    return role != "primal" and any(only_raises(rule) for rule in played)


def has_tangent(aval: Any) -> bool:
    """Whether an input of this type can be differentiated."""
    expected = cotangent_type(aval)
    return expected is None or not has_no_tangent(expected)


@dataclasses.dataclass(slots=True)
class Tracing:
    """One examination under way, rule by rule; each says whether to go on."""

    rules: FunctionRules
    inputs: Inputs
    policy: EffectPolicy
    seen: Examination
    jaxpr: Any = None  # of the rule that was traced last
    residuals: Kept | None = None
    rem: tuple[list[Any], set[str], set[str]] | None = None  # see `_call_fwd`

    def primal(self) -> bool:
        """Trace the function itself, and keep what it returns."""
        trees: list[Any] = []
        rule = self.trace("primal", self._primal(trees), self.inputs.avals)
        if rule is not None:
            self.seen.outputs = OutputTypes(trees[-1], rule.gives)
        return rule is not None

    def _primal(self, trees: list[Any]) -> Callable[..., list[Any]]:
        def primal(*leaves: Any) -> list[Any]:
            out = self.rules.fun(*self.inputs.arguments(leaves))
            flat, treedef = tree_util.tree_flatten(out)
            trees.append(treedef)
            return flat

        return primal

    def known_call(self) -> KnownCall | None:
        """The call of the function itself, which its rules most often repeat."""
        if self.seen.outputs is None:
            return None
        return KnownCall(
            self.rules, self.inputs, self.seen.outputs, self._jaxpr_of_primal
        )

    def _jaxpr_of_primal(self) -> Any:
        """The jaxpr of the function, traced when it is asked for; None if it raises."""
        try:
            return _jax_traces.trace_to_jaxpr(
                self._primal([]), self.inputs.avals, self.rules.name
            )
        except Exception:  # of the function itself, and so none of ours
            return None

    def fwd(self) -> bool:
        """Trace fwd (and rem after it), and keep what bwd will be given."""
        kept: list[Kept] = []
        given: list[Any] = []

        def fwd(*leaves: Any) -> list[Any]:
            result = self._call_fwd(leaves)
            if self.seen.findings or result is None:
                given.extend(map(shown_type, tree_util.tree_leaves(result)))
                return []
            record, traced = Kept.of(result[1], leaves)
            kept.append(record)
            return traced

        rule = self.trace("fwd", fwd, self.inputs.avals, self.known_call())
        if rule is None:
            return False
        if not kept:
            rule.gives = tuple(given)
            return False
        self.residuals = kept[-1]
        self.residuals.types = rule.gives
        self._report_fwd(rule, self.residuals.leaf_types(self.inputs.avals))
        return True

    def _report_fwd(self, rule: TracedRule, residuals: list[Any]) -> None:
        """Say what fwd gives, and rem after it: the outputs and the residuals."""
        outputs = () if self.seen.outputs is None else self.seen.outputs.avals
        self.seen.residual_bytes = bytes_of(residuals)
        if self.rem is None:
            rule.gives = (*outputs, *residuals)
            return
        kept_by_fwd, rule.effects, effects = self.rem
        rule.gives = (*outputs, *kept_by_fwd)
        takes = (*kept_by_fwd, *self.inputs.avals)
        self.seen.traced.append(
            TracedRule("rem", takes, (*outputs, *residuals), effects)
        )

    def _call_fwd(self, leaves: Sequence[Any]) -> Any:
        values = leaves
        if self.rules.symbolic_zeros:
            values = [
                _jax.CustomVJPPrimal(leaf, has_tangent(aval))
                for leaf, aval in zip(leaves, self.inputs.avals, strict=True)
            ]
        args = self.inputs.arguments(values)
        result = self.rules.fwd(*args)
        self._judge(forward_findings(self.rules, result, self.seen.outputs, args))
        if not self.rules.has_rem or self.seen.findings:
            return result
        kept = list(map(shown_type, tree_util.tree_leaves(result[1])))
        effects, count = self._effects_since(0), _jax_traces.equations_so_far()
        result = self.rules.rem(result[1], *args)
        self.rem = kept, effects, self._effects_since(count)
        outputs = self.seen.outputs
        self._judge(forward_findings(self.rules, result, outputs, args, "rem"))
        return result

    def _effects_since(self, count: int) -> set[str]:
        """The effects of the equations after `count`, and of a call that is known."""
        found = _effect_names(
            effect
            for eqn in _jax_traces.effectful_equations_since(count)
            for effect in eqn.effects
        )
        call = known_call()
        made = call is not None and call.was_made
        return found | self._effects_of_primal() if made else found

    def _effects_of_primal(self) -> set[str]:
        primal = [rule for rule in self.seen.traced if rule.role == "primal"]
        return primal[0].effects if primal else set[str]()

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
            shown.extend(
                self._call_bwd(
                    residuals.restored(leaves[:count], leaves[count : count + kept]),
                    tree_util.tree_unflatten(outputs.treedef, cts),
                )
            )
            return []

        shown: list[Any] = []
        rule = self.trace("bwd", bwd, [*self.inputs.avals, *residuals.types, *given])
        if rule is not None:
            rule.takes = (*residuals.leaf_types(self.inputs.avals), *ct_types)
            rule.gives = tuple(shown)

    def _call_bwd(self, residuals: Any, cts: Any) -> list[Any]:
        """Call bwd, judge its result, and say of which types the cotangents are."""
        rules, inputs = self.rules, self.inputs
        args = [*inputs.static_values, residuals, cts]
        if rules.with_accums:
            watches = Watches()
            accums = [_accumulator(aval) for aval in inputs.avals]
            stand_ins = [watches.stand_in(accum) for accum in accums]
            grouped = tree_util.tree_unflatten(inputs.treedef, stand_ins)
            logs = rules.bwd(*args, *grouped)
            findings = backward_findings(rules, logs, inputs, watches)
            values = map(_accumulated, accums, watches)
            given = [
                [(next(values), False) for _ in range(argument.num_leaves)]
                for argument in inputs.treedef.children()
            ]
        else:
            result, logs = rules.bwd(*args), None
            findings = backward_findings(rules, result, inputs)
            findings = findings or refused_results(rules, result, inputs)
            if rules.with_logs and isinstance(result, tuple | list):
                result, logs = result if len(result) == 2 else (result, None)
            found = by_argument(result, inputs)
            given = [[(result, False)]] if found is None else found
        self._judge(findings)
        if not findings:
            self.seen.advice += cotangents_advice(rules, inputs, given)
        return [
            *(shown_type(value) for leaves in given for value, _ in leaves),
            *(
                f"logs{_jax.keystr(keypath)}: {describe_value(value)}"
                for keypath, value in tree_util.tree_leaves_with_path(logs)
            ),
        ]

    def _judge(self, findings: list[Finding]) -> None:
        self.seen.findings += findings

    def trace(
        self,
        role: str,
        call: Callable[..., list[Any]],
        avals: Sequence[Any],
        known: KnownCall | None = None,
    ) -> TracedRule | None:
        """Trace a rule and note its types and effects; None if it raised."""
        backends = _jax.initialised_backends()

        def traced(*leaves: Any) -> list[Any]:
            with knowing(known):
                return call(*leaves)

        try:
            name = ahead(self.rules, role)
            jaxpr = _jax_traces.trace_to_jaxpr(traced, avals, name)
        except StrictHijaxError as error:  # of a checked function inside of the rule
            self.seen.stopped = (role, error)
            return None
        except Exception as error:
            if not _declines(self.rules, role):
                self.seen.stopped = (role, error)
            return None
        self.jaxpr = jaxpr
        if new := _jax.initialised_backends() - backends:
            self.seen.backends[role] = new
        self._judge(list(self._new_effects(role, jaxpr)))
        outputs = [v.aval for v in jaxpr.outvars]
        effects = _effect_names(jaxpr.effects)
        if known is not None and known.was_made:
            effects |= self._effects_of_primal()
        rule = TracedRule(role, tuple(avals), tuple(outputs), effects)
        self.seen.traced.append(rule)
        return rule

    def _new_effects(self, role: str, jaxpr: Any) -> Iterator[Finding]:
        """Effects that were not found in a rule before this one, at the same line."""
        known = {(f.code, f.path, f.location) for f in self.seen.findings}
        for finding in effect_findings(self.rules, role, jaxpr, self.policy):
            if (finding.code, finding.path, finding.location) not in known:
                yield finding


def _effect_names(effects: Iterable[Any]) -> set[str]:
    return {type(effect).__name__ for effect in effects}


def _cotangents(
    rules: FunctionRules, types: Sequence[Any], given: Iterator[Any]
) -> list[Any]:
    """Cotangents of the outputs, as JAX gives them; of integers, zeros of float0."""
    zeros = _jax.SymbolicZero if rules.symbolic_zeros else _jax.zeros_of_float0
    return [zeros(ct) if has_no_tangent(ct) else next(given) for ct in types]


def _accumulator(aval: Any) -> Any:
    expected = cotangent_type(aval)
    if expected is None or has_no_tangent(expected):
        return Unwanted(expected)
    return _jax.ValAccum(expected)


def _accumulated(accum: Any, watch: Watch | None) -> Any:
    """What an accumulator was given; None where that is nothing."""
    if watch is None:
        return getattr(accum, "given", None)
    value = watch.wrong[0][0] if watch.wrong else accum.val
    return None if is_zero(value) else value
