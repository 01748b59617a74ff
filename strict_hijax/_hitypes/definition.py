"""Checks on a class of hijax types, from names, signatures and code alone.

Each check is a function from the facts about a class to findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strict_hijax._errors import Finding, location_of
from strict_hijax._signatures import (
    NoFunction,
    arity_of,
    certain_returns,
    is_abstract,
    no_function,
    only_raises,
)
from strict_hijax._types import describe_value

from .facts import ALWAYS, METHODS, USES, TypeFacts, jax_says
from .names import look_alikes, misspelt


def findings_at_definition(facts: TypeFacts, complete: bool) -> list[Finding]:
    """The faults of a class; of one that a decorator may complete, not all of them."""
    needed = tuple(name for name in facts.needed if name not in ALWAYS)
    found = [*uncallable(facts), *arguments(facts)]
    if not facts.abstract:
        found += [
            *misspelt(facts),
            *missing(facts, needed),
        ]
    return found + findings_once_complete(facts) if complete else found


def findings_once_complete(facts: TypeFacts) -> list[Finding]:
    """Faults that a decorator such as `dataclass` may still have mended."""
    found = list(eq_without_hash(facts))
    if not facts.abstract:
        found += missing(facts, ALWAYS)
    return found


def missing(facts: TypeFacts, names: tuple[str, ...]) -> Iterator[Finding]:
    """One finding for each method that a promised use needs and that is not there."""
    meant = {found.rule for found in look_alikes(facts)}
    for name in names:
        if name in facts.methods or name in meant:
            continue
        uses = [use for use, needs in USES.items() if name in needs]
        promised = [use for use in uses if use in facts.supports]
        has = [each for each in facts.methods if each not in ALWAYS]
        reason = f", which `{promised[0]}` needs." if promised else "."
        yield facts.finding(
            "SH701",
            f"has no `{name}`{reason}",
            rule=name,
            facts=(f"has: {', '.join(has) or 'none of the methods that JAX calls'}",),
            jax_says=jax_says(facts.cls, name),
            remedies=tuple(_remedies_for_missing(facts, name, promised)),
        )


def _remedies_for_missing(
    facts: TypeFacts, name: str, promised: list[str]
) -> Iterator[str]:
    if name in ALWAYS:
        yield "@dataclass(frozen=True)   # above the class: it writes both"
    yield f"{METHODS[name].template}   # write it"
    if promised:
        left = sorted(facts.supports - {*promised})
        listed = "".join(f"{use!r}, " for use in left).replace("'", '"')
        listed = (
            listed.removesuffix(" ") if len(left) == 1 else listed.removesuffix(", ")
        )
        yield facts.class_line(f"supports=({listed})") + f"   # no {promised[0]}"
    yield facts.class_line("abstract=True") + "   # a base for other classes"


def _has_hash(cls: type) -> bool:
    return cls.__hash__ is not None


def eq_without_hash(facts: TypeFacts) -> Iterator[Finding]:
    if _has_hash(facts.cls):
        return
    name = facts.cls.__name__
    owner = facts.owners.get("__hash__", facts.cls)
    parameters: Any = vars(owner).get("__dataclass_params__")
    if parameters is not None and parameters.eq:
        yield facts.finding(
            "SH703",
            "is a dataclass that is not frozen, so that it cannot be hashed.",
            rule="__hash__",
            facts=("`@dataclass` alone writes `__eq__` and sets `__hash__` to None",),
            jax_says=f"unhashable type: '{name}'",
            remedies=(
                f"@dataclass(frozen=True)   # above class {owner.__name__}",
                "def __hash__(self): return hash(...)   # of what __eq__ compares",
            ),
        )
        return
    yield facts.finding(
        "SH702",
        "defines `__eq__` without `__hash__`, so that it cannot be hashed.",
        rule="__hash__",
        location=location_of(facts.cls.__eq__, "def __eq__") or facts.location,
        facts=("Python sets `__hash__` to None in a class that writes `__eq__` alone",),
        jax_says=f"unhashable type: '{name}'",
        remedies=("def __hash__(self): return hash(...)   # of what __eq__ compares",),
    )


def uncallable(facts: TypeFacts) -> Iterator[Finding]:
    for name, value in facts.methods.items():
        if name == "__hash__" and value is None:
            continue  # SH702 and SH703 say it
        line, got = METHODS[name].template, describe_value(value)
        wrong = no_function(value, line, got)
        if isinstance(value, property) and certain_returns(value.fget):
            what = "is a property; JAX calls it as a method."
            wrong = NoFunction(what, got, f"{line}   # no @property")
        elif _returns_nothing(name, value) and not facts.abstract:
            wrong = NoFunction("returns nothing.", got, "return ...   # at the end")
        if wrong is None:
            continue
        yield facts.finding(
            "SH705",
            f"has a `{name}` that {wrong.what}",
            rule=name,
            expected="a method that returns its result",
            got=wrong.got,
            remedies=(wrong.remedy,),
        )


def _returns_nothing(name: str, value: object) -> bool:
    """Whether a method certainly gives no result; a spec may be None: not mapped."""
    if name.endswith("_spec") or is_abstract(value):
        return False
    return certain_returns(value) == frozenset({"None"})


def arguments(facts: TypeFacts) -> Iterator[Finding]:
    """Whether each method can take what JAX gives it."""
    for name, value in facts.methods.items():
        arity, method = arity_of(value), METHODS[name]
        if arity is None or only_raises(value) or is_abstract(value):
            continue
        any_number = method.arity.most is None  # `check` counts them
        given = () if any_number else method.given
        problem = arity.problem(given, or_more=any_number)
        if problem is not None:
            yield facts.finding(
                "SH704",
                f"has a `{name}` that {problem}",
                rule=name,
                expected=method.template.removeprefix("def ").removesuffix(": ..."),
                got=f"{name}{arity.written}",
                remedies=(method.template,),
            )
