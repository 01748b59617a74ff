"""Which calls of a function are alike: same types, static arguments, configuration.

What is remembered of a call holds on to nothing of the user's: static arguments that
are no plain values are remembered weakly, since they may hold tracers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import time
import types
import weakref
from collections.abc import Generator
from typing import Any

import numpy as np

from strict_hijax import _jax

from .rules import FunctionRules, Inputs, innermost

MOST_REMEMBERED = 64

_PLAIN = (bool, int, complex, str, bytes, type(None), np.dtype)
_STABLE = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
    enum.Enum,
)


class _Same:
    """The very same object, held weakly."""

    __slots__ = ("_hash", "_ref")

    def __init__(self, value: Any):
        self._ref = weakref.ref(value)
        self._hash = id(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return NotImplemented
        mine = self._ref()
        return mine is not None and mine is other._ref()


def static_key(value: Any) -> Any:
    """A key for a static argument; TypeError where it has none.

    An object that may change has none: its rules are checked at each call.
    """
    if type(value) in _PLAIN:
        return type(value), value
    if type(value) is float:  # 0.0 and -0.0 are equal, and not the same
        return float, value.hex()
    if type(value) in (tuple, list):
        return type(value), tuple(map(static_key, value))
    if isinstance(value, _STABLE):
        return _Same(value)
    raise TypeError(f"{type(value).__name__} may change")


def call_key(inputs: Inputs) -> Any:
    """A key for a call, or None where its static arguments have none."""
    try:
        statics = tuple(static_key(value) for _, value in inputs.statics)
        key = inputs.treedef, inputs.avals, statics, _jax.configuration_key()
        hash(key)
    except Exception:  # data of a pytree, too, may be hashed in any way it likes
        return None
    return key


class Remembered[Value]:
    """A mapping that forgets its oldest entries."""

    def __init__(self, most: int = MOST_REMEMBERED):
        self._most = most
        self._entries: dict[Any, Value] = {}

    def get(self, key: Any) -> Value | None:
        """The value of a key, if it is still known."""
        try:
            return None if key is None else self._entries.get(key)
        except Exception:  # data of a pytree may compare in any way it likes
            return None

    def add(self, key: Any, value: Value) -> None:
        """Remember a value, unless there is one."""
        if self.get(key) is None:
            self.put(key, value)

    def put(self, key: Any, value: Value) -> None:
        """Remember a value, and forget the oldest where there are too many."""
        if key is None:
            return
        try:
            self._entries[key] = value
        except Exception:
            return
        while len(self._entries) > self._most:
            self._entries.pop(next(iter(self._entries)), None)

    def __len__(self) -> int:
        return len(self._entries)


# --- how much time the checks of a piece of code take ---------------------------------

type CodeKey = tuple[Any, ...]

# A function made anew at each step is checked as often as this allows: in the first
# second without a limit, and then in a tenth of the time that the program takes.
_SECONDS_WITHOUT_LIMIT = 1.0
_SHARE_OF_TIME = 0.1


@dataclasses.dataclass(slots=True)
class _Time:
    """When a piece of code was first checked, and the seconds that its checks took."""

    since: float = dataclasses.field(default_factory=time.monotonic)
    spent: float = 0.0


_times: Remembered[_Time] = Remembered(4096)


def code_key(rules: FunctionRules) -> CodeKey:
    """What a function made anew in each call, by the same lines, has in common."""
    return tuple(map(_code, rules.callables))


def _code(rule: Any) -> Any:
    code = getattr(innermost(rule), "__code__", None)
    return code if isinstance(code, types.CodeType) else type(rule)


def may_check(code: CodeKey) -> bool:
    """Whether a piece of code may be checked once more, by the time that it took."""
    known = _times.get(code)
    if known is None or known.spent < _SECONDS_WITHOUT_LIMIT:
        return True
    return known.spent < _SHARE_OF_TIME * (time.monotonic() - known.since)


@contextlib.contextmanager
def spending(code: CodeKey) -> Generator[None]:
    """Count the time of a check of a piece of code."""
    _times.add(code, _Time())
    start = time.monotonic()
    try:
        yield
    finally:
        if (known := _times.get(code)) is not None:
            known.spent += time.monotonic() - start
