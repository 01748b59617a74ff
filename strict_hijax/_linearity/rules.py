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

from . import primitives as table
from .states import (
    NONLINEAR,
    PRIMAL,
    SOME_CONSTANT,
    UNKNOWN,
    ZERO,
    Kind,
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
)

type Rule = Callable[[Any, list[State], list[Any]], State | list[State]]


def kept_operand(name: str, states: list[State]) -> int | None:
    """Which operand an equation gives as it is, if that is certain."""
    if name in ("copy", "stop_gradient"):
        return 0
    neutral = {"mul": 1.0, "add": 0.0, "sub": 0.0, "div": 1.0}.get(name)
    if neutral is None:
        return None
    if states[1].number == neutral:
        return 0
    return 1 if name in ("mul", "add") and states[0].number == neutral else None


def _keeps(eqn: Any, states: list[State], _: list[Any]) -> State | list[State]:
    return states if len(eqn.outvars) == len(states) else states[0]


def _negates(_: Any, states: list[State], __: list[Any]) -> State:
    (state,) = states
    if state.number is None:
        return state
    return dataclasses.replace(state, number=-state.number)


def _sums(eqn: Any, states: list[State], ids: list[Any]) -> State | list[State]:
    return _keeps(eqn, list(map(_summed, states)), ids)


def _summed(state: State) -> State:
    """What is constant in some of the elements may cancel in their sum."""
    if state.mixed:
        return state if state.is_linear else picked(state)
    return dataclasses.replace(state, number=None)


def _mixes(_: Any, states: list[State], __: list[Any]) -> State:
    state = states[0]
    return state if state.is_linear else overwritten(state)


def _picks(eqn: Any, states: list[State], _: list[Any]) -> State:
    if not all(state.is_constant for state in states[1:]):
        return UNKNOWN
    if str(eqn.primitive) in ("real", "imag"):
        return _mixes(eqn, states, [])
    return picked(states[0])


def side_by_side(states: Sequence[State]) -> State:
    """The elements of several values, in one."""
    return functools.reduce(joined, states)


def _gathers(_: Any, states: list[State], __: list[Any]) -> State:
    return side_by_side(states)


def _pads(eqn: Any, states: list[State], _: list[Any]) -> State:
    operand, padding = states
    config = eqn.params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        operand = picked(operand)
    if not any(any(axis) for axis in config):
        return operand
    return joined(operand, padding)


def _writes(eqn: Any, states: list[State], _: list[Any]) -> State:
    into, what = table.WRITES[str(eqn.primitive)]
    return _written(states, into, what, overwritten(states[into]))


def _adds_at(eqn: Any, states: list[State], _: list[Any]) -> State:
    into, what = table.ADDS_AT[str(eqn.primitive)]
    return _written(states, into, what, states[into])


def _written(states: list[State], into: int, what: int, left: State) -> State:
    where = [s for i, s in enumerate(states) if i not in (into, what)]
    if not all(state.is_constant for state in where):
        return UNKNOWN
    return joined(left, picked(states[what]))


def _adds(eqn: Any, states: list[State], ids: list[Any]) -> State:
    a, b = states
    if str(eqn.primitive) == "sub":
        if ids[0] is ids[1]:
            return ZERO
        if a.part is b.part is Part.VARIES and a.is_constant and b.is_constant:
            return SOME_CONSTANT  # x - mean(x) is zero for some, by how x is made
    return added(a, b)


def _multiplies(eqn: Any, states: list[State], _: list[Any]) -> State:
    contracts = str(eqn.primitive) in table.CONTRACTIONS
    if len(states) > 2 and not all(state.is_constant for state in states[2:]):
        return UNKNOWN
    return multiplied(states[0], states[1], contracts=contracts)


def _divides(_: Any, states: list[State], ids: list[Any]) -> State:
    same = ids[0] is ids[1] and states[0].is_constant
    return number(1.0) if same else divided(*states)


def _solves(_: Any, states: list[State], __: list[Any]) -> State:
    *matrix, right = states
    if not all(state.is_constant for state in matrix):
        return UNKNOWN
    return right if right.is_linear else overwritten(right)


def _solves_implicitly(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    count = sum(eqn.params["const_lengths"])
    constant = all(state.is_constant for state in states[:count])
    whole = side_by_side(states[count:])
    one = whole if constant and whole.is_linear else UNKNOWN
    return [one] * len(eqn.outvars)


def _curves(eqn: Any, states: list[State], _: list[Any]) -> State:
    name = str(eqn.primitive)
    if name == "pow" and states[1].number in (0.0, 1.0):
        return states[0] if states[1].number == 1.0 else number(1.0)
    if name == "pow" and states[0].is_zero:
        return SOME_CONSTANT if states[1].is_constant else UNKNOWN
    return curved(states, rounds=name in table.ROUNDS)


def _integer_pow(eqn: Any, states: list[State], _: list[Any]) -> State:
    power = eqn.params["y"]
    if power in (0, 1):
        return states[0] if power == 1 else number(1.0)
    if states[0].is_zero:
        return ZERO if power > 0 else SOME_CONSTANT
    return curved(states)


def _bounds(eqn: Any, states: list[State], ids: list[Any]) -> State:
    if all(each is ids[0] for each in ids):
        return states[0]
    if all(state.is_constant for state in states):
        return SOME_CONSTANT
    dtype = eqn.outvars[0].aval.dtype
    largest = float(jnp.finfo(dtype).max) if _is_inexact(dtype) else np.inf
    numbers = [state.number for state in states if state.number is not None]
    if not all(abs(number) < 0.99 * largest for number in numbers):
        return UNKNOWN
    others = [state for state in states if not state.is_constant]
    if len(others) == 1 and others[0].kind is Kind.NONLINEAR and not others[0].mixed:
        return others[0]  # as in clip: nothing linear has a bound
    if len(others) > 1 and not all(state.is_linear for state in others):
        return UNKNOWN  # max(t, t - 1)
    return curved(states)


def _orders(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    shapes = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    sizes = [int(np.prod(shape)) for shape in shapes]
    axis = eqn.params.get("axis")
    single = shapes[0][axis] == 1 if isinstance(axis, int) else sizes[0] == sizes[1]
    state = curved(states, rounds=True)
    if single and not state.is_constant:
        state = UNKNOWN
    return [state] * len(eqn.outvars)


def _sorts(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    keys = states[: eqn.params["num_keys"]]
    if all(state.is_constant for state in keys):
        return states
    if eqn.invars[0].aval.shape[eqn.params["dimension"]] == 1:
        return [UNKNOWN] * len(states)
    first = curved(states[:1])
    return [first, *[UNKNOWN] * (len(states) - 1)]


def _decomposes(eqn: Any, states: list[State], _: list[Any]) -> State:
    return curved(states)


def _sources(_: Any, states: list[State], __: list[Any]) -> State:
    return PRIMAL if all(state.is_constant for state in states) else UNKNOWN


def _converts(eqn: Any, states: list[State], _: list[Any]) -> State:
    (state,) = states
    old, new = eqn.invars[0].aval.dtype, eqn.params["new_dtype"]
    if _is_inexact(new) or not _is_inexact(old):
        return state
    if state.is_zero and state.number == 0.0:
        return state
    if state.is_constant:
        return SOME_CONSTANT
    return UNKNOWN if new == np.dtype(bool) else curved(states)


def _is_inexact(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, np.inexact))


def _selects(eqn: Any, states: list[State], ids: list[Any]) -> State:
    predicate, *cases = states
    if all(each is ids[1] for each in ids[1:]):
        return cases[0]
    zero = all(case.is_zero for case in cases)
    if not predicate.is_constant:
        certain = predicate.kind is Kind.NONLINEAR and not predicate.mixed and not zero
        known = not any(case.kind is Kind.UNKNOWN for case in cases)
        return ZERO if zero else NONLINEAR if certain and known else UNKNOWN
    return chosen_from(predicate, cases)


def chosen_from(predicate: State, cases: Sequence[State]) -> State:
    """What a constant predicate chooses from, element by element or as a whole."""
    if predicate.number is not None:  # known beforehand
        chosen = int(predicate.number)
        return cases[min(max(chosen, 0), len(cases) - 1)]
    if predicate.fixed:  # a mask of positions, perhaps, that leaves nothing out
        affine = (Kind.CONSTANT, Kind.AFFINE)
        doubtful = any(c.kind in affine and not c.is_linear for c in cases)
        return UNKNOWN if doubtful else side_by_side(list(map(picked, cases)))
    return side_by_side([picked(case).where_chosen for case in cases])


def _counts(eqn: Any, _: list[State], __: list[Any]) -> State:
    """The positions along an axis: the first is zero."""
    if eqn.params["shape"][eqn.params["dimension"]] == 1:
        return ZERO
    return dataclasses.replace(PRIMAL, mixed=True)


RULES: dict[str, Rule] = {
    **dict.fromkeys(table.KEEPS, _keeps),
    **dict.fromkeys(table.SUMS, _sums),
    **dict.fromkeys(table.MIXES, _mixes),
    **dict.fromkeys(table.PICKS, _picks),
    **dict.fromkeys(table.GATHERS, _gathers),
    **dict.fromkeys(table.WRITES, _writes),
    **dict.fromkeys(table.ADDS_AT, _adds_at),
    **dict.fromkeys(table.ADDS, _adds),
    **dict.fromkeys(table.PRODUCTS | table.CONTRACTIONS, _multiplies),
    **dict.fromkeys(table.SOLVES, _solves),
    **dict.fromkeys(table.NONLINEAR, _curves),
    **dict.fromkeys(table.BOUNDS, _bounds),
    **dict.fromkeys(table.ORDERS, _orders),
    **dict.fromkeys(table.DECOMPOSITIONS, _decomposes),
    **dict.fromkeys(table.SOURCES, _sources),
    "neg": _negates,
    "iota": _counts,
    "div": _divides,
    "integer_pow": _integer_pow,
    "convert_element_type": _converts,
    "select_n": _selects,
    "pad": _pads,
    "sort": _sorts,
    "custom_linear_solve": _solves_implicitly,
}
