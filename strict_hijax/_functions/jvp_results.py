"""What a jvp rule must return, and how a result departs from that.

Pure functions from a result to findings, used in place, whenever JAX calls the rule,
and on the tracers of an eager check. The contract is that of `_flatten_jvp` in
`jax._src.custom_derivatives`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax import tree_util

from strict_hijax._errors import Finding
from strict_hijax._types import (
    describe_pair,
    describe_value,
    has_no_tangent,
    is_zero,
    paths_of,
    same_type,
    structure_mismatch,
    tangent_type,
    type_of,
)

from . import jvp_sentences as sentences
from .custom_jvp import JvpRules
from .forward_results import OutputTypes


def jvp_findings(
    rules: JvpRules, result: Any, primal: OutputTypes | None
) -> list[Finding]:
    """What is wrong with the result of a jvp rule; `primal` may be unknown."""
    if not isinstance(result, list | tuple) or len(result) != 2:
        return [_no_pair(rules, result, primal)]
    out, tangents = result
    findings = [] if primal is None else list(_output(rules, out, primal))
    return findings or list(_tangents(rules, out, tangents))


def tangent_leaves(rules: JvpRules, tangents: Any) -> tuple[list[Any], Any]:
    """The leaves of tangents, and their structure; symbolic zeros are leaves.

    Without its hijax implementation JAX takes a `Zero` for a container of nothing.
    """
    is_leaf = is_zero if rules.is_run_as_hijax else None
    return tree_util.tree_flatten(tangents, is_leaf=is_leaf)


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
        jax_says=sentences.no_pair(rules, got),
        remedies=("return primal_out, tangent_out",),
    )


# --- the primal output ----------------------------------------------------------------


def _output(rules: JvpRules, out: Any, primal: OutputTypes) -> Iterator[Finding]:
    leaves, treedef = tree_util.tree_flatten(out)
    avals = [type_of(leaf) for leaf in leaves]
    if None in avals:
        index = avals.index(None)
        where = f"output{list(paths_of(treedef))[index]}"
        got = describe_value(leaves[index])
        yield _wrong_output(rules, "SH434", where, "a JAX value", got)
        return
    shown = (treedef, avals), (primal.treedef, list(primal.avals))
    if treedef != primal.treedef:
        mismatch = structure_mismatch(primal.treedef, out, path="output")
        path = "output" if mismatch is None else mismatch.path
        expected = str(primal.treedef) if mismatch is None else mismatch.expected
        got = str(treedef) if mismatch is None else mismatch.got
        says = sentences.output_structure(rules, *shown)
        yield _wrong_output(rules, "SH433", path, expected, got, says)
        return
    paths = paths_of(treedef)
    for path, has, want in zip(paths, avals, primal.avals, strict=True):
        if not same_type(has, want):
            words = describe_pair(want, has)
            says = sentences.output_types(rules, *shown)
            yield _wrong_output(
                rules, "SH434", f"output{path}", *words, says, _cast(want, has)
            )


def _wrong_output(
    rules: JvpRules,
    code: str,
    path: str,
    expected: str,
    got: str,
    says: str | None = None,
    cast: str | None = None,
) -> Finding:
    return rules.finding(
        code,
        "jvp",
        f"returns an output that is not that of the function: at `{path}` expected "
        f"{expected}, got {got}.",
        path=path,
        expected=expected,
        got=got,
        jax_says=says,
        remedies=(
            *(() if cast is None else (f"primal_out{cast}",)),
            f"primal_out = {rules.name}(*primals)   # what the function itself returns",
        ),
    )


def _cast(expected: Any, got: Any) -> str | None:
    """What makes one type of another, where only the dtypes differ."""
    if getattr(expected, "shape", ()) != getattr(got, "shape", None):
        return None
    if getattr(expected, "dtype", None) == getattr(got, "dtype", None):
        return None
    return f".astype(jnp.{expected.dtype})"


# --- the tangents ---------------------------------------------------------------------


def _tangents(rules: JvpRules, out: Any, tangents: Any) -> Iterator[Finding]:
    out_leaves, treedef = tree_util.tree_flatten(out)
    leaves, found = tangent_leaves(rules, tangents)
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
        if has is None:
            yield _no_value(rules, path, leaf, want)
        elif want is not None and not same_type(has, want):
            says = sentences.tangent_types(outputs, wanted, got)
            yield _wrong_type(rules, path, aval, want, has, says)


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
        jax_says=sentences.tangent_structure(rules, treedef, found),
        remedies=remedies,
    )


def _no_value(rules: JvpRules, path: str, leaf: Any, want: Any) -> Finding:
    expected = "a tangent" if want is None else describe_pair(want, None)[0]
    return rules.finding(
        "SH437",
        "jvp",
        f"returns a tangent that is no JAX value: `{path}` is {describe_value(leaf)}.",
        path=path,
        expected=expected,
        got=describe_value(leaf),
        jax_says=sentences.no_value(leaf),
        remedies=("return an array, or jnp.zeros_like(primal_out)",),
    )


def _wrong_type(
    rules: JvpRules, path: str, aval: Any, want: Any, got: Any, says: str
) -> Finding:
    words = describe_pair(want, got)
    if has_no_tangent(want):
        remedies: tuple[str, ...] = (
            "np.zeros(primal_out.shape, jax.dtypes.float0)   # of an integer output",
        )
    elif (cast := _cast(want, got)) is not None:
        remedies = (f"tangent_out{cast}",)
    else:
        remedies = _of_shape(getattr(want, "shape", ()), getattr(got, "shape", ()))
    return rules.finding(
        "SH436",
        "jvp",
        f"returns a tangent of another type than its output has: at `{path}` expected "
        f"{words[0]}, got {words[1]}.",
        path=path,
        expected=f"{words[0]}, for an output of type {describe_pair(aval, None)[0]}",
        got=words[1],
        jax_says=says,
        remedies=remedies,
    )


def _of_shape(wanted: tuple[Any, ...], got: tuple[Any, ...]) -> tuple[str, ...]:
    """What to write where a tangent has another shape than its output."""
    look = f"look for what is summed or broadcast: the output has the shape {wanted}"
    pairs = zip(wanted[::-1], got[::-1], strict=False)
    if len(got) > len(wanted) or not all(b in (1, a) for a, b in pairs):
        return (look,)
    same = "# only if it is the same for all of it"
    return look, f"jnp.broadcast_to(tangent_out, {wanted})   {same}"


def output_paths(treedef: Any, what: str) -> list[str]:
    """The paths of all leaves of an output, or of its tangent."""
    return [f"{what}{path}" for path in paths_of(treedef)]
