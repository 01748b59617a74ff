"""The effects of the rules of a primitive, where JAX calls them and where it traces."""

from __future__ import annotations

import dataclasses
from typing import Any

from strict_hijax import _jax, _jax_traces
from strict_hijax._definition import ClassFacts
from strict_hijax._effects import Recorded, effect_findings, undeclared_effect_findings
from strict_hijax._errors import Finding, Location
from strict_hijax._rules import BACKWARD_RULES

_UNDER_POLICY = frozenset({"vjp_fwd", *BACKWARD_RULES})


@dataclasses.dataclass(frozen=True, slots=True)
class _Owner:
    """A class, in the words that findings about effects need."""

    facts: ClassFacts

    def finding(
        self, code: str, role: str | None, sentence: str, **more: Any
    ) -> Finding:
        return self.facts.finding(code, sentence, rule=role, **more)

    def location(self, role: str) -> Location | None:
        return self.facts.where(role)

    def rule_name(self, role: str) -> str:
        return role

    def holder(self, role: str) -> str:
        return f"its `{role}`"


def effects_of_rule(
    facts: ClassFacts, prim: Any, rule: str, jaxpr: Any
) -> list[Finding]:
    """What is wrong with the effects of one rule of an instance, once traced.

    `expand` may have those that the instance declares; the reverse rules also those
    that the class's policy allows.
    """
    if not jaxpr.effects:
        return []
    declared = frozenset(type(effect) for effect in prim.effects)
    if rule == "expand":
        avals = enumerate(prim.in_avals_flat)
        refs = [i for i, aval in avals if isinstance(aval, _jax.AbstractRef)]
        if not prim.out_avals_flat:  # there is nothing else that it could be for
            declared |= {
                type(e) for e in jaxpr.effects if isinstance(e, _jax.RefEffect)
            }
        return undeclared_effect_findings(_Owner(facts), rule, jaxpr, declared, refs)
    if rule in _UNDER_POLICY:
        return effect_findings(_Owner(facts), rule, jaxpr, facts.policy, declared)
    return []


def effects_since(
    facts: ClassFacts, prim: Any, rule: str, equations: int
) -> list[Finding]:
    """The same for a rule that JAX has called, in the trace that is under way."""
    if (
        _jax_traces.equations_so_far() == equations
    ):  # nothing is traced, as in an eager call
        return []
    recorded = _jax_traces.effectful_equations_since(equations)
    if not recorded:
        return []
    return effects_of_rule(
        facts, prim, rule, Recorded(recorded, _jax_traces.knows_the_line())
    )
