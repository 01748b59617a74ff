"""Results in another order than JAX takes them: each fits, and none in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jax import tree_util

from strict_hijax._errors import Finding
from strict_hijax._types import (
    cotangent_type,
    describe,
    has_no_tangent,
    inner_type,
    paths_of,
    same_type,
)

from .cotangents import is_none, shown_type, spread
from .rules import FunctionRules, Inputs


class _Place(NamedTuple):
    """Where a cotangent goes, a whole argument or one leaf, and what is given there."""

    path: str
    treedef: Any
    wanted: list[Any]
    given: Any

    def takes(self, given: Any) -> bool:
        """Whether a cotangent is exactly what this place wants, dtypes included."""
        leaves = spread(self.treedef, given)
        return leaves is not None and all(
            ct is None or has_no_tangent(want) or _is_of(ct, want)
            for want, (ct, _) in zip(self.wanted, leaves, strict=True)
        )


def _is_of(ct: Any, want: Any) -> bool:
    got = shown_type(ct)
    return not isinstance(got, str) and same_type(inner_type(got), want)


def exchanged_cotangents(
    rules: FunctionRules, inputs: Inputs, names: Sequence[str], cotangents: Any
) -> Finding | None:
    """The finding about right cotangents in a wrong order, if that is what they are."""
    wanted = list(map(cotangent_type, inputs.avals))
    if None in wanted:
        return None
    paths = list(paths_of(inputs.treedef, names))
    children = inputs.treedef.children()
    start = 0
    arguments: list[_Place] = []
    leaves: list[_Place] = []
    for name, child, ct in zip(names, children, cotangents, strict=True):
        here = slice(start, start := start + child.num_leaves)
        arguments.append(_Place(name, child, wanted[here], ct))
        parts = spread(child, ct)
        if parts is None:
            continue
        leaf = tree_util.tree_structure(0)
        for path, want, (part, _) in zip(paths[here], wanted[here], parts, strict=True):
            leaves.append(_Place(path, leaf, [want], part))
    if exchanged := _exchanged(arguments):
        returning = f"return {', '.join(f'{name}_ct' for name in names)}"
        if rules.with_logs:
            returning = f"return ({returning.removeprefix('return ')}), logs"
        remedy = f"{returning}   # in the order of the arguments"
    elif len(leaves) == len(wanted) and (exchanged := _exchanged(leaves)):
        remedy = ", and ".join(f"to `{to.path}` {_moved(by)}" for to, by in exchanged)
        remedy = f"give {remedy}"
    else:
        return None
    return _finding(rules, _code(inputs, cotangents), exchanged, remedy)


def exchanged_accumulators(
    rules: FunctionRules, inputs: Inputs, paths: Sequence[str], given: Sequence[Any]
) -> Finding | None:
    """The same for accumulators; `given` has what is wrong in one, and None for others.

    One that is given a right cotangent is not exchanged.
    """
    wanted = list(map(cotangent_type, inputs.avals))
    if None in wanted or sum(ct is not None for ct in given) < 2:
        return None
    leaf = tree_util.tree_structure(0)
    exchanged = _exchanged(
        [
            _Place(path, leaf, [want], ct)
            for path, want, ct in zip(paths, wanted, given, strict=True)
        ]
    )
    if not exchanged:
        return None
    remedy = ", and ".join(f"to `{to.path}` {_moved(by)}" for to, by in exchanged)
    return _finding(rules, _of_leaves(inputs, given), exchanged, f"give {remedy}")


def _moved(by: _Place) -> str:
    return f"what is given to `{by.path}`"


def _exchanged(places: Sequence[_Place]) -> list[tuple[_Place, _Place]]:
    """The places that are given what others want, each with the one that has its own.

    Empty, unless all that is wrong is mended so.
    """
    wrong = [place for place in places if not place.takes(place.given)]
    left, found = list(wrong), list[tuple[_Place, _Place]]()
    for place in wrong:
        by = next((other for other in left if place.takes(other.given)), None)
        if by is None or by.given is None:
            return []
        left = [other for other in left if other is not by]
        found.append((place, by))
    return found


def _finding(
    rules: FunctionRules,
    code: str,
    exchanged: Sequence[tuple[_Place, _Place]],
    remedy: str,
) -> Finding:
    whose = ", and ".join(
        f"what has the type of `{to.path}` for `{by.path}`" for to, by in exchanged
    )
    return rules.finding(
        code,
        "bwd",
        f"gives cotangents in another order than the arguments: {whose}. Are the "
        "cotangents swapped?",
        path=exchanged[0][0].path,
        expected="; ".join(f"{p.path}: {_types(p.wanted)}" for p, _ in exchanged),
        got="; ".join(f"{p.path}: {_types(_shown(p.given))}" for p, _ in exchanged),
        remedies=(remedy,),
    )


def _shown(given: Any) -> list[Any]:
    return [shown_type(leaf) for leaf in tree_util.tree_leaves(given, is_leaf=is_none)]


def _types(types: Sequence[Any]) -> str:
    words = [str(t) if isinstance(t, str | None) else describe(t) for t in types]
    return words[0] if len(words) == 1 else f"({', '.join(words)})"


def _code(inputs: Inputs, cotangents: Any) -> str:
    """The code of the first fault that the order makes."""
    leaves, treedef = tree_util.tree_flatten(cotangents, is_leaf=is_none)
    return "SH415" if treedef != inputs.treedef else _of_leaves(inputs, leaves)


def _of_leaves(inputs: Inputs, leaves: Sequence[Any]) -> str:
    shapes = (
        (getattr(shown_type(ct), "shape", None), getattr(want, "shape", None))
        for ct, want in zip(leaves, map(cotangent_type, inputs.avals), strict=True)
        if ct is not None and not has_no_tangent(want) and not _is_of(ct, want)
    )
    return "SH416" if any(got != want for got, want in shapes) else "SH417"


def is_output_second(first: Any, second: Any, primal: Any) -> bool:
    """Whether fwd seems to return the residuals first, and then the output.

    `first` and `second` are the types of what it returns. A residual may well have the
    type of the output: where the first has it but for dtypes, it is the output.
    """
    if second != primal or first is None:
        return second == primal
    shapes = [[getattr(a, "shape", None) for a in t.avals] for t in (first, primal)]
    return first.treedef != primal.treedef or shapes[0] != shapes[1]
