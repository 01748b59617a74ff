"""What is known of a class of hijax types when it is defined.

What JAX calls, with which arguments, and what it says where a method is missing, is
read off the installed `HiType`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from strict_hijax import _jax
from strict_hijax._class_statements import Facts, names_beside, unwrapped
from strict_hijax._errors import Location, location_of
from strict_hijax._signatures import Arity, arity_of

ALWAYS = ("__eq__", "__hash__")

# What a use of a type needs, besides equality and hash.
USES: dict[str, tuple[str, ...]] = {
    "jit": ("lo_ty", "lower_val", "raise_val"),
    "grad": ("to_tangent_aval",),
    "vmap": ("dec_rank", "inc_rank"),
    "scan": ("dec_rank", "inc_rank", "leading_axis_spec"),
    "shard_map": ("shard", "unshard"),
}
DEFAULT_USES = frozenset({"jit", "grad"})


@dataclasses.dataclass(frozen=True, slots=True)
class Method:
    """A method of `HiType`: how JAX calls it."""

    name: str
    arity: Arity

    @property
    def given(self) -> tuple[str, ...]:
        """The arguments that JAX gives, by its own names; `*` before any number."""
        return ("*lo_vals",) if self.arity.most is None else self.arity.names

    @property
    def template(self) -> str:
        """A line to write."""
        return f"def {self.name}({', '.join(('self', *self.given))}): ..."


def _installed_methods() -> dict[str, Method]:
    found: dict[str, Method] = {}
    for name, value in vars(_jax.HiType).items():
        arity = arity_of(value)
        if arity is not None:
            found[name] = Method(name, arity)
    return found


METHODS = _installed_methods()


@dataclasses.dataclass(frozen=True)
class TypeFacts(Facts):
    """What is known of a class of hijax types.

    Attributes:
      cls: the class.
      methods: the methods of `HiType` that it has of its own, as they stand in a body.
      owners: the class that each of them stands in.
      other_names: what else stands in the class and its bases below `HiType`.
      supports: the uses that it promises.
      abstract: whether it is an intermediate base.
      location: where the class statement is.
    """

    cls: type
    methods: dict[str, Any]
    owners: dict[str, type]
    other_names: dict[str, Any]
    supports: frozenset[str]
    abstract: bool
    location: Location | None

    @property
    def needed(self) -> tuple[str, ...]:
        """The methods that the promised uses need, in the order of the table."""
        uses = (
            name
            for use, names in USES.items()
            if use in self.supports
            for name in names
        )
        return tuple(dict.fromkeys((*ALWAYS, *uses)))

    def where(self, rule: str) -> Location | None:
        """Where a method is written, or else the class."""
        value = self.methods.get(rule)
        function = unwrapped(getattr(value, "__func__", value))
        return location_of(function, f"def {rule}") or self.location


FOUNDATION = frozenset(_jax.HiType.__mro__)


def type_facts(
    cls: type,
    supports: frozenset[str],
    abstract: bool,
    location: Location | None,
    foundation: frozenset[type] = FOUNDATION,
) -> TypeFacts:
    """Read a class. Methods that stand in the `foundation` are not its own."""
    methods: dict[str, Any] = {}
    owners: dict[str, type] = {}
    for name in METHODS:
        owner = next(base for base in cls.__mro__ if name in vars(base))
        value = vars(owner)[name]
        if owner not in foundation and value is not vars(_jax.HiType).get(name):
            methods[name], owners[name] = value, owner
    other_names = names_beside(cls, METHODS, foundation)
    return TypeFacts(cls, methods, owners, other_names, supports, abstract, location)


def jax_says(cls: type, method: str) -> str | None:
    """JAX's own sentence where a class has no such method, if it has one."""
    nameless: Any = type(cls.__name__, (), {})()
    arguments = (None,) * METHODS[method].arity.least
    try:
        vars(_jax.HiType)[method](nameless, *arguments)
    except NotImplementedError as error:
        return str(error)
    except AttributeError:  # one that has a default, which asks another method
        return None
    return None
