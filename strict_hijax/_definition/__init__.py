"""Checks on a class: what can be decided from names, signatures and code alone.

Each check is a function from the facts about a class to findings. Nothing here calls
a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from strict_hijax._errors import Finding

from . import derivations, names, presence, signatures, values
from .advice import checkpoint_advice as checkpoint_advice
from .advice import definition_advice as definition_advice
from .facts import ClassFacts as ClassFacts
from .facts import facts_of as facts_of
from .facts import facts_of_instance as facts_of_instance
from .facts import has_no_rule as has_no_rule
from .facts import own_rules as own_rules

_Check = Callable[[ClassFacts], Iterator[Finding]]

_CHECKS_OF_FORM: tuple[_Check, ...] = (
    derivations.pair_not_unpacked,
    derivations.halves_that_do_not_fit,
    derivations.circles,
    derivations.two_backward_rules,
    values.uncallable,
    signatures.arguments,
    values.wrong_returns,
    values.endless_expand,
    values.effects,
    values.eq_without_hash,
)

_CHECKS_OF_PRESENCE: tuple[_Check, ...] = (
    presence.missing_expand,
    presence.missing_for_transforms,
    names.misspelt,
    presence.lin_without_linearized,
    presence.derived_from_nothing,
)


def definition_findings(facts: ClassFacts) -> list[Finding]:
    """All faults of a class that can be seen without calling anything."""
    checks = (
        _CHECKS_OF_FORM if facts.abstract else _CHECKS_OF_FORM + _CHECKS_OF_PRESENCE
    )
    return [finding for check in checks for finding in check(facts)]
