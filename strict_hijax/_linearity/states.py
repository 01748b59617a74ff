"""What is known of a value as a function of tangents, and how that combines.

A value is constant in the tangents, affine (a linear part and a constant one),
certainly not linear, or unknown. In doubt it is unknown: of two things that are not
linear, sums and products may be linear again (`f(x + t) - f(x)`, `|t| * sign(t)`).
"""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any


class Kind(enum.Enum):
    """How a value depends on the tangents."""

    CONSTANT = "constant"
    AFFINE = "affine"
    NONLINEAR = "nonlinear"
    UNKNOWN = "unknown"


class Part(enum.IntEnum):
    """The constant part of a value: a constant itself, or what a linear one is off by.

    Infinities and nan count as ZERO: as the tangent where a derivative does not exist
    they are a convention, for any input.
    """

    ZERO = 0
    UNIFORM = 1  # the same known number everywhere, and not zero
    VARIES = 2  # computed from primals: zero for some of them, but not for all
    UNKNOWN = 3


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What is known of one value.

    Attributes:
      kind: how it depends on the tangents.
      part: its constant part.
      mixed: only some of its elements are known to be so; others may be anything.
      number: the value of all elements, where it is a known number.
      fixed: made of literals and the like alone, and of no input.
      trail: the equation that made it other than linear, and those that call it.
    """

    kind: Kind
    part: Part = Part.ZERO
    mixed: bool = False
    number: float | None = None
    fixed: bool = dataclasses.field(default=False, compare=False)
    trail: tuple[Any, ...] = dataclasses.field(default=(), compare=False)

    @property
    def is_constant(self) -> bool:
        """Whether it is the same for all tangents."""
        return self.kind is Kind.CONSTANT

    @property
    def is_zero(self) -> bool:
        """Whether it is zero for all tangents."""
        return self.is_constant and self.part is Part.ZERO

    @property
    def is_infinite(self) -> bool:
        """Whether it is infinity or nan everywhere."""
        return self.number is not None and not math.isfinite(self.number)

    @property
    def is_linear(self) -> bool:
        """Whether it is linear in the tangents; zero is."""
        return self.kind in (Kind.CONSTANT, Kind.AFFINE) and self.part is Part.ZERO

    @property
    def is_through_origin(self) -> bool:
        """Affine with a constant part that no primal has a share in.

        What depends on a primal plus a tangent may be one half of a difference.
        """
        known = self.part in (Part.ZERO, Part.UNIFORM)
        return self.kind is Kind.AFFINE and known and not self.mixed

    def at(self, eqn: Any) -> State:
        """The same, with an equation to name where none is named yet."""
        if self.is_linear or self.kind is Kind.UNKNOWN or self.trail:
            return self
        return dataclasses.replace(self, trail=(eqn,))

    def called_by(self, eqn: Any) -> State:
        """The same, of an equation within a call."""
        return dataclasses.replace(self, trail=(*self.trail, eqn))

    def with_part(self, part: Part) -> State:
        """The same with another constant part."""
        return dataclasses.replace(self, part=part, number=None)

    @property
    def where_chosen(self) -> State:
        """The same where a primal chooses it, which may be just where it is zero."""
        return self.with_part(Part.UNKNOWN) if self.part is Part.VARIES else self


ZERO = State(Kind.CONSTANT, number=0.0)
LINEAR = State(Kind.AFFINE)
PRIMAL = State(Kind.CONSTANT, Part.VARIES)
SOME_CONSTANT = State(Kind.CONSTANT, Part.UNKNOWN)
NONLINEAR = State(Kind.NONLINEAR)
UNKNOWN = State(Kind.UNKNOWN)


def number(value: float) -> State:
    """A constant whose elements are all this number."""
    part = Part.UNIFORM if value and math.isfinite(value) else Part.ZERO
    return State(Kind.CONSTANT, part, number=value)


def added(a: State, b: State) -> State:
    """The sum or difference of two values that are not the same one."""
    kinds = {a.kind, b.kind}
    if a.is_zero:
        return b
    if b.is_zero:
        return a
    if Kind.UNKNOWN in kinds or kinds == {Kind.NONLINEAR}:
        return UNKNOWN
    if Kind.NONLINEAR in kinds:
        return a if a.kind is Kind.NONLINEAR else b
    mixed = a.mixed or b.mixed
    if kinds == {Kind.CONSTANT}:
        part = Part.UNKNOWN if a.part is b.part else max(a.part, b.part)
        return State(Kind.CONSTANT, part, mixed)
    if Part.ZERO in (a.part, b.part):
        trail = a.trail or b.trail
        return State(Kind.AFFINE, max(a.part, b.part), mixed, trail=trail)
    return State(Kind.AFFINE, Part.UNKNOWN)  # constants that may cancel


def multiplied(a: State, b: State, *, contracts: bool = False) -> State:
    """The product of two values; `contracts` where sums of products are taken."""
    for state, other in ((a, b), (b, a)):
        if state.is_zero:
            return other if state.is_infinite and other.is_linear else ZERO
    if Kind.UNKNOWN in (a.kind, b.kind):
        return UNKNOWN
    if b.is_constant and not a.is_constant:
        return scaled(a, b, contracts=contracts)
    if a.is_constant:
        if not b.is_constant:
            return scaled(b, a, contracts=contracts)
        if (a.mixed and b.mixed) or (contracts and (a.mixed or b.mixed)):
            return SOME_CONSTANT
        return State(Kind.CONSTANT, max(a.part, b.part), a.mixed or b.mixed)
    both = a.is_through_origin and b.is_through_origin
    return NONLINEAR if both else UNKNOWN


def scaled(a: State, by: State, *, contracts: bool = False) -> State:
    """A value that depends on tangents, times a constant that is not known to be 0."""
    uniform = by.part is Part.UNIFORM and not (by.mixed or contracts)
    if a.mixed and not uniform:
        return UNKNOWN  # it may be a mask, for just those elements
    if a.kind is Kind.NONLINEAR:
        return UNKNOWN if by.part is Part.UNKNOWN or by.mixed or contracts else a
    if a.part is Part.ZERO or uniform:
        return a
    certain = a.part is Part.UNIFORM and by.part is Part.VARIES
    if certain and not by.mixed and not contracts:
        return a.with_part(Part.VARIES)
    return State(Kind.AFFINE, Part.UNKNOWN)


def divided(a: State, b: State) -> State:
    """The quotient of two values."""
    if a.is_zero:
        return ZERO
    if b.is_constant:
        divisor = State(Kind.CONSTANT, max(b.part, Part.UNIFORM))
        if a.is_constant:
            return multiplied(a, divisor)
        return scaled(a, divisor if b.part is not Part.UNKNOWN else PRIMAL)
    if not b.is_through_origin:
        return UNKNOWN
    certain = a.is_through_origin or (a.is_constant and a.part is not Part.UNKNOWN)
    return NONLINEAR if certain else UNKNOWN


def curved(states: list[State], *, rounds: bool = False) -> State:
    """A function of values that is linear in none of them."""
    if all(state.is_constant for state in states):
        parts = {state.part for state in states}
        certain = Part.VARIES in parts and Part.UNKNOWN not in parts and not rounds
        return PRIMAL if certain else SOME_CONSTANT
    others = [state for state in states if not state.is_constant]
    certain = all(state.is_through_origin for state in others)
    return NONLINEAR if certain else UNKNOWN


def picked(state: State) -> State:
    """Some of the elements of a value."""
    if not state.mixed:
        return state
    return SOME_CONSTANT if state.is_constant else UNKNOWN


def overwritten(state: State) -> State:
    """A value of which some elements are replaced: perhaps just those not linear."""
    if state.is_linear:
        return state
    return SOME_CONSTANT if state.is_constant else UNKNOWN


def joined(a: State, b: State) -> State:
    """The elements of two values side by side, or chosen from two."""
    if a == b:
        return a if a.trail else b
    for state, other in ((a, b), (b, a)):
        if state.kind is Kind.NONLINEAR:
            return dataclasses.replace(state, mixed=True)
        if state.kind is Kind.UNKNOWN and other.kind is not Kind.NONLINEAR:
            return UNKNOWN
    parts = {a.part, b.part}
    known = parts - {Part.UNKNOWN, Part.ZERO}
    part = max(known) if known else max(parts)
    constant = a.is_constant and b.is_constant
    kind = Kind.CONSTANT if constant else Kind.AFFINE
    mixed = part is not Part.ZERO or a.is_infinite or b.is_infinite
    return State(kind, part, mixed, trail=a.trail or b.trail)


def merged(a: State, b: State) -> State:
    """One value that is the one or the other: what is certain of both."""
    if a == b:
        return a
    if not {a.kind, b.kind} <= {Kind.CONSTANT, Kind.AFFINE}:
        return UNKNOWN
    constant = a.is_constant and b.is_constant
    part = a.part if a.part is b.part else Part.UNKNOWN
    kind = Kind.CONSTANT if constant else Kind.AFFINE
    return State(kind, part, mixed=a.mixed or b.mixed)
