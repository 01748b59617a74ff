"""Hijax types that are right by construction: a value holds one to three arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from .source import HEAD, STRICT_HEAD, Member, Method, class_text
from .trees import Leaf

STYLES = ("dataclass", "plain")


@dataclass(frozen=True)
class Spec:
    """What a type is like, drawn at random.

    Attributes:
      parts: the arrays in a value.
      is_vector: whether values are their own tangents; else these are float32 arrays.
      has_axes: whether there may be leading axes, and `inc_rank` and `dec_rank`.
      style: whether it is a frozen "dataclass", or a "plain" class with its own
        `__init__`, `__eq__` and `__hash__`.
    """

    parts: tuple[Leaf, ...]
    is_vector: bool = False
    has_axes: bool = False
    style: str = "dataclass"
    number: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple("abc"[: len(self.parts)])

    @property
    def inputs(self) -> tuple[Leaf, ...]:
        return ()


@dataclass(frozen=True)
class HiType:
    """The program of a type: its class, a value's class, and one of each.

    Attributes:
      spec: what was drawn.
      members: methods of the type by name.
      keywords: class keywords that stock JAX does not know.
      decorators: lines above the class.
      construct, value: expressions for a type and a value of it.
      axes: expressions for the axes that `inc_rank` can be given.
    """

    spec: Any
    name: str
    members: Mapping[str, Member]
    construct: str
    value: str
    axes: tuple[str, ...]
    keywords: Mapping[str, str] = field(default_factory=dict)
    decorators: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    args: tuple[str, ...] = ()

    def but(self, **changes: Any) -> Self:
        """The same with other fields."""
        return replace(self, **changes)

    def having(self, **members: Member) -> Self:
        """The same with these members added or replaced."""
        return self.but(members={**self.members, **members})

    def lacking(self, *names: str) -> Self:
        """The same without these members."""
        left = {k: v for k, v in self.members.items() if k not in names}
        return self.but(members=left)

    def method(self, name: str) -> Method:
        """A method of the type."""
        member = self.members[name]
        assert isinstance(member, Method)
        return member

    def source(self, *, strict: bool, typed: bool) -> str:
        """The module, on strict_hijax or on stock JAX; `typed` makes no difference."""
        del typed
        base, held = ("StrictHiType" if strict else "HiType"), self.spec.names
        lines = [
            "import dataclasses",
            "from jax.experimental.hijax import HiType, MappingSpec, register_hitype",
            "@dataclasses.dataclass(frozen=True)",
            "class Axis(MappingSpec):",
            "    at: int",
            "@dataclasses.dataclass(frozen=True)",
            f"class {self.name}Value:",
            *(f"    {name}: object" for name in held),
            *self.decorators,
            class_text(
                self.name, [base], self.keywords if strict else {}, self.members
            ),
            f"register_hitype({self.name}Value, lambda value: {self.construct})",
        ]
        return "\n".join([HEAD, STRICT_HEAD if strict else "", *lines])


def hitype(spec: Spec) -> HiType:
    """The program of a spec."""
    name = f"Type{spec.number}"
    return HiType(
        spec,
        name,
        dict(_members(spec, name)),
        f"{name}(())",
        f"{name}Value({', '.join(f'jnp.asarray({p.value})' for p in spec.parts)})",
        ("Axis(0)",) if spec.has_axes else (),
        {"supports": "('jit', 'grad', 'vmap')"} if spec.has_axes else {},
        ("@dataclasses.dataclass(frozen=True)",) if spec.style == "dataclass" else (),
    )


def _members(spec: Spec, name: str) -> Iterator[tuple[str, Member]]:
    parts = list(zip(spec.names, spec.parts, strict=True))
    if spec.style == "dataclass":
        yield "lead", "lead: tuple"
    else:
        yield "__init__", Method(("self", "lead"), ("self.lead = lead",))
        same = "type(self) is type(other) and self.lead == other.lead"
        yield "__eq__", Method(("self", "other")).giving(same)
        yield "__hash__", Method(("self",)).giving("hash(self.lead)")
    types = [f"typed((*self.lead, *{p.shape}), '{p.dtype}')" for _, p in parts]
    read = ", ".join(f"value.{n}" for n in spec.names)
    yield "lo_ty", Method(("self",)).giving(f"[{', '.join(types)}]")
    yield "lower_val", Method(("self", "value")).giving(f"[{read}]")
    made = f"{name}Value({', '.join(spec.names)})"
    yield "raise_val", Method(("self", *spec.names)).giving(made)
    if spec.is_vector:
        yield "to_tangent_aval", Method(("self",)).giving("self")
        zeros = [f"jnp.zeros((*self.lead, *{p.shape}), '{p.dtype}')" for _, p in parts]
        yield (
            "vspace_zero",
            Method(("self",)).giving(f"{name}Value({', '.join(zeros)})"),
        )
        sums = [f"x.{n} + y.{n}" for n in spec.names]
        added = Method(("self", "x", "y")).giving(f"{name}Value({', '.join(sums)})")
        yield "vspace_add", added
    else:
        shape = spec.parts[0].shape
        tangent = f"typed((*self.lead, *{shape}), 'float32')"
        yield "to_tangent_aval", Method(("self",)).giving(tangent)
    if spec.has_axes:
        more = f"{name}((size, *self.lead))"
        yield "inc_rank", Method(("self", "size", "spec")).giving(more)
        yield (
            "dec_rank",
            Method(("self", "size", "spec")).giving(f"{name}(self.lead[1:])"),
        )
    shown = f"'{name}' + str(list(self.lead))"
    yield "str_short", Method(("self", "*args", "**kwargs")).giving(shown)
