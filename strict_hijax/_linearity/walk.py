"""From the states of a jaxpr's inputs to those of its outputs.

Each jaxpr is walked once for each pattern of what is known of its inputs, however often
it is called.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from strict_hijax import _jax

from .primitives import KINDS, OPAQUE
from .rules import RULES, chosen_from, kept_operand
from .states import (
    PRIMAL,
    SOME_CONSTANT,
    UNKNOWN,
    ZERO,
    Kind,
    Origin,
    Part,
    State,
    merged,
    number,
    picked,
)

_LARGEST_READ = 4096  # elements of a constant that are looked at
_MOST_ROUNDS = 8  # of a loop, until nothing changes
_MOST_PATTERNS = 16  # of inputs of one jaxpr


class Walk:
    """One analysis under way; `visited` counts the equations."""

    def __init__(self) -> None:
        self.visited = 0
        self._known: dict[Any, list[State]] = {}
        self._patterns: collections.Counter[int] = collections.Counter()
        self._kept: list[Any] = []  # what is known by its id

    def __call__(self, jaxpr: Any, given: Sequence[State]) -> list[State]:
        """The states of a jaxpr's outputs, from those of its inputs."""
        inner, consts = getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())
        pattern = tuple((state, state.origin) for state in given)
        key = (id(inner), tuple(map(id, consts)), pattern)
        if key not in self._known:
            self._patterns[id(inner)] += 1
            self._kept.append(jaxpr)
            many = self._patterns[id(inner)] > _MOST_PATTERNS
            unknown = [UNKNOWN.made_of(Origin.PRIMALS)] * len(inner.outvars)
            self._known[key] = unknown if many else self._run(inner, consts, given)
        return [_resolved(state, given) for state in self._known[key]]

    def _run(
        self, jaxpr: Any, consts: Sequence[Any], given: Sequence[State]
    ) -> list[State]:
        states: dict[Any, State] = {}
        same: dict[Any, Any] = {}  # variables that are others under another name
        for var, const in zip(jaxpr.constvars, consts, strict=False):
            states[var] = _state_of_value(const)
        for index, var in enumerate(jaxpr.invars):
            states[var] = _fitted(_as_input(given[index], index), var.aval)

        def read(atom: Any) -> State:
            if hasattr(atom, "val"):
                return _state_of_value(atom.val)
            return states.get(atom, SOME_CONSTANT)

        for eqn in jaxpr.eqns:
            self.visited += 1
            before = list(map(read, eqn.invars))
            ids = [id(a) if hasattr(a, "val") else same.get(a, a) for a in eqn.invars]
            after = self._after(eqn, before, ids)
            for var, state in zip(eqn.outvars, after, strict=True):
                states[var] = _fitted(state, var.aval)
            kept = kept_operand(str(eqn.primitive), before)
            if kept is not None:
                same[eqn.outvars[0]] = ids[kept]
        return list(map(read, jaxpr.outvars))

    def _after(self, eqn: Any, before: list[State], ids: list[Any]) -> list[State]:
        """The states of the outputs of an equation."""
        kind = KINDS.get(str(eqn.primitive), "")
        if kind in _WITHIN:
            within = _WITHIN[kind](self, eqn, before)
            if within is not None:
                return [_called(eqn, state, before) for state in within]
        rule = RULES.get(kind)
        if rule is not None:
            result = rule(eqn, before, ids)
        else:  # of constants, constants
            known = all(state.is_constant for state in before) and not eqn.effects
            result = SOME_CONSTANT if known else UNKNOWN
        results = result if isinstance(result, list) else [result] * len(eqn.outvars)
        return [_made(eqn, state, before) for state in results]


# --- where a state comes from: trails of equations, the innermost first ---------------


def _origin(states: Sequence[State]) -> Origin:
    return functools.reduce(operator.or_, (s.origin for s in states), Origin.LITERALS)


def _made(eqn: Any, state: State, before: Sequence[State]) -> State:
    """A state that an equation makes."""
    mixed = Origin.PRIMALS | Origin.TANGENTS
    sources = (each.source for each in before if each.origin == mixed)
    source = next(sources, (eqn,))
    trail = state.trail or ((eqn,) if state.is_off or state.is_bent else ())
    return dataclasses.replace(
        state, origin=_origin(before), source=source, trail=trail
    )


def _called(eqn: Any, state: State, before: Sequence[State]) -> State:
    """A state out of a call: what is made within is made by the equation, too."""
    trails = [each.trail for each in before]
    sources = [each.source for each in before]
    trail = state.trail if state.trail in trails else (*state.trail, eqn)
    source = state.source if state.source in sources else (*state.source, eqn)
    if not (state.is_off or state.is_bent):
        trail = ()
    return dataclasses.replace(state, trail=trail, source=source)


def _as_input(state: State, index: int) -> State:
    """The state of an input: in place of what made it, its position."""
    trail = (index,) if state.trail else ()
    return dataclasses.replace(state, trail=trail, source=(index,))


def _resolved(state: State, given: Sequence[State]) -> State:
    """The state of an output, with what made the inputs in place of their positions."""
    trail, source = state.trail, state.source
    if trail and isinstance(trail[0], int):
        trail = given[trail[0]].trail
    if source and isinstance(source[0], int):
        source = given[source[0]].source
    return dataclasses.replace(state, trail=trail, source=source)


def _fitted(state: State, aval: Any) -> State:
    """The state of a variable of this type: Refs change, and nothing is zero."""
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or dtype is None or isinstance(aval, _jax.AbstractRef):
        return UNKNOWN.made_of(state.origin)
    return ZERO.made_of(state.origin) if 0 in shape or _is_float0(dtype) else state


def _is_float0(dtype: Any) -> bool:
    """Whether a dtype is that of the tangents of integers."""
    return bool(dtype == jax.dtypes.float0)


def _state_of_value(value: Any) -> State:
    """A literal or a constant that was closed over, if it can be read cheaply."""
    if isinstance(value, _jax.Tracer):
        return SOME_CONSTANT
    try:
        if np.size(value) > _LARGEST_READ:
            return SOME_CONSTANT
        array = np.asarray(value)
        if array.size == 0 or _is_float0(array.dtype):
            return ZERO
        array = array.astype(np.complex128)
    except Exception:  # a key, an array on another host, a value of a hijax type
        return SOME_CONSTANT
    first = array.flat[0]
    if (array == first).all() and first.imag == 0:
        return number(float(first.real))
    nonzero = np.isfinite(array) & (array != 0)
    return State(Kind.CONSTANT, Part.VARIES, mixed=True) if nonzero.any() else ZERO


# --- jaxprs within; None where they do not tell ---------------------------------------


def _called_jaxpr(eqn: Any) -> Any:
    """The jaxpr that takes the operands of an equation and gives its results."""
    if KINDS.get(str(eqn.primitive)) != "calls":
        return None
    params = eqn.params
    if "_prim" in params:  # of a primitive of the user's, nothing is known
        found = getattr(getattr(params["_prim"], "traced", None), "jaxpr", None)
    elif "make_jaxpr" in params:
        found = params["make_jaxpr"]()
    else:
        found = params.get("jaxpr", params.get("call_jaxpr"))
    inner = getattr(found, "jaxpr", found)
    if inner is None:
        return None
    sizes = len(inner.invars), len(inner.outvars)
    return found if sizes == (len(eqn.invars), len(eqn.outvars)) else None


def _call(run: Walk, eqn: Any, states: list[State]) -> list[State] | None:
    if "make_jaxpr" in eqn.params and all(state.is_constant for state in states):
        return None  # it is made only where it can tell something
    jaxpr = _called_jaxpr(eqn)
    if jaxpr is None:
        return None
    if _draws(eqn, jaxpr, states):
        return [PRIMAL.made_of(_origin(states))]
    results = run(jaxpr, states)
    if str(eqn.primitive) in OPAQUE:
        return [state.made_of(_origin(states)) for state in results]
    return results


def _draws(eqn: Any, jaxpr: Any, states: list[State]) -> bool:
    """Whether it is `jax.random.uniform`, out of which all others are made."""
    if eqn.params.get("name") != "_uniform" or len(states) != 3:
        return False
    key, low, high = states
    between = low.number is not None and high.number not in (None, low.number)
    return key.is_constant and between and _jax.is_traced_from(jaxpr, "random")


def _cond(run: Walk, eqn: Any, states: list[State]) -> list[State]:
    index, *operands = states
    branches = [run(branch, operands) for branch in eqn.params["branches"]]
    return [_chosen(index, results) for results in zip(*branches, strict=True)]


def _chosen(index: State, results: Sequence[State]) -> State:
    origin = _origin([index, *results])
    if index.is_constant:
        return chosen_from(index, results).made_of(origin)
    zero = all(state.is_zero for state in results)
    return (ZERO if zero else UNKNOWN).made_of(origin)


def _scan(run: Walk, eqn: Any, states: list[State]) -> list[State]:
    counts = _jax.scan_counts(eqn.params)
    consts, init = states[: counts[0]], states[counts[0] : sum(counts)]
    xs = [picked(state).made_of(state.origin) for state in states[sum(counts) :]]

    def body(carry: list[State]) -> list[State]:
        return run(eqn.params["jaxpr"], [*consts, *carry, *xs])

    carry = _settled(init, lambda carry: body(carry)[: counts[1]])
    return [*carry, *body(carry)[counts[1] :]]


def _while(run: Walk, eqn: Any, states: list[State]) -> list[State]:
    params = eqn.params
    in_cond = params["cond_nconsts"]
    in_body = in_cond + params["body_nconsts"]

    def body(carry: list[State]) -> list[State]:
        return run(params["body_jaxpr"], [*states[in_cond:in_body], *carry])

    carry = _settled(states[in_body:], body)
    (goes_on,) = run(params["cond_jaxpr"], [*states[:in_cond], *carry])
    if goes_on.is_constant:
        return [state.made_of(state.origin | goes_on.origin) for state in carry]
    return [UNKNOWN.made_of(_origin([goes_on, *carry]))] * len(carry)


def _settled(
    init: list[State], body: Callable[[list[State]], list[State]]
) -> list[State]:
    """The states of a loop's carry that one more round leaves as they are."""
    carry = [dataclasses.replace(state, number=None) for state in init]
    for _ in range(_MOST_ROUNDS):
        after = list(map(merged, carry, body(carry)))
        if list(_facts(after)) == list(_facts(carry)):
            return carry
        carry = after
    return [UNKNOWN.made_of(Origin.PRIMALS)] * len(carry)


def _facts(states: Sequence[State]) -> Iterator[tuple[State, Origin]]:
    return ((state, state.origin) for state in states)


_WITHIN: dict[str, Callable[[Walk, Any, list[State]], list[State] | None]] = {
    "calls": _call,
    "branches": _cond,
    "scans": _scan,
    "loops": _while,
}
