"""What a forward rule keeps for a backward, where the two are traced one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jax import tree_util

from . import _jax
from ._types import type_of


@dataclasses.dataclass(slots=True)
class Kept:
    """What fwd keeps: inputs by position, traced values by type, others as they are.

    Plain Python values reach bwd as those values, since rules build on them.
    """

    treedef: Any
    places: list[tuple[str, Any]]
    types: tuple[Any, ...] = ()

    @classmethod
    def of(cls, residuals: Any, inputs: Sequence[Any]) -> tuple[Kept, list[Any]]:
        """The record, and the traced values that fwd has to return."""
        leaves, treedef = tree_util.tree_flatten(residuals)
        positions = {id(leaf): i for i, leaf in enumerate(inputs)}
        places: list[tuple[str, Any]] = []
        traced: list[Any] = []
        for leaf in leaves:
            if id(leaf) in positions:
                places.append(("input", positions[id(leaf)]))
            elif _can_be_returned(leaf):
                places.append(("traced", len(traced)))
                traced.append(leaf)
            else:
                places.append(("constant", leaf))
        return cls(treedef, places), traced

    def restored(self, inputs: Sequence[Any], traced: Sequence[Any]) -> Any:
        """The residuals with fresh tracers in place of those that fwd was traced on."""
        sources = {"input": inputs, "traced": traced}
        leaves = [
            place if kind == "constant" else sources[kind][place]
            for kind, place in self.places
        ]
        return tree_util.tree_unflatten(self.treedef, leaves)

    def leaf_types(self, inputs: Sequence[Any]) -> list[Any]:
        """The types of all leaves, those that are inputs or constants included."""
        types = {"input": inputs, "traced": self.types}
        found = [
            type_of(place) if kind == "constant" else types[kind][place]
            for kind, place in self.places
        ]
        return [aval for aval in found if aval is not None]


def _can_be_returned(leaf: Any) -> bool:
    if not isinstance(leaf, _jax.Tracer):
        return False
    return not isinstance(_jax.typeof(leaf), _jax.AbstractRef)
