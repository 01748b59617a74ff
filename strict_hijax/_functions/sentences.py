"""What stock JAX says about faults of custom_vjp rules; our messages contain it.

People search for these sentences, and tests match them. JAX has one set for its classic
implementation and another where `jax_custom_vjp3` is on
(`jax._src.custom_derivatives` and `jax._src.hijax`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._types import describe, is_zero

from .rules import FunctionRules


def no_rules(rules: FunctionRules) -> str:
    """The function is called before `defvjp`."""
    how = "defvjp or defremat" if rules.is_run_as_hijax and _has_remat() else "defvjp"
    return f"No VJP defined for custom_vjp function {rules.name} using {how}."


def _has_remat() -> bool:
    return not _jax.CUSTOM_VJP_HAS_NEW


def _fwd(rules: FunctionRules) -> str:
    return (
        f"Custom VJP fwd rule {rules.rule_name('fwd')} for function {rules.name} must "
        "produce a pair (list or tuple of length two) where the first element "
        "represents the primal output "
    )


def _second_element(rules: FunctionRules) -> str:
    return (
        "the second element represents residuals (i.e. values stored from the "
        "forward pass for use on the backward pass), but "
    )


def fwd_no_pair(rules: FunctionRules, got: str) -> str:
    """fwd returns no pair."""
    return (
        f"{_fwd(rules)}(equal to those of the custom_vjp-decorated function "
        f"{rules.name}) and {_second_element(rules)}instead of a pair the fwd rule "
        f"{rules.rule_name('fwd')} produced {got}."
    )


def fwd_structure(
    rules: FunctionRules, got: tuple[Any, list[Any]], expected: tuple[Any, list[Any]]
) -> str:
    """The primal output of fwd has another structure than the function's."""
    return (
        f"{_fwd(rules)}(equal to the output of the custom_vjp-decorated function "
        f"{rules.name}) and {_second_element(rules)}instead the fwd rule output's "
        "first element had container/pytree structure:\n    "
        f"{_tree(rules, *got)}\nwhile the custom_vjp-decorated function {rules.name} "
        f"had output container/pytree structure:\n    {_tree(rules, *expected)}."
    )


def fwd_types(
    rules: FunctionRules,
    path: str,
    got: tuple[Any, list[Any], Any],
    expected: tuple[Any, list[Any], Any],
) -> str:
    """The primal output of fwd has other types than the function's.

    Both are given as structure, all types, and the type at `path`.
    """
    if rules.is_run_as_hijax:
        return (
            f"at {path}, got fwd output type {describe(got[2])} which doesn't match "
            f"primal output type {describe(expected[2])}"
        )
    return (
        f"{_fwd(rules)}(equal to the output of the custom_vjp-decorated function "
        f"{rules.name}) and {_second_element(rules)}instead the fwd rule output's "
        f"first element had shapes/dtypes of:\n    {_tree(rules, *got[:2])}\nwhile the "
        f"custom_vjp-decorated function {rules.name} had output shapes/dtypes of:\n"
        f"    {_tree(rules, *expected[:2])}"
    )


def _tree(rules: FunctionRules, treedef: Any, avals: list[Any]) -> str:
    if rules.is_run_as_hijax:
        return str(treedef).replace("'", "")
    named = tree_util.tree_unflatten(treedef, [describe(aval) for aval in avals])
    return str(named).replace("'", "")


def bwd_no_tuple(rules: FunctionRules, got: Any, treedef: Any) -> str:
    """bwd returns no tuple."""
    if rules.is_run_as_hijax:
        return (
            f"Custom VJP bwd rule {rules.bwd} must produce a tuple but got {type(got)}."
        )
    return bwd_structure(rules, got, treedef)


def bwd_length(rules: FunctionRules, got: Any, treedef: Any) -> str:
    """bwd returns a tuple of another length."""
    if rules.is_run_as_hijax:
        count = len(got) + 2 * _jax.CUSTOM_VJP_HAS_NEW  # 0.11.2 counts two of its own
        return (
            f"Custom VJP bwd rule {rules.bwd} must produce a tuple of length equal to "
            f"the primal args tuple, but got length {count}"
        )
    return bwd_structure(rules, got, treedef)


def bwd_structure(rules: FunctionRules, got: Any, treedef: Any) -> str:
    """A cotangent has another structure than its argument."""
    return (
        "Custom VJP bwd rule must produce an output with the same container (pytree) "
        "structure as the args tuple of the primal function, and in particular must "
        "produce a tuple of length equal to the number of arguments to the primal "
        f"function, but got bwd output structure {_structure(got)} for "
        f"primal input structure {treedef}."
    )


def _structure(value: Any) -> Any:
    if isinstance(value, Iterator):  # JAX warns of these, and takes them as leaves
        value = 0
    return tree_util.tree_structure(value)


def bwd_type(
    rules: FunctionRules, keypath: str, aval: Any, expected: Any, ct: Any
) -> str:
    """A cotangent has another type than `expected`; `aval` is that of the input."""
    got = ct.aval if is_zero(ct) else _jax.typeof(ct)
    source = _jax.fun_sourceinfo(rules.fun)
    if rules.is_run_as_hijax:
        sentence = (
            f"at output{keypath} the bwd rule attached to {source} produced an output "
            f"of type {describe(got)} which doesn't match expected type "
            f"{describe(expected)}"
        )
        if not is_zero(ct):
            return sentence
        return (
            f"{sentence}. Consider just returning a None here instead of a "
            "SymbolicZero object."
        )
    if is_zero(ct):
        return (
            "Custom VJP bwd rule produced a SymbolicZero with a shape/dtype that does "
            "not match the corresponding input tangent shape/dtype: at "
            f"output{keypath} the SymbolicZero had shape/dtype {describe(got)} while "
            f"the corresponding input had shape/dtype {describe(aval)}. Consider just "
            "returning a None here instead of a SymbolicZero object."
        )
    return (
        f"Custom VJP bwd rule attached to {source} must produce an output with the "
        f"same type as the args tuple of the primal function, but at output{keypath} "
        f"the bwd rule produced an output of type {describe(got)} corresponding to an "
        f"input of type {describe(aval)}{_jax.mismatch_extra(aval, got)}"
    )


def logs_no_pair(rules: FunctionRules, got: str) -> str:
    """A bwd of `defvjp_with_logs` returns no pair."""
    which = f" {rules.bwd}" if rules.is_run_as_hijax else ""
    return (
        f"Custom VJP bwd rule{which} was registered with defvjp_with_logs and so must "
        f"produce a pair (in_cts, logs), but got {got}."
    )


def logs_no_dict(rules: FunctionRules, logs: Any) -> str:
    """The logs are neither None nor a dict."""
    which = f" {rules.bwd}" if rules.is_run_as_hijax else ""
    if rules.with_accums:
        return (
            f"Custom VJP bwd rule{which} was registered with defvjp_with_accums, and "
            "so must return None or a dict of backward-pass log entries, but got "
            f"{type(logs).__name__}."
        )
    return (
        f"Custom VJP bwd rule{which} was registered with defvjp_with_logs, and so the "
        "second element of the pair it returns must be None or a dict of backward-pass "
        f"log entries, but got {type(logs).__name__}."
    )


def static_tracer() -> str:
    """A tracer stands in a `nondiff_argnums` position."""
    if _jax.custom_vjp3_enabled():
        return (
            "custom_vjp inputs marked with nondiff_argnums must be static, not Tracers"
        )
    return (
        "Found a JAX Tracer object passed as an argument to a custom_vjp function in a "
        "position indicated by nondiff_argnums as non-differentiable. Tracers cannot "
        "be passed as non-differentiable arguments to custom_vjp functions; instead, "
        "nondiff_argnums should only be used for arguments that can't be or contain "
        "JAX tracers, e.g. function-valued arguments. In particular, array-valued "
        "arguments should typically not be indicated as nondiff_argnums."
    )
