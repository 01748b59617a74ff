"""An operation on any structures, whose derivatives are known.

Every leaf is a float32[3], so that parts in a wrong place give a wrong value and not
an error about shapes. All numbers are small integers: values are compared exactly.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import tree_util


class Point(NamedTuple):
    """A namedtuple of two arrays."""

    x: Any
    y: Any


class Other(NamedTuple):
    """Another namedtuple of two arrays."""

    first: Any
    second: Any


@tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weights:
    """A pytree that is no tuple, list or dict."""

    b: Any
    w: Any


CONTAINERS: dict[str, Any] = {
    "tuple": (0, 0),
    "list": [0, 0],
    "dict": {"b": 0, "w": 0},
    "namedtuple": Point(0, 0),
    "dataclass": Weights(0, 0),
}
NESTED = {"p": (0, [0]), "q": Point(0, 0)}


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """The structures of the inputs and of the output; leaves are any numbers."""

    inputs: tuple[Any, ...] = (0,)
    output: Any = 0

    def arguments(self, start: int = 1) -> tuple[Any, ...]:
        """Values for the inputs, each leaf another."""
        return _numbered(self.inputs, start)

    def cotangents(self) -> Any:
        """Values in the structure of the output, each leaf another."""
        return _numbered(self.output, 2)

    def types(self) -> tuple[tuple[Any, ...], Any]:
        """The types of inputs and output."""
        of = lambda tree: jax.tree.map(jax.typeof, _numbered(tree, 1))  # noqa: E731
        return of(self.inputs), of(self.output)

    def apply(self, *args: Any) -> Any:
        """Each output is a sum over inputs of a factor times the square."""
        return self._outputs(args, lambda x, factor: factor * x * x)

    def tangents_of(self, args: Any, tangents: Any) -> Any:
        """The tangents of the output."""
        pairs = list(zip(_leaves(args), map(_dense, _leaves(tangents)), strict=True))
        return self._outputs(pairs, lambda xt, factor: factor * 2 * xt[0] * xt[1], True)

    def cotangents_of(self, args: Any, out_ct: Any) -> Any:
        """The cotangents of the inputs."""
        cts = list(map(_dense, _leaves(out_ct)))
        found = [
            2 * x * sum(_factor(i, j) * ct for j, ct in enumerate(cts))
            for i, x in enumerate(_leaves(args))
        ]
        return tree_util.tree_structure(self.inputs).unflatten(found)

    def _outputs(
        self, args: Any, term: Callable[[Any, int], Any], flat: bool = False
    ) -> Any:
        treedef = tree_util.tree_structure(self.output)
        leaves = args if flat else _leaves(args)
        found = [
            sum(term(x, _factor(i, j)) for i, x in enumerate(leaves))
            for j in range(treedef.num_leaves)
        ]
        return treedef.unflatten(found)


def _numbered(tree: Any, start: int) -> Any:
    leaves, treedef = tree_util.tree_flatten(tree)
    return treedef.unflatten([jnp.arange(3.0) + start + i for i in range(len(leaves))])


def _leaves(tree: Any) -> list[Any]:
    return tree_util.tree_leaves(tree, is_leaf=lambda x: hasattr(x, "instantiate"))


def _dense(ct: Any) -> Any:
    """An array in place of a symbolic zero."""
    return ct.instantiate() if hasattr(ct, "instantiate") else ct


def _factor(i: int, j: int) -> int:
    return 1 + i + 3 * j
