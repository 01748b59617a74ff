"""Errors of JAX about rules that are not there or cannot fit, and ours at definition.

Each case is a row of `docs/jax_errors.md`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.hijax import (
    HiPrim,
    jvp_from_lin,
    linearize_from_jvp,
    vjp_from_jvp,
    vjp_from_lin,
)

from strict_hijax import StrictHiPrim
from tests.jax_error_programs import (
    LINEAR,
    NEW_JAX,
    TANGENT,
    TRANSPOSED,
    Reached,
    holds,
)
from tests.primitives import AVAL, vjp_fwd

HIJAX = "hijax.py"
GRAD = "for grad support, subclass … must implement "


def jvp(self: Any, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return self(x), jnp.cos(x) * t


def lin(self: Any, nzs_in: Any, x: Any) -> Any:
    return self(x), x


def linearized(self: Any, x: Any, t: Any) -> Any:
    return jnp.cos(x) * t


def without_init(*names: str) -> Any:
    """An `__init__` that sets all but these attributes."""

    def __init__(self: Any) -> None:
        given = {"in_avals": (AVAL,), "out_aval": AVAL, "params": {}}
        for name in given.keys() - set(names):
            setattr(self, name, given[name])
        base: Any = StrictHiPrim if isinstance(self, StrictHiPrim) else HiPrim
        base.__init__(self)

    return __init__


def forgotten(name: str) -> Reached:
    return Reached(
        f"{name} is not set",
        HIJAX,
        "HiPrim.__init__",
        f"subclass __init__ should set self.{name}",
        "SH202",
        "construction",
        lambda p: p.prim(__init__=without_init(name)),
    )


CASES = [
    forgotten("in_avals"),
    forgotten("out_aval"),
    forgotten("params"),
    Reached(
        "no expand",
        HIJAX,
        "HiPrim.expand",
        "subclass … must implement expand",
        "SH101",
        "definition",
        lambda p: p.call(p.prim(expand=None)),
    ),
    Reached(
        "no reverse rule",
        HIJAX,
        "HiPrim.vjp_fwd",
        GRAD + "vjp_fwd",
        "SH102",
        "definition",
        lambda p: p.grad(p.prim(vjp_fwd=None, vjp_bwd=None)),
    ),
    Reached(
        "no vjp_fwd",
        HIJAX,
        "HiPrim.vjp_fwd",
        GRAD + "vjp_fwd",
        "SH102",
        "definition",
        lambda p: p.grad(p.prim(vjp_fwd=None)),
    ),
    Reached(
        "a misspelt vjp_fwd",
        HIJAX,
        "HiPrim.vjp_fwd",
        GRAD + "vjp_fwd",
        "SH112",
        "definition",
        lambda p: p.grad(p.prim(vjp_fwd=None, vjp_forward=vjp_fwd)),
    ),
    Reached(
        "no backward rule",
        HIJAX,
        "HiPrim.vjp_bwd_retval",
        GRAD + "vjp_bwd or",
        "SH102",
        "definition",
        lambda p: p.grad(p.prim(vjp_bwd=None)),
    ),
    Reached(
        "a misspelt vjp_bwd_retval",
        HIJAX,
        "HiPrim.vjp_bwd_retval",
        GRAD + "vjp_bwd or",
        "SH112",
        "definition",
        lambda p: p.grad(p.prim(vjp_bwd=None, vjp_bwd_retvals=lambda self, r, g: (g,))),
    ),
    Reached(
        "no jvp",
        HIJAX,
        "HiPrim.jvp",
        "for jvp support, subclass",
        "SH103",
        "definition",
        lambda p: p.jvp(p.prim(**TANGENT)),
    ),
    Reached(
        "derived from a jvp that is not there",
        HIJAX,
        "HiPrim.jvp",
        "for jvp support, subclass",
        "SH106",
        "definition",
        lambda p: p.grad(
            p.prim(
                vjp_fwd=vjp_from_jvp.vjp_fwd,
                vjp_bwd_retval=vjp_from_jvp.vjp_bwd_retval,
            )
        ),
    ),
    Reached(
        "no lin",
        HIJAX,
        "HiPrim.lin",
        "for linearize support, subclass",
        "SH103",
        "definition",
        lambda p: p.linearize(p.prim(**LINEAR)),
    ),
    Reached(
        "derived from a lin that is not there",
        HIJAX,
        "HiPrim.lin",
        "for linearize support, subclass",
        "SH106",
        "definition",
        lambda p: p.grad(
            p.prim(
                vjp_fwd=vjp_from_lin.vjp_fwd,
                vjp_bwd_retval=vjp_from_lin.vjp_bwd_retval,
            )
        ),
    ),
    Reached(
        "lin without linearized",
        HIJAX,
        "HiPrim.linearized",
        "for linearize support, subclass",
        "SH108",
        "definition",
        lambda p: p.linearize(p.prim(**LINEAR | {"lin": lin})),
    ),
    Reached(
        "no transpose",
        HIJAX,
        "HiPrim.transpose",
        "for transpose support, subclass",
        "SH103",
        "definition",
        lambda p: p.transpose(p.prim(**TRANSPOSED)),
    ),
    Reached(
        "no batch",
        HIJAX,
        "HiPrim.batch" if NEW_JAX else "HiPrim.batch_dim_rule",
        "for vmap support, subclass",
        "SH103",
        "definition",
        lambda p: p.call(jax.vmap(p.prim(("grad", "vmap"))), jnp.ones((2, 3))),
    ),
    Reached(
        "vjp_bwd returns the cotangents",
        HIJAX,
        "_call_hi_primitive_linearized_transpose",
        "….vjp_bwd should return",
        "SH116",
        "definition",
        lambda p: p.grad(p.prim(vjp_bwd=lambda self, x, g, acc: (g * jnp.cos(x),))),
    ),
    Reached(
        "transpose returns the cotangents",
        HIJAX,
        "_call_hi_primitive_transpose",
        "….transpose should return",
        "SH116",
        "definition",
        lambda p: p.transpose(
            p.prim(**TRANSPOSED | {"transpose": lambda self, ct, x: (ct,)})
        ),
    ),
    Reached(
        "jvp and lin from one another",
        HIJAX,
        "jvp_from_lin",
        "subclass … can't set both",
        "SH107",
        "definition",
        lambda p: p.jvp(
            p.prim(
                **TANGENT
                | {
                    "jvp": jvp_from_lin,
                    "lin": linearize_from_jvp.lin,
                    "linearized": linearize_from_jvp.linearized,
                }
            )
        ),
    ),
    Reached(
        "linearize_from_jvp for lin",
        HIJAX,
        "_LinearizeFromJVP.__call__",
        "linearize_from_jvp is a pair",
        "SH104",
        "definition",
        lambda p: p.linearize(
            p.prim(**LINEAR | {"jvp": jvp, "lin": linearize_from_jvp})
        ),
    ),
    Reached(
        "vjp_from_jvp for vjp_fwd",
        HIJAX,
        "_VJPFromJVP.__call__",
        "vjp_from_jvp is a pair",
        "SH104",
        "definition",
        lambda p: p.grad(p.prim(jvp=jvp, vjp_fwd=vjp_from_jvp, vjp_bwd=None)),
    ),
    Reached(
        "vjp_from_lin for vjp_fwd",
        HIJAX,
        "_VJPFromLin.__call__",
        "vjp_from_lin is a pair",
        "SH104",
        "definition",
        lambda p: p.grad(
            p.prim(lin=lin, linearized=linearized, vjp_fwd=vjp_from_lin, vjp_bwd=None)
        ),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours_comes_earlier(case: Reached) -> None:
    holds(case)
