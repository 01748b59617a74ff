"""Checks on a call: its arguments against what the instance declares."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

from . import _jax
from ._construction import input_names
from ._definition import ClassFacts
from ._errors import Finding, Location
from ._signatures import arity_of, function_of
from ._types import (
    describe,
    describe_pair,
    describe_value,
    paths_of,
    same_type,
    structure_mismatch,
    type_of,
    types_are,
)

_flatten = _jax.tracing_registry.flatten


def call_fits(prim: Any, args: tuple[Any, ...]) -> bool:
    """Whether arguments have the declared structure and types; the quick answer."""
    leaves, treedef = _flatten(args)
    return treedef == prim.in_tree and types_are(leaves, prim.in_avals_flat)


def call_findings(facts: ClassFacts, prim: Any, args: tuple[Any, ...]) -> list[Finding]:
    """What is wrong with the arguments of a call."""
    found = _findings(facts, prim, args)
    running = _running_rule(facts) if found else None
    if running is None:
        return found
    return [_in_rule(facts, finding, *running) for finding in found]


def _running_rule(facts: ClassFacts) -> tuple[str, Location] | None:
    """The rule of the class that makes the call, and its line."""
    functions = {name: function_of(rule) for name, rule in facts.rules.items()}
    rules = {f.__code__: name for name, f in functions.items() if f is not None}
    frame: types.FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name = rules.get(frame.f_code)
        if name is not None:
            place = Location(frame.f_code.co_filename, frame.f_lineno, f"in {name}")
            return name, place
        frame = frame.f_back
    return None


def _in_rule(
    facts: ClassFacts, finding: Finding, rule: str, place: Location
) -> Finding:
    headline = finding.headline.replace(
        "is called with", f"calls itself in `{rule}` with", 1
    )
    if rule != "batch" or finding.code != "SH211":
        return finding._replace(headline=headline, rule=rule, location=place)
    arity = arity_of(facts.rules[rule])
    _, args, dims = arity.names if arity and len(arity.names) == 3 else _BATCH
    build = f"return {facts.cls.__name__}(*map(jax.typeof, {args}))(*{args})"
    alike = "" if len(facts.inputs) == 1 else f"   # where all of {dims} are alike"
    return finding._replace(
        headline=headline,
        rule=rule,
        location=place,
        facts=("In `batch`, arguments have the mapped axis, and `self` has not.",),
        remedies=(f"{build}, {dims}[0]{alike}",),
    )


_BATCH = ("axis_data", "args", "dims")


def _findings(facts: ClassFacts, prim: Any, args: tuple[Any, ...]) -> list[Finding]:
    n = len(prim.in_avals)
    names = input_names(facts, n)
    if len(args) != n:
        return [
            facts.finding(
                "SH210",
                f"is called with {len(args)} argument{'' if len(args) == 1 else 's'}, "
                f"but declares {n}.",
                expected=f"({', '.join(names)})",
                got=f"({', '.join(map(describe_value, args))})",
                remedies=(
                    f"{facts.cls.__name__}(...)({', '.join(names)})",
                    f"{facts.cls.__name__}(...)(*args)   # for a tuple of arguments",
                )
                if len(args) == 1 and n > 1
                else (f"{facts.cls.__name__}(...)({', '.join(names)})",),
            )
        ]
    mismatch = structure_mismatch(prim.in_tree, args)
    if mismatch is not None:
        path = _named(mismatch.path, names)
        return [
            facts.finding(
                "SH210",
                f"is called with an argument of another structure than it declares, at "
                f"`{path}`.",
                path=path,
                expected=mismatch.expected,
                got=mismatch.got,
                remedies=(
                    f"self.in_avals = jax.tree.map(jax.typeof, ({_tuple(names)}))",
                ),
            )
        ]
    return list(_types_of_call(facts, prim, args, names))


def _types_of_call(
    facts: ClassFacts, prim: Any, args: tuple[Any, ...], names: tuple[str, ...]
) -> Iterator[Finding]:
    leaves = _jax.tracing_registry.flatten(args)[0]
    paths = paths_of(prim.in_tree, names)
    for leaf, declared, path in zip(leaves, prim.in_avals_flat, paths, strict=True):
        aval = type_of(leaf)
        if aval is not None and same_type(aval, declared):
            continue
        if aval is None:
            expected, got = describe(declared), describe_value(leaf)
        else:
            expected, got = describe_pair(declared, aval)
        yield facts.finding(
            "SH211",
            f"is called with `{path}` of another type than it declares in `in_avals`.",
            path=path,
            expected=expected,
            got=got,
            jax_says=f"input type mismatch for {facts.cls.__name__}",
            remedies=tuple(_types_instead(names, path, declared, aval)),
        )


def _types_instead(
    names: tuple[str, ...], path: str, declared: Any, aval: Any
) -> Iterator[str]:
    one_by_one = _tuple([f"jax.typeof({name})" for name in names])
    types = f"jax.tree.map(jax.typeof, ({_tuple(names)}))"
    if path in names:
        types = f"({one_by_one})"
    yield f"self.in_avals = {types}   # of the arguments of the call"
    shaped = isinstance(aval, _jax.ShapedArray) and isinstance(declared, type(aval))
    if shaped and aval.shape == declared.shape and aval.dtype != declared.dtype:
        yield f'jnp.asarray({path}, "{declared.dtype}")   # convert the argument'


def _tuple(items: Sequence[str]) -> str:
    return ", ".join(items) + ("," if len(items) == 1 else "")


def _named(path: str, names: tuple[str, ...]) -> str:
    """A key path into the tuple of arguments, by the argument's name."""
    index, _, rest = path.removeprefix("[").partition("]")
    return names[int(index)] + rest if index.isdigit() else path
