"""Errors of JAX about what rules of primitives return and are given, and ours before.

Each case is a row of `docs/jax_errors.md`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax._src.ad_util import Zero
from jax.experimental.hijax import linearize_from_jvp, vjp_from_jvp

from tests.jax_error_programs import (
    LINEAR,
    TANGENT,
    TRANSPOSED,
    Program,
    Reached,
    holds,
)
from tests.primitives import X

HIJAX = "hijax.py"
AD = "interpreters/ad.py"
CHECKS = ("jax_enable_checks",)


def lin(self: Any, nzs_in: Any, x: Any) -> Any:
    return self(x), x


def linearized(self: Any, x: Any, t: Any) -> Any:
    return jnp.cos(x) * t


def jitted(function: Any) -> Any:
    return lambda *args: jax.jit(function)(*args)


def with_refs(p: Program, vjp_bwd: Any) -> Any:
    prim = p.prim(vjp_bwd=vjp_bwd)
    p.call(prim)
    p.stage = "rule"
    pullback: Any = jax.vjp(prim, X)[1]
    ref = jax.new_ref(jnp.zeros_like(X))
    return pullback.with_refs(ref)(X)


CASES = [
    Reached(
        "arguments of another type",
        HIJAX,
        "_call_hi_primitive_typecheck",
        "input type mismatch for",
        "SH211",
        "call",
        lambda p: p.call(jitted(p.prim()), jnp.ones(4)),
        config=CHECKS,
    ),
    Reached(
        "structured residuals without vjp_bwd",
        HIJAX,
        "_call_hi_primitive_linearize",
        "… returned structured residuals",
        "SH308",
        "import or rule",
        lambda p: p.grad(
            p.prim(
                vjp_fwd=lambda self, nzs, x: (self(x), x, True, x),
                vjp_bwd_retval=lambda self, x, g: (g * x,),
            )
        ),
    ),
    Reached(
        "linearized of another structure",
        HIJAX,
        "flatten_user_linearized",
        "tree mismatch during linearization",
        "SH323",
        "import or rule",
        lambda p: p.linearize(
            p.prim(**LINEAR | {"lin": lin, "linearized": lambda self, x, t: (t, t)})
        ),
    ),
    Reached(
        "vjp_bwd returns an array",
        HIJAX,
        "_call_hi_primitive_linearized_transpose",
        "….vjp_bwd should return",
        "SH309",
        "import or rule",
        lambda p: p.grad(p.prim(vjp_bwd=lambda self, x, g, acc: g * jnp.cos(x))),
    ),
    Reached(
        "logs that are no dict",
        HIJAX,
        "_call_hi_primitive_linearized_transpose",
        "….vjp_bwd should return",
        "SH309",
        "import or rule",
        lambda p: p.grad(p.prim(vjp_bwd_retval_logs=lambda self, x, g: ((g,), [g]))),
    ),
    Reached(
        "transpose returns an array",
        HIJAX,
        "_call_hi_primitive_transpose",
        "….transpose should return",
        "SH309",
        "import or rule",
        lambda p: p.transpose(
            p.prim(**TRANSPOSED | {"transpose": lambda self, ct, x: jnp.sin(ct)})
        ),
    ),
    Reached(
        "a cotangent of another shape",
        AD,
        "ct_check",
        "Expected cotangent type",
        "SH315",
        "import or rule",
        lambda p: p.grad(p.prim(vjp_bwd=lambda self, x, g, acc: acc.accum(g[:2]))),
    ),
    Reached(
        "a returned cotangent of another shape",
        AD,
        "ct_check",
        "Expected cotangent type",
        "SH315",
        "import or rule",
        lambda p: p.grad(p.prim(vjp_bwd_retval=lambda self, x, g: (g[:2],))),
    ),
    Reached(
        "Zero itself for a cotangent",
        AD,
        "RefAccum.accum",
        "x is not Zero",
        "SH312",
        "import or rule",
        lambda p: with_refs(p, lambda self, x, g, acc: acc.accum(Zero)),
    ),
    Reached(
        "a tangent of another shape",
        AD,
        "_primal_tangent_shapes_match",
        "core.definitely_equal_shape",
        "SH324",
        "import or rule",
        lambda p: p.jvp(
            p.prim(**TANGENT | {"jvp": lambda self, ps, ts: (self(*ps), ts[0][:2])})
        ),
        config=CHECKS,
    ),
    Reached(
        "a tangent of another dtype",
        AD,
        "_primal_tangent_shapes_match",
        "expected_tangent_dtype",
        "SH325",
        "import or rule",
        lambda p: p.jvp(
            p.prim(
                **TANGENT
                | {"jvp": lambda self, ps, ts: (self(*ps), ts[0].astype("float16"))}
            )
        ),
        config=CHECKS,
    ),
    Reached(
        "linearized gives a zero where lin promised more",
        AD,
        "maybe_linearize_tracer",
        "not type(tangent) is Zero",
        "SH318",
        "import or rule",
        lambda p: p.linearize(
            p.prim(
                **LINEAR
                | {"lin": lin, "linearized": lambda self, x, t: Zero(jax.typeof(x))}
            ),
        ),
    ),
    Reached(
        "linearized gives a tangent where lin said zero",
        AD,
        "maybe_linearize_tracer",
        "type(tangent) is Zero",
        "SH318",
        "import or rule",
        lambda p: p.linearize(
            p.prim(
                **LINEAR
                | {
                    "lin": lambda self, nzs, x: (self(x), x, False),
                    "linearized": linearized,
                }
            ),
        ),
    ),
    Reached(
        "a product of tangents",
        AD,
        "fancy_bilinear_transpose",
        "isinstance(x, GradAccum)",
        "SH328",
        "import",
        lambda p: p.grad(
            p.prim(
                jvp=lambda self, ps, ts: (self(ps[0]), ts[0] * ts[0]),
                vjp_fwd=vjp_from_jvp.vjp_fwd,
                vjp_bwd_retval=vjp_from_jvp.vjp_bwd_retval,
            )
        ),
    ),
    Reached(
        "output and tangent are swapped",
        AD,
        "linearize_from_jvp",
        "Linearization failed",
        "SH319",
        "import",
        lambda p: p.linearize(
            p.prim(
                **LINEAR
                | {
                    "jvp": lambda self, ps, ts: (jnp.cos(ps[0]) * ts[0], self(*ps)),
                    "lin": linearize_from_jvp.lin,
                    "linearized": linearize_from_jvp.linearized,
                }
            ),
        ),
    ),
    Reached(
        "a jvp that is not linear",
        AD,
        "get_primitive_transpose",
        "Transpose rule (for reverse-mode",
        "SH328",
        "import",
        lambda p: p.grad(
            p.prim(
                jvp=lambda self, ps, ts: (self(ps[0]), jnp.sin(ts[0])),
                vjp_fwd=vjp_from_jvp.vjp_fwd,
                vjp_bwd_retval=vjp_from_jvp.vjp_bwd_retval,
            )
        ),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours_comes_earlier(case: Reached) -> None:
    holds(case)
