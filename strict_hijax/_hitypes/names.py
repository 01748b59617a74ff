"""Names that look like a method of a hijax type and are none."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterator
from typing import Any

from strict_hijax import _jax
from strict_hijax._errors import Finding, location_of
from strict_hijax._signatures import arity_of, function_of, names_used

from .facts import ALWAYS, METHODS, TypeFacts, jax_says


@dataclasses.dataclass(frozen=True, slots=True)
class LookAlike:
    """A name of a class that looks like a method that is missing."""

    name: str
    value: Any
    method: str


_OTHER_SPELLINGS = {
    "lower": "lower_val",
    "lower_value": "lower_val",
    "raise_": "raise_val",
    "raise_value": "raise_val",
    "low_ty": "lo_ty",
    "lo_type": "lo_ty",
    "lo_types": "lo_ty",
    "low_type": "lo_ty",
    "low_types": "lo_ty",
    "tangent_aval": "to_tangent_aval",
    "tangent_type": "to_tangent_aval",
    "to_tangent": "to_tangent_aval",
    "to_tangent_ty": "to_tangent_aval",
    "to_tangent_type": "to_tangent_aval",
    "cotangent_aval": "to_ct_aval",
    "ct_aval": "to_ct_aval",
    "to_cotangent_aval": "to_ct_aval",
    "to_ct_ty": "to_ct_aval",
    "to_ct_type": "to_ct_aval",
    "vspace_zeros": "vspace_zero",
}


def look_alikes(facts: TypeFacts) -> list[LookAlike]:
    """Names that JAX never calls, each with the missing method that was meant."""
    found: list[LookAlike] = []
    for name, value in facts.other_names.items():
        if name.startswith("_") or function_of(value) is None or _is_jax_own(name):
            continue
        method = _meant(facts, name, value)
        if method is not None and not _is_used(facts, name):
            found.append(LookAlike(name, value, method))
    return found


def _is_jax_own(name: str) -> bool:
    """Whether JAX has an attribute of that name: it may well call it."""
    return hasattr(_jax.HiType, name)


def _meant(facts: TypeFacts, name: str, value: Any) -> str | None:
    arity = arity_of(value)
    for method in METHODS.values():
        if method.name in facts.methods or method.name in ALWAYS:
            continue
        count = method.arity.most
        if arity is not None and count is not None and not arity.takes(count):
            continue
        if _OTHER_SPELLINGS.get(name) == method.name:
            return method.name
        cutoff = 0.8 if method.name in facts.needed else 0.88
        if _likeness(name, method.name) >= cutoff:
            return method.name
    return None


@functools.lru_cache(maxsize=1024)
def _likeness(name: str, method: str) -> float:
    if sorted(name.replace("_", "")) == sorted(method.replace("_", "")):
        return 1.0
    return difflib.SequenceMatcher(None, name, method).ratio()


def _is_used(facts: TypeFacts, name: str) -> bool:
    """Whether the class itself calls a method, which is then a helper of its own."""
    values = (*facts.methods.values(), *facts.other_names.values())
    return any(name in names_used(value) for value in values)


def misspelt(facts: TypeFacts) -> Iterator[Finding]:
    for found in look_alikes(facts):
        yield facts.finding(
            "SH706",
            f"defines `{found.name}`, which JAX {_jax.VERSION} never calls; did you "
            f"mean `{found.method}`?",
            rule=found.name,
            location=location_of(found.value, f"def {found.name}") or facts.location,
            jax_says=jax_says(facts.cls, found.method),
            remedies=(METHODS[found.method].template,),
        )
