"""Whether rules can take what JAX gives them, and agree on the number of inputs."""

from __future__ import annotations

from collections.abc import Iterator

from strict_hijax._errors import Finding
from strict_hijax._rules import RULES, Rule, derived_half
from strict_hijax._signatures import Arity, arity_of, only_raises

from .facts import ClassFacts


def arguments(facts: ClassFacts) -> Iterator[Finding]:
    reference = _inputs_of(facts, "expand")
    for name, value in facts.rules.items():
        arity, rule = arity_of(value), RULES[name]
        if arity is None or derived_half(value) or only_raises(value):
            continue
        if arity.required_keywords:
            yield _cannot_take(
                facts,
                name,
                arity,
                f"requires the keyword-only argument `{arity.required_keywords[0]}`, "
                "which JAX does not give.",
            )
        elif rule.per_input and arity.most is not None and arity.most < _least(rule):
            yield _cannot_take(facts, name, arity, "takes too few arguments.")
        elif not rule.per_input and not arity.takes(len(rule.leading)):
            yield _cannot_take(
                facts,
                name,
                arity,
                f"takes {arity} arguments; JAX gives it {len(rule.leading)}.",
            )
        elif rule.per_input and name != "expand" and reference is not None:
            counts = _counts(rule, arity)
            if counts.isdisjoint(reference):
                yield _disagreement(facts, name, arity, reference)


def _least(rule: Rule) -> int:
    return len(rule.leading)


_MANY = range(64)  # more inputs than anyone writes out in a signature


def _counts(rule: Rule, arity: Arity) -> frozenset[int]:
    """The numbers of inputs for which a rule's signature binds."""
    leading = len(rule.leading)
    extra = (0, 1) if rule.structured_residuals else (0,)
    return frozenset(n for n in _MANY for e in extra if arity.takes(leading + e + n))


def _inputs_of(facts: ClassFacts, name: str) -> frozenset[int] | None:
    """The numbers of inputs that a rule's signature allows, where it can be seen."""
    value = facts.rules.get(name)
    arity = arity_of(value)
    if arity is None or only_raises(value):
        return None
    return _counts(RULES[name], arity)


def _cannot_take(facts: ClassFacts, name: str, arity: Arity, what: str) -> Finding:
    rule = RULES[name]
    return facts.finding(
        "SH110",
        f"has a `{name}` that {what}",
        rule=name,
        location=facts.where(name),
        expected=_call(rule, facts.inputs),
        got=f"{name}({', '.join(('self', *arity.names))})",
        remedies=(rule.template(facts.inputs),),
    )


def _call(rule: Rule, inputs: tuple[str, ...]) -> str:
    return rule.template(inputs).removeprefix("def ").removesuffix(": ...")


def _disagreement(
    facts: ClassFacts, name: str, arity: Arity, reference: frozenset[int]
) -> Finding:
    rule, n = RULES[name], min(reference)
    if rule.leading and arity.takes(n):
        return _cannot_take(
            facts,
            name,
            arity,
            f"lacks the argument `{rule.leading[0]}`, which JAX gives before the inputs."
            if len(rule.leading) == 1
            else f"lacks an argument: JAX gives {' and '.join(rule.leading)} first.",
        )
    takes = max(min(_counts(rule, arity), default=0), 0)
    return facts.finding(
        "SH111",
        f"has an `expand` of {_count(n, 'input')} and a `{name}` of {takes}.",
        rule=name,
        location=facts.where(name),
        facts=(f"{facts.where('expand')}   def expand",),
        expected=_call(rule, facts.inputs),
        got=f"{name}({', '.join(('self', *arity.names))})",
        remedies=(rule.template(facts.inputs),),
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
