"""Errors of JAX about types that differ only on a mesh, and ours before them.

Each case is a row of `docs/jax_errors.md`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.hijax import HiPrim
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from strict_hijax import StrictHiPrim
from tests.jax_error_programs import Program, Reached, holds
from tests.test_jax_errors_of_functions import ATTACHED3

X = jnp.ones(6)


def mesh(kind: AxisType) -> Any:
    return jax.make_mesh((2,), ("i",), axis_types=(kind,))


def on_shards(function: Any) -> Any:
    """`function` on each half of its argument."""
    auto, halves = mesh(AxisType.Auto), P("i")
    return jax.jit(
        jax.shard_map(function, mesh=auto, in_specs=halves, out_specs=halves)
    )


def init(self: Any, aval: Any) -> None:
    self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    base: Any = StrictHiPrim if isinstance(self, StrictHiPrim) else HiPrim
    base.__init__(self)


def function_with_a_cotangent_of_no_axis(p: Program) -> Any:
    made = p.vjp_function(
        jnp.sin, lambda x: (jnp.sin(x), x), lambda x, g: (jnp.zeros(3),)
    )
    return p.grad(on_shards(made), X)


def primitive_with_a_cotangent_of_no_axis(p: Program) -> Any:
    cls = p.prim_class(
        __init__=init, vjp_bwd=lambda self, x, g, acc: acc.accum(jnp.zeros(3))
    )
    return p.grad(on_shards(lambda x: cls(jax.typeof(x))(x)), X)


def tangent_of_another_sharding(p: Program) -> Any:
    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        return self(*primals), jax.sharding.reshard(tangents[0], P(None))

    cls = p.prim_class(("jvp",), vjp_fwd=None, vjp_bwd=None, __init__=init, jvp=jvp)
    explicit = mesh(AxisType.Explicit)
    with jax.set_mesh(explicit):
        x = jax.device_put(X, NamedSharding(explicit, P("i")))
        return p.jvp(cls(jax.typeof(x)), x)


CASES = [
    Reached(
        "a cotangent that varies along no axis",
        "custom_derivatives.py",
        "_flatten_bwd",
        "Custom VJP bwd rule attached to",
        "SH418",
        "call",
        function_with_a_cotangent_of_no_axis,
    ),
    Reached(
        "a cotangent that varies along no axis, custom_vjp3",
        "hijax.py",
        "_vjp_bwd_aval_mismatch_err",
        ATTACHED3,
        "SH418",
        "call",
        function_with_a_cotangent_of_no_axis,
        ("jax_custom_vjp3",),
    ),
    Reached(
        "a cotangent of a primitive that varies along no axis",
        "interpreters/ad.py",
        "ct_check",
        "Expected cotangent type",
        "SH317",
        "rule",
        primitive_with_a_cotangent_of_no_axis,
    ),
    Reached(
        "a tangent of another sharding",
        "interpreters/ad.py",
        "_primal_tangent_shapes_match",
        "primal_aval.sharding",
        "SH326",
        "rule",
        tangent_of_another_sharding,
        ("jax_enable_checks",),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours_comes_earlier(case: Reached) -> None:
    holds(case)
