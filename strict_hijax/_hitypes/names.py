"""Names that look like a method of a hijax type and are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strict_hijax import _jax, _names
from strict_hijax._errors import Finding, location_of
from strict_hijax._names import LookAlike
from strict_hijax._signatures import arity_of

from .facts import ALWAYS, METHODS, TypeFacts, jax_says

_WORDS = {
    "lower_val": "lower",
    "raise_val": "raise_",
    "lo_ty": "lo_type lo_types low_type low_types",
    "to_tangent_aval": "tangent_type to_tangent to_tangent_ty to_tangent_type",
    "to_ct_aval": "cotangent_aval to_cotangent_aval to_ct_ty to_ct_type",
    "vspace_zero": "vspace_zeros",
}


def look_alikes(facts: TypeFacts) -> list[LookAlike]:
    """Names that JAX never calls, each with the missing method that was meant."""
    others = {  # JAX may well call what `HiType` has an attribute for
        name: value
        for name, value in facts.other_names.items()
        if not hasattr(_jax.HiType, name)
    }
    missing = {
        name: name in facts.needed
        for name in METHODS
        if name not in facts.methods and name not in ALWAYS
    }
    return list(
        _names.look_alikes(
            others, facts.methods, missing, _WORDS, _fits, lambda *_: True
        )
    )


def _fits(value: Any, method: str) -> bool:
    arity, count = arity_of(value), METHODS[method].arity.most
    return arity is None or count is None or arity.takes(count)


def misspelt(facts: TypeFacts) -> Iterator[Finding]:
    for found in look_alikes(facts):
        yield facts.finding(
            "SH706",
            f"defines `{found.name}`, which JAX {_jax.VERSION} never calls; did you "
            f"mean `{found.rule}`?",
            rule=found.name,
            location=location_of(found.value, f"def {found.name}") or facts.location,
            jax_says=jax_says(facts.cls, found.rule),
            remedies=(METHODS[found.rule].template,),
        )
