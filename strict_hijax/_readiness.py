"""Whether what an exception misses may be defined later, or nowhere.

A class is checked when it is defined, and its module may define what its rules need
further down. So a missing name is a fault only where nothing more can come: the module
that lacks it has been executed to its end.
"""

from __future__ import annotations

import inspect
import sys
import traceback
import types


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
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        return not frames or (  # a function around that one may define it below
            error.name in frames[-1].f_code.co_freevars
            or _may_define(frames[-1].f_globals.get("__name__"))
        )
    if isinstance(error, AttributeError):
        if isinstance(error.obj, types.ModuleType):
            return _may_define(error.obj.__name__)
        cls = error.obj if isinstance(error.obj, type) else type(error.obj)
        return _may_define(cls.__module__)
    # Of a name from a module that is half imported.
    return isinstance(error, ImportError) and _may_define(error.name)


def _may_define(module: str | None) -> bool:
    """Whether a module may still define a name.

    In a notebook, whose module is `__main__`, the next cell may define anything.
    """
    return module == "__main__" or is_executing(module)


def is_executing(module: str | None) -> bool:
    """Whether code of a module is still to be run: it is being imported, or a script.

    The import system says so for any thread, but not of a reload or an `exec`.
    """
    spec = getattr(sys.modules.get(module or ""), "__spec__", None)
    if getattr(spec, "_initializing", False):
        return True
    return any(
        frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == module
        for frame, _ in traceback.walk_stack(inspect.currentframe())
    )
