"""The error of JAX that a missing method of a hijax type reaches, and ours before it.

Each case is a row of `docs/jax_errors.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
from jax._src.hijax import HiType

from strict_hijax import StrictHiType
from tests.hijax_types import Q, make
from tests.jax_error_programs import Program, Reached, holds


def without(method: str, use: Callable[[Any], Any]) -> Reached:
    """A case: a type without a method, and a use of it that needs the method."""

    def program(p: Program) -> Any:
        make(StrictHiType if p.strict else HiType, **{method: None})
        p.stage = "call"
        return use(Q)

    return Reached(
        f"no {method}",
        "hijax.py",
        "_must_override",
        "… requires … to implement",
        "SH701",
        "definition",
        program,
    )


CASES = [
    without("lo_ty", jax.jit(lambda value: value)),
    without("lower_val", jax.jit(lambda value: value)),
    without("raise_val", jax.jit(lambda value: value)),
    without("to_tangent_aval", lambda value: jax.linearize(lambda q: q, value)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours_comes_earlier(case: Reached) -> None:
    holds(case)
