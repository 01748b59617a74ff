"""What JAX offers to who writes rules: methods, their parameters, and options."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.experimental.hijax import HiPrim, HiType

CLASSES = (HiPrim, HiType, jax.custom_vjp, jax.custom_jvp)
FUNCTIONS = (
    jax.checkpoint,
    jax.grad,
    jax.jvp,
    jax.linearize,
    jax.value_and_grad,
    jax.vjp,
    jax.vmap,
)
OPTIONS = re.compile(r"jax_(custom_vjp|custom_jvp|remat|disable_bwd)")
_SPECIAL = ("__init__", "__call__", "__eq__", "__hash__")


def interface() -> dict[str, str]:
    """Each name, with its parameters or, for an option, its value by default."""
    return dict(sorted((*_methods(), *_functions(), *_options())))


def _methods() -> Iterator[tuple[str, str]]:
    for cls in CLASSES:
        for name, member in vars(cls).items():
            if not name.startswith("_") or name in _SPECIAL:
                shown = parameters(member) if callable(member) else "attribute"
                yield f"{cls.__name__}.{name}", shown


def _functions() -> Iterator[tuple[str, str]]:
    for function in FUNCTIONS:
        yield f"jax.{function.__name__}", parameters(function)


def _options() -> Iterator[tuple[str, str]]:
    for name, value in jax.config.values.items():
        if OPTIONS.match(name):
            yield f"option {name}", str(value)


def parameters(function: Callable[..., Any]) -> str:
    """The parameters of a function: names, kinds and plain defaults, without types."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    plain = [_plain(parameter) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    default: Any = parameter.default
    if default is not parameter.empty and not isinstance(
        default, bool | int | float | str | tuple | None
    ):
        default = ...
    return parameter.replace(annotation=parameter.empty, default=default)
