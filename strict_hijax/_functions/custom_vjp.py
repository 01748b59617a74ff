"""What a `jax.custom_vjp` object says of its function and rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strict_hijax import _jax
from strict_hijax._errors import Finding
from strict_hijax._jax_functions import rules_of_custom_vjp3

from .asked import says_without_rules
from .rules import FunctionRules


def own_attributes(function: Any) -> dict[str, Any]:
    """The attributes that JAX set, without ours."""
    ours = {"_handed", "_checker", "_made_for", "_options", "_is_defining", "_accepted"}
    ours |= {"_wrapped"}
    return {k: v for k, v in vars(function).items() if k not in ours}


def attributes_of(function: Any) -> dict[str, Any] | None:
    """The attributes of an existing custom_vjp function; None for any other."""
    if isinstance(function, _jax.CustomVJP):
        return own_attributes(function)
    return rules_of_custom_vjp3(function)


def rules_of(attributes: Mapping[str, Any]) -> list[FunctionRules]:
    """The rules among the attributes of a custom_vjp function: remat's, then VJP's."""
    fun, argnums = attributes["fun"], attributes["nondiff_argnums"]
    batching = bool(attributes.get("generic_batching"))
    found: list[FunctionRules] = []
    if (remat := attributes.get("remat_rules")) is not None:
        fwd, rem, bwd, logs = remat
        found.append(
            FunctionRules(
                fun,
                argnums,
                fwd,
                bwd,
                rem,
                with_logs=logs,
                generic_batching=batching,
                has_rem=True,
            )
        )
    if attributes.get("fwd") is not None or attributes.get("bwd") is not None:
        found.append(
            FunctionRules(
                fun,
                argnums,
                attributes.get("fwd"),
                attributes.get("bwd"),
                symbolic_zeros=bool(attributes.get("symbolic_zeros")),
                with_logs=bool(attributes.get("with_logs")),
                with_accums=bool(attributes.get("with_accums")),
                generic_batching=batching,
            )
        )
    return found


def no_rules_finding(fun: Any, nondiff_argnums: tuple[int, ...]) -> Finding:
    """The function is called, or checked, before `defvjp`."""
    rules = FunctionRules(fun, nondiff_argnums)
    return rules.finding(
        "SH401",
        None,
        "is called before its rules are defined.",
        location=rules.location("primal"),
        expected=f"a call of {rules.called}.defvjp before the first call",
        got="no rules",
        jax_says=says_without_rules(rules),
        remedies=(f"{rules.called}.defvjp({rules.called}_fwd, {rules.called}_bwd)",),
    )
