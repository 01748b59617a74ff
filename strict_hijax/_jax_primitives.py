"""What JAX takes of a result of a primitive's rule: asked of the installed JAX.

A part of the one door to JAX's internals. Each function gives a result to the code of
JAX that takes such results apart, in place of the rule that made it, and returns what
JAX makes of it: one entry for each leaf. Where JAX refuses it, what JAX raises is in
`Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax import tree_util

from ._jax import (
    HiPrim,
    NullAccum,
    batching_rule,
    flatten_user_linearized,
    jvp_rule,
    linearization_rule,
    mirrored,
)


class Refused(Exception):
    """JAX does not take a result; `says` has its first line, where it has any."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.says = str(error).partition("\n")[0] or None


def _ask(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:  # JAX raises ValueError, TypeError, AssertionError
        raise Refused(error) from None


class _Stub:
    """A primitive of no inputs, all of whose rules give one and the same result."""

    in_tree = tree_util.tree_structure(())
    in_avals_flat = ()
    effects = frozenset[Any]()
    skip_linearization_on_zero_tangents = False
    vjp_bwd: Any  # JAX looks whether it is overridden

    def __init__(self, result: Any, out_tree: Any):
        self.out_tree = out_tree
        self.result = result

    def give(self, *_: Any) -> Any:
        """The result, whatever the rule is called with."""
        return self.result

    batch = vjp_fwd = lin = jvp = linearized = give

    def __repr__(self) -> str:
        return type(self).__name__

    def vjp_bwd_retval_logs(self, *_: Any) -> Any:
        """Cotangents alone, without logs."""
        return self.result, None


def _placeholders(treedef: Any) -> Any:
    return tree_util.tree_unflatten(treedef, [object()] * treedef.num_leaves)


def _stub(prim: Any, result: Any) -> Any:
    """A stub for a primitive, under the name that JAX's sentences have."""
    body = {"vjp_bwd": type(prim).vjp_bwd}
    return type(type(prim).__name__, (_Stub,), body)(result, prim.out_tree)


class _Given(NullAccum):
    """An accumulator that keeps what it is given."""

    value: Any = None

    def accum(self, x: Any) -> None:
        self.value = x


def cotangents_by_leaf(inputs: Sequence[Any], cotangents: Any) -> list[Any]:
    """The cotangent of each leaf, of all that `vjp_bwd_retval` returns.

    `inputs` has the structure of each input.
    """
    accums = [[_Given(None) for _ in range(tree.num_leaves)] for tree in inputs]
    stub = _Stub(cotangents, None)
    _ask(HiPrim.vjp_bwd, stub, None, None, *map(mirrored, inputs, accums))
    return [accum.value for leaves in accums for accum in leaves]


def dims_by_leaf(treedef: Any, dims: Any) -> list[Any]:
    """The dimension of each output, of what `batch` returns second."""
    stub = _Stub((_placeholders(treedef), dims), treedef)
    return list(_ask(batching_rule, None, [], [], _prim=stub)[1])


def tangents_by_leaf(prim: Any, rule: str, tangents: Any) -> list[Any]:
    """The tangent of each output, of what `jvp` returns second, or `linearized`."""
    if rule == "linearized":
        return list(_ask(flatten_user_linearized, _stub(prim, tangents), None, None))
    stub = _stub(prim, (_placeholders(prim.out_tree), tangents))
    return list(_ask(jvp_rule, [], [], _prim=stub)[1])


def output_flags(prim: Any, rule: str, flags: Any) -> list[bool]:
    """Which outputs have a tangent, of what `vjp_fwd` or `lin` returns third."""
    result = _placeholders(prim.out_tree), None, flags
    return _flags(prim, rule, result, (), ())


def announced_flags(
    prim: Any, result: Any, nzs_in: Sequence[bool], leaves: Sequence[Any]
) -> list[bool]:
    """Which outputs have a tangent, of all that `lin` returns for these arguments."""
    return _flags(prim, "lin", result, nzs_in, leaves)


def _flags(
    prim: Any, rule: str, result: Any, nzs_in: Sequence[bool], leaves: Sequence[Any]
) -> list[bool]:
    stub = _stub(prim, result)
    stub.in_tree = tree_util.tree_structure((0,) * len(leaves))
    asked = _ask(linearization_rule, rule == "vjp_fwd", nzs_in, *leaves, _prim=stub)
    return list(asked[1])
