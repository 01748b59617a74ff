"""What `fwd` (and `rem`) of a function must return, and how a result departs from that.

Pure functions from a result to findings, used in place, whenever JAX calls the rule,
and on the tracers of an eager check. The contract is that of `_flatten_fwd` in
`jax._src.custom_derivatives`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding
from strict_hijax._types import (
    describe_pair,
    describe_value,
    paths_of,
    same_type,
    structure_mismatch,
    type_of,
)

from . import sentences
from .exchanged import is_output_second
from .returned_refs import returned_ref_findings
from .rules import FunctionRules


@dataclasses.dataclass(frozen=True, slots=True)
class OutputTypes:
    """Structure and types of what a function returns."""

    treedef: Any
    avals: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any) -> OutputTypes | None:
        """Those of a value, or None where a leaf has no JAX type."""
        leaves, treedef = tree_util.tree_flatten(value)
        avals = [type_of(_value(leaf)) for leaf in leaves]
        return None if None in avals else cls(treedef, tuple(avals))


def _value(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, _jax.CustomVJPPrimal) else leaf


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
    if not isinstance(result, list | tuple) or len(result) != 2:
        return [_no_pair(rules, role, result, primal)]
    out, residuals = result
    refs = list(returned_ref_findings(rules, out, residuals, args))
    if refs and role == "fwd":  # JAX does not look at those of `rem`
        return refs
    findings = [] if primal is None else list(_output(rules, role, out, primal))
    if findings:
        types = OutputTypes.of(out), OutputTypes.of(residuals)
        if is_output_second(*types, primal):
            return [_output_second(findings[0])]
    return findings + list(_residuals(rules, role, residuals))


def _output_second(finding: Finding) -> Finding:
    """The same fault, where the second of the pair has the types of the output."""
    sentence = finding.headline.rstrip(".")
    return finding._replace(
        headline=f"{sentence}; the second of the pair has the type of the output. Are "
        "output and residuals swapped?",
        remedies=("return out, res   # the output comes first", *finding.remedies),
    )


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
        jax_says=sentences.fwd_no_pair(rules, got),
        remedies=("return out, res", "return out, None   # nothing to keep"),
    )


def _output(
    rules: FunctionRules, role: str, out: Any, primal: OutputTypes
) -> Iterator[Finding]:
    leaves, treedef = tree_util.tree_flatten(out)
    avals = [type_of(_value(leaf)) for leaf in leaves]
    if None in avals:
        where = list(paths_of(treedef))[avals.index(None)]
        yield _output_finding(
            rules,
            role,
            "SH412",
            f"output{where}",
            "a JAX value",
            describe_value(leaves[avals.index(None)]),
        )
    elif treedef != primal.treedef:
        yield _other_structure(rules, role, out, avals, primal)
    elif not all(map(same_type, avals, primal.avals)):
        for path, got, expected in zip(
            paths_of(treedef), avals, primal.avals, strict=True
        ):
            if not same_type(got, expected):
                words = describe_pair(expected, got)
                says = sentences.fwd_types(
                    rules,
                    path,
                    (treedef, avals, got),
                    (treedef, list(primal.avals), expected),
                )
                yield _output_finding(
                    rules, role, "SH412", f"output{path}", *words, says, got, expected
                )


def _output_finding(
    rules: FunctionRules,
    role: str,
    code: str,
    path: str,
    expected: str,
    got: str,
    says: str | None = None,
    got_aval: Any = None,
    expected_aval: Any = None,
) -> Finding:
    remedies: tuple[str, ...] = (f"return from {role} what `{rules.name}` returns",)
    shapes = [getattr(a, "shape", None) for a in (got_aval, expected_aval)]
    if got_aval is not None and shapes[0] == shapes[1]:
        dtype = getattr(expected_aval, "dtype", None)
        remedies = (f"return out.astype(jnp.{dtype}), res", *remedies)
    return rules.finding(
        code,
        role,
        f"returns an output that is not that of the function: at `{path}` expected "
        f"{expected}, got {got}.",
        path=path,
        expected=expected,
        got=got,
        jax_says=says,
        remedies=remedies,
    )


def _other_structure(
    rules: FunctionRules, role: str, out: Any, avals: list[Any], primal: OutputTypes
) -> Finding:
    mismatch = structure_mismatch(primal.treedef, out, path="output")
    path = "output" if mismatch is None else mismatch.path
    expected = str(primal.treedef) if mismatch is None else mismatch.expected
    got = describe_value(out) if mismatch is None else mismatch.got
    facts: tuple[str, ...] = ()
    if (
        primal.treedef.node_data() is not None
        and primal.treedef.node_data()[0] is tuple
    ):
        facts = (
            f"`{rules.name}` itself returns a tuple: it is the first of the two that",
            f"{role} returns, as in ((a, b), res).",
        )
    return rules.finding(
        "SH411",
        role,
        f"returns an output of another structure than the function: at `{path}` "
        f"expected {expected}, got {got}.",
        path=path,
        expected=expected,
        got=got,
        facts=facts,
        jax_says=sentences.fwd_structure(
            rules,
            (tree_util.tree_structure(out), avals),
            (primal.treedef, list(primal.avals)),
        ),
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
            jax_says=f"Argument '{leaf}' of type '{type(leaf)}' is not a valid JAX type"
            if isinstance(leaf, str)
            else "is not a valid JAX type",
            remedies=("keep x.value in place of x",)
            if record
            else (
                "pass it as a static argument, with nondiff_argnums: bwd is given it",
                "keep what is computed from it",
            ),
        )
