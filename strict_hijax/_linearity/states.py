"""What is known of a value as a function of tangents, and how that combines.

A value is constant in the tangents, affine (a linear part and a constant one),
certainly not affine, or unknown. In doubt it is unknown: of two things that are not
linear, sums and products may be linear again (`f(x + t) - f(x)`, `|t| * sign(t)`).

Two more facts tell what is not linear of what is unknown: the value where all tangents
are zero, which is zero if it is linear; and the power of the scale with which it grows
when all tangents are scaled, which is one. `t / norm(t)` has the power zero.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Any


class Kind(enum.Enum):
    """How a value depends on the tangents."""

    CONSTANT = "constant"
    AFFINE = "affine"
    NONLINEAR = "nonlinear"
    UNKNOWN = "unknown"


class Part(enum.IntEnum):
    """A value where all tangents are zero: what a linear one is off by.

    Infinities and nan count as ZERO: as the tangent where a derivative does not exist
    they are a convention, for any input.
    """

    ZERO = 0
    UNIFORM = 1  # the same known number everywhere, and not zero
    VARIES = 2  # computed from primals: zero for some of them, but not for all
    UNKNOWN = 3


class Origin(enum.IntFlag):
    """What a value is made of, at most."""

    LITERALS = 0
    PRIMALS = 1
    TANGENTS = 2


NO_POWER = math.inf  # scales like no power at all, as `1 + t`
NOT_LINEAR = -math.inf  # like some power, perhaps, and certainly not the first


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What is known of one value.

    Attributes:
      kind: how it depends on the tangents.
      part: its constant part.
      mixed: only some of its elements are known to be so; others may be anything.
      number: the value of all elements, where it is a known number.
      power: with which it scales, where that is known and does not follow from the
        kind.
      positive: not negative anywhere.
      origin: what it is made of.
      trail: the equation that made it other than linear, and those that call it.
      source: the same for the equation that made it of tangents, and of primals, too,
        if it is.
    """

    kind: Kind
    part: Part = Part.ZERO
    mixed: bool = False
    number: float | None = None
    power: float | None = None
    positive: bool = False
    origin: Origin = dataclasses.field(default=Origin.LITERALS, compare=False)
    trail: tuple[Any, ...] = dataclasses.field(default=(), compare=False)
    source: tuple[Any, ...] = dataclasses.field(default=(), compare=False)

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
    def is_flat(self) -> bool:
        """Whether it is constant or affine."""
        return self.kind in (Kind.CONSTANT, Kind.AFFINE)

    @property
    def is_linear(self) -> bool:
        """Whether it is linear in the tangents; zero is."""
        return self.is_flat and self.part is Part.ZERO

    @property
    def is_off(self) -> bool:
        """Whether it is certainly something else than zero for zero tangents."""
        return self.part in (Part.UNIFORM, Part.VARIES)

    @property
    def is_bent(self) -> bool:
        """Whether it is certainly not linear, for all that is known but its part."""
        return self.kind is Kind.NONLINEAR or self.power not in (None, 1.0)

    @property
    def is_through_origin(self) -> bool:
        """Affine with a constant part that no primal has a share in.

        What depends on a primal plus a tangent may be one half of a difference.
        """
        known = self.part in (Part.ZERO, Part.UNIFORM)
        return self.kind is Kind.AFFINE and known and not self.mixed

    @property
    def degree(self) -> float | None:
        """The power of the scale of the tangents with which all elements scale."""
        if self.mixed or self.power == NOT_LINEAR:
            return None
        if not self.is_flat:
            return self.power
        if self.is_constant:
            return 0.0 if self.is_off else None
        return NO_POWER if self.is_off else 1.0 if self.part is Part.ZERO else None

    def made_of(self, origin: Origin) -> State:
        """The same, made of this."""
        return dataclasses.replace(self, origin=origin)

    @property
    def where_chosen(self) -> State:
        """The same where a primal chooses it, which may be just where it is zero."""
        hidden = Part.UNKNOWN if self.part is Part.VARIES else self.part
        return dataclasses.replace(self, part=hidden)


ZERO = State(Kind.CONSTANT, number=0.0)
LINEAR = State(Kind.AFFINE)
PRIMAL = State(Kind.CONSTANT, Part.VARIES)
SOME_CONSTANT = State(Kind.CONSTANT, Part.UNKNOWN)
NONLINEAR = State(Kind.NONLINEAR, Part.UNKNOWN)
UNKNOWN = State(Kind.UNKNOWN, Part.UNKNOWN)


def number(value: float) -> State:
    """A constant whose elements are all this number."""
    part = Part.UNIFORM if value and math.isfinite(value) else Part.ZERO
    return State(Kind.CONSTANT, part, number=value, positive=value >= 0)


def scaling(power: float | None, part: Part = Part.UNKNOWN) -> State:
    """A value that depends on tangents and scales with a power, if that is known."""
    if power is None or math.isnan(power):
        return State(Kind.UNKNOWN, part)
    flat = power in (0.0, 1.0, NO_POWER, NOT_LINEAR)
    kind = Kind.UNKNOWN if flat else Kind.NONLINEAR
    return State(kind, part, power=power)


def _power_of_sum(a: State, b: State) -> float | None:
    """Two different powers are none together; two that are the same may cancel."""
    degrees = a.degree, b.degree
    if None in degrees or NO_POWER in degrees:
        bent = (a.is_bent and b.is_linear) or (b.is_bent and a.is_linear)
        return NOT_LINEAR if bent else None
    if a.degree == b.degree:
        return a.degree if a.positive and b.positive else None
    return NO_POWER


def _power_of_product(a: State, b: State, sign: int) -> float | None:
    if a.degree is None or b.degree is None:
        return None
    if a.degree == b.degree == NO_POWER:
        return None  # (1 + t) / (1 + t)
    return NO_POWER if NO_POWER in (a.degree, b.degree) else a.degree + sign * b.degree


def added(a: State, b: State) -> State:
    """The sum or difference of two values that are not the same one."""
    if a.is_zero or b.is_zero:
        return b if a.is_zero else a
    mixed, positive = a.mixed or b.mixed, a.positive and b.positive
    part = max(a.part, b.part)
    if a.is_constant and b.is_constant:
        part = Part.UNKNOWN if a.part is b.part else part
        return State(Kind.CONSTANT, part, mixed, positive=positive)
    if Part.ZERO not in (a.part, b.part):
        part = Part.UNKNOWN  # constants that may cancel
    if a.is_flat and b.is_flat:
        mixed = mixed and part is not Part.UNKNOWN
        return State(Kind.AFFINE, part, mixed, trail=a.trail or b.trail)
    total = dataclasses.replace(
        scaling(_power_of_sum(a, b), part), mixed=mixed, positive=positive
    )
    for state, other in ((a, b), (b, a)):
        if state.kind is Kind.NONLINEAR and other.is_flat:
            trail = state.trail
            return dataclasses.replace(total, kind=Kind.NONLINEAR, trail=trail)
    return total


def multiplied(a: State, b: State, *, contracts: bool = False) -> State:
    """The product of two values; `contracts` where sums of products are taken."""
    for state, other in ((a, b), (b, a)):
        if state.is_zero:
            return other if state.is_infinite and other.is_linear else ZERO
    positive = a.positive and b.positive
    if a.is_constant and b.is_constant:
        if (a.mixed and b.mixed) or (contracts and (a.mixed or b.mixed)):
            return SOME_CONSTANT
        part, mixed = max(a.part, b.part), a.mixed or b.mixed
        return State(Kind.CONSTANT, part, mixed, positive=positive)
    if a.is_constant or b.is_constant:
        value, by = (b, a) if a.is_constant else (a, b)
        return scaled(value, by, contracts=contracts)
    product = scaling(_power_of_product(a, b, 1), _part_of_product(a, b))
    if a.is_through_origin and b.is_through_origin:
        product = dataclasses.replace(product, kind=Kind.NONLINEAR)
    return dataclasses.replace(product, positive=positive)


def _part_of_product(a: State, b: State) -> Part:
    if Part.ZERO in (a.part, b.part):
        return Part.ZERO
    return Part.UNKNOWN if a.mixed or b.mixed else max(a.part, b.part)


def scaled(a: State, by: State, *, contracts: bool = False) -> State:
    """A value that depends on tangents, times a constant that is not known to be 0."""
    uniform = by.part is Part.UNIFORM and not (by.mixed or contracts)
    if a.mixed and not uniform:
        return UNKNOWN  # it may be a mask, for just those elements
    whole = by.degree == 0.0 and not contracts
    part = a.part
    if part is not Part.ZERO and not uniform:
        varies = part is Part.UNIFORM and by.part is Part.VARIES and whole
        part = Part.VARIES if varies else Part.UNKNOWN
    if a.is_flat:
        trail = a.trail if part is not Part.UNKNOWN else ()
        return State(Kind.AFFINE, part, a.mixed, trail=trail)
    if not whole:
        return State(Kind.UNKNOWN, part)
    positive = a.positive and by.positive
    return dataclasses.replace(a, part=part, positive=positive)


def divided(a: State, b: State) -> State:
    """The quotient of two values."""
    if a.is_zero:
        return ZERO
    if b.is_zero:
        return multiplied(a, number(math.inf))
    if b.is_constant:
        divisor = State(Kind.CONSTANT, b.part, positive=b.positive)
        if a.is_constant:
            return multiplied(a, divisor)
        return scaled(a, divisor if b.part is not Part.UNKNOWN else PRIMAL)
    part = Part.UNKNOWN if b.part is Part.ZERO else _part_of_product(a, b)
    quotient = scaling(_power_of_product(a, b, -1), part)
    return dataclasses.replace(quotient, positive=a.positive and b.positive)


def curved(states: Sequence[State], *, rounds: bool = False) -> State:
    """A function of values that is linear in none of them."""
    others = [state for state in states if not state.is_constant]
    if not others:
        parts = {state.part for state in states}
        certain = Part.VARIES in parts and Part.UNKNOWN not in parts and not rounds
        mixed = any(state.mixed for state in states)
        return dataclasses.replace(PRIMAL, mixed=mixed) if certain else SOME_CONSTANT
    return NONLINEAR if all(s.is_through_origin for s in others) else UNKNOWN


def picked(state: State) -> State:
    """Some of the elements of a value."""
    return unsure(state) if state.mixed else state


def unsure(state: State) -> State:
    """What is left of a state for elements that it may not be true of."""
    return SOME_CONSTANT if state.is_constant else UNKNOWN


def overwritten(state: State) -> State:
    """A value of which some elements are replaced: perhaps just those not linear."""
    return state if state.is_linear else unsure(state)


def joined(a: State, b: State) -> State:
    """The elements of two values side by side, or chosen from two."""
    if a == b:
        return a if a.trail else b
    parts = {a.part, b.part}
    known = parts - {Part.UNKNOWN, Part.ZERO}
    part = max(known) if known else max(parts)
    for state in sorted((a, b), key=lambda state: state.kind is not Kind.NONLINEAR):
        if state.is_bent:
            return dataclasses.replace(state, part=part, mixed=True, positive=False)
    mixed = part is not Part.ZERO or a.is_infinite or b.is_infinite
    if not (a.is_flat and b.is_flat):
        return State(Kind.UNKNOWN, part, mixed=True, trail=a.trail or b.trail)
    constant = a.is_constant and b.is_constant
    kind = Kind.CONSTANT if constant else Kind.AFFINE
    return State(kind, part, mixed, trail=a.trail or b.trail)


def merged(a: State, b: State) -> State:
    """One value that is the one or the other: what is certain of both."""
    if a == b:
        both = a
    elif a.is_flat and b.is_flat:
        kind = Kind.CONSTANT if a.is_constant and b.is_constant else Kind.AFFINE
        part = a.part if a.part is b.part else Part.UNKNOWN
        both = State(kind, part, mixed=a.mixed or b.mixed)
    else:
        both = UNKNOWN
    origin, made = a.origin | b.origin, max(b, a, key=lambda state: state.origin)
    return dataclasses.replace(both, origin=origin, source=made.source)
