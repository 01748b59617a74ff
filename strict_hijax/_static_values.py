"""Whether a static value, such as a parameter of a primitive, holds a tracer."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
from collections.abc import Iterator
from typing import Any

from jax import tree_util

from . import _jax

_HOLD_NO_TRACER = frozenset({int, float, bool, str, bytes, complex, type(None)})
_DEPTH = 3  # of functions in partials in dataclasses


def tracer_in(value: Any, depth: int = _DEPTH) -> Any | None:
    """A tracer in a value, or in what its functions close over, if there is one."""
    if type(value) in _HOLD_NO_TRACER:
        return None
    try:
        leaves = tree_util.tree_leaves(value)
    except Exception:  # a dict whose keys cannot be sorted
        return None
    for leaf in leaves:
        if isinstance(leaf, _jax.Tracer):
            return leaf
        for part in _parts(leaf) if depth else ():
            if (tracer := tracer_in(part, depth - 1)) is not None:
                return tracer
    return None


def _parts(leaf: Any) -> Iterator[Any]:
    """What a value that is no pytree is made of, where it can be seen."""
    if isinstance(leaf, types.FunctionType):
        yield leaf.__defaults__
        yield leaf.__kwdefaults__
        for cell in leaf.__closure__ or ():
            with contextlib.suppress(ValueError):  # nothing is in it yet
                yield cell.cell_contents
    elif isinstance(leaf, functools.partial):
        yield from (leaf.func, leaf.args, leaf.keywords)
    elif isinstance(leaf, types.MethodType):
        if isinstance(leaf.__self__, _jax.Tracer):
            yield leaf.__self__
    elif dataclasses.is_dataclass(leaf):
        yield from (getattr(leaf, f.name, None) for f in dataclasses.fields(leaf))
    elif isinstance(getattr(leaf, "__wrapped__", None), types.FunctionType):
        yield leaf.__wrapped__  # as that of a jitted function
