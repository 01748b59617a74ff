"""Equality and hash of a type: JAX compares types, and keeps them in its caches."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from strict_hijax._errors import Finding
from strict_hijax._types import describe_value

from .facts import TypeFacts


def hash_finding(facts: TypeFacts, ty: Any, error: TypeError) -> Finding:
    """A type with a field that cannot be hashed."""
    unhashable = [(n, v) for n, v in _fields(ty) if not _can_be_hashed(v)]
    field, value = unhashable[0] if unhashable else (None, None)
    remedy = "def __hash__(self): return hash(...)   # of what can be hashed"
    if isinstance(value, list):
        remedy = f"{facts.cls.__name__}(..., tuple({field}))   # in place of the list"
    elif field is not None:
        remedy = f"{field} = ...   # a type, a tuple or a number, in place of the value"
    what = f"a `{field}` that is {describe_value(value)}" if field else "fields"
    return facts.finding(
        "SH707",
        f"is made with {what}, for which `__hash__` fails.",
        rule="__hash__",
        path=field,
        jax_says=str(error),
        expected="fields that can be hashed",
        got=describe_value(value) if field else None,
        remedies=(remedy,),
    )


def _fields(ty: Any) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(ty):
        return [(each.name, getattr(ty, each.name)) for each in dataclasses.fields(ty)]
    return list(vars(ty).items())


def _can_be_hashed(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    except Exception:  # it may decline
        return True
    return True


def equality_findings(facts: TypeFacts, ty: Any) -> list[Finding]:
    """Whether a type is equal to itself, and hashes as what it is equal to does.

    A type that may not be compared, and raises, is not at fault.
    """
    try:
        twin = object.__new__(type(ty))
        twin.__dict__.update(ty.__dict__)
        itself, alike = ty == ty, ty == twin
        hashes = hash(ty), hash(twin)
    except Exception:
        return []
    location = facts.where("__eq__")
    if not isinstance(itself, bool | np.bool_) or not itself:
        return [
            facts.finding(
                "SH708",
                "has an `__eq__` by which it is not equal to itself.",
                rule="__eq__",
                location=location,
                expected="ty == ty is True",
                got=describe_value(itself),
                remedies=(f"def __eq__(self, other): {_EQ}",),
            )
        ]
    if alike is True and hashes[0] != hashes[1]:
        return [
            facts.finding(
                "SH708",
                "has a `__hash__` that differs where instances are equal.",
                rule="__hash__",
                facts=("two instances with the same fields were compared",),
                expected="equal types have equal hashes",
                remedies=(
                    "def __hash__(self): return hash(...)   # of what __eq__ compares",
                ),
            )
        ]
    return []


_EQ = "return type(other) is type(self) and ...   # compare the fields"
