"""Checks at `defjvp` and `defjvps`: what is certainly wrong before a call.

As at `defvjp`, what cannot be seen is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from strict_hijax._errors import Finding
from strict_hijax._signatures import certain_returns, only_raises

from .asked import says_of_no_pair, says_without_rules
from .custom_jvp import JvpRules
from .definition import generator_kind, keyword_only, may_raise, parameters_of
from .rules import FunctionRules, visible_arity


def jvp_definition_findings(rules: FunctionRules) -> list[Finding]:
    """All that is certainly wrong with the forward-mode rule of a function."""
    if not isinstance(rules, JvpRules):
        return []
    if rules.jvp is None:
        return [_none(rules)]
    roles = _roles(rules)
    findings = [f for role in roles for f in _not_callable(rules, role)]
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


def _what(role: str) -> str:
    return "jvp rule" if role == "jvp" else f"rule {role[5:-1]} of `defjvps`"


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


def _not_callable(rules: JvpRules, role: str) -> Iterator[Finding]:
    rule = rules.rule(role)
    if not callable(rule):
        yield rules.finding(
            "SH402",
            None,
            f"is given {_a(type(rule).__name__)} as its {_what(role)}, which JAX "
            "cannot call.",
            expected=f"a function: the {_what(role)}",
            got=_a(type(rule).__name__),
            location=rules.location("primal"),
            remedies=(_written(rules, role),),
        )
    elif what := generator_kind(rule):
        yield rules.finding(
            "SH402",
            role,
            f"is {what}: a call of it gives {what.removesuffix(' function')} in "
            "place of a result.",
            expected="a function that returns its result",
            got=what,
            remedies=("return ...   # in place of yield or async",),
        )


def _a(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


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
        yield rules.finding(
            "SH430",
            role,
            f"takes {arity} argument{'s' if str(arity) != '1' else ''} "
            f"{parameters_of(rule)}; JAX gives it {wanted}.",
            expected=_call(rules, role),
            got=f"{rules.rule_name(role)}{parameters_of(rule)}",
            facts=_why(rules, role),
            remedies=(_written(rules, role),),
        )
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
    certain = certain_returns(rules.jvp) if rules.parts is None else None
    if not certain or certain & {"a tuple", "a list"} or may_raise(rules.jvp):
        return
    got = " or ".join(sorted(certain))
    yield rules.finding(
        "SH432",
        "jvp",
        f"always returns {got}; it must return a pair (output, tangent of the output).",
        expected="a pair (output, tangent of the output)",
        got=got,
        jax_says=says_of_no_pair(rules, got),
        remedies=("return primal_out, tangent_out",),
    )
