"""Functions whose rules are being run or traced: calls of these are not checked.

Rules call their own function, and may do so with types that change each time.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Generator

from ._call_keys import CodeKey

_in_progress: contextvars.ContextVar[frozenset[CodeKey]] = contextvars.ContextVar(
    "strict_hijax_in_progress", default=frozenset()
)


@contextlib.contextmanager
def in_progress(code: CodeKey) -> Generator[None]:
    """Run a rule: within, calls of functions of this code are not checked."""
    token = _in_progress.set(_in_progress.get() | {code})
    try:
        yield
    finally:
        _in_progress.reset(token)


def any_in_progress() -> frozenset[CodeKey]:
    """What is being run or traced in this thread or task."""
    return _in_progress.get()
