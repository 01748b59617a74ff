"""Which calls of a function are alike: same types, static arguments, configuration.

What is remembered of a call holds on to nothing of the user's: static arguments that
are no plain values are remembered weakly, since they may hold tracers.
"""

from __future__ import annotations

import enum
import threading
import types
import weakref
from typing import Any

import numpy as np

from strict_hijax import _jax

from .rules import FunctionRules, Inputs, innermost

MOST_REMEMBERED = 64
MOST_CHECKS_OF_CODE = 8

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type, np.dtype, enum.Enum)


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
    """A key for a static argument; TypeError where it has none."""
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, tuple | list):
        return type(value), tuple(map(static_key, value))
    return _Same(value)


def call_key(inputs: Inputs) -> Any:
    """A key for a call, or None where its static arguments have none."""
    try:
        statics = tuple(static_key(value) for _, value in inputs.statics)
    except TypeError:
        return None
    return inputs.treedef, inputs.avals, statics, _jax.configuration_key()


class Remembered[Value]:
    """A mapping that forgets its oldest entries."""

    def __init__(self, most: int = MOST_REMEMBERED):
        self._most = most
        self._entries: dict[Any, Value] = {}

    def get(self, key: Any) -> Value | None:
        """The value of a key, if it is still known."""
        return None if key is None else self._entries.get(key)

    def put(self, key: Any, value: Value) -> None:
        """Remember a value, and forget the oldest where there are too many."""
        if key is None:
            return
        self._entries[key] = value
        while len(self._entries) > self._most:
            self._entries.pop(next(iter(self._entries)), None)

    def __len__(self) -> int:
        return len(self._entries)


# --- how often a piece of code was checked --------------------------------------------

type CodeKey = tuple[Any, ...]

_counts: Remembered[int] = Remembered(4096)
_lock = threading.Lock()


def code_key(rules: FunctionRules) -> CodeKey:
    """What a function made anew in each call, by the same lines, has in common."""
    return tuple(map(_code, rules.callables))


def _code(rule: Any) -> Any:
    code = getattr(innermost(rule), "__code__", None)
    return code if isinstance(code, types.CodeType) else type(rule)


def may_check(code: CodeKey) -> bool:
    """Whether a piece of code may be checked once more."""
    return (_counts.get(code) or 0) < MOST_CHECKS_OF_CODE


def count_check(code: CodeKey) -> None:
    """Count a check of a piece of code that found nothing."""
    with _lock:
        _counts.put(code, (_counts.get(code) or 0) + 1)
