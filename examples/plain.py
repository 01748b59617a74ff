"""The same examples on stock JAX, from the same source lines.

`plain_twin(f)` is `f` as it would be without strict_hijax: its module is executed a
second time with `StrictHiPrim` standing for `jax.experimental.hijax.HiPrim` and
`checked_custom_vjp` and `checked_custom_jvp` for `jax.custom_vjp` and `jax.custom_jvp`,
and so is every example that it imports.
Names, qualified names, files and lines are those of the strict twin, so the programs
that the two lower to can be compared as text.
"""

import builtins
import functools
import importlib.util
import inspect
from types import ModuleType
from typing import Any

import jax
from jax.experimental.hijax import HiPrim

PACKAGE = __package__


def plain_twin[T](strict: T) -> T:
    """The plain twin of a function, class or `functools.partial` of the examples.

    A partial is rebuilt, with the twins of what it holds. What does not come from an
    example has no twin and is returned as it is.
    """
    if isinstance(strict, functools.partial):
        function = plain_twin(strict.func)
        arguments = map(plain_twin, strict.args)
        keywords = {name: plain_twin(value) for name, value in strict.keywords.items()}
        return functools.partial(function, *arguments, **keywords)
    module = getattr(strict, "__module__", None)
    path = getattr(strict, "__qualname__", None)
    if not _is_example(module) or path is None:
        return strict
    return functools.reduce(getattr, path.split("."), plain_module(module))


@functools.cache
def plain_module(name: str) -> ModuleType:
    """A second copy of the example module `name`, on stock JAX.

    It is not put into `sys.modules`: whoever imports the module by its name goes on
    to get the strict one.
    """
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    module.__builtins__ = vars(builtins) | {"__import__": _import}
    exec(spec.loader.get_code(name), vars(module))
    return module


def _import(name, variables=None, local=None, names=(), level=0):
    """`import` in a plain module: strict_hijax and the examples are replaced."""
    found = "." * level + name
    if level:
        found = importlib.util.resolve_name(found, variables["__package__"])
    if found == "strict_hijax" and names:
        return _stock()
    if _is_example(found) and names:
        return plain_module(found)
    return builtins.__import__(name, variables, local, names, level)


def _is_example(module: str | None) -> bool:
    return module is not None and module.startswith(f"{PACKAGE}.")


@functools.cache
def _stock() -> ModuleType:
    """What stands for strict_hijax: its keywords are accepted and mean nothing."""

    class StrictHiPrim(HiPrim):
        def __init_subclass__(cls, supports=(), abstract=False, ignore=(), **others):
            super().__init_subclass__(**others)

    module = ModuleType("strict_hijax")
    module.StrictHiPrim = StrictHiPrim
    module.checked_custom_vjp = functools.partial(_plain, jax.custom_vjp)
    module.checked_custom_jvp = functools.partial(_plain, jax.custom_jvp)
    return module


def _plain(decorator: Any, function: Any = None, **keywords: Any) -> Any:
    if function is None:
        return functools.partial(_plain, decorator, **keywords)
    known = inspect.signature(decorator).parameters
    return decorator(function, **{k: v for k, v in keywords.items() if k in known})
