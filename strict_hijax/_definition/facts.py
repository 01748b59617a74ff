"""What is known of a class when it is defined, read without calling anything."""

from __future__ import annotations

import dataclasses
import types
from functools import cached_property
from typing import Any

from strict_hijax import _jax
from strict_hijax._class_statements import Facts, names_beside, unwrapped
from strict_hijax._effects import DEFAULT_POLICY, EffectPolicy
from strict_hijax._errors import Location, location_of
from strict_hijax._rules import RULES, derived_half
from strict_hijax._signatures import arity_of, returned_lengths


@dataclasses.dataclass(frozen=True)
class ClassFacts(Facts):
    """What is known of a class when it is defined.

    Attributes:
      cls: the class.
      rules: the rules that it has of its own or inherits below `HiPrim`, by name, as
        they stand in a class body. A rule that is None counts as absent.
      owners: the class that each rule stands in.
      other_names: what else stands in the class and its bases below `HiPrim`.
      supports: the transforms that it promises.
      abstract: whether it is an intermediate base.
      location: where the class statement is.
      policy: which effects its reverse rules may have.
    """

    cls: type
    rules: dict[str, Any]
    owners: dict[str, type]
    other_names: dict[str, Any]
    supports: frozenset[str]
    abstract: bool
    location: Location | None
    policy: EffectPolicy = DEFAULT_POLICY

    @cached_property
    def has_properties(self) -> bool:
        """Whether a rule is what a property gives, for each instance anew."""
        return any(isinstance(value, property) for value in self.rules.values())

    @property
    def has(self) -> str:
        """The rules that are there, in words."""
        return f"has: {', '.join(self.rules) or 'no rule'}"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names for the inputs, from `expand` or whichever rule shows them."""
        for name, rule in RULES.items():
            arity = arity_of(self.rules.get(name))
            if rule.per_input and arity is not None and arity.most is not None:
                names = arity.names[len(rule.leading) :] or arity.required_keywords
                return tuple(n.removesuffix("_acc").removesuffix("_dot") for n in names)
        return ("x",)

    def provides(self, name: str) -> bool:
        """Whether a rule is there, and all that it is derived from."""
        return self._provides(name, frozenset())

    def _provides(self, name: str, above: frozenset[str]) -> bool:
        if name not in self.rules or name in above:
            return False
        half = derived_half(self.rules[name])
        needs = half[0].needs if half is not None else ()
        return all(self._provides(need, above | {name}) for need in needs)

    def sources(self, rule: str) -> frozenset[str]:
        """The rules, written by hand, that a rule is derived from in the end."""
        half = derived_half(self.rules.get(rule))
        if half is None:
            return frozenset({rule})
        return frozenset[str]().union(*map(self.sources, half[0].needs))

    def may_get_structured(self, rule: str) -> bool:
        """Whether JAX may give a rule structured residuals, `sres`, besides `res`.

        They are the fourth element of what the forward rule returns; not, where its
        code is there and writes out tuples of two or three only.
        """
        if not RULES[rule].structured_residuals:
            return False
        forward = self.rules.get("lin" if rule == "linearized" else "vjp_fwd")
        lengths = returned_lengths(forward)
        written = forward is not None and derived_half(forward) is None
        if self.abstract or not written or not lengths:
            return True
        return max(lengths) > 3

    def accumulators(self, rule: str, n: int) -> tuple[str, ...]:
        """What a rule calls its accumulators, one for each of n inputs."""
        given = tuple(f"{name}_acc" for name in self.inputs)
        given = given if len(given) == n else tuple(f"x{i}_acc" for i in range(n))
        arity = arity_of(self.rules.get(rule))
        if arity is None:
            return given
        if arity.most is not None:
            return arity.names[-n:] if n <= len(arity.names) else given
        code = arity.code
        rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
        own = arity.names[len(RULES[rule].leading) :]
        return (*own, *(f"{rest}[{i}]" for i in range(n - len(own))))[:n]

    def where(self, rule: str) -> Location | None:
        """Where a rule is written, or else the class."""
        value = self.rules.get(rule)
        if derived_half(value) is not None:
            return self.location
        function = unwrapped(getattr(value, "__func__", value))
        return location_of(function, f"def {rule}") or self.location


def facts_of(
    cls: type,
    supports: frozenset[str],
    abstract: bool,
    location: Location | None,
    foundation: frozenset[type],
    policy: EffectPolicy = DEFAULT_POLICY,
) -> ClassFacts:
    """Read a class. Rules that stand in the `foundation` are not its own."""
    rules: dict[str, Any] = {}
    owners: dict[str, type] = {}
    for name in RULES:
        for base in cls.__mro__:
            if name in vars(base):
                value = vars(base)[name]
                if base not in foundation and not _is_jax_own(name, value):
                    rules[name], owners[name] = value, base
                break
    other_names = names_beside(cls, RULES, foundation)
    return ClassFacts(
        cls, rules, owners, other_names, supports, abstract, location, policy
    )


def facts_of_instance(facts: ClassFacts, prim: Any) -> ClassFacts:
    """The same with the rules that an instance has of its own, as in `self.jvp = f`."""
    own = own_rules(facts, prim)
    if not own:
        return facts
    rules = facts.rules | own
    return dataclasses.replace(
        facts,
        rules={name: rules[name] for name in RULES if name in rules},
        owners=facts.owners | dict.fromkeys(own, facts.cls),
    )


has_no_rule = frozenset(RULES).isdisjoint
"""Whether an instance's `__dict__` has no rule; the quick answer."""


def own_rules(facts: ClassFacts, prim: Any) -> dict[str, Any]:
    """Rules of an instance alone, as they would stand in a class body.

    They are set on it, or given by a property; JAX calls them without a self.
    """
    found = ((name, _own_rule(facts, prim, name)) for name in RULES)
    return {name: _unbound(value) for name, value in found if value is not None}


def _own_rule(facts: ClassFacts, prim: Any, name: str) -> Any:
    written = facts.rules.get(name)
    if isinstance(written, property):
        try:
            return getattr(prim, name)
        except Exception:  # not yet, or not for this instance
            return None
    return None if isinstance(written, cached_property) else vars(prim).get(name)


def _unbound(value: object) -> object:
    if isinstance(value, types.MethodType):
        return value.__func__
    return staticmethod(value) if isinstance(value, types.FunctionType) else value


def _is_jax_own(name: str, value: object) -> bool:
    """Whether a class body says that it has no such rule: None, or `HiPrim`'s own."""
    return value is None or value is getattr(_jax.HiPrim, name)
