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

A primal output must not be made of tangents, not even of zero times one: JAX knows the
outputs before it knows the tangents, and raises in reverse mode.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import Any

from strict_hijax import _jax
from strict_hijax._errors import Location

from .states import LINEAR, PRIMAL, Origin, State
from .walk import Walk


class Fault(enum.Enum):
    """What is wrong with an output of a tangent rule."""

    DEPENDS = "a primal output that is made of tangents"
    AFFINE = "a tangent that is linear but for a constant that is added"
    NONLINEAR = "a tangent that is not linear"


@dataclasses.dataclass(frozen=True, slots=True)
class Equation:
    """The equation that makes an output what it must not be, and the user's line.

    Attributes:
      fault: what is wrong.
      output: the position of the output among all that the rule gives.
      primitive: the name, such as `mul`; empty where an output is an input as it is.
      location: where the user wrote it.
      is_swapped: whether a primal output is just what a tangent may be.
    """

    fault: Fault
    output: int
    primitive: str = ""
    location: Location | None = None
    is_swapped: bool = False


def faulty_equations(
    jaxpr: Any, tangents: Sequence[bool], primals_out: int = 0
) -> list[Equation]:
    """One equation for each output of a rule that is certainly at fault.

    Where an output is made of tangents, it alone is told: output and tangents may be
    swapped, and then the tangent is no tangent either.

    Args:
      jaxpr: a traced rule.
      tangents: for each input, whether it is a tangent; the tangents of the outputs
        must be linear in these together, not one by one.
      primals_out: how many outputs come before their tangents.
    """
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    given = [
        LINEAR.made_of(Origin.TANGENTS) if each else PRIMAL.made_of(Origin.PRIMALS)
        for each in tangents
    ]
    states = Walk()(jaxpr, given)
    for index in range(primals_out):
        state = states[index]
        if Origin.TANGENTS in state.origin:
            is_swapped = not state.is_constant and state.is_linear
            return [_equation(Fault.DEPENDS, index, state.source, is_swapped)]
    return list(_not_linear(jaxpr, states, primals_out))


def _not_linear(
    jaxpr: Any, states: Sequence[State], primals_out: int
) -> Iterator[Equation]:
    outvars = jaxpr.outvars
    primals = {id(var) for var in outvars[:primals_out] if not hasattr(var, "val")}
    for index in range(primals_out, len(outvars)):
        state, var = states[index], outvars[index]
        if state.is_bent or (state.is_off and not state.is_flat):
            yield _equation(Fault.NONLINEAR, index, state.trail)
        elif state.is_off and not _is_python_number(var):
            yield _equation(Fault.AFFINE, index, state.trail)
        elif id(var) in primals and not state.is_linear:
            yield _equation(Fault.AFFINE, index, ())


def _is_python_number(outvar: Any) -> bool:
    return hasattr(outvar, "val") and bool(getattr(outvar.aval, "weak_type", False))


def _equation(
    fault: Fault, output: int, trail: tuple[Any, ...], is_swapped: bool = False
) -> Equation:
    name = str(trail[0].primitive) if trail else ""
    return Equation(fault, output, name, _place(trail), is_swapped)


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
