"""Types declared for a function: by `example_args`, or by `dims` and annotations."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding
from strict_hijax._raised import in_short, raised_at
from strict_hijax._types import describe_value, type_of

from .annotations import Uncovered, missing_axes, spec_of
from .rules import FunctionRules, Inputs

type Source = Literal["example_args", "dims", "check"]
"""Where types were given; "check" stands for the arguments of `check` itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredTypes:
    """What a user said about the inputs of a function; nothing, if both are None.

    Attributes:
      example_args: one value, array or spec for each positional argument.
      dims: sizes of the axes that the annotations name.
      axes: axis names, with sizes, to have in scope.
    """

    example_args: tuple[Any, ...] | None = None
    dims: Mapping[str, Any] | None = None
    axes: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])

    @classmethod
    def parse(cls, fun: Any, example_args: Any, dims: Any, axes: Any) -> DeclaredTypes:
        """Read what a user gave; the form alone is looked at."""
        rules = FunctionRules(fun)
        if example_args is not None and dims is not None:
            raise _both(rules).error()
        if example_args is not None and type(example_args) not in (tuple, list):
            raise _no_tuple(rules, example_args).error()
        for name, sizes in (("dims", dims), ("axes", axes)):
            if sizes is not None and not _is_sizes(sizes):
                raise _no_sizes(rules, name, sizes).error()
        args = None if example_args is None else tuple(example_args)
        return cls(args, dims, dict(axes or {}))

    @property
    def source(self) -> Source:
        """How the user gave them."""
        return "example_args" if self.dims is None else "dims"

    def inputs(self, rules: FunctionRules) -> Inputs | None:
        """The declared inputs, or None if there are none."""
        if self.example_args is not None:
            return given_inputs(rules, self.example_args, {}, "example_args")
        if self.dims is not None:
            return _from_annotations(rules, self.dims)
        return None


def _is_sizes(sizes: Any) -> bool:
    return isinstance(sizes, Mapping) and all(
        isinstance(name, str) and _is_size(size) for name, size in sizes.items()
    )


def _is_size(size: Any) -> bool:
    if isinstance(size, tuple):
        return all(map(_is_size, size))
    return isinstance(size, int) and not isinstance(size, bool) and size >= 0


def given_inputs(
    rules: FunctionRules,
    example_args: tuple[Any, ...],
    keywords: Mapping[str, Any],
    source: Source,
) -> Inputs:
    """The inputs of a call with these arguments: arrays, specs and static values."""
    try:
        args = _jax.resolve_kwargs(rules.fun, example_args, keywords)
    except TypeError as error:
        given = len(example_args) + len(keywords)
        raise _wrong_count(rules, given, error, source).error() from None
    dynamic = tuple(a for i, a in enumerate(args) if i not in rules.nondiff_argnums)
    leaves, treedef = tree_util.tree_flatten(dynamic)
    avals = tuple(map(_spec_type, leaves))
    if None in avals:
        raise _no_array(rules, args, leaves[avals.index(None)], source).error()
    statics = tuple((i, args[i]) for i in rules.nondiff_argnums if i < len(args))
    return Inputs(treedef, avals, statics)


def _spec_type(leaf: Any) -> Any | None:
    return leaf if isinstance(leaf, _jax.AbstractValue) else type_of(leaf)


def _from_annotations(rules: FunctionRules, dims: Mapping[str, Any]) -> Inputs:
    try:
        annotations = inspect.get_annotations(inspect.unwrap(rules.fun), eval_str=True)
    except Exception as error:  # anything may stand in one
        reason = f"has an annotation that cannot be read here: {in_short(error)}"
        remedy = "define or import the name above the function, not below it"
        raise _uncovered(rules, rules.name, reason, dims, remedy).error() from None
    args: list[Any] = []
    for index, parameter in enumerate(_positional(rules)):
        static = index in rules.nondiff_argnums
        if parameter.default is not parameter.empty and (
            static or parameter.name not in annotations
        ):
            args.append(parameter.default)
            continue
        if static:
            reason = "is static, and has no default"
            raise _uncovered(rules, parameter.name, reason, dims).error()
        try:
            args.append(spec_of(annotations.get(parameter.name, None), dims))
        except Uncovered as uncovered:
            name, reason = parameter.name, str(uncovered)
            named = [annotations.get(p.name) for p in _positional(rules)[index:]]
            absent = dict(missing_axes(named, dims) if uncovered.missing else ())
            remedy = f"dims={_with_absent(dims, absent)}   # a size for each name"
            remedies = (remedy,) if absent else ()
            raise _uncovered(rules, name, reason, dims, *remedies).error() from None
    return given_inputs(rules, tuple(args), {}, "dims")


def _positional(rules: FunctionRules) -> Sequence[inspect.Parameter]:
    try:
        parameters = inspect.signature(rules.fun).parameters.values()
    except (TypeError, ValueError):
        return ()
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return [parameter for parameter in parameters if parameter.kind in kinds]


# --- findings -------------------------------------------------------------------------


def _both(rules: FunctionRules) -> Finding:
    return rules.finding(
        "SH427",
        None,
        "is given both `example_args` and `dims`.",
        path="dims",
        expected="one of the two",
        got="both",
        remedies=("example_args=(...,)", "dims={...}   # with jaxtyping annotations"),
    )


def _no_tuple(rules: FunctionRules, example_args: Any) -> Finding:
    return rules.finding(
        "SH425",
        None,
        f"is given {describe_value(example_args)} as its `example_args`.",
        path="example_args",
        expected="a tuple with one entry for each positional argument",
        got=describe_value(example_args),
        remedies=("example_args=(x,)   # a tuple, even if it is one",),
    )


def _no_sizes(rules: FunctionRules, name: str, sizes: Any) -> Finding:
    code = "SH426" if name == "dims" else "SH427"
    return rules.finding(
        code,
        None,
        f"is given `{name}` that are no mapping from names to sizes.",
        path=name,
        expected="a dict from strings to integers",
        got=repr(sizes)[:60],
        remedies=(f'{name}={{"b": 8}}',),
    )


def unfit_types(
    rules: FunctionRules, source: Source, got: str, error: Exception
) -> Finding:
    """The function itself raises when it is called with the types that were given."""
    place = raised_at(error)
    return rules.finding(
        "SH426" if source == "dims" else "SH425",
        "primal",
        f"cannot be called with {_WHAT[source]}: {in_short(error)}",
        path=_PATH[source],
        expected="arguments that the function takes",
        got=got,
        facts=() if place is None else (place,),
        remedies=(_call_with(rules, source),),
    )


_PATH: dict[Source, str] = {
    "example_args": "example_args",
    "dims": "dims",
    "check": "args",
}
_WHAT: dict[Source, str] = {
    "example_args": "its `example_args`",
    "dims": "its `dims`",
    "check": "the arguments of `check`",
}


def _call_with(rules: FunctionRules, source: Source) -> str:
    """What to write where the types were given, in the function's own names."""
    if source == "dims":
        return f"dims={{...}}   # sizes that `{rules.name}` takes together"
    names = rules.argument_names(len(_positional(rules)))
    if source == "check":
        call = f"check({', '.join((rules.called, *names))})"
    else:
        call = f"example_args=({', '.join(names)}{',' * (len(names) == 1)})"
    return f"{call}   # arrays, specs, and static values"


def _wrong_count(
    rules: FunctionRules, given: int, error: TypeError, source: Source
) -> Finding:
    names = ", ".join(rules.argument_names(len(_positional(rules))))
    who = "`check` gives it" if source == "check" else "its `example_args` have"
    return rules.finding(
        "SH425",
        None,
        f"takes ({names}); {who} {given}: {error}.",
        path=_PATH[source],
        location=rules.location("primal"),
        expected=f"one for each of {names}",
        got=f"{given}",
        remedies=(_call_with(rules, source),),
    )


def _no_array(
    rules: FunctionRules, args: Sequence[Any], leaf: Any, source: Source
) -> Finding:
    index = next(
        i
        for i, arg in enumerate(args)
        if any(leaf is other for other in tree_util.tree_leaves(arg))
    )
    name = rules.argument_names(len(args))[index]
    return rules.finding(
        "SH425",
        None,
        f"cannot be checked with {_WHAT[source]}: {describe_value(leaf)}, given for "
        f"`{name}`, is no array and no spec.",
        path=name,
        location=rules.location("primal"),
        expected="an array, a jax.ShapeDtypeStruct, or a pytree of these",
        got=describe_value(leaf),
        remedies=(
            f"jax.ShapeDtypeStruct(shape, dtype)   # for `{name}`",
            f"nondiff_argnums=({index},)   # if `{name}` is static",
        ),
    )


def _uncovered(
    rules: FunctionRules,
    name: str,
    reason: str,
    dims: Mapping[str, Any],
    remedy: str | None = None,
) -> Finding:
    remedy = remedy or f'{name}: Float[Array, "..."]   # with names that `dims` has'
    return rules.finding(
        "SH426",
        None,
        f"cannot be checked from its annotations: `{name}` {reason}.",
        path=name,
        location=rules.location("primal"),
        expected='jaxtyping annotations, such as Float[Array, "b d"], and a size in '
        "`dims` for each name",
        got=f"dims={dict(dims)!r}",
        remedies=(remedy, "example_args=(...,)   # in place of dims"),
    )


def _with_absent(dims: Mapping[str, Any], absent: Mapping[str, Any]) -> str:
    """The dict that the user gave, with a gap for each name that it lacks."""
    entries = [f"{name!r}: {size!r}" for name, size in dims.items()]
    for name, size in absent.items():
        entries.append(f"{name!r}: {'(...,)' if isinstance(size, tuple) else '...'}")
    return f"{{{', '.join(entries)}}}"
