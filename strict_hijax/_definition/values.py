"""What stands in a class body: values that cannot be called, and wrong returns."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from strict_hijax import _jax
from strict_hijax._errors import Finding, location_of
from strict_hijax._rules import RETURNING_RULES, RULES, derivation_pair, derived_half
from strict_hijax._signatures import (
    NoFunction,
    arity_of,
    calls_itself_on_its_inputs,
    certain_returns,
    is_abstract,
    is_property_with_arguments,
    no_function,
)
from strict_hijax._types import describe_value

from .facts import ClassFacts
from .signatures import a


def uncallable(facts: ClassFacts) -> Iterator[Finding]:
    for name, value in facts.rules.items():
        line, got = RULES[name].template(facts.inputs), describe_value(value)
        wrong = no_function(value, line, got)
        if is_property_with_arguments(value):
            what = "is a property with arguments: reading it fails, before any call."
            wrong = NoFunction(what, got, f"{line}   # no @property")
        if wrong is None or derivation_pair(value) is not None:
            continue
        yield facts.finding(
            "SH114",
            f"has {a(name)} `{name}` that {wrong.what}",
            rule=name,
            expected="a function",
            got=wrong.got,
            remedies=(wrong.remedy,),
        )
    if "vjp_fwd" in facts.rules and vars(facts.cls).get("vjp_bwd", True) is None:
        yield facts.finding(
            "SH114",
            "sets `vjp_bwd` to None, which JAX then calls.",
            rule="vjp_bwd",
            expected="a function, or no `vjp_bwd` at all",
            got="None",
            remedies=(
                "vjp_bwd = HiPrim.vjp_bwd   # JAX's own, which calls the others",
            ),
        )


def wrong_returns(facts: ClassFacts) -> Iterator[Finding]:
    for name, value in facts.rules.items():
        returns = certain_returns(value)
        if not returns or is_abstract(value) or derived_half(value):
            continue
        rule = RULES[name]
        forgot = name in RETURNING_RULES and returns <= {"None"}
        if forgot and not facts.abstract:
            yield facts.finding(
                "SH115",
                f"has a `{name}` that returns nothing.",
                rule=name,
                expected=rule.returns,
                got="None: no `return` of it gives a value",
                remedies=(_return_line(name, facts.inputs),),
            )
        elif rule.accumulates and "None" not in returns:
            yield facts.finding(
                "SH116",
                f"has a `{name}` that returns {' or '.join(sorted(returns))}; it must "
                "give its cotangents to the accumulators.",
                rule=name,
                expected=rule.returns,
                got=" or ".join(sorted(returns)),
                jax_says=f"{facts.cls.__name__}.{name} should return None or a dict of "
                "backward-pass log entries",
                remedies=tuple(_accumulate_instead(facts, name)),
            )


def endless_expand(facts: ClassFacts) -> Iterator[Finding]:
    """An `expand` that calls the primitive, which calls `expand`."""
    value = facts.rules.get("expand")
    if "__call__" in facts.other_names or not calls_itself_on_its_inputs(value):
        return
    listed = ", ".join(facts.inputs)
    yield facts.finding(
        "SH123",
        f"has an `expand` that calls `self({listed})`, and that calls `expand` again: "
        "it never ends.",
        rule="expand",
        expected="the output, computed with other operations",
        got=f"self({listed})",
        jax_says="maximum recursion depth exceeded",
        remedies=(f"return jnp.sin({facts.inputs[0]})   # whatever it computes",),
    )


def _return_line(name: str, inputs: tuple[str, ...]) -> str:
    listed = ", ".join(inputs)
    residuals = listed if len(inputs) == 1 else f"({listed})"
    cotangents = _tuple([f"{name}_ct" for name in inputs])
    return {
        "vjp_fwd": f"return self({listed}), {residuals}   # (output, residuals)",
        "lin": f"return self({listed}), {residuals}   # (output, residuals)",
        "jvp": "return out, out_tangents",
        "vjp_bwd_retval": f"return {cotangents}   # a tuple: one for each input",
        "vjp_bwd_retval_logs": f"return {cotangents}, None   # (cotangents, logs)",
    }[name]


def _accumulate_instead(facts: ClassFacts, name: str) -> Iterator[str]:
    """Lines in the names of the user's own rule."""
    arity, n = arity_of(facts.rules[name]), len(facts.inputs)
    leading = RULES[name].leading
    given = arity.names if arity is not None and arity.most is not None else ()
    accumulators = given[len(leading) :]
    if len(accumulators) != n:
        accumulators, given = tuple(f"{x}_acc" for x in facts.inputs), leading
    pairs = zip(accumulators, facts.inputs, strict=True)
    lines = "; ".join(f"{acc}.accum({x}_ct)" for acc, x in pairs)
    yield f"{lines or 'pass'}   # in place of return"
    if name == "vjp_bwd":
        parameters = ", ".join(("self", *given[: len(leading)]))
        returned = _tuple([f"{x}_ct" for x in facts.inputs])
        yield f"def vjp_bwd_retval({parameters}): return {returned}   # or this"


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def effects(facts: ClassFacts) -> Iterator[Finding]:
    value = inspect.getattr_static(facts.cls, "effects")
    if hasattr(type(value), "__get__"):
        return  # decided for each instance
    wrong = wrong_effects(value)
    if wrong is not None:
        yield facts.finding(
            "SH118",
            f"has `effects` that are {wrong}.",
            expected="a set of effects: instances of subclasses of `Effect`",
            got=repr(value)[:80],
            remedies=(
                "effects = frozenset({MyEffect()})   # an instance",
                "effects = frozenset()   # none",
            ),
        )


def wrong_effects(value: object) -> str | None:
    """What is wrong with a value for `effects`, or None.

    Whatever is empty is no fault: `()` and `{}` serve JAX as well.
    """
    if isinstance(value, tuple | dict | list) and not value:
        return None
    if not isinstance(value, AbstractSet):
        return f"no set, but {describe_value(value)}"
    for effect in value:
        if isinstance(effect, type):
            return f"a set with the class {effect.__name__}, not an instance of it"
        if not isinstance(effect, _jax.Effect):
            return f"a set with {describe_value(effect)}, which is no effect"
    return None


def eq_without_hash(facts: ClassFacts) -> Iterator[Finding]:
    if facts.cls.__hash__ is None:
        yield facts.finding(
            "SH119",
            "defines `__eq__` without `__hash__`, so that it cannot be hashed; "
            "`jax.jit` of an instance, and any cache, needs it.",
            location=location_of(facts.cls.__eq__, "def __eq__") or facts.location,
            remedies=(
                "__hash__ = StrictHiPrim.__hash__   # of its class name and params",
                "def __hash__(self): return hash(...)   # of what __eq__ compares",
            ),
        )
