"""Results in another order than JAX takes them: each fits, and none in its place.

The faults themselves are found elsewhere. Here one question is added to them, since two
wrong types that are each other's have one cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jax import tree_util

from ._errors import Finding
from ._types import has_no_tangent, inner_type, is_zero, same_type, type_of


class Place(NamedTuple):
    """Where a cotangent goes, a whole argument or a leaf, and what is given there."""

    path: str
    treedef: Any
    wanted: Sequence[Any]
    given: Any

    def takes(self, given: Any) -> bool:
        """Whether a cotangent has the structure and types that are wanted here."""
        leaves, treedef = tree_util.tree_flatten(given, is_leaf=_is_zero)
        return given is None or (
            treedef == self.treedef and all(map(_is_of, leaves, self.wanted))
        )


def _is_zero(value: Any) -> bool:
    return value is None or is_zero(value)


def _is_of(cotangent: Any, wanted: Any) -> bool:
    if cotangent is None or wanted is None or has_no_tangent(wanted):
        return True
    aval = cotangent.aval if is_zero(cotangent) else type_of(cotangent)
    return aval is not None and same_type(inner_type(aval), wanted)


def places_of_leaves(
    paths: Sequence[str], wanted: Sequence[Any], given: Sequence[Any]
) -> list[Place]:
    """One place for each leaf of the inputs."""
    leaf = tree_util.tree_structure(0)
    each = zip(paths, wanted, given, strict=True)
    return [Place(path, leaf, [want], ct) for path, want, ct in each]


def places_of_arguments(
    names: Sequence[str], treedef: Any, wanted: Sequence[Any], given: Sequence[Any]
) -> list[Place]:
    """One place for each argument; `wanted` has the types of all their leaves."""
    left = iter(wanted)
    return [
        Place(name, child, [next(left) for _ in range(child.num_leaves)], ct)
        for name, child, ct in zip(names, treedef.children(), given, strict=True)
    ]


def ask_if_exchanged(
    findings: Sequence[Finding], *kinds: Sequence[Place]
) -> list[Finding]:
    """The findings about cotangents; if an exchange mends them all, it is asked for.

    One of each code then stands for the others. Places are looked at kind by kind.
    """
    for places in kinds if findings else ():
        if exchanged := _exchanged(places):
            names = [f"`{to.path}`" for to, _ in exchanged]
            question = (
                f"The cotangents for {', '.join(names[:-1])} and {names[-1]} fit one",
                "another's places: are the cotangents swapped?",
            )
            moves = (f"to `{to.path}` what is for `{by.path}`" for to, by in exchanged)
            return [
                finding._replace(
                    facts=finding.facts + question,
                    remedies=(f"give {', and '.join(moves)}",),
                )
                for finding in {f.code: f for f in reversed(findings)}.values()
            ]
    return list(findings)


def _exchanged(places: Sequence[Place]) -> list[tuple[Place, Place]]:
    """The wrong places, each with the one that was given what it takes, if all have."""
    wrong = [place for place in places if not place.takes(place.given)]
    left, found = list(wrong), list[tuple[Place, Place]]()
    for place in wrong:
        index = next((i for i, by in enumerate(left) if place.takes(by.given)), None)
        if index is None:
            return []
        found.append((place, left.pop(index)))
    return found


type Types = tuple[Any, Sequence[Any]]
"""A structure, and the types of its leaves."""


def is_output_second(
    first: Types, second: Types, output: Types, inputs: Sequence[Any]
) -> bool:
    """Whether a forward rule seems to return the residuals before the output.

    An input may well have the type of the output, and be kept: where one has, only
    another structure tells that what comes first is not a wrong output.
    """
    if second[0] != output[0] or not all(map(_are_same, second[1], output[1])):
        return False
    if first[0] != output[0]:
        return True
    another = list(map(_shape, first[1])) != list(map(_shape, output[1]))
    kept = all(any(_are_same(x, out) for x in inputs) for out in output[1])
    return another and not kept


def _shape(aval: Any) -> Any:
    return getattr(aval, "shape", None)


def _are_same(a: Any, b: Any) -> bool:
    return a is not None and same_type(a, b)


def asked_if_second(finding: Finding) -> Finding:
    """A finding about an output, with the question whether it comes second."""
    return finding._replace(
        facts=(
            *finding.facts,
            "The second result has the type of the output: are output and residuals",
            "swapped?",
        ),
        remedies=("return out, residuals   # the output first", *finding.remedies),
    )
