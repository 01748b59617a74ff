"""What `fwd` (and `rem`) of a function must return, and how a result departs from that.

Pure functions from a result to findings, used in place, whenever JAX calls the rule,
and on the tracers of an eager check. The contract is that of `_flatten_fwd` in
`jax._src.custom_derivatives`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding
from strict_hijax._exchanged import asked_if_second, is_output_second
from strict_hijax._types import describe_value, type_of

from .asked import ask_fwd, borne_out
from .outputs import Departure, departures, types_of
from .outputs import OutputTypes as OutputTypes
from .returned_refs import returned_ref_findings
from .rules import FunctionRules


def forward_findings(
    rules: FunctionRules,
    result: Any,
    primal: OutputTypes | None,
    args: Sequence[Any],
    role: str = "fwd",
) -> list[Finding]:
    """What is wrong with the result of `fwd` or `rem`, called with these arguments.

    `primal` may be unknown.
    """
    found = list(_findings(rules, result, primal, args, role))
    if not found or role == "rem":  # JAX does not look at what that gives
        return found
    return borne_out(rules, role, result, found, ask_fwd(rules, result, primal))


def _findings(
    rules: FunctionRules,
    result: Any,
    primal: OutputTypes | None,
    args: Sequence[Any],
    role: str,
) -> list[Finding]:
    if not isinstance(result, list | tuple) or len(result) != 2:
        return [_no_pair(rules, role, result, primal)]
    out, residuals = result
    refs = returned_ref_findings(rules, out, residuals, args)
    if refs and role == "fwd":
        return refs
    findings = [] if primal is None else list(_output(rules, role, out, primal))
    if findings and primal is not None:
        types = types_of(out), types_of(residuals), (primal.treedef, primal.avals)
        if is_output_second(*types, types_of(args)[1]):
            return [asked_if_second(findings[0])]
    return findings + list(_residuals(rules, role, residuals))


def _no_pair(
    rules: FunctionRules, role: str, result: Any, primal: OutputTypes | None
) -> Finding:
    got = describe_value(result)
    forgotten = primal is not None and OutputTypes.of(result) == primal
    facts = (
        ("That is the output alone: the residuals are missing.",) if forgotten else ()
    )
    return rules.finding(
        "SH410",
        role,
        f"must return a pair, the output and the residuals; it returns {got}.",
        expected="a pair (output, residuals)",
        got=got,
        facts=facts,
        remedies=("return out, res", "return out, None   # nothing to keep"),
    )


def _output(
    rules: FunctionRules, role: str, out: Any, primal: OutputTypes
) -> Iterator[Finding]:
    for found in departures(out, primal):
        make = _other_structure if found.is_of_structure else _other_type
        yield make(rules, role, primal, found)


def _other_type(
    rules: FunctionRules, role: str, _: OutputTypes, found: Departure
) -> Finding:
    remedy = f"return from {role} what `{rules.name}` returns"
    return rules.finding(
        "SH412",
        role,
        f"returns an output that is not that of the function: at `{found.path}` "
        f"expected {found.expected}, got {found.got}.",
        path=found.path,
        expected=found.expected,
        got=found.got,
        remedies=(f"return out{found.cast}, res", remedy) if found.cast else (remedy,),
    )


def _other_structure(
    rules: FunctionRules, role: str, primal: OutputTypes, found: Departure
) -> Finding:
    node = primal.treedef.node_data()
    facts: tuple[str, ...] = ()
    if node is not None and node[0] is tuple:
        facts = (
            f"`{rules.name}` itself returns a tuple: it is the first of the two that",
            f"{role} returns, as in ((a, b), res).",
        )
    return rules.finding(
        "SH411",
        role,
        "returns an output of another structure than the function: at "
        f"`{found.path}` expected {found.expected}, got {found.got}.",
        path=found.path,
        expected=found.expected,
        got=found.got,
        facts=facts,
        remedies=(f"return exactly what `{rules.name}` returns, then the residuals",),
    )


def _residuals(rules: FunctionRules, role: str, residuals: Any) -> Iterator[Finding]:
    if all(type_of(leaf) is not None for leaf in tree_util.tree_leaves(residuals)):
        return
    for keypath, leaf in tree_util.tree_leaves_with_path(residuals):
        if type_of(leaf) is not None:
            continue
        path = f"residuals{_jax.keystr(keypath)}"
        record = isinstance(leaf, _jax.CustomVJPPrimal)
        yield rules.finding(
            "SH413",
            role,
            f"keeps a residual that is no JAX value: `{path}` is "
            f"{describe_value(leaf)}.",
            path=path,
            expected="arrays and numbers, in any pytree",
            got=describe_value(leaf),
            remedies=("keep x.value in place of x",)
            if record
            else (
                "pass it as a static argument, with nondiff_argnums: bwd is given it",
                "keep what is computed from it",
            ),
        )
