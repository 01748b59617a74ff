"""What a jvp rule must return, and how a result departs from that.

Pure functions from a result to findings, used in place, whenever JAX calls the rule,
and on the tracers of an eager check. The contract is that of `_flatten_jvp` in
`jax._src.custom_derivatives`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding
from strict_hijax._types import (
    any_zero,
    describe,
    describe_value,
    has_no_tangent,
    is_zero,
    paths_of,
    structure_mismatch,
    tangent_type,
    type_of,
)
from strict_hijax._wrong_types import wrong_type

from .asked import ask_jvp, borne_out, says_of_symbolic_zero
from .custom_jvp import JvpRules
from .outputs import Departure, OutputTypes, departures


def jvp_findings(
    rules: JvpRules, result: Any, primal: OutputTypes | None
) -> list[Finding]:
    """What is wrong with the result of a jvp rule; `primal` may be unknown."""
    found = _findings(rules, result, primal)
    if not found:
        return list(_symbolic_zeros(rules, result))
    return borne_out(rules, "jvp", result, found, ask_jvp(rules, result, primal))


def refused_results(
    rules: JvpRules, result: Any, primal: OutputTypes | None
) -> list[Finding]:
    """What JAX alone says of a result of which nothing is wrong that we know of."""
    if not any_zero(result):
        return []
    return borne_out(rules, "jvp", result, [], ask_jvp(rules, result, primal))


def _findings(
    rules: JvpRules, result: Any, primal: OutputTypes | None
) -> list[Finding]:
    if not isinstance(result, list | tuple) or len(result) != 2:
        return [_no_pair(rules, result, primal)]
    out, tangents = result
    findings = [] if primal is None else list(_output(rules, out, primal))
    return findings or list(_tangents(rules, out, tangents))


def _no_pair(rules: JvpRules, result: Any, primal: OutputTypes | None) -> Finding:
    got = describe_value(result)
    alone = primal is not None and OutputTypes.of(result) == primal
    facts = ("That is one of the two alone.",) if alone else ()
    return rules.finding(
        "SH432",
        "jvp",
        f"must return a pair, the output and its tangent; it returns {got}.",
        expected="a pair (output, tangent of the output)",
        got=got,
        facts=facts,
        remedies=("return primal_out, tangent_out",),
    )


# --- the primal output ----------------------------------------------------------------


def _output(rules: JvpRules, out: Any, primal: OutputTypes) -> Iterator[Finding]:
    for found in departures(out, primal):
        yield _wrong_output(rules, found)


def _wrong_output(rules: JvpRules, found: Departure) -> Finding:
    instead = (
        f"primal_out = {rules.name}(*primals)   # what the function itself returns"
    )
    return rules.finding(
        "SH433" if found.is_of_structure else "SH434",
        "jvp",
        f"returns an output that is not that of the function: at `{found.path}` "
        f"expected {found.expected}, got {found.got}.",
        path=found.path,
        expected=found.expected,
        got=found.got,
        remedies=(f"primal_out{found.cast}", instead) if found.cast else (instead,),
    )


# --- the tangents ---------------------------------------------------------------------


def _tangents(rules: JvpRules, out: Any, tangents: Any) -> Iterator[Finding]:
    out_leaves, treedef = tree_util.tree_flatten(out)
    found: Any
    leaves, found = tree_util.tree_flatten(tangents)
    if found != treedef:
        yield _other_structure(rules, treedef, found, tangents)
        return
    outputs = [type_of(leaf) for leaf in out_leaves]
    if None in outputs:
        return  # the function's own output is unknown, and JAX says it
    wanted = [tangent_type(aval) for aval in outputs]
    got = [leaf.aval if is_zero(leaf) else type_of(leaf) for leaf in leaves]
    paths = [f"tangent{path}" for path in paths_of(treedef)]
    for path, leaf, aval, want, has in zip(
        paths, leaves, outputs, wanted, got, strict=True
    ):
        if want is not None:
            yield from _wrong_tangent(rules, path, aval, want, leaf, has)


def _other_structure(
    rules: JvpRules, treedef: Any, found: Any, tangents: Any
) -> Finding:
    mismatch = structure_mismatch(treedef, tangents, path="tangent")
    path = "tangent" if mismatch is None else mismatch.path
    expected = str(treedef) if mismatch is None else mismatch.expected
    got = str(found) if mismatch is None else mismatch.got
    facts: tuple[str, ...] = ()
    remedies = ("return primal_out, tangent_out   # of the same containers",)
    if rules.parts is not None and not any(rules.parts):
        facts = ("JAX makes no zeros of `defjvps` where each of them is None.",)
        names = rules.argument_names(len(rules.parts))
        zero = f"lambda {rules.part_parameters(0, names)}: jnp.zeros_like(primal_out)"
        remedies = (zero,)
    elif "None" in got or "Zero" in got:
        facts = ("None is no zero here, as it is for a bwd rule.",) * ("None" in got)
        remedies = ("jnp.zeros_like(primal_out)   # where the derivative is zero",)
    return rules.finding(
        "SH435",
        "jvp",
        f"returns a tangent of another structure than its output: at `{path}` expected "
        f"{expected}, got {got}.",
        path=path,
        expected=expected,
        got=got,
        facts=facts,
        remedies=remedies,
    )


def _symbolic_zeros(rules: JvpRules, result: Any) -> Iterator[Finding]:
    """Zeros that only a rule defined with `symbolic_zeros=True` may return."""
    if rules.symbolic_zeros or not any_zero(result):
        return
    leaves, treedef = tree_util.tree_flatten(result[1])
    refused, rule = says_of_symbolic_zero(rules), rules.rule_name("jvp")
    rule = rule if rule.isidentifier() else f"{rules.called}_jvp"
    for path, leaf in zip(output_paths(treedef, "tangent"), leaves, strict=True):
        if isinstance(leaf, _jax.SymbolicZero) and refused is not None:
            yield rules.finding(
                "SH436",
                "jvp",
                f"returns a SymbolicZero as `{path}`, and is not defined with "
                "`symbolic_zeros=True`: it fails in reverse mode.",
                path=path,
                expected=f"an array of {describe(leaf.aval)}",
                got=describe_value(leaf),
                jax_says=refused,
                remedies=(
                    f"{rules.called}.defjvp({rule}, symbolic_zeros=True)",
                    "jnp.zeros_like(primal_out)   # as the tangent",
                ),
            )


def _wrong_tangent(
    rules: JvpRules, path: str, output: Any, expected: Any, tangent: Any, aval: Any
) -> Iterator[Finding]:
    wrong = wrong_type("tangent_out", expected, tangent, aval)
    if wrong is None:
        return
    remedies = wrong.remedies
    if has_no_tangent(expected):
        zero = "np.zeros(primal_out.shape, jax.dtypes.float0)   # of an integer output"
        remedies = (zero,)
    elif wrong.kind == "value":
        remedies = ("return an array, or jnp.zeros_like(primal_out)",)
    yield rules.finding(
        "SH437" if wrong.kind == "value" else "SH436",
        "jvp",
        f"returns a wrong tangent: at `{path}` expected {wrong.expected}, got "
        f"{wrong.got}.",
        path=path,
        expected=f"{wrong.expected}, for an output of type {describe(output)}",
        got=wrong.got,
        remedies=remedies,
    )


def output_paths(treedef: Any, what: str) -> list[str]:
    """The paths of all leaves of an output, or of its tangent."""
    return [f"{what}{path}" for path in paths_of(treedef)]
