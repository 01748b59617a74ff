"""How functions with rules are taken apart and made, in each JAX version.

A part of the one door to JAX's internals: what it needs of them comes through `_jax`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ._jax import (
    CUSTOM_VJP_HAS_NEW,
    CustomJVP,
    CustomVJP,
    custom_jvp3,
    custom_jvp3_enabled,
    custom_vjp3,
    custom_vjp3_enabled,
)


def rules_of_custom_vjp3(function: Any) -> dict[str, Any] | None:
    """The attributes of a function that `jaxcustom_vjp3` made on 0.11.2, by the names
    of `jax.custom_vjp`; None for anything else. Remove with 0.11.2."""
    if not isinstance(function, custom_vjp3):
        return None
    return {
        "fun": function.f,
        "nondiff_argnums": tuple(sorted(function.static_argnums)),
        "fwd": function.fwd,
        "bwd": function.bwd,
        "symbolic_zeros": function.symz,
        "optimize_remat": function.opt_remat,
        "with_logs": function.with_logs,
    }


def make_custom_vjp(attributes: dict[str, Any]) -> Callable[..., Any]:
    """A plain `jax.custom_vjp` with these attributes, however JAX would run it now."""
    if not CUSTOM_VJP_HAS_NEW or not custom_vjp3_enabled():
        return _plain(CustomVJP, attributes)
    made: Any = custom_vjp3(attributes["fun"], attributes["nondiff_argnums"])
    define = made.defvjp_with_logs if attributes["with_logs"] else made.defvjp
    options = {k: attributes[k] for k in ("symbolic_zeros", "optimize_remat")}
    define(attributes["fwd"], attributes["bwd"], **options)
    return made


def _plain(cls: Any, attributes: dict[str, Any]) -> Callable[..., Any]:
    plain: Any = object.__new__(cls)
    plain.__init__(attributes["fun"], attributes["nondiff_argnums"])
    plain.__dict__.update(attributes)
    return plain


def rules_of_custom_jvp3(function: Any) -> dict[str, Any] | None:
    """The attributes of a function that `jaxcustom_jvp3` made on 0.11.2, by the names
    of `jax.custom_jvp`; None for anything else. Remove with 0.11.2."""
    if not isinstance(function, custom_jvp3):
        return None
    return {
        "fun": function.f,
        "nondiff_argnums": tuple(sorted(function.static_argnums)),
        "jvp": function.jvp_fun,
        "symbolic_zeros": function.symz,
    }


def make_custom_jvp(attributes: dict[str, Any]) -> Callable[..., Any]:
    """A plain `jax.custom_jvp` with these attributes, however JAX would run it now."""
    if not CUSTOM_VJP_HAS_NEW or not custom_jvp3_enabled():
        return _plain(CustomJVP, attributes)
    made: Any = custom_jvp3(attributes["fun"], attributes["nondiff_argnums"])
    made.defjvp(
        attributes["jvp"], symbolic_zeros=attributes.get("symbolic_zeros", False)
    )
    return made


def functions_of_defjvps(rule: Any) -> tuple[Any, ...] | None:
    """What `defjvps` made a rule of; None for a rule of the user's own."""
    if getattr(rule, "__code__", None) not in _MADE_BY_DEFJVPS:
        return None
    return inspect.getclosurevars(rule).nonlocals.get("jvps")


# The rule that `defjvps` makes has a code object that is one of its constants.
_MADE_BY_DEFJVPS = {
    const
    for cls in (CustomJVP, custom_jvp3)
    for const in inspect.unwrap(cls.defjvps).__code__.co_consts
    if getattr(const, "co_name", None) == "jvp"
}
