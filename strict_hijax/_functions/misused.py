"""Functions that lack rules: what was forgotten, or taken for something else."""

from __future__ import annotations

import functools
from typing import Any

from strict_hijax._errors import Finding, StrictHijaxError, UsageError

from .families import FAMILIES, Family, family_of
from .rules import qualified_name


def no_rules(family: Family, function: Any, wrapped: Any = None) -> Finding:
    """The finding about a function that is used, and has no rules.

    `wrapped` is the function of JAX's that it was made of, if it was.
    """
    attributes = family.attributes_of(function) or {}
    fun = attributes["fun"]
    finding = family.no_rules(fun, attributes["nondiff_argnums"])
    other = family_of(fun)
    if other is not None and other is not family and _has_rules(other, fun):
        tool, called = f"checked_{other.stock}", _called(fun)
        return finding._replace(
            facts=(f"`{called}` is a {other.stock} function, and has rules as one.",),
            remedies=(f"{tool}({called})   # in place of checked_{family.stock}",),
        )
    if wrapped is None:
        return finding
    defined = "are defined now" if _has_rules(family, wrapped) else "are not defined"
    return finding._replace(
        facts=(
            f"It was wrapped before its rules: those of `{_called(fun)}` {defined},",
            "and what was made of it before that does not see them.",
        ),
        remedies=(
            f"checked_{family.stock}({_called(fun)})   # after {family.define}",
            f"{family.define.replace('f', 'wrapped', 1)}   # on what was made of it",
        ),
    )


def _has_rules(family: Family, function: Any) -> bool:
    return bool(family.rules_of(family.attributes_of(function) or {}))


def _called(function: Any) -> str:
    name = str(getattr(function, "__name__", "f"))
    return name if name.isidentifier() else "f"


# --- methods of the other kind --------------------------------------------------------

_METHODS = {
    "custom_vjp": ("defvjp", "defvjp_with_logs", "defvjp_with_accums", "defremat"),
    "custom_jvp": ("defjvp", "defjvps"),
}


class _OfOtherKind(Finding):
    """A method that only the other kind has: an AttributeError, too."""

    def error(self) -> StrictHijaxError:
        return _NoMethodError(self)


class _NoMethodError(UsageError, AttributeError):
    pass


_NoMethodError.__name__ = _NoMethodError.__qualname__ = "UsageError"
_NoMethodError.__module__ = "strict_hijax"


def no_method(stock: str, function: Any, name: str) -> StrictHijaxError | None:
    """The error about `f.defjvp` of a custom_vjp function, and the other way round."""
    other = next(kind for kind in FAMILIES if kind != stock)
    if name not in _METHODS[other]:
        return None
    subject = qualified_name(function)
    return _OfOtherKind(
        code="SH427",
        subject=subject,
        headline=f"`{subject}` is made by `checked_{stock}`, which has no `{name}`.",
        path=name,
        expected=f"one of {', '.join(_METHODS[stock])}",
        got=name,
        jax_says=f"has no attribute '{name}'",
        remedies=(
            f"@checked_{other}   # in place of @checked_{stock}",
            FAMILIES[stock].define,
        ),
    ).error()


# --- what `check` is given ------------------------------------------------------------


def without_rules(function: Any) -> Finding:
    """The finding about a function that is neither custom_vjp nor custom_jvp."""
    name = qualified_name(function)
    inner = inner_function(function)
    remedies: tuple[str, ...] = (
        f"@checked_custom_vjp   # above {name.rpartition('.')[2]}",
        "check(MyPrim(...))   # of a primitive that it calls",
    )
    if inner is not None:
        remedies = (f"check({_called(inner)}, *args)   # the function inside of it",)
    return Finding(
        code="SH122",
        subject=name,
        headline=f"`{name}` is given to `check` and has no rules.",
        expected="a HiPrim, or a function made by checked_custom_vjp, "
        "checked_custom_jvp, jax.custom_vjp or jax.custom_jvp",
        got=repr(function)[:80],
        remedies=remedies,
    )


def inner_function(function: Any) -> Any | None:
    """The function with rules that a partial or another wrapper is made of."""
    for _ in range(32):  # a chain can be a circle
        if family_of(function) is not None:
            return function
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return None
    return None


def inside_jit(function: Any) -> Any:
    """What a jitted function is made of, which takes the same arguments."""
    while family_of(function) is None and all(
        hasattr(function, name) for name in ("__wrapped__", "lower", "trace")
    ):
        function = function.__wrapped__
    return function
