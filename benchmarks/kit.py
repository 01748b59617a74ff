"""The names that differ between a strict program and its plain twin.

Every program is built by a factory that takes a `Kit`, so both twins come from the
same source lines: not even the debug information of their StableHLO may differ.
"""

import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.experimental.hijax import HiPrim

from strict_hijax import StrictHiPrim, checked_custom_vjp


class Kit(NamedTuple):
    """A base class for primitives and a decorator for functions."""

    name: str
    prim: type[Any]
    custom_vjp: Callable[..., Any]

    def promise(self, *transforms: str) -> dict[str, Any]:
        """Class keywords that promise `transforms`; stock JAX knows none."""
        return {"supports": transforms} if self is STRICT else {}

    def typed(self, *specs: Any) -> Callable[..., Any]:
        """The decorator with its input types declared; stock JAX takes none."""
        if self is not STRICT:
            return self.custom_vjp
        return lambda fun: checked_custom_vjp(fun, example_args=specs)


STRICT = Kit("strict", StrictHiPrim, checked_custom_vjp)
PLAIN = Kit("plain", HiPrim, jax.custom_vjp)
TWINS = (STRICT, PLAIN)

LINES = 1000  # more than a module of benchmarks has


def fresh[**P, R](factory: Callable[P, R], serial: int) -> Callable[P, R]:
    """A copy of `factory` whose code objects, inner ones too, equal no other copy's.

    What is remembered for a piece of code, by JAX or by strict_hijax, is then not
    known for the copy, so each sample of a measurement does the whole work.
    """
    return types.FunctionType(
        _renumbered(factory.__code__, LINES * (serial + 1)),
        factory.__globals__,
        factory.__name__,
        factory.__defaults__,
        factory.__closure__,
    )


def _renumbered(code: types.CodeType, shift: int) -> types.CodeType:
    """`code` moved down by `shift` lines, which tells it from any other."""
    constants = tuple(
        _renumbered(constant, shift)
        if isinstance(constant, types.CodeType)
        else constant
        for constant in code.co_consts
    )
    return code.replace(co_firstlineno=code.co_firstlineno + shift, co_consts=constants)
