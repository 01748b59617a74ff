"""Whether what an exception misses may be defined later, or nowhere.

A class is checked when it is defined, and its module may define what its rules need
further down. So a missing name is a fault only where nothing more can come: the module
that lacks it has been executed to its end.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any


class Waiting:
    """When to look again: the next use, the second after it, the fourth, ...

    And as soon as the module is imported, since then there is an answer.
    """

    _LONGEST = 64

    def __init__(self, module: str) -> None:
        self._module = module
        self._is_imported = _is_imported(module)
        self._pause = self._left = 1

    def is_over(self) -> bool:
        """Count one use, and say whether to look again at this one."""
        self._left -= 1
        is_imported = _is_imported(self._module)
        if self._left > 0 and is_imported == self._is_imported:
            return False
        self._is_imported = is_imported
        self._pause = self._left = min(2 * self._pause, self._LONGEST)
        return True


def lacks_a_name(error: Exception) -> bool:
    """Whether Python itself says that a name does not exist.

    JAX raises NameError for an axis name that is not bound, which is no fault of the
    rule: that one has no `name`.
    """
    if isinstance(error, UnboundLocalError):
        return True
    return isinstance(error, NameError) and error.name is not None


def may_come_later(error: Exception, class_name: str) -> bool:
    """Whether a name, attribute or module that is missing may still be defined."""
    if isinstance(error, UnboundLocalError | ModuleNotFoundError):
        return False
    if isinstance(error, NameError):
        if error.name in (None, class_name):  # bound when the class statement is over
            return error.name is not None
        return _name_may_come(error)
    if isinstance(error, AttributeError):
        return _is_executed(_module_of(error.obj))
    if isinstance(error, ImportError):  # of a name from a module that is half imported
        return _is_executed(_globals_of(error.name))
    return False


def _name_may_come(error: NameError) -> bool:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return True
    frame = traceback.tb_frame
    if error.name in frame.f_code.co_freevars:
        return True  # of a function around it, which may define it below
    return _is_executed(frame.f_globals)


def _module_of(value: Any) -> dict[str, Any] | None:
    """The globals of the module that a module, class or instance comes from."""
    if isinstance(value, types.ModuleType):
        return vars(value)
    cls = value if isinstance(value, type) else type(value)
    return _globals_of(cls.__module__)


def _globals_of(name: str | None) -> dict[str, Any] | None:
    module = sys.modules.get(name or "")
    return None if module is None else vars(module)


def _is_executed(module: dict[str, Any] | None) -> bool:
    """Whether code of a module may still be run: it is a script, or being imported.

    `__main__` is always taken to be: in a notebook the next cell may define anything.
    """
    if module is None or module.get("__name__") == "__main__":
        return module is not None
    if _is_initialising(module):
        return True
    return any(  # a reload, or code that is run by `exec`
        frame.f_code.co_name == "<module>" and frame.f_globals is module
        for frame in _frames()
    )


def _is_imported(name: str) -> bool:
    module = _globals_of(name)
    return module is not None and not _is_initialising(module)


def _is_initialising(module: dict[str, Any]) -> bool:
    """What the import system says, for any thread."""
    return getattr(module.get("__spec__"), "_initializing", False)


def _frames() -> Iterator[types.FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
