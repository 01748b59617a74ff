"""Accumulators that watch what a backward rule does with them.

JAX tells accumulators apart with `isinstance` and reads `aval`, `val` and `ref`, so a
stand-in is an instance of the same class which passes everything on to the one that
it stands for. `NullAccum` wants nothing and is handed on as it is.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import _jax
from ._types import has_no_tangent, same_type, type_of

type LetsPass = Callable[[Any, Any], bool]
"""Whether a cotangent (second) of another type than this (first) is let through."""


def _lets_nothing_pass(aval: Any, cotangent: Any) -> bool:
    return False


class Watch:
    """What has happened to one accumulator.

    Attributes:
      aval: the type that its cotangents must have.
      touched: whether it was given something (an explicit zero counts), handed on,
        or looked into.
      wrong: the cotangents of another type that it was given, each with the user's
        file and line; they are passed on only where the user ignores the fault.
    """

    __slots__ = ("_lets_pass", "aval", "touched", "wrong")

    def __init__(self, aval: Any, lets_pass: LetsPass = _lets_nothing_pass):
        self.aval = aval
        self.touched = False
        self._lets_pass = lets_pass
        self.wrong: list[tuple[Any, tuple[str, int]]] = []

    def accepts(self, cotangent: Any) -> bool:
        """Whether a cotangent may be passed on; one that may not is kept as wrong."""
        self.touched = True
        if cotangent is None or _jax.bwd_checks_disabled():
            return True
        aval = (
            cotangent.aval if isinstance(cotangent, _jax.Zero) else type_of(cotangent)
        )
        if isinstance(aval, _jax.AbstractRef):
            return True
        if aval is not None and same_type(aval, self.aval):
            return True
        self.wrong.append((cotangent, _callers_line()))
        return self._lets_pass(self.aval, cotangent)


def _callers_line() -> tuple[str, int]:
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and (
        frame.f_code.co_filename == __file__ or _is_of_jax(frame)
    ):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _is_of_jax(frame: types.FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(("jax.", "jaxlib."))


def _called_from_jax() -> bool:
    return _is_of_jax(sys._getframe(2))  # pyright: ignore[reportPrivateUsage]


class _Watched:
    """What the stand-ins of both kinds share: each tells its `Watch` what is done."""

    def __init__(self, accum: Any, watch: Watch):
        self._accum = accum
        self._watch = watch

    @property
    def aval(self) -> Any:
        if _called_from_jax():  # handed on: to `with_refs`, or to an inner jit
            self._watch.touched = True
        return self._accum.aval

    def accum(self, x: Any) -> None:
        if self._watch.accepts(x):
            self._accum.accum(x)

    def freeze(self) -> Any:
        self._watch.touched = True
        return self._accum.freeze()

    def __repr__(self) -> str:
        return repr(self._accum)


class WatchedValAccum(_Watched, _jax.ValAccum):  # type: ignore[override]
    """A `ValAccum` that tells its `Watch` what is done with it."""

    @property
    def val(self) -> Any:
        self._watch.touched = True
        return self._accum.val

    @val.setter
    def val(self, value: Any) -> None:
        self._watch.touched = True
        self._accum.val = value


class WatchedRefAccum(_Watched, _jax.RefAccum):  # type: ignore[override]
    """A `RefAccum` that tells its `Watch` what is done with it."""

    @property
    def ref(self) -> Any:
        self._watch.touched = True
        return self._accum.ref

    @ref.setter
    def ref(self, ref: Any) -> None:
        self._watch.touched = True
        self._accum.ref = ref

    def inst(self) -> Any:
        self._watch.touched = True
        self._accum.inst()
        return self


class Unwanted(_jax.NullAccum):
    """The accumulator of an input without tangent, which notes what it is given."""

    given: Any = None

    def accum(self, x: Any) -> None:
        self.given = x


class Watches:
    """Stand-ins for the accumulators of one call of a backward rule.

    The same accumulator in two places (`P(x, x)`) gets one stand-in: they are told
    apart by identity. `lets_pass` says which cotangents of another type JAX is to
    get all the same.
    """

    def __init__(self, lets_pass: LetsPass = _lets_nothing_pass) -> None:
        self._lets_pass = lets_pass
        self._known: dict[int, tuple[Any, Any, Watch]] = {}
        self._order: list[Watch | None] = []

    def stand_in(self, accum: Any) -> Any:
        """What to hand to the rule in place of one leaf."""
        if isinstance(accum, _jax.ValAccum):
            kind: Any = WatchedValAccum
        elif isinstance(accum, _jax.RefAccum):
            kind = WatchedRefAccum
        else:
            self._order.append(None)
            return accum
        known = self._known.get(id(accum))
        if known is None:
            watch = Watch(accum.aval, self._lets_pass)
            known = self._known[id(accum)] = (accum, kind(accum, watch), watch)
        self._order.append(known[2])
        return known[1]

    def __iter__(self) -> Iterator[Watch | None]:
        """The watch of each leaf, in order; None where nothing is wanted."""
        for watch in self._order:
            unwanted = watch is None or has_no_tangent(watch.aval)
            yield None if unwanted else watch
