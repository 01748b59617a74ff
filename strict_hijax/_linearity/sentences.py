"""What is said of an equation at fault, by rules of functions and of primitives."""

from __future__ import annotations

from typing import Any

from . import Equation, Fault


def sentence(equation: Equation, path: str) -> str:
    """What the rule does wrong, after its name."""
    by = _by(equation)
    if equation.fault is Fault.NONLINEAR:
        return f"is not linear in its tangents: `{path}` is made by {by}."
    if equation.fault is Fault.AFFINE:
        return (
            f"adds to `{path}` what is no tangent: {by}. For zero tangents it must be "
            "zero."
        )
    swapped = " Are output and tangents swapped?" if equation.is_swapped else ""
    return (
        "returns as its output what depends on the tangents: "
        f"`{path}` is made by {by}.{swapped}"
    )


def details(equation: Equation, path: str, ignore: str) -> dict[str, Any]:
    """The other parts of the finding; `ignore` is the line that turns it off."""
    more = dict(_DETAILS[equation.fault], path=path, got=_by(equation))
    if equation.fault is not Fault.DEPENDS:
        more["remedies"] = (*more["remedies"], ignore)
    elif equation.is_swapped:
        more["remedies"] = ("return out, out_tangents",)
    return more


def _by(equation: Equation) -> str:
    if equation.primitive:
        where = f" at {equation.location}" if equation.location else ""
        return f"`{equation.primitive}`{where}"
    if equation.fault is Fault.DEPENDS:
        return "a tangent as it is"
    return "a primal value or a constant, given as it is"


_DETAILS: dict[Fault, dict[str, Any]] = {
    Fault.NONLINEAR: {
        "expected": "tangents times what depends on primals alone, and sums of these",
        "facts": (
            "In forward mode JAX gives the value as it is. In reverse mode it fails,",
            "with an error that does not name this rule, or, as of a cast to integers,",
            "gives zero without a word.",
        ),
        "remedies": ("a derivative times the tangent, such as jnp.cos(x) * x_dot",),
    },
    Fault.AFFINE: {
        "expected": "a tangent that is zero where those of the inputs are zero",
        "facts": (
            "Reverse mode drops it without a word, and forward mode does not: the two",
            "disagree.",
        ),
        "remedies": (
            "drop the term without a tangent, or multiply it by the tangent",
            "jnp.where(mask, tangent_out, 0.0)   # zero, where it is masked",
        ),
    },
    Fault.DEPENDS: {
        "expected": "(out, out_tangents), in this order; out made of primals alone",
        "facts": ("JAX knows the outputs before it knows the tangents.",),
        "jax_says": (
            "Linearization failed to produce known values for all output primals."
        ),
        "remedies": ("make the output of primals alone: JAX drops no `0 * x_dot`",),
    },
}
