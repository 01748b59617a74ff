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
from strict_hijax._signatures import arity_of
from strict_hijax._types import (
    describe,
    describe_value,
    paths_of,
    structure_mismatch,
    type_of,
)

from .outputs import output_structure_findings


def batch_findings(
    facts: ClassFacts, prim: Any, rule: str, result: Any, axis_data: Any, in_dims: Any
) -> list[Finding]:
    """What is wrong with the pair that `batch` returns."""
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
        where = _mapped_input(facts, rule, in_dims)
        mapped = _Mapped(facts, rule, f"outs{path}", aval, dim, axis_data.size, where)
        found += mapped.findings(out)
    return found


def _mapped_input(facts: ClassFacts, rule: str, dims: Any) -> tuple[Any, str]:
    """The axis at which inputs are mapped, and how `batch` writes it; None for none."""
    arity = arity_of(facts.rules[rule])
    name = arity.names[-1] if arity is not None and arity.names else "dims"
    mapped = [dim for dim in dims if dim is not None]
    if not mapped or any(type(dim) is not int or dim != mapped[0] for dim in mapped):
        return None, ""
    if len(dims) == 1:
        return mapped[0], f"{name}[0]"
    return mapped[0], f"next(d for d in {name} if d is not None)"


def _no_pair(facts: ClassFacts, rule: str, result: Any) -> Finding:
    got = describe_value(result)
    return facts.finding(
        "SH330",
        f"has a `{rule}` that returns {got} in place of a pair.",
        rule=rule,
        location=facts.where(rule),
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
        location=facts.where(rule),
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
            location=facts.where(rule),
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
        location=facts.where(rule),
        expected="an int, or None for an output that is not mapped",
        got=got,
        jax_says="batch dim should be int or `None`",
        remedies=("return outs, 0", "return outs, None   # not mapped"),
    )


class _Mapped:
    """One output of a `batch`, and where it says that it is mapped."""

    def __init__(
        self,
        facts: ClassFacts,
        rule: str,
        path: str,
        aval: Any,
        dim: Any,
        size: Any,
        followed: tuple[Any, str],
    ) -> None:
        self.facts = facts
        self.rule = rule
        self.path = path
        self.aval = aval
        self.dim = dim
        self.size = size
        self.followed = followed

    def findings(self, out: Any) -> Iterator[Finding]:
        """What is wrong with this output."""
        got = type_of(out)
        if got is None:
            yield self._finding("SH334", "that is no JAX value", describe_value(out))
            return
        both = (
            isinstance(got, _jax.ShapedArray),
            isinstance(self.aval, _jax.ShapedArray),
        )
        if not all(both) or self._fits(got):
            return
        if self.dim is None:
            what = "that it says is not mapped, and that has another type"
            yield self._finding("SH335", what, describe(got), *self._where_it_is(got))
        else:
            what = f"that has another type without its mapped axis, {self.dim}"
            yield self._finding("SH334", what, describe(got), *self._where_it_is(got))

    @property
    def _shape(self) -> tuple[Any, ...]:
        return self._shape_with(self.dim)

    def _shape_with(self, dim: int | None) -> tuple[Any, ...]:
        if dim is None:
            return tuple(self.aval.shape)
        return (*self.aval.shape[:dim], self.size, *self.aval.shape[dim:])

    def _fits(self, got: Any) -> bool:
        same = _jax.definitely_equal_shape(got.shape, self._shape)
        return same and bool(got.dtype == self.aval.dtype)

    def _where_it_is(self, got: Any) -> Iterator[str]:
        """The axis that it should have named, where there is one."""
        if got.dtype != self.aval.dtype:
            yield f"out.astype(jnp.{self.aval.dtype.name})"
            return
        for dim in (None, *range(self.aval.ndim + 1)):
            shape = self._shape_with(dim)
            if dim != self.dim and _jax.definitely_equal_shape(got.shape, shape):
                yield from self._at(dim)

    def _at(self, dim: int | None) -> Iterator[str]:
        """The line that names an axis: that of the input, where it is the same."""
        of_input, written = self.followed
        follows = dim is not None and dim == of_input
        if follows:
            yield f"return out, {written}   # the axis of the input"
        if follows and dim == 0:
            yield "return out, 0   # if it is in front wherever the input is mapped"
        elif not follows:
            axis = "" if dim is None else f"   # it is mapped at axis {dim}"
            yield f"return out, {dim}{axis}"

    def _finding(self, code: str, what: str, got: str, *remedies: str) -> Finding:
        sizes = ",".join(map(str, self._shape))
        expected = f"{describe(self.aval)}, not mapped"
        if self.dim is not None:
            dtype = describe(self.aval).partition("[")[0]
            expected = (
                f"{dtype}[{sizes}]: {describe(self.aval)} with the axis of size "
                f"{self.size} at {self.dim}"
            )
        return self.facts.finding(
            code,
            f"has a `{self.rule}` with an output {what}, at `{self.path}`.",
            rule=self.rule,
            path=self.path,
            location=self.facts.where(self.rule),
            expected=expected,
            got=got,
            remedies=remedies or ("jax.vmap(...)(*args)   # of what `expand` does",),
        )
