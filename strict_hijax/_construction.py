"""Checks on an instance: `in_avals`, `out_aval`, `params`, `effects`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
from jax import tree_util

from . import _jax
from ._definition import ClassFacts
from ._definition.signatures import a
from ._definition.values import eq_without_hash, wrong_effects
from ._errors import Finding, Location, location_of
from ._rules import RULES
from ._signatures import (
    Arity,
    arity_of,
    certain_returns,
    names_used,
    only_raises,
)
from ._static_values import tracer_in
from ._types import (
    describe,
    describe_value,
    type_of,
)

_DECLARED = ("in_avals", "out_aval", "params")
_SET_BY_JAX = ("in_tree", "out_tree", "in_avals_flat", "out_avals_flat")
_ALLOWED = frozenset({"effects", "skip_linearization_on_zero_tangents"})
HIDING = frozenset(
    name
    for name in (*dir(_jax.HiPrim), *_DECLARED, *_SET_BY_JAX)
    if not name.startswith("__") and name not in _ALLOWED
)
"""Names that a parameter must not have: JAX copies parameters onto the instance."""


def is_well_formed(prim: Any) -> bool:
    """Whether a constructed instance is beyond doubt; the quick answer."""
    params = prim.params
    try:
        hash(tuple(params.values()))
    except Exception:  # a value may refuse in any way it likes
        return False
    for key, value in params.items():
        if type(key) is not str:
            return False
        if tracer_in(value) is not None:
            return False
    return (
        type(prim.in_avals) is tuple
        and all(isinstance(aval, _jax.AbstractValue) for aval in prim.in_avals_flat)
        and all(isinstance(aval, _jax.AbstractValue) for aval in prim.out_avals_flat)
        and HIDING.isdisjoint(params)
    )


def early_init_finding(facts: ClassFacts, missing: str) -> Finding:
    """`super().__init__()` ran before an attribute was set."""
    place = _own_init(facts)
    init = inspect.getattr_static(facts.cls, "__init__")
    sets = missing in names_used(init) or "__dict__" in names_used(init)
    what = f"calls `super().__init__()` before it sets `self.{missing}`."
    value = "..."
    if not sets:
        value = "{}" if missing == "params" else value
        what = f"never sets `self.{missing}` in its `__init__`."
    return facts.finding(
        "SH202",
        what if place is not None else f"has no `__init__` that sets `self.{missing}`.",
        path=missing,
        location=place or facts.location,
        jax_says=f"subclass __init__ should set `self.{missing}`",
        remedies=(f"self.{missing} = {value}   # above super().__init__()",),
    )


def no_init_finding(facts: ClassFacts) -> Finding:
    """`super().__init__()` never ran."""
    generated = hasattr(facts.cls, "__dataclass_fields__")
    return facts.finding(
        "SH201",
        "does not call `super().__init__()` when it is initialised.",
        location=_own_init(facts) or facts.location,
        expected="in_avals, out_aval and params are set, then super().__init__()",
        remedies=("def __post_init__(self): super().__init__()",)
        if generated
        else ("super().__init__()   # the last line of __init__",),
    )


def _own_init(facts: ClassFacts) -> Location | None:
    """Where the `__init__` of a class is written, if it has one of its own."""
    init = inspect.getattr_static(facts.cls, "__init__")
    if init.__module__ == f"{__package__}._primitive":
        return None
    place = location_of(init, "def __init__")
    return place if place is not None and place.filename != "<string>" else None


def construction_findings(facts: ClassFacts, prim: Any) -> list[Finding]:
    """What is wrong with the attributes of an instance."""
    return [
        *_in_avals_is_tuple(facts, prim),
        *_leaves_are_types(facts, prim),
        *_params(facts, prim),
    ]


def _in_avals_is_tuple(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    in_avals = prim.in_avals
    if type(in_avals) is not tuple:  # JAX takes a namedtuple for another structure
        yield facts.finding(
            "SH203",
            "has `in_avals` that are no tuple.",
            path="in_avals",
            expected="a tuple with the type of each input: (jax.typeof(x),)",
            got=_in_words(in_avals),
            remedies=(
                "self.in_avals = tuple(in_avals)"
                if isinstance(in_avals, list | tuple)
                else "self.in_avals = (x_aval,)   # with a comma, for a lone input",
            ),
        )


def _in_words(value: Any) -> str:
    is_type = isinstance(value, _jax.AbstractValue)
    return f"the type {describe(value)}" if is_type else describe_value(value)


def _leaves_are_types(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    told: set[int] = set()  # one array in both places is one fault
    for attribute in ("in_avals", "out_aval"):
        tree = getattr(prim, attribute)
        for keypath, leaf in tree_util.tree_leaves_with_path(tree):
            if isinstance(leaf, _jax.AbstractValue) or id(leaf) in told:
                continue
            if isinstance(leaf, jax.Array):
                told.add(id(leaf))
            path = attribute + _jax.keystr(keypath)
            is_spec = isinstance(leaf, jax.ShapeDtypeStruct)
            has_type = type_of(leaf) is not None
            kind = "a spec" if is_spec else "a value" if has_type else "something else"
            declared = (
                "(jax.typeof(x),)" if attribute == "in_avals" else "jax.typeof(x)"
            )
            shaped = "jax.experimental.hijax.ShapedArray(x.shape, x.dtype)"
            yield facts.finding(
                "SH204",
                f"has {kind} in place of a type at `{path}`.",
                path=path,
                expected="a JAX type, such as jax.typeof(x) gives",
                got=f"ShapeDtypeStruct {leaf.dtype}{list(leaf.shape)}"
                if is_spec
                else f"an array of {describe(leaf.aval)}"
                if isinstance(leaf, jax.Array)
                else describe_value(leaf),
                remedies=(
                    f"self.{attribute} = {declared}",
                    f"{shaped}   # from a shape and dtype",
                ),
            )


def _params(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    params: Any = prim.params
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
                remedies=(f"self.params = {{'{_as_name(key)}': ...}}",),
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
        yield from _hashable(facts, prim, key, value)


def _hashable(
    facts: ClassFacts, prim: Any, key: object, value: Any
) -> Iterator[Finding]:
    path = f"params[{key!r}]"
    tracer = tracer_in(value)
    if tracer is not None:
        yield facts.finding(
            "SH207",
            f"has a tracer among its parameters, at `{path}`: a traced value is an "
            "input, and as a parameter it gets no gradient and outlives its trace.",
            path=path,
            expected="a static value",
            got=f"a tracer of type {describe_value(tracer)}",
            remedies=_as_input(facts, prim, key),
        )
        return
    try:
        hash(value)
    except Exception:  # a value may refuse in any way it likes
        yield facts.finding(
            "SH206",
            f"has a parameter that cannot be hashed, at `{path}`.",
            path=path,
            expected="a static value that can be hashed: a number, string, tuple, "
            "frozenset, function or frozen dataclass",
            got=describe_value(value),
            remedies=_hashable_instead(facts, prim, key, value),
        )


def _hashable_instead(
    facts: ClassFacts, prim: Any, key: object, value: Any
) -> tuple[str, ...]:
    if isinstance(value, list):
        return (f"self.params = dict({key}=tuple({key}))",)
    if isinstance(value, dict):
        return (f"self.params = dict({key}=tuple(sorted({key}.items())))",)
    if isinstance(value, set):
        return (f"self.params = dict({key}=frozenset({key}))",)
    if hasattr(value, "dtype"):
        return _as_input(facts, prim, key)
    kind = type(value)
    if kind.__module__ == "builtins":
        return (f"self.params = dict({key}=...)   # hashable in all its parts",)
    return (f"@dataclasses.dataclass(frozen=True)   # above class {kind.__name__}",)


def _as_input(facts: ClassFacts, prim: Any, key: object) -> tuple[str, ...]:
    """How a parameter becomes an input."""
    names = (*input_names(facts, len(prim.in_avals), "x{}"), str(key))
    types = ", ".join(f"jax.typeof({name})" for name in names)
    return (
        f"self.in_avals = ({types})   # an input, and no parameter",
        f"{RULES['expand'].template(names)}   # and so in the other rules",
    )


def _as_name(key: object) -> str:
    text = "".join(c if c.isalnum() else "_" for c in str(key))
    return text if text.isidentifier() else f"name_{text}"


def shape_findings(facts: ClassFacts, prim: Any) -> list[Finding]:
    """What an instance's declared types say about the rules of its class."""
    return [
        *_inputs_against_rules(facts, prim),
        *_returns_nothing(facts, prim),
        *eq_without_hash(facts),  # again, since a decorator may have added `__eq__`
    ]


def _inputs_against_rules(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    n = len(prim.in_avals)
    for name, value in facts.rules.items():
        rule, arity = RULES[name], arity_of(value)
        if not rule.per_input or arity is None or only_raises(value):
            continue
        extra = (0, 1) if facts.may_get_structured(name) else (0,)
        leading = len(rule.leading)
        if any(arity.takes(leading + n + e) for e in extra):
            continue
        inputs = input_names(facts, n, "x{}")
        yield facts.finding(
            "SH209",
            f"declares {n or 'no'} input{'' if n == 1 else 's'} in `in_avals`, but its "
            f"`{name}` takes {_inputs_taken(arity, leading)}."
            + " Does it lack `self`?"
            * arity.lacks_self,
            rule=name,
            expected=rule.template(inputs).removeprefix("def ").removesuffix(": ..."),
            got=f"{name}{arity.written}",
            remedies=(
                rule.template(inputs),
                "self.in_avals = ((a_aval, b_aval),)   # one input, of several arrays",
            )[: max(1, min(n, 2))],
        )


def _inputs_taken(arity: Arity, leading: int) -> str:
    least = max(arity.least - leading, 0)
    if arity.most is None:
        return f"at least {least}"
    most = arity.most - leading
    return str(most) if least == most else f"{least} to {most}"


def _returns_nothing(facts: ClassFacts, prim: Any) -> Iterator[Finding]:
    if not prim.out_avals_flat:
        return
    for name in ("expand", "linearized"):
        returns = certain_returns(facts.rules.get(name))
        if returns and returns <= {"None"}:
            yield facts.finding(
                "SH115",
                f"has {a(name)} `{name}` that returns nothing, though it declares an "
                "output.",
                rule=name,
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


def instance_advice(facts: ClassFacts, prim: Any) -> list[Finding]:
    """Attributes of an instance that its equality and hash ignore."""
    cls: Any = type(prim)
    own_equality = cls.__eq__ is not _jax.HiPrim.__eq__
    held = [] if own_equality else vars(prim).items()
    told = (*prim.in_avals_flat, *prim.out_avals_flat, *prim.params.values())
    return [
        _ignored_by_equality(facts, name, value)
        for name, value in held
        if not name.startswith("_")
        and name not in prim.params
        and name not in HIDING | _ALLOWED
        and not _holds_only(value, told)
    ]


def _holds_only(value: Any, told: Sequence[Any]) -> bool:
    """Whether a value is, in all its leaves, what an instance declares anyway."""
    if any(value is each for each in told):
        return True
    try:
        leaves = tree_util.tree_leaves(value)
    except Exception:  # a dict whose keys cannot be sorted
        return False
    return all(any(leaf is each for each in told) for leaf in leaves)


def _ignored_by_equality(facts: ClassFacts, name: str, value: Any) -> Finding:
    return facts.finding(
        "SH904",
        f"sets `self.{name}`, which is not in `params`: equality and hash ignore it, "
        "so a cache takes two instances that differ in it for the same.",
        path=name,
        location=_own_init(facts) or facts.location,
        expected="all that tells one instance from another in `params`",
        got=f"self.{name}: {describe_value(value)}",
        remedies=(f"self.params = dict({name}={name})   # JAX sets self.{name} of it",),
    )


def input_names(facts: ClassFacts, n: int, other: str = "args[{}]") -> tuple[str, ...]:
    """Names of the inputs, where the rules show as many; else `other` with numbers."""
    names = facts.inputs
    return names if len(names) == n else tuple(other.format(i) for i in range(n))
