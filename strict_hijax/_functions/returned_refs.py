"""Refs that fwd returns: as a residual, one that it was given; as an output, none."""

from __future__ import annotations

from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding

from .rules import FunctionRules


def returned_ref_findings(
    rules: FunctionRules, out: Any, residuals: Any, args: Any
) -> list[Finding]:
    """What JAX will not take of the Refs in a result of fwd, called with `args`."""
    outputs, leaves = len(tree_util.tree_leaves(out)), tree_util.tree_leaves(args)
    try:
        _jax.check_returned_refs(rules.fwd, (out, residuals), leaves, outputs)
    except ValueError as error:
        return [_returned(rules, str(error))]
    except TypeError:  # a leaf that has no type, which is told as such
        pass
    return []


def _returned(rules: FunctionRules, says: str) -> Finding:
    if "not an argument" in says:
        what, path = "keeps a Ref that is none of its arguments", "residuals"
        expected = "an array, or a Ref that is an argument of the function"
        remedies: tuple[str, ...] = (
            "return out, ref[...]   # what the Ref holds",
            f"def {rules.name}(ref, ...): ...   # for bwd to write",
        )
    else:
        what, path = "returns a Ref as its output", "output"
        expected = f"an array, which is what `{rules.name}` returns"
        remedies = ("return ref[...], res   # what the Ref holds",)
    return rules.finding(
        "SH429",
        "fwd",
        f"{what}.",
        path=path,
        expected=expected,
        got="a Ref",
        jax_says=says,
        remedies=remedies,
    )
