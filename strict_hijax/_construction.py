"""Checks on an instance and on a call: `in_avals`, `out_aval`, `params`, arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jax import tree_util

from . import _jax
from ._definition import ClassFacts
from ._definition.values import wrong_effects
from ._errors import Finding
from ._rules import RULES
from ._signatures import arity_of, certain_returns, only_raises
from ._types import (
    describe_pair,
    describe_value,
    paths_of,
    same_type,
    structure_mismatch,
    type_of,
    types_are,
)

_RESERVED = frozenset(name for name in dir(_jax.HiPrim) if not name.startswith("__"))
_RESERVED |= {"in_avals", "out_aval", "params", "in_tree", "out_tree"}
_RESERVED |= {"in_avals_flat", "out_avals_flat"}
_ALLOWED = frozenset({"effects", "skip_linearization_on_zero_tangents"})
HIDING = _RESERVED - _ALLOWED
"""Names that a parameter must not have: JAX copies parameters onto the instance."""


def is_well_formed(prim: Any) -> bool:
    """Whether a constructed instance is beyond doubt; the quick answer."""
    params = prim.params
    try:
        hash(tuple(params.values()))
    except (TypeError, AttributeError, NotImplementedError):
        return False
    return (
        type(prim.in_avals) is tuple
        and all(isinstance(aval, _jax.AbstractValue) for aval in prim.in_avals_flat)
        and all(isinstance(aval, _jax.AbstractValue) for aval in prim.out_avals_flat)
        and HIDING.isdisjoint(params)
    )


def early_init_finding(facts: ClassFacts, missing: str) -> Finding:
    """`super().__init__()` ran before an attribute was set."""
    return facts.finding(
        "SH202",
        f"calls `super().__init__()` before it sets `self.{missing}`.",
        path=missing,
        jax_says=f"subclass __init__ should set `self.{missing}`",
        remedies=(
            f"set `self.{missing}` first, and call `super().__init__()` last in __init__",
        ),
    )


def no_init_finding(facts: ClassFacts) -> Finding:
    """`super().__init__()` never ran."""
    return facts.finding(
        "SH201",
        "does not call `super().__init__()` in its `__init__`.",
        remedies=("super().__init__()   # the last line of __init__",),
    )


def construction_findings(facts: ClassFacts, prim: Any) -> list[Finding]:
    """What is wrong with the attributes of an instance."""
    return [
        *_in_avals_is_tuple(facts, prim),
        *_leaves_are_types(facts, prim),
        *_params(facts, prim.params),
    ]


def _in_avals_is_tuple(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    in_avals = prim.in_avals
    if not isinstance(in_avals, tuple) or type(in_avals) is not tuple:
        yield facts.finding(
            "SH203",
            "has `in_avals` that are no tuple.",
            path="in_avals",
            expected="a tuple with the type of each input: (jax.typeof(x),)",
            got=describe_value(in_avals),
            remedies=("self.in_avals = (x_aval,)   # note the comma for a lone input",),
        )


def _leaves_are_types(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    for attribute in ("in_avals", "out_aval"):
        tree = getattr(prim, attribute)
        for keypath, leaf in tree_util.tree_leaves_with_path(tree):
            if isinstance(leaf, _jax.AbstractValue):
                continue
            path = attribute + _jax.keystr(keypath)
            is_array = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
            kind = "a spec" if type(leaf).__name__ == "ShapeDtypeStruct" else "a value"
            yield facts.finding(
                "SH204",
                f"has {kind if is_array else 'something else'} in place of a type at "
                f"`{path}`.",
                path=path,
                expected="a JAX type, such as jax.typeof(x) gives",
                got=f"{type(leaf).__name__} {describe_value(leaf)}",
                remedies=(
                    f"self.{attribute} = ... jax.typeof(x) ...   # or, from a shape:",
                    "jax.core.ShapedArray(shape, dtype)",
                ),
            )


def _params(facts: ClassFacts, params: Any) -> Iterator[Finding]:
    if not isinstance(params, Mapping):
        yield facts.finding(
            "SH205",
            "has `params` that are no mapping.",
            path="params",
            expected="a dict from names to static values that can be hashed",
            got=describe_value(params),
            remedies=("self.params = dict(n=n)", "self.params = {}   # for none"),
        )
        return
    for key, value in params.items():
        if not isinstance(key, str):
            yield facts.finding(
                "SH205",
                f"has a key in `params` that is no string: {key!r}.",
                path=f"params[{key!r}]",
                expected="names: JAX sets each parameter as an attribute",
                got=f"a key of type {type(key).__name__}",
                remedies=(f"self.params = dict(name_{key}=...)",),
            )
        elif key in HIDING:
            what = "rule" if key in RULES else "attribute"
            yield facts.finding(
                "SH208",
                f"has a parameter `{key}`, which hides the {what} `{key}` of HiPrim: "
                "JAX sets each parameter as an attribute of the instance.",
                path=f"params[{key!r}]",
                remedies=(f"self.params = dict({key}_=...)   # another name",),
            )
        yield from _hashable(facts, key, value)


def _hashable(facts: ClassFacts, key: object, value: Any) -> Iterator[Finding]:
    path = f"params[{key!r}]"
    leaves = tree_util.tree_leaves(value)
    if any(isinstance(leaf, _jax.Tracer) for leaf in leaves):
        yield facts.finding(
            "SH207",
            f"has a tracer among its parameters, at `{path}`: a traced value is an "
            "input, and as a parameter it gets no gradient and outlives its trace.",
            path=path,
            expected="a static value",
            got=f"a tracer of type {describe_value(leaves[0])}",
            remedies=(
                "pass it as an input: add its type to `in_avals` and to the rules",
            ),
        )
        return
    try:
        hash(value)
    except (TypeError, NotImplementedError):
        yield facts.finding(
            "SH206",
            f"has a parameter that cannot be hashed, at `{path}`.",
            path=path,
            expected="a static value that can be hashed: a number, string, tuple, "
            "frozenset, function or frozen dataclass",
            got=describe_value(value),
            remedies=_hashable_instead(key, value),
        )


def _hashable_instead(key: object, value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return (f"self.params = dict({key}=tuple({key}))",)
    if isinstance(value, dict):
        return (f"self.params = dict({key}=tuple(sorted({key}.items())))",)
    if isinstance(value, set):
        return (f"self.params = dict({key}=frozenset({key}))",)
    if hasattr(value, "dtype"):
        return ("pass the array as an input: add its type to `in_avals`",)
    return ("give its class a `__hash__`, or make it a frozen dataclass",)


def shape_findings(facts: ClassFacts, prim: Any) -> list[Finding]:
    """What an instance's declared types say about the rules of its class."""
    return [*_inputs_against_rules(facts, prim), *_returns_nothing(facts, prim)]


def _inputs_against_rules(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    n = len(prim.in_avals)
    for name, value in facts.rules.items():
        rule, arity = RULES[name], arity_of(value)
        if not rule.per_input or arity is None or only_raises(value):
            continue
        extra = (0, 1) if rule.structured_residuals else (0,)
        leading = len(rule.leading)
        if any(arity.takes(leading + n + e) for e in extra):
            continue
        inputs = (
            facts.inputs if len(facts.inputs) == n else tuple(f"x{i}" for i in range(n))
        )
        yield facts.finding(
            "SH209",
            f"declares {n} input{'' if n == 1 else 's'}, but its `{name}` takes "
            f"{arity} argument(s): {leading} and one for each input.",
            rule=name,
            location=facts.where(name),
            expected=rule.template(inputs),
            got=f"in_avals of {n}; {name}({', '.join(('self', *arity.names))})",
            remedies=(
                rule.template(inputs),
                "an input that is several arrays is one tree in `in_avals`: ((a, b),)",
            ),
        )


def _returns_nothing(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    if not prim.out_avals_flat:
        return
    for name in ("expand", "linearized"):
        if certain_returns(facts.rules.get(name)) == {"None"}:
            yield facts.finding(
                "SH115",
                f"has a `{name}` that returns nothing, though it declares an output.",
                rule=name,
                location=facts.where(name),
                expected=RULES[name].returns,
                got="None: no `return` of it gives a value",
                remedies=("return out",),
            )


def effects_finding(facts: ClassFacts, prim: Any) -> Finding | None:
    """What is wrong with the effects that an instance sets for itself."""
    wrong = wrong_effects(prim.effects)
    if wrong is None:
        return None
    return facts.finding(
        "SH118",
        f"has `effects` that are {wrong}.",
        path="effects",
        expected="a set of effects",
        got=repr(prim.effects)[:80],
        remedies=("self.effects = frozenset({MyEffect()})",),
    )


# --- a call ---------------------------------------------------------------------------


def call_fits(prim: Any, args: tuple[Any, ...]) -> bool:
    """Whether arguments have the declared structure and types; the quick answer."""
    leaves, treedef = _jax.tracing_registry.flatten(args)
    return treedef == prim.in_tree and types_are(leaves, prim.in_avals_flat)


def call_findings(facts: ClassFacts, prim: Any, args: tuple[Any, ...]) -> list[Finding]:
    """What is wrong with the arguments of a call."""
    n = len(prim.in_avals)
    names = _input_names(facts, n)
    if len(args) != n:
        return [
            facts.finding(
                "SH210",
                f"is called with {len(args)} argument{'' if len(args) == 1 else 's'}, "
                f"but declares {n}.",
                expected=f"({', '.join(names)})",
                got=f"({', '.join(map(describe_value, args))})",
                remedies=(f"{facts.cls.__name__}(...)({', '.join(names)})",),
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
                    "build `in_avals` from the arguments: "
                    "jax.tree.map(jax.typeof, args)",
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
            expected, got = describe_value(declared), describe_value(leaf)
        else:
            expected, got = describe_pair(declared, aval)
        yield facts.finding(
            "SH211",
            f"is called with `{path}` of another type than it declares in `in_avals`.",
            path=path,
            expected=expected,
            got=got,
            jax_says=f"input type mismatch for {facts.cls.__name__}",
            remedies=(
                f"construct it from the arguments: in_avals = (jax.typeof({names[0]}), ...)",
                f"convert the argument: {path}.astype(...)",
            ),
        )


def _input_names(facts: ClassFacts, n: int) -> tuple[str, ...]:
    names = facts.inputs
    return names if len(names) == n else tuple(f"args[{i}]" for i in range(n))


def _named(path: str, names: tuple[str, ...]) -> str:
    """A key path into the tuple of arguments, by the argument's name."""
    index, _, rest = path.removeprefix("[").partition("]")
    return names[int(index)] + rest if index.isdigit() else path
