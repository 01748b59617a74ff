"""Whether a traced rule is linear in its tangents, read off its jaxpr.

No numbers are tried. Each variable is constant in the tangents, affine, certainly not
linear, or unknown (`states`); what a primitive makes of these is data
(`primitives`). A tangent rule is at fault where an output is certainly not
linear, and unknown is never a fault: JAX itself asks no more than that it can
transpose what it is given, and a loop that solves a linear system step by step is
linear as a whole though none of its steps are.

A constant part counts as a fault unless it may be zero. `t + 1` is certainly affine.
`t + g(x)` is, too, since JAX drops `g(x)` in reverse mode and adds it in forward mode:
one of the two is wrong, unless `g` is zero for every `x`. So a constant computed from
primals counts, and these do not: zero literals and what is made of them by moving,
copying and multiplying (`0 * x`, `zeros_like`), `x - x`, infinities and nan, a
sum or difference of such constants, one that a mask chooses, a difference of two affine
values (`f(x + t) - f(x)`), what a mask may take away again
(`where(ok, where(ok, t, 1) / x, 0)`), and a Python number in place of a tangent, which
only says that nobody is to look at it (JAX's own tests have such rules).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from strict_hijax import _jax
from strict_hijax._errors import Location

from . import primitives as table
from .rules import RULES, Rule, chosen_from, kept_operand
from .states import (
    LINEAR,
    PRIMAL,
    SOME_CONSTANT,
    UNKNOWN,
    ZERO,
    Kind,
    Part,
    State,
    merged,
    number,
    picked,
)

_LARGEST_READ = 4096  # elements of a constant that are looked at
_MOST_ROUNDS = 8  # of a loop, until nothing changes


@dataclasses.dataclass(frozen=True, slots=True)
class Equation:
    """The equation that makes an output other than linear, and the user's line.

    Attributes:
      primitive: its name, such as `mul`; empty where an output is an input as it is.
      location: where the user wrote it.
      is_affine: whether the output is linear but for a constant that is added.
      output: the position of the output.
    """

    primitive: str
    location: Location | None
    is_affine: bool
    output: int


def nonlinear_equation(jaxpr: Any, linear: Sequence[bool]) -> Equation | None:
    """The first equation that makes an output certainly not linear, if there is one.

    Args:
      jaxpr: a traced rule whose outputs must be linear.
      linear: for each input, whether the outputs must be linear in it; together, not
        one by one.
    """
    return next(iter(nonlinear_equations(jaxpr, linear)), None)


def nonlinear_equations(jaxpr: Any, linear: Sequence[bool]) -> list[Equation]:
    """One equation for each output that is certainly not linear."""
    found: list[Equation] = []
    outvars = getattr(jaxpr, "jaxpr", jaxpr).outvars
    for index, state in enumerate(output_states(jaxpr, linear)):
        nonlinear = state.kind is Kind.NONLINEAR
        constant = state.kind in (Kind.AFFINE, Kind.CONSTANT)
        affine = constant and state.part in (Part.UNIFORM, Part.VARIES)
        if nonlinear or (affine and not _is_python_number(outvars[index])):
            found.append(_equation(state, index))
    return found


def _is_python_number(outvar: Any) -> bool:
    return hasattr(outvar, "val") and bool(getattr(outvar.aval, "weak_type", False))


def dependent_equations(jaxpr: Any, linear: Sequence[bool]) -> list[Equation]:
    """One equation for each output that certainly depends on the `linear` inputs."""
    states = output_states(jaxpr, linear)
    kinds = (Kind.AFFINE, Kind.NONLINEAR)
    return [_equation(s, i) for i, s in enumerate(states) if s.kind in kinds]


def output_states(jaxpr: Any, linear: Sequence[bool]) -> list[State]:
    """What is known of each output as a function of the `linear` inputs."""
    given = [LINEAR if each else PRIMAL for each in linear]
    return _run(jaxpr, given)


def _equation(state: State, output: int) -> Equation:
    is_affine = state.kind is not Kind.NONLINEAR
    if not state.trail:
        return Equation("", None, is_affine, output)
    return Equation(
        str(state.trail[0].primitive), _place(state.trail), is_affine, output
    )


def _place(trail: tuple[Any, ...]) -> Location | None:
    """The user's line of an equation, or of the call that it is in.

    What is jitted, or known, is traced once: its equations name the line that called
    it first.
    """
    once = ("jit", "known_call")
    jitted = [i for i, eqn in enumerate(trail) if str(eqn.primitive) in once]
    for eqn in trail[jitted[-1] if jitted else 0 :]:
        frame = _jax.user_frame(eqn.source_info)
        if frame is not None:
            return Location(*frame, f"in {trail[0].primitive}")
    return None


# --- walking a jaxpr ------------------------------------------------------------------


def _run(jaxpr: Any, given: Sequence[State]) -> list[State]:
    """The states of a jaxpr's outputs, from those of its inputs."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    states: dict[Any, State] = {}
    same: dict[Any, Any] = {}  # variables that are others under another name
    consts = getattr(jaxpr, "consts", ())
    for var, const in zip(inner.constvars, consts, strict=False):
        states[var] = dataclasses.replace(_state_of_value(const), fixed=True)
    for var, state in zip(inner.invars, given, strict=True):
        states[var] = _fitted(state, var.aval)

    def read(atom: Any) -> State:
        if hasattr(atom, "val"):
            return dataclasses.replace(_state_of_value(atom.val), fixed=True)
        return states.get(atom, SOME_CONSTANT)

    for eqn in inner.eqns:
        before = [read(atom) for atom in eqn.invars]
        ids = [id(a) if hasattr(a, "val") else same.get(a, a) for a in eqn.invars]
        after = _after(eqn, before, ids)
        known = [state.trail for state in before]
        fixed = all(state.fixed for state in before)
        for var, state in zip(eqn.outvars, after, strict=True):
            if state.trail and str(eqn.primitive) in _WITHIN:
                state = state if state.trail in known else state.called_by(eqn)
            state = dataclasses.replace(state, fixed=fixed)
            states[var] = _fitted(state.at(eqn), var.aval)
        kept = kept_operand(str(eqn.primitive), before)
        if kept is not None:
            same[eqn.outvars[0]] = ids[kept]
    return [read(atom) for atom in inner.outvars]


def _fitted(state: State, aval: Any) -> State:
    """The state of a variable of this type: Refs change, and nothing is zero."""
    shape, dtype = getattr(aval, "shape", None), getattr(aval, "dtype", None)
    if shape is None or dtype is None or isinstance(aval, _jax.AbstractRef):
        return UNKNOWN
    if 0 in shape or has_float0(dtype):
        return ZERO
    return state


def has_float0(dtype: Any) -> bool:
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
        if array.size == 0 or has_float0(array.dtype):
            return ZERO
        array = array.astype(np.complex128)
    except Exception:  # a key, an array on another host, a value of a hijax type
        return SOME_CONSTANT
    first = array.flat[0]
    if (array == first).all() and first.imag == 0:
        return number(float(first.real))
    nonzero = np.isfinite(array) & (array != 0)
    return State(Kind.CONSTANT, Part.VARIES, True) if nonzero.any() else ZERO


def _after(eqn: Any, states: list[State], ids: list[Any]) -> list[State]:
    """The states of the outputs of an equation."""
    name, count = str(eqn.primitive), len(eqn.outvars)
    rule = _RULES.get(name)
    if rule is None:
        return _of_unknown(eqn, states, count)
    result = rule(eqn, states, ids)
    return result if isinstance(result, list) else [result] * count


# --- jaxprs within --------------------------------------------------------------------


def _calls(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    jaxpr = eqn.params.get(table.CALLS[str(eqn.primitive)])
    return _called(jaxpr, states, len(eqn.outvars))


def _hijax(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    traced = getattr(eqn.params.get("_prim"), "traced", None)
    if traced is None:  # of a primitive of the user's, nothing is known
        return _of_unknown(eqn, states, len(eqn.outvars))
    return _called(getattr(traced, "jaxpr", None), states, len(eqn.outvars))


def _of_unknown(eqn: Any, states: list[State], count: int) -> list[State]:
    """What an operation that is not known gives: of constants, constants."""
    known = all(state.is_constant for state in states) and not eqn.effects
    return [SOME_CONSTANT if known else UNKNOWN] * count


def _called(jaxpr: Any, states: list[State], count: int) -> list[State]:
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    if inner is None or len(inner.invars) != len(states):
        return [UNKNOWN] * count
    return _run(jaxpr, states)


def _cond(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    index, *operands = states
    branches = [_run(branch, operands) for branch in eqn.params["branches"]]
    if index.is_constant:
        return [chosen_from(index, results) for results in zip(*branches, strict=True)]
    return [
        ZERO if all(each.is_zero for each in results) else UNKNOWN
        for results in zip(*branches, strict=True)
    ]


def _scan(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    counts = _jax.scan_counts(eqn.params)
    consts, init = states[: counts[0]], states[counts[0] : sum(counts)]
    xs = [picked(state) for state in states[sum(counts) :]]

    def body(carry: list[State]) -> list[State]:
        return _run(eqn.params["jaxpr"], [*consts, *carry, *xs])

    carry = _settled(init, lambda carry: body(carry)[: counts[1]])
    return [*carry, *body(carry)[counts[1] :]]


def _while(eqn: Any, states: list[State], _: list[Any]) -> list[State]:
    params = eqn.params
    in_cond = params["cond_nconsts"]
    in_body = in_cond + params["body_nconsts"]

    def body(carry: list[State]) -> list[State]:
        return _run(params["body_jaxpr"], [*states[in_cond:in_body], *carry])

    carry = _settled(states[in_body:], body)
    (goes_on,) = _run(params["cond_jaxpr"], [*states[:in_cond], *carry])
    return carry if goes_on.is_constant else [UNKNOWN] * len(carry)


def _settled(
    init: list[State], body: Callable[[list[State]], list[State]]
) -> list[State]:
    """The states of a loop's carry that one more round leaves as they are."""
    carry = [dataclasses.replace(state, number=None) for state in init]
    for _ in range(_MOST_ROUNDS):
        after = list(map(merged, carry, body(carry)))
        if after == carry:
            return carry
        carry = after
    return [UNKNOWN] * len(carry)


_WITHIN: dict[str, Rule] = {
    **dict.fromkeys(table.CALLS, _calls),
    "call_hi_primitive": _hijax,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
_RULES = RULES | _WITHIN
