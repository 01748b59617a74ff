"""What becomes of linearity in an equation, for primitives without jaxprs within.

Each rule takes the equation, what is known of its operands, and the names of these, by
which the same operand is told twice.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .primitives import NOT_NEGATIVE, NOT_ZERO_AT_ZERO, POWERS
from .states import (
    NO_POWER,
    NONLINEAR,
    PRIMAL,
    SOME_CONSTANT,
    UNKNOWN,
    ZERO,
    Kind,
    Origin,
    Part,
    State,
    added,
    curved,
    divided,
    joined,
    multiplied,
    number,
    overwritten,
    picked,
    scaling,
)

type Rule = Callable[[Any, list[State], list[Any]], State | list[State]]


def kept_operand(name: str, states: Sequence[State]) -> int | None:
    """Which operand an equation gives as it is, if that is certain."""
    if name in ("copy", "stop_gradient"):
        return 0
    neutral = {"mul": 1.0, "add": 0.0, "sub": 0.0, "div": 1.0}.get(name)
    if neutral is None:
        return None
    if states[1].number == neutral:
        return 0
    return 1 if name in ("mul", "add") and states[0].number == neutral else None


def _constant(states: Sequence[State]) -> bool:
    return all(state.is_constant for state in states)


def _is_real(var: Any) -> bool:
    return not jnp.issubdtype(var.aval.dtype, np.complexfloating)


def _is_inexact(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, np.inexact))


# --- elements that are moved, copied and summed ---------------------------------------


def _keeps(eqn: Any, states: list[State], _: list[Any]) -> State | list[State]:
    return states if len(eqn.outvars) == len(states) else states[0]


def _sums(eqn: Any, states: list[State], ids: list[Any]) -> State | list[State]:
    return _keeps(eqn, list(map(_summed, states)), ids)


def _summed(state: State) -> State:
    """What is constant in some of the elements may cancel in their sum."""
    if state.mixed:
        return state if state.is_linear else picked(state)
    return dataclasses.replace(state, number=None)


def _mixes(_: Any, states: list[State], __: list[Any]) -> State:
    return overwritten(states[0])


def _picks(_: Any, states: list[State], __: list[Any]) -> State:
    return picked(states[0]) if _constant(states[1:]) else UNKNOWN


def _side_by_side(states: Sequence[State]) -> State:
    return functools.reduce(joined, states)


def _gathers(_: Any, states: list[State], __: list[Any]) -> State:
    whole = _side_by_side(states)
    known = whole.is_linear or whole.positive or whole.number is not None
    if len(states) == 1 or known:
        return whole
    return dataclasses.replace(whole, mixed=True)  # their sum may be zero


def _pads(eqn: Any, states: list[State], _: list[Any]) -> State:
    operand, padding = states
    config = eqn.params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        operand = picked(operand)
    return joined(operand, padding) if any(map(any, config)) else operand


def _writes(eqn: Any, states: list[State], ids: list[Any]) -> State:
    return _adds_at(eqn, [overwritten(states[0]), *states[1:]], ids)


def _adds_at(eqn: Any, states: list[State], _: list[Any]) -> State:
    what = 2 if str(eqn.primitive).startswith("scatter") else 1
    where = [*states[1:what], *states[what + 1 :]]
    return joined(states[0], picked(states[what])) if _constant(where) else UNKNOWN


def _converts(eqn: Any, states: list[State], _: list[Any]) -> State:
    (state,) = states
    old, new = eqn.invars[0].aval.dtype, eqn.params["new_dtype"]
    if _is_inexact(new):  # an integer may well be a mask
        is_mask = not _is_inexact(old) and state.is_constant and state.number is None
        return dataclasses.replace(state, mixed=True) if is_mask else state
    if not _is_inexact(old) or state.number == 0.0:
        return state
    if state.is_constant:
        return SOME_CONSTANT
    return UNKNOWN if new == np.dtype(bool) else curved(states)


# --- sums and products ----------------------------------------------------------------


def _negates(_: Any, states: list[State], __: list[Any]) -> State:
    (state,) = states
    negative = None if state.number is None else -state.number
    return dataclasses.replace(state, number=negative, positive=False)


def _adds(_: Any, states: list[State], __: list[Any]) -> State:
    return added(*states)


def _subtracts(eqn: Any, states: list[State], ids: list[Any]) -> State:
    a, b = states
    if ids[0] is ids[1]:
        return ZERO
    if a.part is b.part is Part.VARIES and _constant(states):
        return SOME_CONSTANT  # x - mean(x) is zero for some, by how x is made
    return added(a, _negates(eqn, [b], ids))


def _multiplies(eqn: Any, states: list[State], ids: list[Any]) -> State:
    product = multiplied(*states)
    if ids[0] is ids[1] and _is_real(eqn.invars[0]) and not _constant(states):
        return dataclasses.replace(product, positive=True)
    return product


def _contracts(_: Any, states: list[State], __: list[Any]) -> State:
    if not _constant(states[2:]):
        return UNKNOWN
    return multiplied(states[0], states[1], contracts=True)


def _divides(_: Any, states: list[State], ids: list[Any]) -> State:
    same = ids[0] is ids[1] and states[0].is_constant
    return number(1.0) if same else divided(*states)


def _solves(_: Any, states: list[State], __: list[Any]) -> State:
    *matrix, right = states
    return overwritten(right) if _constant(matrix) else UNKNOWN


def _solves_implicitly(eqn: Any, states: list[State], _: list[Any]) -> State:
    count = sum(eqn.params["const_lengths"])
    whole = _side_by_side(states[count:])
    return whole if _constant(states[:count]) and whole.is_linear else UNKNOWN


# --- functions of elements ------------------------------------------------------------


def _raises(eqn: Any, states: list[State], _: list[Any]) -> State:
    base, power = states[0], _exponent(eqn, states)
    if str(eqn.primitive) in ("pow", "integer_pow") and power in (0, 1):
        return base if power == 1 else number(1.0)
    if base.is_zero:
        certain = power is not None and power > 0
        return ZERO if certain else SOME_CONSTANT if _constant(states) else UNKNOWN
    state = curved(states)
    if state.is_constant or power is None:
        return state
    part = Part.UNKNOWN
    if not base.mixed and (base.part is Part.UNIFORM or power > 0):
        part = base.part if base.part < Part.VARIES else part
    even = power != 0 and power % 2 == 0 and _is_real(eqn.invars[0])
    degree = base.degree
    if degree is not None and degree != NO_POWER:
        degree *= power
    return _shaped(state, degree, part, positive=even or _is_not_negative(eqn))


def _exponent(eqn: Any, states: list[State]) -> float | None:
    name = str(eqn.primitive)
    return states[1].number if name == "pow" else POWERS.get(name, eqn.params.get("y"))


def _is_not_negative(eqn: Any) -> bool:
    return str(eqn.primitive) in NOT_NEGATIVE and _is_real(eqn.outvars[0])


def _shaped(
    state: State, power: float | None, part: Part, *, positive: bool = False
) -> State:
    """What is curved, with what else is known of it."""
    shaped = scaling(power, part)
    kind = state.kind if state.kind is Kind.NONLINEAR else shaped.kind
    return dataclasses.replace(shaped, kind=kind, positive=positive, trail=state.trail)


def _curves(eqn: Any, states: list[State], _: list[Any]) -> State:
    """A power of the scale, within a function that is none, is no power."""
    name, inside = str(eqn.primitive), states[0]
    state = curved(states)
    if state.is_constant:
        return state
    power = None if inside.degree in (None, 0.0, NO_POWER) else NO_POWER
    certain = inside.part is Part.ZERO and not inside.mixed
    part = Part.UNIFORM if certain and name in NOT_ZERO_AT_ZERO else Part.UNKNOWN
    return _shaped(state, power, part, positive=_is_not_negative(eqn))


def _bends(_: Any, states: list[State], __: list[Any]) -> State:
    return curved(states)


def _rounds(_: Any, states: list[State], __: list[Any]) -> State:
    return curved(states, rounds=True)


def _bounds(eqn: Any, states: list[State], ids: list[Any]) -> State:
    if all(each is ids[0] for each in ids):
        return states[0]
    if _constant(states):
        return SOME_CONSTANT
    left = [s for i, s in enumerate(states) if not _is_no_bound(eqn, i, s)]
    if len(left) == 1:
        return left[0]
    dtype = eqn.outvars[0].aval.dtype
    largest = float(jnp.finfo(dtype).max) if _is_inexact(dtype) else np.inf
    if any(s.number is not None and not abs(s.number) < 0.99 * largest for s in left):
        return UNKNOWN
    others = [state for state in left if not state.is_constant]
    if len(others) > 1:  # max(t, t - 1)
        return curved(left) if all(s.is_linear for s in others) else UNKNOWN
    (bounded,) = others
    state = curved(left)
    if bounded.kind is Kind.NONLINEAR and not bounded.mixed:
        state = dataclasses.replace(NONLINEAR, trail=bounded.trail)  # as in clip
    positive = all((s.number or 0.0) > 0 for s in left if s is not bounded)
    grows = bounded.positive and bounded.degree not in (None, 0.0, NO_POWER)
    if str(eqn.primitive) == "max" and positive and grows:
        return _shaped(
            state, NO_POWER, Part.UNKNOWN
        )  # a norm that is kept away from zero
    return state


def _is_no_bound(eqn: Any, index: int, state: State) -> bool:
    """Whether an operand is a bound that nothing finite meets."""
    name, dtype = str(eqn.primitive), eqn.outvars[0].aval.dtype
    if state.number is None or not _is_inexact(dtype):
        return False
    largest = 0.99 * float(jnp.finfo(dtype).max)
    below = name == "max" or (name == "clamp" and index == 0)
    above = name == "min" or (name == "clamp" and index == 2)
    return (below and state.number < -largest) or (above and state.number > largest)


def _ranks(eqn: Any, states: list[State], _: list[Any]) -> State:
    """The greatest of what scales with a power does, too."""
    (given,) = states
    if _is_single(eqn):
        return given
    state = curved(states, rounds=True)
    if given.mixed or given.is_constant:
        return state
    part = given.part if given.part < Part.VARIES else Part.UNKNOWN
    power = None if given.degree == NO_POWER else given.degree
    return _shaped(state, power, part, positive=given.positive)


def _orders(eqn: Any, states: list[State], _: list[Any]) -> State:
    unsure = _is_single(eqn) and not _constant(states)
    return UNKNOWN if unsure else curved(states, rounds=True)


def _is_single(eqn: Any) -> bool:
    """Whether there is but one element along the axes."""
    given, result = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    axis = eqn.params.get("axis")
    if isinstance(axis, int):
        return bool(given[axis] == 1)
    return bool(np.prod(given) == np.prod(result))


def _sorts(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    if _constant(states[: eqn.params["num_keys"]]):
        return states
    if eqn.invars[0].aval.shape[eqn.params["dimension"]] == 1:
        return [UNKNOWN] * len(states)
    return [curved(states[:1]), *[UNKNOWN] * (len(states) - 1)]


def _sources(_: Any, states: list[State], __: list[Any]) -> State:
    return PRIMAL if _constant(states) else UNKNOWN


def _counts(eqn: Any, _: list[State], __: list[Any]) -> State:
    """The positions along an axis: the first is zero."""
    if eqn.params["shape"][eqn.params["dimension"]] == 1:
        return ZERO
    return dataclasses.replace(PRIMAL, mixed=True)


# --- choices --------------------------------------------------------------------------


def _selects(_: Any, states: list[State], ids: list[Any]) -> State:
    predicate, *cases = states
    if all(each is ids[1] for each in ids[1:]):
        return cases[0]
    if predicate.is_constant:
        return chosen_from(predicate, cases)
    if all(case.is_zero for case in cases):
        return ZERO
    certain = predicate.kind is Kind.NONLINEAR and not predicate.mixed
    known = not any(case.kind is Kind.UNKNOWN for case in cases)
    return NONLINEAR if certain and known else UNKNOWN


def chosen_from(predicate: State, cases: Sequence[State]) -> State:
    """What a constant predicate chooses from, element by element or as a whole.

    A primal may choose a constant just where it is zero; but not each of two.
    """
    if predicate.number is not None:  # known beforehand
        chosen = int(predicate.number)
        return cases[min(max(chosen, 0), len(cases) - 1)]
    if all(case.is_off and not case.mixed for case in cases):
        return _side_by_side(cases)
    cases = list(map(picked, cases))
    if predicate.origin is Origin.LITERALS:  # positions, perhaps, that leave none out
        doubtful = any(c.kind is not Kind.NONLINEAR and not c.is_linear for c in cases)
        return UNKNOWN if doubtful else _side_by_side(cases)
    return _side_by_side([case.where_chosen for case in cases])


_ALL: tuple[Rule, ...] = (
    *(_keeps, _sums, _mixes, _picks, _gathers, _pads, _writes, _adds_at, _converts),
    *(_negates, _adds, _subtracts, _multiplies, _contracts, _divides),
    *(_solves, _solves_implicitly, _raises, _curves, _bends, _rounds, _bounds),
    *(_ranks, _orders, _sorts, _sources, _counts, _selects),
)
RULES = {rule.__name__[1:]: rule for rule in _ALL}  # by the kind of the primitive
