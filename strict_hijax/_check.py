"""check: every rule that exists traced abstractly, and held to its contract."""

from __future__ import annotations

from typing import Any

from . import _jax
from ._errors import Finding
from ._report import CheckReport


@_jax.user_boundary
def check(target: Any, *args: Any, **kwargs: Any) -> CheckReport:
    """Trace every rule of a primitive or function and hold it to its contract.

    Nothing is computed: it is safe at import, initialises no backend and allocates no
    device memory.

    Args:
      target: an instance of a `HiPrim` (strict or not), a class with `examples`, or a
        function made by `checked_custom_vjp` or `checked_custom_jvp`, or by JAX's own
        `custom_vjp` or `custom_jvp`, or a hijax type.
      *args: for a function, its arguments: arrays or `jax.ShapeDtypeStruct`s. Without
        any, those that it declares by `example_args`, by `dims`, or as defaults. For a
        type, values of it; without any, what lowers and raises them is only traced.
      **kwargs: for a function, its keyword arguments. For a type, `specs=[...]`: what
        to try `inc_rank` and `dec_rank` with, besides its `leading_axis_spec`.

    Returns:
      A `CheckReport`: types in and out of each rule, effects, bytes of residuals kept
      in one call, and the transforms that are supported.

    Raises:
      StrictHijaxError: a rule breaks its contract; all faults are in one exception.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from strict_hijax import check, checked_custom_vjp
      >>> @checked_custom_vjp
      ... def square(x):
      ...     return x * x
      >>> square.defvjp(lambda x: (square(x), x), lambda x, g: (2 * x * g,))
      >>> check(square, jax.ShapeDtypeStruct((3,), "float32")).residual_bytes
      12
    """
    if _is_primitive(target) and (args or kwargs):
        raise _arguments_for_a_primitive().error()
    if _is_primitive(target):
        from ._check_primitives import check_primitive

        return check_primitive(target)
    if isinstance(target, _jax.HiType):
        from ._hitypes.check import check_hitype

        return check_hitype(target, *args, **kwargs)
    if callable(target) and not isinstance(target, type):
        from ._functions.check import check_function

        return check_function(target, *args, **kwargs)
    raise _without_rules(target).error()


def _is_primitive(target: Any) -> bool:
    cls = target if isinstance(target, type) else type(target)
    return issubclass(cls, _jax.HiPrim)


def _without_rules(target: object) -> Finding:
    return Finding(
        code="SH122",
        subject="strict_hijax.check",
        headline="`strict_hijax.check` is given something that has no rules.",
        expected="a HiPrim instance, a HiPrim class with `examples`, a custom_vjp or "
        "custom_jvp function and its arguments, or a HiType instance",
        got=repr(target)[:80],
        remedies=(f"check({target.__name__}(...), value)   # an instance of the type",)
        if isinstance(target, type) and issubclass(target, _jax.HiType)
        else ("check(MyPrim)", "check(fun, *args)"),
    )


def _arguments_for_a_primitive() -> Finding:
    return Finding(
        code="SH122",
        subject="strict_hijax.check",
        headline="`strict_hijax.check` is given arguments for a primitive, which "
        "declares its types itself, in `in_avals`.",
        path="args",
        expected="the instance alone, or its class",
        remedies=("check(prim)",),
    )
