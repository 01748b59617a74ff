"""Whether the installed JAX takes a mutant and gets it right: then it is no fault.

What JAX takes of a result differs between its versions: a list for a tuple, one number
for several. So JAX itself is asked, with the class or decorator of its own.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from . import stages, uses
from .source import Primitive


def is_right(mutant: Any, original: Any) -> bool:
    """Whether stock JAX runs a mutant throughout, with the values of the original.

    One that says something else, such as no cotangent at all, has other values.
    """
    if stages.run(mutant, strict=False).stage is not None:
        return False
    if mutant.notes.get("says something else"):
        return True
    with stages.quiet(), stages.configuration(mutant):
        return _agree(_computed(mutant), _computed(original))


def _computed(program: Any) -> list[Any]:
    """Gradients, tangents and mapped outputs of a program on stock JAX."""
    scope = stages.executed(program.source(strict=False, typed=False), program.name)
    try:
        if isinstance(program, Primitive):
            prim = eval(program.construct, scope)
            call = stages.call_of_primitive(program, scope, prim)
            found = list(stages.uses_of_primitive(program.spec))
        else:
            call = stages.call_of_function(program, scope)
            found = list(stages.uses_of_function(program))
        values = {use: value(call) for use, value in _VALUES.items() if use in found}
        return jax.tree.leaves(list(values.values()))
    finally:
        stages.forget(program.name)


def _gradient(call: uses.Call) -> Any:
    loss = lambda moved: uses.total(call.on(moved))  # noqa: E731
    return jax.jit(jax.value_and_grad(loss))(call.values)


def _tangents(call: uses.Call) -> Any:
    run = lambda moved: jax.jvp(call.on, (moved,), (moved,))  # noqa: E731
    return jax.jit(run)(call.values)


def _linearized(call: uses.Call) -> Any:
    run = lambda moved: jax.linearize(call.on, moved)[1](moved)  # noqa: E731
    return jax.jit(run)(call.values)


def _mapped(call: uses.Call) -> Any:
    many = [
        np.stack([x * (n / 4) for n in range(5)]).astype(x.dtype) for x in call.values
    ]
    return jax.jit(jax.vmap(call.on))(many)


_VALUES = {
    uses.gradient: _gradient,
    uses.forward_mode: _tangents,
    uses.linearized: _linearized,
    uses.mapped: _mapped,
}


def _agree(found: list[Any], right: list[Any]) -> bool:
    return len(found) == len(right) and all(map(_same, found, right))


def _same(found: Any, right: Any) -> bool:
    a, b = np.asarray(found), np.asarray(right)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    if a.dtype == jax.dtypes.float0:
        return True
    return np.allclose(a.astype(complex), b.astype(complex), 1e-3, equal_nan=True)
