"""Names that look like a rule and are none: misspelt, or of another JAX version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strict_hijax import _jax, _names
from strict_hijax._errors import Finding, location_of
from strict_hijax._names import LookAlike
from strict_hijax._rules import JAX_SAYS, RULES, RULES_OF_OTHER_VERSIONS, TRANSFORMS
from strict_hijax._signatures import arity_of

from .facts import ClassFacts

_WORDS = {
    "expand": "forward call apply compute lower lowering",
    "vjp_fwd": "forward fwd vjp_forward forward_vjp",
    "vjp_bwd_retval": "backward bwd vjp vjp_bwd vjp_backward backward_vjp pullback "
    "grad",
    "vjp_bwd": "backward bwd vjp vjp_backward backward_vjp pullback grad",
    "jvp": "pushforward forward_mode",
    "lin": "linearize linearise",
    "linearized": "linear apply_linear",
    "batch": "vmap batched batcher batching vectorize vectorized",
    "transpose": "transposed linear_transpose",
}
"""What people write for a rule, in the order in which the rule is looked for."""

_JAX_ALONE = frozenset({"axis_data", "nzs_in"})
"""Names of parameters that nothing but a rule of `HiPrim` has."""


def suspects(facts: ClassFacts, rule: str) -> bool:
    """Whether a name of the class looks like this missing rule."""
    return any(found.rule == rule for found in look_alikes(facts))


def look_alikes(facts: ClassFacts) -> list[LookAlike]:
    """Names that JAX never calls, each with the missing rule that was meant."""
    promised = {n for t in facts.supports for group in TRANSFORMS[t] for n in group}
    promised.add("expand")
    found: list[LookAlike] = []
    others = dict(facts.other_names)
    for name, renamed in RULES_OF_OTHER_VERSIONS.items():
        if name in RULES or renamed in facts.rules or name not in others:
            continue
        value = others.pop(name)
        if renamed in promised or name == "batch_dim_rule":
            found.append(LookAlike(name, value, renamed, other_version=True))
    missing = {
        rule: rule in promised and not _promise_kept(facts, rule)
        for rule in RULES
        if rule not in facts.rules
    }

    def fits(value: Any, rule: str) -> bool:
        return _fits(value, rule, facts)

    found += _names.look_alikes(
        others, facts.rules, missing, _WORDS, fits, _has_parameters_of
    )
    return found


def _has_parameters_of(value: Any, rule: str) -> bool:
    """Whether a method has the very parameters of a rule, and of nothing else."""
    arity, leading = arity_of(value), RULES[rule].leading
    if arity is None or _JAX_ALONE.isdisjoint(leading):
        return False
    return arity.names[: len(leading)] == leading


def _promise_kept(facts: ClassFacts, rule: str) -> bool:
    """Whether another rule of the same group serves every promise that names it."""
    groups = [g for t in facts.supports for g in TRANSFORMS[t] if rule in g]
    return bool(groups) and all(any(n in facts.rules for n in g) for g in groups)


def _fits(value: Any, rule: str, facts: ClassFacts) -> bool:
    """Whether the method could be called as the rule is."""
    arity, meant = arity_of(value), RULES[rule]
    if arity is None:
        return True
    if not meant.per_input:
        return arity.takes(len(meant.leading))
    if not any(RULES[name].per_input for name in facts.rules):
        return True  # nothing shows how many inputs there are
    n = len(facts.inputs)
    return arity.takes(len(meant.leading) + n) or arity.takes(n)


def misspelt(facts: ClassFacts) -> Iterator[Finding]:
    for found in look_alikes(facts):
        outdated = found.other_version
        yield facts.finding(
            "SH113" if outdated else "SH112",
            f"defines `{found.name}`, which JAX {_jax.VERSION} never calls; "
            + (
                f"`{found.rule}` has taken its place."
                if outdated
                else f"did you mean `{found.rule}`?"
            ),
            rule=found.name,
            location=location_of(found.value, f"def {found.name}") or facts.location,
            facts=(facts.has,),
            jax_says=JAX_SAYS.get(found.rule, "").format(cls=facts.cls) or None,
            remedies=(RULES[found.rule].template(facts.inputs),),
        )
