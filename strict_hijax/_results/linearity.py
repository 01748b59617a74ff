"""Whether `jvp` and `linearized` of a primitive are linear in their tangents.

It is read off the jaxpr of a rule that was traced on the declared types: see
`_linearity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding
from strict_hijax._linearity import Fault, faulty_equations
from strict_hijax._linearity.sentences import details, sentence

_CODES = {Fault.DEPENDS: "SH319", Fault.NONLINEAR: "SH328", Fault.AFFINE: "SH329"}


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
    paths = [f"out{path}" for path in outputs]
    paths[first:] = [f"tangents{path}" for path in tangents_out]
    for equation in faulty_equations(jaxpr, tangents_in, first):
        path, code = paths[equation.output], _CODES[equation.fault]
        name = facts.cls.__name__
        ignore = f'class {name}(StrictHiPrim, ignore=("{code}",))   # if meant'
        yield facts.finding(
            code,
            f"has a `{rule}` that {sentence(equation, path)}",
            rule=rule,
            location=equation.location or facts.where(rule),
            **details(equation, path, ignore),
        )
