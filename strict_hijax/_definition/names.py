"""Names that look like a rule and are none: misspelt, or of another JAX version."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

from strict_hijax import _jax
from strict_hijax._errors import Finding, location_of
from strict_hijax._rules import JAX_SAYS, RULES, RULES_OF_OTHER_VERSIONS, TRANSFORMS
from strict_hijax._signatures import arity_of, function_of, names_used

from .facts import ClassFacts


class LookAlike(NamedTuple):
    """A name of a class that looks like a rule that is missing."""

    name: str
    value: Any
    rule: str
    other_version: bool


_BACKWARD = ("vjp_bwd_retval", "vjp_bwd")

_OTHER_SPELLINGS: dict[str, tuple[str, ...]] = {
    "forward": ("expand", "vjp_fwd"),
    "call": ("expand",),
    "apply": ("expand",),
    "compute": ("expand",),
    "lower": ("expand",),
    "lowering": ("expand",),
    "fwd": ("vjp_fwd",),
    "vjp_forward": ("vjp_fwd",),
    "forward_vjp": ("vjp_fwd",),
    "backward": _BACKWARD,
    "bwd": _BACKWARD,
    "vjp": _BACKWARD,
    "vjp_backward": _BACKWARD,
    "backward_vjp": _BACKWARD,
    "pullback": _BACKWARD,
    "grad": _BACKWARD,
    "pushforward": ("jvp",),
    "forward_mode": ("jvp",),
    "linearize": ("lin",),
    "linearise": ("lin",),
    "linear": ("linearized",),
    "apply_linear": ("linearized",),
    "vmap": ("batch",),
    "batched": ("batch",),
    "batcher": ("batch",),
    "batching": ("batch",),
    "vectorize": ("batch",),
    "vectorized": ("batch",),
    "transposed": ("transpose",),
    "linear_transpose": ("transpose",),
}
"""Names that people write for a rule, in the order in which the rule is looked for.

They are told only where a promise lacks that rule, or where the parameters are those
of the rule; elsewhere they are good names for helpers.
"""

_SUFFIXES = ("_rule", "_impl", "_fn", "_fun")  # such as `batch_rule`

_JAX_ALONE = frozenset({"axis_data", "nzs_in"})
"""Names of parameters that nothing but a rule of `HiPrim` has."""


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
    other = _other_spelling(name)
    for rule in (*other, *RULES):
        if rule not in RULES or rule in facts.rules or not _fits(value, rule, facts):
            continue
        lacking = rule in promised and not _promise_kept(facts, rule)
        if rule in other and (lacking or _has_parameters_of(value, rule)):
            return rule
        helper = not lacking and name.startswith(_LONG_NAMES)  # such as `transposed`
        if not helper and (_close(name, rule, lacking) or _same_letters(name, rule)):
            return rule
    return None


def _other_spelling(name: str) -> tuple[str, ...]:
    """The rules that a name is another word for."""
    for suffix in _SUFFIXES:
        stem = name.removesuffix(suffix)
        if stem != name and stem in RULES:
            return _BACKWARD if stem == "vjp_bwd" else (stem,)
        if stem in _OTHER_SPELLINGS:
            return _OTHER_SPELLINGS[stem]
    return ()


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


def _is_used(facts: ClassFacts, name: str) -> bool:
    """Whether the class itself calls a method, which is then a helper of its own."""
    values = (*facts.rules.values(), *facts.other_names.values())
    return any(name in names_used(value) for value in values)


def _same_letters(name: str, rule: str) -> bool:
    plain, meant = name.lower().replace("_", ""), rule.replace("_", "")
    if len(rule) <= 3:  # `vjp` is no misspelt `jvp`
        return plain == meant
    return sorted(plain) == sorted(meant)


def _close(name: str, rule: str, lacking: bool) -> bool:
    if len(rule) < 5 or (len(rule) == 5 and not lacking):
        return False  # `lin` is close to `line`, and `batch` to `patch`
    cutoff = (0.82 if len(rule) == 5 else 0.72) if lacking else 0.88
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
