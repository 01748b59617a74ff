"""Errors of JAX that a wrong custom_jvp rule reaches, and ours that come earlier."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.jax_error_programs import NEW_JAX, Program, Reached, holds, installed
from tests.primitives import X
from tests.test_jax_errors_of_functions import tap

HIJAX = "hijax.py"
CUSTOM = "custom_derivatives.py"
AD = "interpreters/ad.py"
JVP3 = ("jax_custom_jvp3",)
RULE3 = "_custom_jvp_rule.rule" if NEW_JAX else "CustomJVPTraced.jvp"

PAIR = (
    "Custom JVP rule … must produce a pair (list or tuple of length two) representing"
)
STRUCTURE = "Custom JVP rule … first element had container"
TYPES = "Custom JVP rule … first element had shapes"
TANGENT_STRUCTURE = (
    "Custom JVP rule … must produce primal and tangent outputs with equal container"
)
TANGENT_TYPE = "Custom JVP rule must produce … and dtypes. Expected"
TANGENT_TYPES = "Custom JVP rule must produce … and dtypes, but got"


def sine(x: Any) -> Any:
    return jnp.sin(x)


def sine_and_cosine(x: Any) -> Any:
    return jnp.sin(x), jnp.cos(x)


def right(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return jnp.sin(x), jnp.cos(x) * t


def returns(rule: Any) -> Any:
    """A jvp rule that returns `rule(x, t)`."""

    def sine_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return rule(x, t)

    return sine_jvp


def forward(
    name: str, says: str, code: str, rule: Any, fun: Any = sine, where3: str = RULE3
) -> list[Reached]:
    """A case of forward mode, classic and with `jax_custom_jvp3`."""

    def program(p: Program) -> Any:
        return p.jvp(jax.jit(p.jvp_function(fun, returns(rule))))

    stages = "import or call"
    return [
        Reached(name, CUSTOM, "_flatten_jvp", says, code, stages, program),
        Reached(
            f"{name}, custom_jvp3", HIJAX, where3, says, code, stages, program, JVP3
        ),
    ]


def reverse(name: str, where: str, says: str, code: str, rule: Any) -> Reached:
    """A case that only a gradient shows."""

    def program(p: Program) -> Any:
        return p.grad(jax.jit(p.jvp_function(sine, returns(rule))))

    return Reached(name, AD, where, says, code, "import or call", program)


def call_without_rules(p: Program) -> Any:
    return p.call(p.jvp_function(sine))


def call_by_keyword(p: Program) -> Any:
    def scaled(x: Any, *, factor: Any) -> Any:
        return x * factor

    made = p.jvp_function(scaled, right)
    p.stage = "call"
    return made(X, factor=2.0)


def call_with_a_tracer(p: Program) -> Any:
    made = p.jvp_function(
        lambda n, x: n * x,
        lambda n, primals, tangents: (n * primals[0], n * tangents[0]),
        nondiff_argnums=(0,),
        given=(3, X),
    )
    p.stage = "call"
    return jax.jit(made)(3, X)


def effects(p: Program) -> Any:
    return p.jvp(jax.jit(p.jvp_function(tap, right)))


CASES = [
    Reached(
        "no rule",
        CUSTOM,
        "custom_jvp.__call__",
        "No JVP defined",
        "SH401",
        "call",
        call_without_rules,
    ),
    Reached(
        "no rule, custom_jvp3",
        HIJAX,
        "custom_jvp3.__call__",
        "No JVP defined",
        "SH401",
        "call",
        call_without_rules,
        JVP3,
    ),
    Reached(
        "None for the rule",
        CUSTOM,
        "custom_jvp.__call__",
        "No JVP defined",
        "SH409",
        "definition",
        lambda p: p.call(p.jvp_function(sine, None)),
    ),
    Reached(
        "None for the rule, custom_jvp3",
        HIJAX,
        "custom_jvp3.__call__",
        "No JVP defined",
        "SH409",
        "definition",
        lambda p: p.call(p.jvp_function(sine, None)),
        JVP3,
    ),
    Reached(
        "keyword-only parameters",
        CUSTOM,
        "custom_jvp.__call__",
        "The input arguments to the custom_jvp-decorated function",
        "SH406",
        "definition",
        call_by_keyword,
    ),
    Reached(
        "keyword-only parameters, custom_jvp3",
        HIJAX,
        "custom_jvp3.__call__",
        "The input arguments to the custom_jvp-decorated function",
        "SH406",
        "definition",
        call_by_keyword,
        JVP3,
    ),
    Reached(
        "a tracer for a static argument, custom_jvp3",
        HIJAX,
        "custom_jvp3.__call__",
        "custom_jvp inputs marked",
        "SH422",
        "call",
        call_with_a_tracer,
        JVP3,
        only_on="0.11.2",
    ),
    *forward("no pair", PAIR, "SH432", lambda x, t: jnp.cos(x) * t),
    *forward(
        "an output of another structure",
        STRUCTURE,
        "SH433",
        lambda x, t: ((jnp.sin(x),), (jnp.cos(x) * t,)),
    ),
    *forward(
        "an output of another type",
        TYPES,
        "SH434",
        lambda x, t: (jnp.sin(x)[:2], (jnp.cos(x) * t)[:2]),
        where3="_jvp_check_primal_avals",
    ),
    *forward(
        "a tangent of another structure",
        TANGENT_STRUCTURE,
        "SH435",
        lambda x, t: (jnp.sin(x), (jnp.cos(x) * t,)),
    ),
    *forward(
        "a tangent of another shape",
        TANGENT_TYPE,
        "SH436",
        lambda x, t: (jnp.sin(x), (jnp.cos(x) * t)[:2]),
        where3="_jvp_check_tangent_avals",
    ),
    *forward(
        "one tangent of two of another dtype",
        TANGENT_TYPES,
        "SH436",
        lambda x, t: (sine_and_cosine(x), (t, t.astype("float16"))),
        fun=sine_and_cosine,
        where3="_jvp_check_tangent_avals",
    ),
    Reached(
        "an effect of the primal",
        CUSTOM,
        "_custom_jvp_call_typecheck",
        "Effects not supported in custom_jvp",
        "SH501",
        "import or call",
        effects,
        ("jax_enable_checks",),
    ),
    Reached(
        "an effect of the primal, custom_jvp3",
        HIJAX,
        "check_custom_effects" if NEW_JAX else "CustomJVPTraced.check",
        "Effects not supported in",
        "SH501",
        "import or call",
        effects,
        JVP3,
    ),
    reverse(
        "a rule that is not linear",
        "get_primitive_transpose",
        "Transpose rule (for reverse-mode",
        "SH440",
        lambda x, t: (jnp.sin(x), jnp.sin(t)),
    ),
    reverse(
        "a product of tangents",
        "fancy_bilinear_transpose",
        "isinstance(x, GradAccum)",
        "SH440",
        lambda x, t: (jnp.sin(x), t * t),
    ),
    reverse(
        "an output that depends on the tangent",
        "linearize_from_jvp",
        "Linearization failed",
        "SH442",
        lambda x, t: (jnp.sin(x) + t, jnp.cos(x) * t),
    ),
]


@pytest.mark.parametrize("case", installed(CASES), ids=str)
def test_ours_comes_earlier(case: Reached) -> None:
    holds(case)
