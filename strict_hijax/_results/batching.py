"""Checks on what `batch` returns: outputs, and the dimension that is mapped in each.

The contract is that of `_call_hi_primitive_batcher` in `jax._src.hijax`: an output
without its mapped axis has the declared type, one that is not mapped has it as it is.
Shapes and dtypes are compared, and sizes; not shardings, which `vmap` may add to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding
from strict_hijax._jax_primitives import Refused, dims_by_leaf
from strict_hijax._rules import RULES
from strict_hijax._types import (
    describe,
    describe_value,
    paths_of,
    structure_mismatch,
    type_of,
)

from .outputs import output_structure_findings


def batch_findings(
    facts: ClassFacts, prim: Any, rule: str, result: Any, size: Any
) -> list[Finding]:
    """What is wrong with the pair that `batch` returns, for an axis of this size."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        return [_no_pair(facts, rule, result)]
    outs, dims = result
    found = output_structure_findings(facts, prim, rule, outs)
    found += dims_findings(facts, prim, rule, dims)
    if found:
        return found
    leaves = _jax.tracing_registry.flatten(outs)[0]
    flat = dims_by_leaf(prim.out_tree, dims)
    paths = paths_of(prim.out_tree)
    for out, dim, aval, path in zip(
        leaves, flat, prim.out_avals_flat, paths, strict=True
    ):
        found += _output_findings(facts, rule, f"outs{path}", aval, size, dim, out)
    return found


def _no_pair(facts: ClassFacts, rule: str, result: Any) -> Finding:
    got = describe_value(result)
    return facts.finding(
        "SH330",
        f"has a `{rule}` that returns {got} in place of a pair.",
        rule=rule,
        expected=RULES[rule].returns,
        got=got,
        remedies=(
            "return outs, out_dims",
            "return out, 0   # mapped at axis 0",
        ),
    )


def dims_findings(facts: ClassFacts, prim: Any, rule: str, dims: Any) -> list[Finding]:
    """What is wrong with output dimensions, whatever the outputs are."""
    try:
        flat = dims_by_leaf(prim.out_tree, dims)
    except Refused as refused:
        return [_refused_dims(facts, prim, rule, dims, refused)]
    paths = paths_of(prim.out_tree)
    found: list[Finding] = []
    for dim, aval, path in zip(flat, prim.out_avals_flat, paths, strict=True):
        found += _dim_findings(facts, rule, f"out_dims{path}", aval, dim)
    return found


def _refused_dims(
    facts: ClassFacts, prim: Any, rule: str, dims: Any, refused: Refused
) -> Finding:
    """The dimension that is none, if there is one; or else the structure."""
    for keypath, dim in tree_util.tree_leaves_with_path(dims):
        if type(dim) is not int and not _jax.is_batching_spec(dim):
            return _no_dim(facts, rule, f"out_dims{_jax.keystr(keypath)}", dim)
    mismatch = structure_mismatch(prim.out_tree, dims, zeros=True, path="out_dims")
    return facts.finding(
        "SH331",
        f"has a `{rule}` whose `out_dims` have another structure than the output.",
        rule=rule,
        path=mismatch.path if mismatch else "out_dims",
        expected=mismatch.expected if mismatch else "the structure of `out_aval`",
        got=mismatch.got if mismatch else describe_value(dims),
        jax_says=refused.says,
        remedies=("return outs, jax.tree.map(lambda _: 0, outs)   # all at axis 0",),
    )


def _dim_findings(
    facts: ClassFacts, rule: str, path: str, aval: Any, dim: Any
) -> Iterator[Finding]:
    if dim is None or not isinstance(aval, _jax.ShapedArray):
        return
    most = aval.ndim
    if type(dim) is int:
        if 0 <= dim <= most:
            return
        yield facts.finding(
            "SH333",
            f"has a `{rule}` that names axis {dim} of an output which has "
            f"{most + 1} axes, at `{path}`.",
            rule=rule,
            path=path,
            expected=f"0 to {most}, or None" if most else "0 or None",
            got=str(dim),
            jax_says="tuple index out of range" if dim > 0 else None,
            remedies=(
                f"return outs, {max(0, most + 1 + dim)}   # counted from the front"
                if dim < 0
                else "jnp.moveaxis(out, axis, 0)   # and 0 in `out_dims`",
            ),
        )
    elif not _jax.is_batching_spec(dim):
        yield _no_dim(facts, rule, path, dim)


def _no_dim(facts: ClassFacts, rule: str, path: str, dim: Any) -> Finding:
    got = describe_value(dim)
    return facts.finding(
        "SH332",
        f"has a `{rule}` with {got} among its `out_dims`, at `{path}`.",
        rule=rule,
        path=path,
        expected="an int, or None for an output that is not mapped",
        got=got,
        jax_says="batch dim should be int or `None`",
        remedies=("return outs, 0", "return outs, None   # not mapped"),
    )


def _output_findings(
    facts: ClassFacts,
    rule: str,
    path: str,
    declared: Any,
    size: Any,
    dim: Any,
    out: Any,
) -> Iterator[Finding]:
    """What is wrong with one output, said to be mapped at `dim`, or not at all."""
    got = type_of(out)
    arrays = [isinstance(aval, _jax.ShapedArray) for aval in (got, declared)]
    code, remedies = "SH334", tuple[str, ...]()
    if got is None:
        what = "that is no JAX value"
    elif not all(arrays) or _fits(got, declared, size, dim):
        return
    else:
        remedies = tuple(_instead(got, declared, size, dim))
        what = f"that has another type without its mapped axis, {dim}"
        if dim is None:
            code = "SH335"
            what = "that it says is not mapped, and that has another type"
    expected = f"{describe(declared)}, not mapped"
    if dim is not None:
        sizes = ",".join(map(str, _shape(declared, size, dim)))
        dtype = describe(declared).partition("[")[0]
        expected = (
            f"{dtype}[{sizes}]: {describe(declared)} with the axis of size {size} at "
            f"{dim}"
        )
    yield facts.finding(
        code,
        f"has a `{rule}` with an output {what}, at `{path}`.",
        rule=rule,
        path=path,
        expected=expected,
        got=describe_value(out) if got is None else describe(got),
        remedies=remedies or ("jax.vmap(...)(*args)   # of what `expand` does",),
    )


def _shape(declared: Any, size: Any, dim: int | None) -> tuple[Any, ...]:
    shape = tuple(declared.shape)
    return shape if dim is None else (*shape[:dim], size, *shape[dim:])


def _fits(got: Any, declared: Any, size: Any, dim: int | None) -> bool:
    same = _jax.definitely_equal_shape(got.shape, _shape(declared, size, dim))
    return same and bool(got.dtype == declared.dtype)


def _instead(got: Any, declared: Any, size: Any, dim: int | None) -> Iterator[str]:
    """The axis that it should have named, where there is one."""
    if got.dtype != declared.dtype:
        yield f"out.astype(jnp.{declared.dtype.name})"
        return
    for axis in (None, *range(declared.ndim + 1)):
        if axis != dim and _fits(got, declared, size, axis):
            follows = "" if axis is None else "   # or the dimension that it follows"
            yield f"return out, {axis}{follows}"
