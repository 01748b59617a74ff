"""Rules that a class promises, or that another rule needs, and that are not there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strict_hijax._errors import Finding
from strict_hijax._rules import (
    DERIVATIONS,
    JAX_SAYS,
    RULES,
    TRANSFORMS,
    Derivation,
    derivation_pair,
    derived_half,
)
from strict_hijax._signatures import only_raises

from .facts import ClassFacts
from .names import suspects

REMAT = "With `jax_remat3`, `jax.checkpoint` calls `remat` and reverse rules instead."


def missing_expand(facts: ClassFacts) -> Iterator[Finding]:
    if "expand" in facts.rules or suspects(facts, "expand"):
        return
    yield facts.finding(
        "SH101",
        "has no `expand`, the rule that computes its output.",
        rule="expand",
        facts=(facts.has,),
        jax_says=JAX_SAYS["expand"].format(cls=facts.cls),
        remedies=(
            f"{RULES['expand'].template(facts.inputs)}   # write it",
            facts.class_line("abstract=True") + "   # a base for other classes",
        ),
    )


def missing_for_transforms(facts: ClassFacts) -> Iterator[Finding]:
    for transform in sorted(facts.supports):
        groups = TRANSFORMS[transform]
        lacking = [group for group in groups if not _any_of(facts, group)]
        if all(any(suspects(facts, n) for n in group) for group in lacking):
            continue  # SH112 says it
        if _half_lin(facts) and transform == "linearize":
            continue  # SH108 says it
        if _given_by_whole_pair(facts, lacking):
            continue  # SH104 says it
        what = "no reverse-mode rule" if transform == "grad" else "no rule for it"
        if transform == "remat":
            what = "no `jvp`, which `jax.checkpoint` differentiates"
        if transform == "grad" and len(lacking) == 1:
            what = "no " + " or ".join(f"`{n}`" for n in _installed(lacking[0])[:2])
        first = _installed(lacking[0])[-1 if transform == "grad" else 0]
        yield facts.finding(
            "SH102" if transform == "grad" else "SH103",
            f"promises `{transform}`, but has {what}.",
            rule=first,
            facts=(
                f"{facts.has}      needs: {needs_of(transform)}",
                *([REMAT] if transform == "remat" else []),
            ),
            jax_says=JAX_SAYS[first].format(cls=facts.cls),
            remedies=tuple(_remedies_for(facts, transform, lacking)),
        )


def _any_of(facts: ClassFacts, group: tuple[str, ...]) -> bool:
    """Whether a rule of a group is there; what it is derived from is another matter."""
    return any(name in facts.rules for name in group)


def _installed(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in RULES and name != "vjp_bwd_retval_logs"]


def needs_of(transform: str) -> str:
    """What a transform needs, in words."""
    groups = (_installed(group) for group in TRANSFORMS[transform])
    return ", and ".join(" or ".join(group) for group in groups)


def _remedies_for(
    facts: ClassFacts, transform: str, lacking: list[tuple[str, ...]]
) -> Iterator[str]:
    wanted = {name for group in lacking for name in group}
    for derivation in DERIVATIONS:
        gives = {rule for rule, _ in derivation.halves}
        sources = all(facts.provides(need) for need in derivation.needs)
        if sources and gives & wanted and not (gives - wanted) & set(facts.rules):
            source = " and ".join(derivation.needs)
            yield f"{derivation.line}   # derive it from your {source}"
    for group in lacking:
        names = _installed(group)
        for name in names[-1:] if len(lacking) > 1 else names[:2]:
            how = "write both" if len(lacking) > 1 else "write it"
            yield f"{RULES[name].template(facts.inputs)}   # {how}"
    if transform == "grad":
        yield facts.class_line("supports=()") + "   # not differentiable, and says so"
    else:
        others = ", ".join(f'"{name}"' for name in sorted(facts.supports - {transform}))
        kept = f"({others}{',' if others and ',' not in others else ''})"
        yield facts.class_line(f"supports={kept}") + "   # promise less"


def _given_by_whole_pair(facts: ClassFacts, lacking: list[tuple[str, ...]]) -> bool:
    """Whether the missing rules would come from a pair that was not unpacked."""
    values = (facts.rules | facts.other_names).values()
    pairs = filter(None, map(derivation_pair, values))
    given = {rule for pair in pairs for rule, _ in pair.halves}
    return all(given.intersection(group) for group in lacking)


def _half_lin(facts: ClassFacts) -> bool:
    return ("lin" in facts.rules) != ("linearized" in facts.rules)


def lin_without_linearized(facts: ClassFacts) -> Iterator[Finding]:
    if not _half_lin(facts):
        return
    there, missing = ("lin", "linearized")
    if missing in facts.rules:
        there, missing = missing, there
    value = facts.rules[there]
    if only_raises(value) or derivation_pair(value) or suspects(facts, missing):
        return
    remedies = [f"{RULES[missing].template(facts.inputs)}   # write it"]
    if facts.provides("jvp"):
        remedies.append("lin, linearized = linearize_from_jvp   # derive both from jvp")
    yield facts.finding(
        "SH108",
        f"has `{there}` without `{missing}`; JAX calls them as a pair.",
        rule=missing,
        location=facts.where(there),
        facts=(facts.has,),
        jax_says=JAX_SAYS["lin"].format(cls=facts.cls),
        remedies=tuple(remedies),
    )


def derived_from_nothing(facts: ClassFacts) -> Iterator[Finding]:
    for derivation, names in _derivations_used(facts):
        needs = [need for need in derivation.needs if need not in facts.rules]
        told = (_half_lin(facts) and "jvp" not in needs) or any(
            suspects(facts, need) for need in needs
        )
        if not needs or told:
            continue
        others = [
            f"{other.line}   # derived from your {_listed(other.needs)}"
            for other in DERIVATIONS
            if set(needs) <= {rule for rule, _ in other.halves}
            and all(facts.provides(need) for need in other.needs)
        ]
        written = [f"{RULES[n].template(facts.inputs)}   # write it" for n in needs]
        by_hand = RULES[names[0]].template(facts.inputs)
        yield facts.finding(
            "SH106",
            f"derives {_listed(names)} from {_listed(needs)} (`{derivation.name}`), "
            f"but has no {_listed(needs, 'or')}.",
            rule=needs[0],
            facts=(facts.has,),
            jax_says=JAX_SAYS[needs[0]].format(cls=facts.cls),
            remedies=(
                *others,
                *written,
                f"{by_hand}   # write {_listed(names)} by hand",
            ),
        )


def _derivations_used(
    facts: ClassFacts,
) -> Iterator[tuple[Derivation, list[str]]]:
    for derivation in DERIVATIONS:
        names = [
            name
            for name, value in facts.rules.items()
            if (half := derived_half(value)) is not None and half[0] is derivation
        ]
        if names:
            yield derivation, names


def _listed(names: Sequence[str], word: str = "and") -> str:
    return f" {word} ".join(f"`{name}`" for name in names)
