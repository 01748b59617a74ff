"""Whether rules can take what JAX gives them, and agree on the number of inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from strict_hijax._errors import Finding
from strict_hijax._rules import RULES, Rule, derived_half
from strict_hijax._signatures import Arity, arity_of, only_raises

from .facts import ClassFacts

type _Counts = tuple[int, float]
"""The least and the greatest number of inputs for which a rule's signature binds."""


def arguments(facts: ClassFacts) -> Iterator[Finding]:
    seen: dict[str, _Counts] = {}
    told = False  # of rules that disagree: if one is wrong, all others differ from it
    for name, value in facts.rules.items():
        arity, rule = arity_of(value), RULES[name]
        if arity is None or derived_half(value) or only_raises(value):
            continue
        problem = arity.problem(rule.leading, or_more=bool(rule.per_input))
        counts = _counts(rule, arity, facts.may_get_structured(name))
        other = next((n for n in seen if _are_apart(seen[n], counts)), None)
        if problem is not None:
            yield _cannot_take(facts, name, arity, problem)
        elif rule.per_input and other is not None:
            if not told:
                yield _disagreement(facts, name, arity, other, seen)
            told = True
        elif rule.per_input:
            seen[name] = counts


def _counts(rule: Rule, arity: Arity, structured: bool) -> _Counts:
    leading = len(rule.leading)
    most = math.inf if arity.most is None else arity.most - leading
    return max(0, arity.least - leading - structured), most


def _are_apart(one: _Counts, other: _Counts) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def _written_for(facts: ClassFacts, name: str) -> int:
    """The number of inputs that a rule's signature shows, in words to the user."""
    arity = arity_of(facts.rules[name])
    assert arity is not None
    return max(0, arity.least - len(RULES[name].leading))


def _cannot_take(facts: ClassFacts, name: str, arity: Arity, what: str) -> Finding:
    rule = RULES[name]
    return facts.finding(
        "SH110",
        f"has {a(name)} `{name}` that {what}",
        rule=name,
        location=facts.where(name),
        expected=_call(rule, facts.inputs),
        got=f"{name}{arity.written}",
        remedies=(rule.template(facts.inputs),),
    )


def a(name: str) -> str:
    """The article before the name of a rule: `an expand`, `a jvp`."""
    return "an" if name[0] in "aeio" else "a"


def _call(rule: Rule, inputs: tuple[str, ...]) -> str:
    return rule.template(inputs).removeprefix("def ").removesuffix(": ...")


def _disagreement(
    facts: ClassFacts,
    name: str,
    arity: Arity,
    other: str,
    seen: dict[str, _Counts],
) -> Finding:
    rule, taken, n = RULES[name], len(RULES[name].leading), _written_for(facts, other)
    if taken and arity.takes(n) and arity.first == rule.leading[0]:
        return _cannot_take(
            facts, name, arity, "lacks `self`: it is called as a method."
        )
    if taken and arity.takes(n) and arity.names == facts.inputs:
        lacks = f"`{rule.leading[0]}`" if taken == 1 else f"one of {rule.leading}"
        return _cannot_take(
            facts, name, arity, f"lacks {lacks}, which JAX gives before the inputs."
        )
    takes = _written_for(facts, name)
    inputs = facts.inputs if len(facts.inputs) == n else _numbered(n)
    alone = all(seen[r] != seen[other] for r in seen if r != other)
    remedies = [rule.template(inputs)]
    if alone and takes:
        remedies.append(RULES[other].template(_numbered(takes)))
    no_self = [
        r for r in (other, name) if (own := arity_of(facts.rules[r])) and own.lacks_self
    ]
    return facts.finding(
        "SH111",
        f"has {a(other)} `{other}` for {_inputs(n)} and {a(name)} `{name}` for "
        f"{_inputs(takes)}." + "".join(f" Does `{r}` lack `self`?" for r in no_self),
        rule=name,
        location=facts.where(name),
        facts=(f"{facts.where(other)}   def {other}", *_what_comes(facts, name)),
        expected=_call(rule, inputs),
        got=f"{name}{arity.written}",
        remedies=tuple(remedies),
    )


def _what_comes(facts: ClassFacts, name: str) -> tuple[str, ...]:
    """What a backward rule gets before its accumulators, which is easily miscounted."""
    if name != "vjp_bwd" or facts.may_get_structured(name):
        return ()
    return (
        "JAX gives it the residuals, then the cotangents of all outputs as one",
        "`outgrad` in the structure of the output, then one accumulator an input.",
    )


def _numbered(n: int) -> tuple[str, ...]:
    return ("x",) if n == 1 else tuple(f"x{i}" for i in range(n))


def _inputs(n: int) -> str:
    return f"{n or 'no'} input{'' if n == 1 else 's'}"
