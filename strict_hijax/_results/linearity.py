"""Whether `jvp` and `linearized` of a primitive are linear in their tangents.

It is read off the jaxpr of a rule that was traced on the declared types: see
`_linearity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding
from strict_hijax._linearity import (
    Equation,
    dependent_equations,
    nonlinear_equations,
    output_states,
)


def linearity_findings(
    facts: ClassFacts,
    rule: str,
    jaxpr: Any,
    tangents_in: Sequence[bool],
    tangents_out: Sequence[str],
    outputs: Sequence[str] = (),
) -> Iterator[Finding]:
    """What makes tangents of the outputs other than linear.

    Args:
      facts: what is known of the class.
      rule: the rule that was traced.
      jaxpr: its jaxpr; the tangents of the outputs are the last of what it gives.
      tangents_in: for each input of the jaxpr, whether it is a tangent.
      tangents_out: the path of each tangent that is given.
      outputs: the path of each primal output that is given before them.
    """
    first = len(jaxpr.outvars) - len(tangents_out)
    dependent = [e for e in dependent_equations(jaxpr, tangents_in) if e.output < first]
    if dependent:  # the two are swapped, perhaps: then the tangent is no tangent either
        yield _depends(facts, rule, f"out{outputs[dependent[0].output]}", dependent[0])
        return
    found = {
        equation.output: equation for equation in _certain(jaxpr, tangents_in, first)
    }
    for equation in found.values():
        if equation.output >= first:
            path = f"tangents{tangents_out[equation.output - first]}"
            make = _affine if equation.is_affine else _nonlinear
            yield make(facts, rule, path, equation)


def _certain(jaxpr: Any, tangents_in: Sequence[bool], first: int) -> Iterator[Equation]:
    """What is certainly not linear, and outputs that are given as their tangents."""
    states = output_states(jaxpr, tangents_in)
    primal = {id(var) for var in jaxpr.outvars[:first] if not hasattr(var, "val")}
    for index, var in enumerate(jaxpr.outvars):
        if index >= first and id(var) in primal and not states[index].is_linear:
            yield Equation("", None, is_affine=True, output=index)
    yield from nonlinear_equations(jaxpr, tangents_in)


def _by(equation: Equation) -> str:
    if not equation.primitive:
        return "a primal value or a constant, given as it is"
    where = f" at {equation.location}" if equation.location else ""
    return f"`{equation.primitive}`{where}"


def _nonlinear(facts: ClassFacts, rule: str, path: str, equation: Equation) -> Finding:
    return facts.finding(
        "SH328",
        f"has a `{rule}` that is not linear in its tangents: `{path}` is made by "
        f"{_by(equation)}.",
        rule=rule,
        path=path,
        location=equation.location or facts.where(rule),
        expected="tangents times what depends on primals alone, and sums of these",
        got=_by(equation),
        facts=(
            "In forward mode JAX gives the value as it is. In reverse mode it fails,",
            "and the error does not name this rule.",
        ),
        remedies=(
            "a derivative times the tangent, such as jnp.cos(x) * x_dot",
            f'class {facts.cls.__name__}(StrictHiPrim, ignore=("SH328",))   # if meant',
        ),
    )


def _affine(facts: ClassFacts, rule: str, path: str, equation: Equation) -> Finding:
    return facts.finding(
        "SH329",
        f"has a `{rule}` that adds to `{path}` what is no tangent: {_by(equation)}. "
        "For zero tangents it must be zero.",
        rule=rule,
        path=path,
        location=equation.location or facts.where(rule),
        expected="a tangent that is zero where those of the inputs are zero",
        got=_by(equation),
        facts=(
            "Reverse mode drops it without a word, and forward mode does not: the two",
            "disagree.",
        ),
        remedies=(
            "drop the term without a tangent, or multiply it by the tangent",
            f'class {facts.cls.__name__}(StrictHiPrim, ignore=("SH329",))   # if meant',
        ),
    )


def _depends(facts: ClassFacts, rule: str, path: str, equation: Equation) -> Finding:
    return facts.finding(
        "SH319",
        f"has a `{rule}` that returns as its output what depends on the tangents: "
        f"`{path}` is made by {_by(equation)}. Are output and tangents swapped?",
        rule=rule,
        path=path,
        location=equation.location or facts.where(rule),
        expected="(out, out_tangents), in this order",
        got=_by(equation),
        jax_says="Linearization failed to produce known values for all output primals.",
        remedies=("return out, out_tangents",),
    )
