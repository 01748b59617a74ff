"""The types of what a function returns, and where a rule's output departs from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._types import (
    describe_pair,
    describe_value,
    paths_of,
    same_type,
    structure_mismatch,
    type_of,
)


@dataclasses.dataclass(frozen=True, slots=True)
class OutputTypes:
    """Structure and types of what a function returns."""

    treedef: Any
    avals: tuple[Any, ...]

    @classmethod
    def of(cls, value: Any) -> OutputTypes | None:
        """Those of a value, or None where a leaf has no JAX type."""
        treedef, avals = types_of(value)
        return None if None in avals else cls(treedef, tuple(avals))


def types_of(value: Any) -> tuple[Any, list[Any]]:
    """The structure of a value, and the types of its leaves, None where it has none."""
    leaves, treedef = tree_util.tree_flatten(value)
    return treedef, [type_of(_value(leaf)) for leaf in leaves]


def _value(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, _jax.CustomVJPPrimal) else leaf


class Departure(NamedTuple):
    """One place at which an output is not that of the function.

    `cast` is what makes one type of the other, where only the dtypes differ.
    """

    path: str
    expected: str
    got: str
    is_of_structure: bool = False
    cast: str | None = None


def departures(out: Any, primal: OutputTypes) -> Iterator[Departure]:
    """Where an output is not that of the function; of a structure, the first place."""
    treedef, avals = types_of(out)
    paths = [f"output{path}" for path in paths_of(treedef)]
    if None in avals:
        index = avals.index(None)
        got = describe_value(tree_util.tree_leaves(out)[index])
        yield Departure(paths[index], "a JAX value", got)
    elif treedef != primal.treedef:
        yield Departure(*_other_structure(primal.treedef, out), is_of_structure=True)
    else:
        for path, got, expected in zip(paths, avals, primal.avals, strict=True):
            if not same_type(got, expected):
                words = describe_pair(expected, got)
                yield Departure(path, *words, cast=cast(expected, got))


def _other_structure(treedef: Any, out: Any) -> tuple[str, str, str]:
    found = structure_mismatch(treedef, out, path="output")
    return found or ("output", str(treedef), str(tree_util.tree_structure(out)))


def cast(expected: Any, got: Any) -> str | None:
    """What makes one type of another, where only the dtypes differ."""
    if getattr(expected, "shape", ()) != getattr(got, "shape", None):
        return None
    if getattr(expected, "dtype", None) == getattr(got, "dtype", None):
        return None
    return f".astype(jnp.{expected.dtype})"
