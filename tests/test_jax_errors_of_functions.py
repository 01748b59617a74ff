"""Errors of JAX that a wrong custom_vjp rule reaches, and ours that come earlier."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import ShapeDtypeStruct as S
from jax.custom_derivatives import SymbolicZero, custom_vjp_primal_tree_values
from jax.experimental.buffer_callback import buffer_callback

from tests import jax_errors
from tests.jax_error_programs import NEW_JAX, Program, Reached, holds, installed
from tests.primitives import X

HIJAX = "hijax.py"
CUSTOM = "custom_derivatives.py"
VJP3 = ("jax_custom_vjp3",)
BWD3 = "_custom_vjp_bwd.rule" if NEW_JAX else "CustomVJPTraced.vjp_bwd_retval_logs"
FWD3 = "_custom_vjp_fwd.rule" if NEW_JAX else "CustomVJPTraced.vjp_fwd"


def sine(x: Any) -> Any:
    return jnp.sin(x)


def fwd(x: Any) -> Any:
    return jnp.sin(x), x


def bwd(x: Any, g: Any) -> Any:
    return (g * jnp.cos(x),)


def tap(x: Any) -> Any:
    """With an effect that custom derivatives do not allow."""
    record = lambda context, out, x: None  # noqa: E731
    return buffer_callback(record, S(x.shape, x.dtype), has_side_effect=True)(x)


def function(
    says: str,
    code: str,
    stages: str,
    where: str = "_flatten_bwd",
    *,
    name: str = "",
    fun: Any = sine,
    fwd: Any = fwd,
    bwd: Any = bwd,
    file: str = CUSTOM,
    how: str = "defvjp",
    config: tuple[str, ...] = (),
    only_on: str = "both",
    **keywords: Any,
) -> Reached:
    """A case: a function with one wrong rule, called and then differentiated."""

    def program(p: Program) -> Any:
        made = p.vjp_function(fun, fwd, bwd, how=how, **keywords)
        return p.grad(jax.jit(made))

    return Reached(
        name or says, file, where, says, code, stages, program, config, only_on
    )


def of_hijax(*args: Any, name: str, **keywords: Any) -> Reached:
    """The same where `jax_custom_vjp3` is on."""
    keywords = {"file": HIJAX, "config": VJP3} | keywords
    return function(*args, name=f"{name}, custom_vjp3", **keywords)


def call_by_keyword(p: Program) -> Any:
    def scaled(x: Any, *, factor: Any) -> Any:
        return x * factor

    made = p.vjp_function(
        scaled, lambda x, factor: (x * factor, x), lambda res, g: (g, g)
    )
    p.stage = "call"
    return made(X, factor=2.0)


def call_with_a_tracer(p: Program) -> Any:
    made = p.vjp_function(
        lambda n, x: x**n,
        lambda n, x: (x**n, x),
        lambda n, x, g: (n * x ** (n - 1) * g,),
        nondiff_argnums=(0,),
        given=(3, X),
    )
    p.stage = "call"
    return jax.jit(made)(3, X)


ATTACHED3 = next(
    row.texts[0]
    for row in jax_errors.rows()
    if row.installed and row.functions == ("_vjp_bwd_aval_mismatch_err",)
)
PAIR = "Custom VJP fwd rule … must produce a pair … but "
CONTAINER = "Custom VJP bwd rule must produce an output with the same container"
WITH_LOGS = "Custom VJP bwd rule … was registered with defvjp_with_logs"
LOGS = "Custom VJP bwd rule was registered with defvjp_with_logs"
ACCUMS: dict[str, Any] = {"how": "defvjp_with_accums", "only_on": "0.12 on"}
NO_VJP = "No VJP defined for custom_vjp function"

CASES = [
    Reached(
        "no rules",
        CUSTOM,
        "custom_vjp.__call__",
        NO_VJP,
        "SH401",
        "call",
        lambda p: p.call(p.vjp_function(sine)),
    ),
    Reached(
        "no rules, custom_vjp3",
        HIJAX,
        "custom_vjp3.__call__",
        NO_VJP,
        "SH401",
        "call",
        lambda p: p.call(p.vjp_function(sine)),
        config=VJP3,
    ),
    function(
        NO_VJP,
        "SH409",
        "definition",
        "custom_vjp.__call__",
        name="None for bwd",
        bwd=None,
    ),
    of_hijax(
        NO_VJP,
        "SH409",
        "definition",
        "custom_vjp3.__call__",
        name="None for bwd",
        bwd=None,
    ),
    Reached(
        "keyword-only parameters",
        CUSTOM,
        "custom_vjp.__call__",
        "The input arguments to the custom_vjp-decorated function",
        "SH406",
        "definition",
        call_by_keyword,
    ),
    Reached(
        "a tracer for a static argument",
        CUSTOM,
        "_check_for_tracers",
        "Found a JAX Tracer object",
        "SH422",
        "call",
        call_with_a_tracer,
    ),
    Reached(
        "a tracer for a static argument, custom_vjp3",
        HIJAX,
        "custom_vjp3.__call__",
        "custom_vjp inputs marked",
        "SH422",
        "call",
        call_with_a_tracer,
        config=VJP3,
    ),
    Reached(
        "nondiff_argnames without a signature",
        CUSTOM,
        "custom_vjp.__init__",
        "sig is not None",
        "SH408",
        "definition",
        lambda p: p.vjp_function(min, fwd, bwd, nondiff_argnames=("x",)),
    ),
    # --- fwd ---
    function(
        PAIR + "instead of a pair",
        "SH410",
        "import or call",
        "_flatten_fwd",
        name="fwd returns the output alone",
        fwd=lambda x: jnp.sin(x),
    ),
    function(
        PAIR + "instead the fwd rule output's first element had container",
        "SH411",
        "import or call",
        "_flatten_fwd",
        name="fwd returns another structure",
        fwd=lambda x: ((jnp.sin(x),), x),
    ),
    of_hijax(
        PAIR + "instead the fwd rule output's first element had container",
        "SH411",
        "import or call",
        FWD3,
        name="fwd returns another structure",
        fwd=lambda x: ((jnp.sin(x),), x),
    ),
    function(
        PAIR + "instead the fwd rule output's first element had shapes",
        "SH412",
        "import or call",
        "_flatten_fwd",
        name="fwd returns another shape",
        fwd=lambda x: (jnp.sin(x)[:2], x),
    ),
    of_hijax(
        "at …, got fwd output type",
        "SH412",
        "import or call",
        "_vjp_fwd_aval_mismatch_err",
        name="fwd returns another dtype",
        fwd=lambda x: (jnp.sin(x).astype("float16"), x),
    ),
    function(
        "custom_vjp … function … that was not an argument",
        "SH429",
        "import or call",
        "_check_for_returned_refs",
        name="fwd keeps a new Ref",
        fwd=lambda x: (jnp.sin(x), jax.new_ref(x)),
        bwd=lambda ref, g: (g * jnp.cos(ref[...]),),
    ),
    function(
        "custom_vjp … function … cannot be returned there",
        "SH429",
        "import or call",
        "_check_for_returned_refs",
        name="fwd returns a Ref as its output",
        fwd=lambda x: (jax.new_ref(x), x),
    ),
    function(
        "unexpected leaf type",
        "SH424",
        "import",
        "custom_vjp_primal_tree_values.value",
        name="custom_vjp_primal_tree_values without symbolic_zeros",
        fwd=lambda x: (jnp.sin(custom_vjp_primal_tree_values(x)), x),
    ),
    # --- bwd ---
    function(CONTAINER, "SH414", "import or call", name="an array", bwd=lambda x, g: g),
    function(
        CONTAINER, "SH414", "import or call", name="too many", bwd=lambda x, g: (g, g)
    ),
    function(
        CONTAINER,
        "SH415",
        "import or call",
        name="another structure",
        bwd=lambda x, g: ({"x": g},),
    ),
    of_hijax(
        "Custom VJP bwd rule … must produce a tuple but got",
        "SH414",
        "import or call",
        BWD3,
        name="an array",
        bwd=lambda x, g: g,
    ),
    of_hijax(
        "Custom VJP bwd rule … must produce a tuple of length",
        "SH414",
        "import or call",
        BWD3,
        name="too many",
        bwd=lambda x, g: (g, g),
    ),
    function(
        "Custom VJP bwd rule produced a SymbolicZero",
        "SH416",
        "import or call",
        name="a SymbolicZero of another shape",
        bwd=lambda x, g: (SymbolicZero(jax.typeof(jnp.ones(2))),),
    ),
    function(
        "Custom VJP bwd rule attached to",
        "SH416",
        "import or call",
        name="another shape",
        bwd=lambda x, g: (g[:2],),
    ),
    of_hijax(
        "Custom VJP bwd rule … output structure",
        "SH415",
        "import or call",
        BWD3,
        name="another structure",
        bwd=lambda x, g: ((g,),),
        only_on="0.12.1 on",
    ),
    of_hijax(
        ATTACHED3,
        "SH416",
        "import or call",
        "_vjp_bwd_aval_mismatch_err",
        name="another shape",
        bwd=lambda x, g: (g[:2],),
    ),
    # --- logs ---
    function(
        LOGS + " and so must produce a pair",
        "SH420",
        "import or call",
        name="no logs",
        how="defvjp_with_logs",
        bwd=lambda x, g: (g,),
    ),
    function(
        LOGS + ", and so the second element",
        "SH420",
        "import or call",
        name="logs that are no dict",
        how="defvjp_with_logs",
        bwd=lambda x, g: ((g,), [g]),
    ),
    of_hijax(
        WITH_LOGS + " and so must produce a pair",
        "SH420",
        "import or call",
        BWD3,
        name="no logs",
        how="defvjp_with_logs",
        bwd=lambda x, g: (g,),
    ),
    of_hijax(
        WITH_LOGS + ", and so the second element",
        "SH420",
        "import or call",
        BWD3,
        name="logs that are no dict",
        how="defvjp_with_logs",
        bwd=lambda x, g: ((g,), [g]),
    ),
    function(
        "Custom VJP bwd rule was registered with defvjp_with_accums",
        "SH420",
        "import or call",
        "_FlatBwdWithAccums.call_with_accums",
        name="an accumulating bwd returns an array",
        bwd=lambda x, g, acc: jnp.sin(g),
        **ACCUMS,
    ),
    of_hijax(
        "Custom VJP bwd rule … was registered with defvjp_with_accums",
        "SH420",
        "import or call",
        "_custom_vjp_bwd_accums.rule",
        name="an accumulating bwd returns an array",
        bwd=lambda x, g, acc: jnp.sin(g),
        **ACCUMS,
    ),
    function(
        "Custom VJP bwd rule was registered with defvjp_with_accums",
        "SH420",
        "definition",
        "_FlatBwdWithAccums.call_with_accums",
        name="an accumulating bwd returns the cotangents",
        bwd=lambda x, g, acc: (g,),
        **ACCUMS,
    ),
    of_hijax(
        "Custom VJP bwd rule … was registered with defvjp_with_accums",
        "SH420",
        "definition",
        "_custom_vjp_bwd_accums.rule",
        name="an accumulating bwd returns the cotangents",
        bwd=lambda x, g, acc: (g,),
        **ACCUMS,
    ),
    function(
        "Expected cotangent type",
        "SH416",
        "import or call",
        "ct_check",
        name="an accumulating bwd gives another shape",
        file="interpreters/ad.py",
        bwd=lambda x, g, acc: acc.accum(g[:2]),
        **ACCUMS,
    ),
    # --- effects ---
    function(
        "Effects not supported in custom_vjp",
        "SH501",
        "import or call",
        "_custom_vjp_call_typecheck",
        name="an effect of the primal",
        fun=tap,
        config=("jax_enable_checks",),
    ),
    of_hijax(
        "Effects not supported in",
        "SH501",
        "import or call",
        "check_custom_effects" if NEW_JAX else "CustomVJPTraced.check",
        name="an effect of the primal",
        fun=tap,
    ),
    function(
        "remat optimization for custom_vjp does not support forward",
        "SH501",
        "import or call",
        "optimize_remat_of_custom_vjp_fwd.wrapped_fwd",
        name="an effect of fwd, optimize_remat",
        fwd=lambda x: (tap(x), x),
        optimize_remat=True,
    ),
]


@pytest.mark.parametrize("case", installed(CASES), ids=str)
def test_ours_comes_earlier(case: Reached) -> None:
    holds(case)
