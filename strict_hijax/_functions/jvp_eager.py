"""The rule of a custom_jvp function traced ahead of JAX, and found linear or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._effects import EffectPolicy
from strict_hijax._errors import Finding
from strict_hijax._linearity import Fault, faulty_equations
from strict_hijax._linearity.sentences import details, sentence
from strict_hijax._types import has_no_tangent, is_zero, tangent_type

from .custom_jvp import JvpRules
from .eager import Depth, Examination, Tracing, has_tangent
from .jvp_results import jvp_findings, output_paths, refused_results
from .outputs import OutputTypes
from .rules import FunctionRules, Inputs


def examine_jvp(
    rules: FunctionRules,
    inputs: Inputs,
    policy: EffectPolicy,
    depth: Depth,
    outputs: OutputTypes | None = None,
) -> Examination:
    """Trace the rule on the types of one call; the primal, where it is not known.

    Whether it is linear can only be seen here: where JAX calls the rule there are
    values, or traces that JAX takes apart. So it is also traced where JAX has called
    it.
    """
    seen = Examination(outputs=outputs)
    if not isinstance(rules, JvpRules):
        return seen
    trace = _JvpTracing(rules, inputs, policy, seen)
    if (outputs is None and not trace.primal()) or depth is Depth.PRIMAL:
        return seen
    if any(map(has_tangent, inputs.avals)):
        trace.jvp(rules)
    return seen


class _JvpTracing(Tracing):
    """One examination under way."""

    __slots__ = ()

    def jvp(self, rules: JvpRules) -> None:
        """Trace the rule with everything perturbed, and judge what it returns."""
        outputs = self.seen.outputs
        types = [tangent_type(aval) for aval in self.inputs.avals]
        if outputs is None or None in types:
            return  # a hijax type that does not say
        given = [aval for aval in types if not has_no_tangent(aval)]
        count = len(self.inputs.avals)
        places: list[int] = []

        def jvp(*leaves: Any) -> list[Any]:
            tangents = _tangents(rules, types, iter(leaves[count:]))
            args = [
                tree_util.tree_unflatten(self.inputs.treedef, each)
                for each in (leaves[:count], tangents)
            ]
            result = rules.jvp(*self.inputs.static_values, *args)
            found = jvp_findings(rules, result, outputs)
            found = found or refused_results(rules, result, outputs)
            self.seen.findings += found
            if found:
                return []
            flat = tree_util.tree_leaves(result[0])
            dots = tree_util.tree_leaves(result[1], is_leaf=is_zero)
            places.extend(i for i, dot in enumerate(dots) if _can_be_traced(dot))
            return [*flat, *(dots[i] for i in places)]

        avals = [*self.inputs.avals, *given]
        rule = self.trace("jvp", jvp, avals, self.known_call())
        if rule is None or self.jaxpr is None or not rule.gives:
            return
        linear = [False] * count + [True] * len(given)
        self.seen.findings += _not_linear(
            rules, self.jaxpr, linear, outputs.treedef, places
        )
        rule.gives = (*outputs.avals, *map(tangent_type, outputs.avals))
        rule.takes = (*self.inputs.avals, *types)


def _can_be_traced(dot: Any) -> bool:
    return not is_zero(dot) and not has_no_tangent(_jax.typeof(dot))


def _tangents(rules: JvpRules, types: Sequence[Any], given: Iterator[Any]) -> list[Any]:
    """Tangents of the inputs, as JAX gives them; of integers, zeros of float0."""
    zeros = _jax.SymbolicZero if rules.symbolic_zeros else _jax.zeros_of_float0
    return [zeros(aval) if has_no_tangent(aval) else next(given) for aval in types]


_CODES = {Fault.DEPENDS: "SH442", Fault.NONLINEAR: "SH440", Fault.AFFINE: "SH441"}


def _not_linear(
    rules: JvpRules, jaxpr: Any, linear: Sequence[bool], treedef: Any, places: list[int]
) -> Iterator[Finding]:
    tangents = output_paths(treedef, "tangent")
    paths = [*output_paths(treedef, "output"), *(tangents[i] for i in places)]
    for equation in faulty_equations(jaxpr, linear, treedef.num_leaves):
        path, code = paths[equation.output], _CODES[equation.fault]
        ignore = f'ignore=("{code}",)   # where it is meant, in forward mode alone'
        yield rules.finding(
            code,
            "jvp",
            sentence(equation, path),
            location=equation.location or rules.location("jvp"),
            **details(equation, path, ignore),
        )
