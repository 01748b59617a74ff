"""The metaclass of `StrictHiPrim`: a class is checked when it is defined.

It keeps what is known of a class on the class: `_facts`, `_ignored`, and what the
class's instances share. That is set before the class's `__init_subclass__` hooks run
(see `_Setup`), since a hook may already make and use an instance.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import abc
import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from . import _jax
from ._checked import Checks, checks_of
from ._class_statements import (
    Promises,
    class_statement,
    is_abstract,
    name_to_be,
    refuse_unknown_keywords,
)
from ._construction import (
    construction_findings,
    effects_finding,
    is_well_formed,
    no_init_finding,
    shape_findings,
)
from ._definition import (
    ClassFacts,
    definition_advice,
    definition_findings,
    facts_of,
    facts_of_instance,
    has_no_rule,
    own_rules,
)
from ._effects import DEFAULT_POLICY, EffectPolicy, parse_policy
from ._errors import AdviceWarning, Finding, Location
from ._ignoring import parse_codes, raise_findings, without_ignored
from ._report import advice_of
from ._rules import RULES, TRANSFORMS
from ._signatures import function_of

_KEYWORDS = ("supports", "abstract", "ignore", "effects")
_OF_EQUALITY = ("__eq__", "__hash__")
_PROMISES = Promises(
    tuple(TRANSFORMS),
    frozenset({"grad"}),
    "transform",
    {
        "vjp": "grad",
        "reverse": "grad",
        "backward": "grad",
        "forward": "jvp",
        "lin": "linearize",
        "batch": "vmap",
        "checkpoint": "remat",
    },
)
_OURS = __name__.partition(".")[0]


class StrictMeta(abc.ABCMeta):
    """Validates each subclass of `StrictHiPrim` when it is defined."""

    _facts: ClassFacts
    _ignored: frozenset[str]
    _checks: Checks | None  # of its rules, made for the first call
    _accepted: frozenset[Any]  # faults that were ignored where they were found
    _is_changed: bool  # whether rules were set or deleted since it was checked
    _shapes_seen: set[tuple[Any, ...]]
    _examples_waiting: bool

    @_jax.user_boundary
    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        supports: Iterable[str] | None = None,
        abstract: bool = False,
        ignore: Iterable[str] = (),
        effects: str | Iterable[type] | None = None,
        **kwargs: Any,
    ) -> StrictMeta:
        said: dict[str, object] = {
            "supports": supports,
            "abstract": abstract,
            "ignore": ignore,
            "effects": effects,
        }
        location, module = class_statement(name, bases, said)
        namespace = {"__module__": module, **namespace}
        setup = namespace.get("_setup")
        if not isinstance(setup, _Setup):  # it is, where dataclass makes a class again
            subject = name_to_be(namespace, name)
            strict = [base for base in bases if isinstance(base, StrictMeta)]
            setup = _Setup(
                _PROMISES.read(
                    subject, supports, [base._facts.supports for base in strict]
                ),
                is_abstract(subject, abstract),
                parse_codes(ignore, f"{subject}, ignore=").union(
                    *(base._ignored for base in strict)
                ),
                location,
                _policy(subject, effects, [base._facts.policy for base in strict]),
            )
        namespace["_setup"] = setup
        refuse_unknown_keywords(name_to_be(namespace, name), bases, kwargs, _KEYWORDS)
        cls = super().__new__(mcs, name, bases, namespace, **kwargs)
        if getattr(cls, "__abstractmethods__", ()):
            cls._facts = dataclasses.replace(cls._facts, abstract=True)
        return cls

    @_jax.user_boundary
    def __init__(cls, name: str, bases: tuple[type, ...], namespace: Any, /, **_: Any):
        super().__init__(name, bases, namespace)
        if _is_root(cls):
            return
        cls._check_definition()
        for advice in without_ignored(definition_advice(cls._facts), cls._ignored):
            _warn(cls, advice)
        if not cls._facts.abstract and hasattr(cls, "examples"):
            from ._examples import check_at_definition

            cls._examples_waiting = check_at_definition(cls)

    def _check_definition(cls) -> None:
        """Check the class as it is now; what it was accepted with is no news."""
        found = definition_findings(cls._facts)
        raise_findings([f for f in found if _key(f) not in cls._accepted], cls._ignored)
        cls._accepted |= {_key(finding) for finding in found}
        cls._is_changed = False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            prim: Any = super().__call__(*args, **kwargs)
            if isinstance(prim, cls):  # else its `__new__` gave something of its own
                type(prim)._check_instance(prim)
            return prim
        except Exception as error:
            _jax.hide_frames(error)
            raise

    def _check_instance(cls, prim: Any) -> None:
        if not hasattr(prim, "in_tree"):
            raise_findings([no_init_finding(cls._facts)], cls._ignored)
        elif not is_well_formed(prim):
            raise_findings(construction_findings(cls._facts, prim), cls._ignored)
        else:
            cls._check_declaration(prim)
        if cls._examples_waiting:
            cls._check_examples_again()

    def _check_examples_again(cls) -> None:
        """Check examples that needed a name which was not there yet."""
        from ._examples import check_again

        check_again(cls)

    def _check_declaration(cls, prim: Any) -> None:
        """Check what a well-formed instance declares against its class."""
        shape = len(prim.in_avals), bool(prim.out_avals_flat)
        if shape not in cls._shapes_seen:
            if cls._is_changed:
                cls._check_definition()
            raise_findings(shape_findings(cls._facts, prim), cls._ignored)
            cls._shapes_seen.add(shape)
        if cls._facts.has_properties or not has_no_rule(prim.__dict__):
            cls._check_own_rules(prim, shape)
        if prim.effects and (wrong := effects_finding(cls._facts, prim)) is not None:
            raise_findings([wrong], cls._ignored)

    def _check_own_rules(cls, prim: Any, shape: tuple[int, bool]) -> None:
        """Check the rules that are set on an instance, or that a property gives it."""
        own = own_rules(cls._facts, prim)
        seen = (*shape, *((name, _kind_of(rule)) for name, rule in own.items()))
        if seen not in cls._shapes_seen:
            facts = facts_of_instance(cls._facts, prim)
            found = [*definition_findings(facts), *shape_findings(facts, prim)]
            raise_findings([f for f in found if f.rule in own], cls._ignored)
            cls._shapes_seen.add(seen)

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in RULES:  # a rule that is patched later is the one to check
            cls._read_again()
        elif (
            name in _OF_EQUALITY
        ):  # a decorator sets them: instances are looked at anew
            cls._shapes_seen = set()

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        if name in RULES:
            cls._read_again()

    def _read_again(cls) -> None:
        old = cls._facts
        cls._facts = _facts(cls, old.supports, old.abstract, old.location, old.policy)
        cls._shapes_seen = set()
        cls._checks = None
        cls._is_changed = True
        subclasses: list[Any] = cls.__subclasses__()
        for subclass in subclasses:
            subclass._read_again()

    def _checks_of_rules(cls) -> Checks:
        """How JAX's calls of the rules are checked, for a class that is used again."""
        if cls._is_changed:
            cls._check_definition()
        cls._checks = checks_of(cls._facts, cls._ignored)
        return cls._checks


class _Setup:
    """Gives a new class its attributes, before `__init_subclass__` hears of it.

    It stands in the class body: Python calls `__set_name__` first. It stays there, so
    that a class which is made again from its own body keeps its keywords.
    """

    def __init__(
        self,
        supports: frozenset[str],
        abstract: bool,
        ignored: frozenset[str],
        location: Location | None,
        policy: EffectPolicy,
    ) -> None:
        self.supports = supports
        self.abstract = abstract
        self.ignored = ignored
        self.location = location
        self.policy = policy

    def __set_name__(self, cls: StrictMeta, name: str) -> None:
        cls._ignored = self.ignored
        cls._checks = None
        cls._accepted = frozenset()
        cls._is_changed = False
        cls._shapes_seen = set()
        cls._examples_waiting = False
        cls._facts = _facts(
            cls, self.supports, self.abstract, self.location, self.policy
        )


def _kind_of(rule: object) -> object:
    """What two rules share that are checked alike."""
    return getattr(function_of(rule), "__code__", type(rule))


def _key(finding: Finding) -> tuple[str, str | None]:
    return finding.code, finding.rule


def _warn(cls: StrictMeta, advice: Finding) -> None:
    """Say something at the class statement, as a warning that a filter can turn off."""
    place = cls._facts.location or Location("<unknown>", 1)
    warnings.warn_explicit(
        advice_of(advice), AdviceWarning, place.filename, place.line, cls.__module__
    )


def _facts(
    cls: type,
    supports: frozenset[str],
    abstract: bool,
    location: Location | None,
    policy: EffectPolicy,
) -> ClassFacts:
    """What is known of a strict class; what stands in `HiPrim` and ours is not its."""
    roots = {base for base in cls.__mro__ if _is_root(base)}
    return facts_of(cls, supports, abstract, location, _FOUNDATION | roots, policy)


_FOUNDATION = frozenset(_jax.HiPrim.__mro__)


def _is_root(cls: type) -> bool:
    """Whether a class is `StrictHiPrim` itself."""
    strict = isinstance(cls, StrictMeta)
    return strict and not any(isinstance(base, StrictMeta) for base in cls.__bases__)


# --- what a class statement says ------------------------------------------------------


def _policy(
    subject: str, effects: object, inherited: Sequence[EffectPolicy]
) -> EffectPolicy:
    """Which effects the rules of a class may have: what it says, or its bases do."""
    if effects is not None:
        return parse_policy(effects, subject)
    said = [policy for policy in inherited if policy != DEFAULT_POLICY]
    return said[0] if said else DEFAULT_POLICY
