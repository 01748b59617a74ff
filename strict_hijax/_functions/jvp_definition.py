"""Checks at `defjvp` and `defjvps`: what is certainly wrong before a call.

As at `defvjp`, what cannot be seen is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from strict_hijax._errors import Finding
from strict_hijax._signatures import only_raises

from .asked import says_of_no_pair, says_without_rules
from .custom_jvp import JvpRules
from .definition import (
    SEQUENCE,
    always_returns,
    cannot_take,
    keyword_only,
    uncallable,
)
from .rules import FunctionRules, visible_arity


def jvp_definition_findings(rules: FunctionRules) -> list[Finding]:
    """All that is certainly wrong with the forward-mode rule of a function."""
    if not isinstance(rules, JvpRules):
        return []
    if rules.jvp is None:
        return [_none(rules)]
    roles = _roles(rules)
    findings = [
        f for role in roles for f in uncallable(rules, role, _written(rules, role))
    ]
    if findings:
        return findings
    primal = visible_arity(rules.fun)
    if primal is not None and primal.required_keywords:
        return [keyword_only(rules, "primal", primal)]
    if rules.parts is not None:
        findings = list(_count(rules, rules.parts))
    for role in roles:
        findings += _signature(rules, role)
    return findings + list(_returns(rules))


def _roles(rules: JvpRules) -> list[str]:
    if rules.parts is None:
        return ["jvp"]
    return [f"jvps[{i}]" for i, part in enumerate(rules.parts) if part is not None]


def _none(rules: JvpRules) -> Finding:
    return rules.finding(
        "SH409",
        None,
        "is given None as its jvp rule.",
        expected="a function: the jvp rule",
        got="None",
        location=rules.location("primal"),
        jax_says=says_without_rules(rules),
        remedies=(f"{rules.name}.defjvp({rules.name}_jvp)",),
    )


# --- how many -------------------------------------------------------------------------


def _count(rules: JvpRules, parts: tuple[object, ...]) -> Iterator[Finding]:
    """JAX gives each a tangent, also those of arguments that have defaults."""
    primal = visible_arity(rules.fun)
    if primal is None or primal.most is None or len(parts) == primal.most:
        return
    count, most = len(parts), primal.most
    names = ", ".join(rules.argument_names(most))
    given = f"{count} function{'s' if count != 1 else ''}"
    zero = ", ".join(["...", *["None"] * (most - 1)])
    yield rules.finding(
        "SH431",
        None,
        f"is given {given} in `defjvps` for its {most} "
        f"argument{'s' if most != 1 else ''} ({names}).",
        path="jvps",
        location=rules.location("primal"),
        expected=f"one for each of {names}; None where the derivative is zero",
        got=f"{count}",
        jax_says=f"safe_zip() argument 1 has length {count} but argument 0 has length "
        f"{most}.",
        remedies=(
            f"{rules.name}.defjvps({', '.join(['...'] * most)})",
            f"{rules.name}.defjvps({zero})   # zero on purpose",
        ),
    )


def _signature(rules: JvpRules, role: str) -> Iterator[Finding]:
    rule = rules.rule(role)
    arity = visible_arity(rule)
    if arity is None or only_raises(rule):
        return
    wanted = _given(rules, role)
    if wanted is not None and not arity.takes(wanted):
        expected, why = _call(rules, role), _why(rules, role)
        line = _written(rules, role)
        yield cannot_take(rules, "SH430", role, arity, wanted, expected, why, line)
    elif arity.required_keywords:
        yield keyword_only(rules, role, arity)


def _given(rules: JvpRules, role: str) -> int | None:
    """How many arguments JAX gives a rule, if that is certain."""
    if role == "jvp":
        return len(rules.nondiff_argnums) + 2
    primal = visible_arity(rules.fun)
    return None if primal is None or primal.most is None else primal.most + 2


def _why(rules: JvpRules, role: str) -> tuple[str, ...]:
    if role != "jvp":
        return (
            "It is given the tangent of its argument, the output of the function, and",
            "all arguments of the function, each on its own.",
        )
    first = "It is given two tuples, the arguments and their tangents"
    if rules.nondiff_argnums:
        return (f"{first}, after", "the nondiff arguments, each on its own.")
    return (f"{first}, and not each argument", "on its own.")


def _call(rules: JvpRules, role: str) -> str:
    name = rules.rule_name(role)
    if role == "jvp":
        return f"{name}({rules.jvp_parameters()})"
    primal = visible_arity(rules.fun)
    count = 1 if primal is None else primal.most or primal.least
    names = rules.argument_names(count)
    return f"{name}({rules.part_parameters(int(role[5:-1]), names)})"


def _written(rules: JvpRules, role: str) -> str:
    call = _call(rules, role)
    name = call.partition("(")[0]
    if not name.isidentifier() or not callable(rules.rule(role)):
        call = f"{rules.name}_jvp({call.partition('(')[2]}"
    return f"def {call}: ..."


# --- what they return -----------------------------------------------------------------


def _returns(rules: JvpRules) -> Iterator[Finding]:
    if rules.parts is None:
        wanted = "a pair (output, tangent of the output)"
        remedy = "return primal_out, tangent_out"
        for found in always_returns(rules, "SH432", "jvp", SEQUENCE, wanted, remedy):
            yield found._replace(jax_says=says_of_no_pair(rules, found.got or ""))
