"""Which transforms a primitive supports, and what is missing for the others."""

from __future__ import annotations

from ._definition import ClassFacts, facts_of
from ._definition.presence import needs_of
from ._jax import HiPrim
from ._rules import TRANSFORMS, derived_half


def facts_of_class(cls: type) -> ClassFacts:
    """What is known of a class, strict or not."""
    known = getattr(cls, "_facts", None)
    if isinstance(known, ClassFacts):
        return known
    return facts_of(cls, frozenset(), False, None, frozenset(HiPrim.__mro__))


def transforms_of(facts: ClassFacts) -> dict[str, str]:
    """The same, from the facts about a class."""
    return {name: _status(facts, name) for name in TRANSFORMS}


def _status(facts: ClassFacts, transform: str) -> str:
    used: list[str] = []
    for group in TRANSFORMS[transform]:
        there = [name for name in group if facts.provides(name)]
        if not there:
            needs = needs_of(transform)
            needs += " unless jax_remat3 is on" if transform == "remat" else ""
            return f"missing (needs {needs})"
        used.append(there[0])
    halves = [derived_half(facts.rules[name]) for name in used]
    derived = sorted({half[0].name for half in halves if half is not None})
    if derived:
        return f"derived ({', '.join(derived)})"
    return f"provided ({', '.join(used)})"
