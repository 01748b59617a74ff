"""Stock JAX under the names of strict_hijax, for programs that are written with it."""

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.hijax import HiPrim, HiType

_OURS = ("example_args", "dims", "axes", "effects", "ignore", "eager")
_NAME = "stock_twins"


def twins() -> types.ModuleType:
    """A module that takes our keywords and does nothing with them."""

    class StrictHiPrim(HiPrim):
        def __init_subclass__(
            cls,
            supports: Any = (),
            abstract: bool = False,
            ignore: Any = (),
            effects: Any = (),
        ) -> None:
            pass

    class StrictHiType(HiType):
        def __init_subclass__(
            cls, supports: Any = (), abstract: bool = False, ignore: Any = ()
        ) -> None:
            pass

    module: Any = types.ModuleType(_NAME)
    module.StrictHiPrim = StrictHiPrim
    module.StrictHiType = StrictHiType
    module.checked_custom_vjp = _stock(jax.custom_vjp)
    module.checked_custom_jvp = _stock(jax.custom_jvp)
    module.check = lambda *args, **kwargs: None
    return module


def _stock(decorator: Any) -> Callable[..., Any]:
    def checked(fun: Any = None, **kwargs: Any) -> Any:
        kwargs = {name: kwargs[name] for name in kwargs if name not in _OURS}
        if fun is None:
            return functools.partial(checked, **kwargs)
        return decorator(fun, **kwargs)

    return checked


def run(source: str, namespace: dict[str, object] | None = None) -> dict[str, object]:
    """Run a program with stock JAX; its names, which `namespace` may begin with."""
    namespace = {"__name__": "page"} if namespace is None else namespace
    source = source.replace("from strict_hijax import", f"from {_NAME} import")
    sys.modules[_NAME] = twins()
    try:
        exec(compile(source, "page.py", "exec"), namespace)
    finally:
        del sys.modules[_NAME]
    return namespace
