"""What stands in a class body: values that cannot be called, and wrong returns."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from strict_hijax import _jax
from strict_hijax._errors import Finding, location_of
from strict_hijax._rules import RETURNING_RULES, RULES, derivation_pair
from strict_hijax._signatures import (
    certain_returns,
    is_abstract,
    is_callable_rule,
    is_generator_or_coroutine,
)

from .facts import ClassFacts


def uncallable(facts: ClassFacts) -> Iterator[Finding]:
    for name, value in facts.rules.items():
        kind = is_generator_or_coroutine(value)
        if derivation_pair(value) is not None:
            continue
        if kind is not None:
            what = f"is {kind}: a call of it runs nothing and returns no result."
            remedies = (f"write `return` in place of `yield` in `{name}`",)
            if kind == "a coroutine":
                remedies = (f"def {name}(...) in place of async def {name}(...)",)
        elif not is_callable_rule(value):
            what = f"is {type(value).__name__!s}, which cannot be called."
            remedies = (RULES[name].template(facts.inputs),)
        else:
            continue
        yield facts.finding(
            "SH114",
            f"has a `{name}` that {what}",
            rule=name,
            location=facts.where(name),
            expected="a function",
            got=kind or repr(value)[:60],
            remedies=remedies,
        )
    if vars(facts.cls).get("vjp_bwd", True) is None:
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
        if not returns or is_abstract(value):
            continue
        rule = RULES[name]
        if name in RETURNING_RULES and returns == {"None"} and not facts.abstract:
            yield facts.finding(
                "SH115",
                f"has a `{name}` that returns nothing.",
                rule=name,
                location=facts.where(name),
                expected=rule.returns,
                got="None: no `return` of it gives a value",
                remedies=(_RETURN_LINES[name],),
            )
        elif rule.accumulates and "None" not in returns:
            yield facts.finding(
                "SH116",
                f"has a `{name}` that returns {' or '.join(sorted(returns))}; it must "
                "give its cotangents to the accumulators.",
                rule=name,
                location=facts.where(name),
                expected=rule.returns,
                got=" or ".join(sorted(returns)),
                jax_says=f"{facts.cls.__name__}.{name} should return None or a dict of "
                "backward-pass log entries",
                remedies=_accumulate_instead(name, facts.inputs),
            )


_RETURN_LINES = {
    "vjp_fwd": "return self(x), x        # (output, residuals)",
    "lin": "return self(x), x        # (output, residuals)",
    "jvp": "return out, out_tangents",
    "vjp_bwd_retval": "return (x_ct,)           # a tuple, one cotangent for each input",
    "vjp_bwd_retval_logs": "return (x_ct,), None     # (cotangents, logs)",
}


def _accumulate_instead(name: str, inputs: tuple[str, ...]) -> tuple[str, ...]:
    accumulate = "; ".join(f"{n}_acc.accum({n}_ct)" for n in inputs)
    if name == "vjp_bwd":
        returning = ", ".join(f"{n}_ct" for n in inputs) + (
            "," if len(inputs) == 1 else ""
        )
        return (
            f"{accumulate}   # in place of return",
            f"def vjp_bwd_retval(self, res, g): ... return ({returning})   # or rename",
        )
    return (f"{accumulate}   # in place of return",)


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
            remedies=("effects = frozenset({MyEffect()})", "effects = frozenset()"),
        )


def wrong_effects(value: object) -> str | None:
    """What is wrong with a value for `effects`, or None."""
    if not isinstance(value, set | frozenset) and not _is_set(value):
        return "no set"
    for effect in value:  # type: ignore[attr-defined]
        if isinstance(effect, type):
            return f"a set with the class {effect.__name__} in place of an instance"
        if not isinstance(effect, _jax.Effect):
            return f"a set with {effect!r:.40}, which is no effect"
    return None


def _is_set(value: object) -> bool:

    return isinstance(value, AbstractSet)


def eq_without_hash(facts: ClassFacts) -> Iterator[Finding]:
    body = vars(facts.cls)
    if "__eq__" in body and body.get("__hash__") is None:
        yield facts.finding(
            "SH119",
            "defines `__eq__` without `__hash__`, so that it cannot be hashed; "
            "`jax.jit` of an instance, and any cache, needs it.",
            location=location_of(body["__eq__"], "def __eq__") or facts.location,
            remedies=(
                "__hash__ = HiPrim.__hash__          # equal instances hash the same",
                "def __hash__(self): return hash((type(self), ...))",
            ),
        )
