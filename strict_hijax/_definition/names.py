"""Names that look like a rule and are none: misspelt, or of another JAX version."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator
from typing import Any

from strict_hijax import _jax
from strict_hijax._errors import Finding, location_of
from strict_hijax._rules import JAX_SAYS, RULES, RULES_OF_OTHER_VERSIONS, TRANSFORMS
from strict_hijax._signatures import arity_of, function_of, names_used

from .facts import ClassFacts


@dataclasses.dataclass(frozen=True, slots=True)
class LookAlike:
    """A name of a class that looks like a rule that is missing."""

    name: str
    value: Any
    rule: str
    other_version: bool


_OTHER_SPELLINGS: dict[str, str] = {
    "forward": "vjp_fwd",
    "fwd": "vjp_fwd",
    "vjp_forward": "vjp_fwd",
    "backward": "vjp_bwd",
    "bwd": "vjp_bwd",
    "vjp_backward": "vjp_bwd",
    "linearize": "lin",
    "vmap": "batch",
    "batching": "batch",
    "batch_rule": "batch",
}
"""Names that people write for a rule; told only where a promise lacks that rule."""


def suspects(facts: ClassFacts, rule: str) -> bool:
    """Whether a name of the class looks like this missing rule."""
    return any(found.rule == rule for found in look_alikes(facts))


_LONG_NAMES = tuple(name for name in RULES if len(name) > 5)


def look_alikes(facts: ClassFacts) -> list[LookAlike]:
    """Names that JAX never calls, each with the missing rule that was meant."""
    promised = {n for t in facts.supports for group in TRANSFORMS[t] for n in group}
    promised.add("expand")
    found: list[LookAlike] = []
    for name, value in facts.other_names.items():
        renamed = RULES_OF_OTHER_VERSIONS.get(name)
        if renamed is not None and name not in RULES and renamed not in facts.rules:
            if renamed in promised or name == "batch_dim_rule":
                found.append(LookAlike(name, value, renamed, other_version=True))
            continue
        rule = _meant(facts, name, value, promised)
        if rule is not None and not _is_used(facts, name):
            found.append(LookAlike(name, value, rule, other_version=False))
    return found


def _meant(facts: ClassFacts, name: str, value: Any, promised: set[str]) -> str | None:
    """The missing rule that a name stands for, if that is beyond doubt."""
    if name.startswith("_") or function_of(value) is None:
        return None
    for rule in RULES:
        if rule in facts.rules or not _fits(value, rule, facts):
            continue
        lacking = rule in promised and not _promise_kept(facts, rule)
        helper = not lacking and name.startswith(_LONG_NAMES)  # such as `transposed`
        close = _close(name, rule, 0.72 if lacking else 0.88)
        if not helper and (close or _same_letters(name, rule)):
            return rule
        if lacking and _OTHER_SPELLINGS.get(name) == rule:
            return rule
    return None


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
    n = len(facts.inputs)
    return arity.takes(len(meant.leading) + n) or arity.takes(n)


def _is_used(facts: ClassFacts, name: str) -> bool:
    """Whether the class itself calls a method, which is then a helper of its own."""
    values = (*facts.rules.values(), *facts.other_names.values())
    return any(name in names_used(value) for value in values)


def _same_letters(name: str, rule: str) -> bool:
    plain, meant = name.lower().replace("_", ""), rule.replace("_", "")
    if len(rule) <= 3:  # `vjp` is no misspelt `jvp`
        return plain == meant
    return sorted(plain) == sorted(meant)


def _close(name: str, rule: str, cutoff: float) -> bool:
    if len(rule) <= 5:  # `lin` is close to `line`, and `batch` to `patch`
        return False
    return difflib.SequenceMatcher(None, name, rule).ratio() >= cutoff


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
