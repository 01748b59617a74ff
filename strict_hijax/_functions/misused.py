"""Functions that lack rules: what was forgotten, or taken for something else."""

from __future__ import annotations

from typing import Any

from strict_hijax._errors import Finding, StrictHijaxError

from .families import FAMILIES, Family, family_of
from .rules import qualified_name


def no_rules(family: Family, function: Any, wrapped: Any = None) -> Finding:
    """The finding about a function that is used, and has no rules.

    `wrapped` is the function of JAX's that it was made of, if it was.
    """
    attributes = family.attributes_of(function) or {}
    fun, stock = attributes["fun"], family.stock
    finding, other = family.no_rules(fun, attributes["nondiff_argnums"]), family_of(fun)
    called = _called(fun)
    if other not in (None, family) and other.rules_of(other.attributes_of(fun) or {}):
        line = f"checked_{other.stock}({called})   # whose rules it has"
        return finding._replace(remedies=(line,))
    if wrapped is None:
        return finding
    return finding._replace(
        facts=("It was wrapped before its rules were defined, and has none of them.",),
        remedies=(
            f"checked_{stock}({called})   # after {family.define}",
            f"{family.define.replace('f', 'wrapped', 1)}   # on what was made of it",
        ),
    )


def _called(function: Any) -> str:
    name = str(getattr(function, "__name__", "f"))
    return name if name.isidentifier() else "f"


_METHODS = {
    "custom_vjp": ("defvjp", "defvjp_with_logs", "defvjp_with_accums", "defremat"),
    "custom_jvp": ("defjvp", "defjvps"),
}


def no_method(stock: str, function: Any, name: str) -> StrictHijaxError | None:
    """The error about `f.defjvp` of a custom_vjp function, and the other way round."""
    other = next(kind for kind in FAMILIES if kind != stock)
    if name not in _METHODS[other]:
        return None
    subject = qualified_name(function)
    return Finding(
        code="SH427",
        subject=subject,
        headline=f"`{subject}` is made by `checked_{stock}`, which has no `{name}`.",
        path=name,
        expected=f"one of {', '.join(_METHODS[stock])}",
        got=name,
        jax_says=f"has no attribute '{name}'",
        remedies=(f"@checked_{other}   # instead of @checked_{stock}",),
        stock=AttributeError,
    ).error()


def without_rules(function: Any) -> Finding:
    """The finding about a function that `check` is given and that has no rules."""
    name, inner = qualified_name(function), function
    for _ in range(32):  # a chain can be a circle
        if family_of(inner) is None:
            inner = getattr(inner, "func", getattr(inner, "__wrapped__", None))
    return Finding(
        code="SH122",
        subject=name,
        headline=f"`{name}` is given to `check` and has no rules.",
        expected="a HiPrim, or a function made by checked_custom_vjp, "
        "checked_custom_jvp, jax.custom_vjp or jax.custom_jvp",
        got=repr(function)[:80],
        remedies=(f"check({_called(inner)}, *args)   # the function inside of it",)
        if family_of(inner) is not None
        else ("@checked_custom_vjp   # above it", "check(MyPrim(...))"),
    )


def inside_jit(function: Any) -> Any:
    """What a jitted function is made of, which takes the same arguments."""
    while family_of(function) is None and all(
        hasattr(function, name) for name in ("__wrapped__", "lower", "trace")
    ):
        function = function.__wrapped__
    return function
