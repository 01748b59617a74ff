"""The check of a hijax type: what its methods give, held to the type.

Nothing is computed but what a value that is given asks for: methods run on tracers, as
they do when JAX lowers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strict_hijax import _jax_traces
from strict_hijax._errors import untraceable_error
from strict_hijax._ignoring import raise_findings, without_ignored
from strict_hijax._report import CheckReport
from strict_hijax._types import describe

from .definition import findings_once_complete
from .equality import equality_findings, hash_finding
from .facts import USES, TypeFacts, type_facts
from .lowering import check_abstract_round_trip, check_lo_ty, check_value
from .record import TypeChecked
from .spaces import check_ranks, check_tangents


def check_hitype(ty: Any, *values: Any, specs: Sequence[Any] = ()) -> CheckReport:
    """Check one type, with values of it and specs for `inc_rank`; raise what is found.

    A type of a class that is not strict promises nothing: what it has is checked.
    """
    facts = facts_of_type(type(ty))
    checked = TypeChecked(facts, ty)
    checked.findings += findings_once_complete(facts) or _equality(facts, ty)
    ignored = getattr(type(ty), "_ignored", frozenset[str]())
    if not without_ignored(checked.findings, ignored):
        _check_methods(checked, values, specs)
    left = without_ignored(checked.findings, ignored)
    if len(left) == 1 and left[0] in checked.causes:
        raise untraceable_error(left[0], checked.causes[left[0]])
    raise_findings(left, ignored)
    return CheckReport(
        f"{facts.subject}: {describe(ty)}",
        rules=tuple(checked.reports),
        transforms={use: _status(facts, use) for use in USES},
        unchecked=tuple(checked.unchecked),
    )


def facts_of_type(cls: Any) -> TypeFacts:
    """What is known of a class of types, strict or not."""
    read_again = getattr(cls, "_read_again", None)
    if read_again is not None:
        return read_again()
    return type_facts(cls, frozenset(), abstract=False, location=None)


def _equality(facts: TypeFacts, ty: Any) -> list[Any]:
    if type(ty).__hash__ is None:  # it was told, and is ignored
        return []
    try:
        hash(ty)
    except TypeError as error:
        return [hash_finding(facts, ty, error)]
    except Exception:  # a type may decline to be hashed
        return []
    return equality_findings(facts, ty)


def _check_methods(
    checked: TypeChecked, values: Sequence[Any], specs: Sequence[Any]
) -> None:
    ty = checked.ty
    with _jax_traces.clean_context():
        lo_types = check_lo_ty(checked, ty)
    for value in [] if lo_types is None and checked.findings else values:
        with checked.running("lower_val"):
            check_value(checked, ty, value, lo_types)
    with _jax_traces.clean_context():
        if lo_types is not None and not checked.findings:
            with checked.running("raise_val"):
                check_abstract_round_trip(checked, ty, lo_types)
        check_ranks(checked, ty, specs)
        check_tangents(checked, ty)
    if not values:
        checked.unchecked.append("values: none is given")


def _status(facts: TypeFacts, use: str) -> str:
    lacking = [name for name in USES[use] if name not in facts.methods]
    return f"missing (no {', '.join(lacking)})" if lacking else "provided"
