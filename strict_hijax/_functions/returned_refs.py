"""Refs that fwd returns: as a residual, one that it was given; as an output, none.

The contract is that of `_check_for_returned_refs` in `jax._src.custom_derivatives`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding
from strict_hijax._types import describe, type_of

from .rules import FunctionRules


def returned_ref_findings(
    rules: FunctionRules, out: Any, residuals: Any, args: Any
) -> Iterator[Finding]:
    """What JAX will not take of the Refs in a result of fwd, called with `args`."""
    if not _jax.mutable_array_checks():
        return
    for keypath, leaf in tree_util.tree_leaves_with_path(out):
        if _is_ref(leaf):
            yield _as_output(rules, _jax.keystr(keypath), describe(type_of(leaf)))
    given = {id(_value(leaf)) for leaf in tree_util.tree_leaves(args)}
    for keypath, leaf in tree_util.tree_leaves_with_path(residuals):
        if _is_ref(leaf) and id(leaf) not in given:
            yield _as_residual(rules, _jax.keystr(keypath), describe(type_of(leaf)))


def _value(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, _jax.CustomVJPPrimal) else leaf


def _is_ref(leaf: Any) -> bool:
    return isinstance(type_of(leaf), _jax.AbstractRef)


def _jax_says(rules: FunctionRules, got: str, path: str) -> str:
    return (
        f"custom_vjp fwd function {rules.fwd} returned a mutable array reference of "
        f"type {got} at output tree path {path}"
    )


def _as_output(rules: FunctionRules, path: str, got: str) -> Finding:
    return rules.finding(
        "SH429",
        "fwd",
        f"returns a Ref as its output: `output{path}` is {got}.",
        path=f"output{path}",
        expected=f"an array, which is what `{rules.name}` returns",
        got=got,
        jax_says=f"{_jax_says(rules, got, f'[0]{path}')}, but mutable array "
        "references cannot be returned there.",
        remedies=("return ref[...], res   # what the Ref holds",),
    )


def _as_residual(rules: FunctionRules, path: str, got: str) -> Finding:
    return rules.finding(
        "SH429",
        "fwd",
        f"keeps a Ref that is none of its arguments: `residuals{path}` is {got}.",
        path=f"residuals{path}",
        expected="an array, or a Ref that is an argument of the function",
        got=got,
        jax_says=f"{_jax_says(rules, got, f'[1]{path}')} that was not an argument.",
        remedies=(
            "return out, ref[...]   # what the Ref holds",
            f"def {rules.name}(ref, ...): ...   # for bwd to write",
        ),
    )
