"""Checks at `defvjp`: what is certainly wrong with rules before they are ever called.

Signatures are read from code objects. What cannot be seen is accepted: partials,
jitted and decorated functions, and rules that only raise.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator, Set
from typing import Any

from strict_hijax._errors import Finding
from strict_hijax._signatures import (
    Arity,
    arity_of_function,
    certain_returns,
    no_function,
    only_raises,
)
from strict_hijax._types import describe_value

from .asked import says_without_rules
from .rules import FunctionRules, positional_names, visible_arity

_CALLED = {"fwd": "SH403", "rem": "SH403", "bwd": "SH404"}


def definition_findings(rules: FunctionRules) -> list[Finding]:
    """All that is certainly wrong with the rules of a function."""
    findings = list(_not_callable(rules))
    if findings:
        return findings
    findings = list(_signatures(rules))
    findings += [f for role in _roles(rules) for f in _returns(rules, role)]
    return findings


def _roles(rules: FunctionRules) -> tuple[str, ...]:
    return ("fwd", "rem", "bwd") if rules.has_rem else ("fwd", "bwd")


def _definition(rules: FunctionRules) -> str:
    how = "defremat" if rules.has_rem else "defvjp"
    return f"{how}({', '.join(_roles(rules))})"


# --- callables ------------------------------------------------------------------------


def _not_callable(rules: FunctionRules) -> Iterator[Finding]:
    for role in _roles(rules):
        rule = rules.rule(role)
        if rule is None:
            yield rules.finding(
                "SH409",
                None,
                f"is given None as its {role} rule.",
                path=role,
                expected=f"a function: the {role} rule",
                got="None",
                jax_says=None if role == "rem" else says_without_rules(rules),
                remedies=(f"{rules.name}.{_definition(rules)}   # all are needed",),
            )
        else:
            yield from uncallable(rules, role, _signature(rules, role, ("x",)))


def uncallable(rules: FunctionRules, role: str, line: str) -> Iterator[Finding]:
    """The finding about a rule that JAX cannot call; `line` begins one that it can."""
    rule = rules.rule(role)
    wrong = no_function(rule, line, describe_value(rule))
    if wrong is not None:
        yield rules.finding(
            "SH402",
            role if callable(rule) else None,
            wrong.what if callable(rule) else f"has a `{role}` that {wrong.what}",
            path=role,
            location=rules.location(role if callable(rule) else "primal"),
            expected="a function that returns its result",
            got=wrong.got,
            remedies=(wrong.remedy,),
        )


# --- signatures -----------------------------------------------------------------------


def _signatures(rules: FunctionRules) -> Iterator[Finding]:
    primal = visible_arity(rules.fun)
    if primal is not None and primal.required_keywords:
        yield keyword_only(rules, "primal", primal)
        return
    if primal is not None and (_swapped(rules, primal) or _named_for_each_other(rules)):
        yield _swapped_finding(rules, primal)
        return
    for role in _roles(rules):
        arity = visible_arity(rules.rule(role))
        if arity is None:
            continue
        wanted = _wanted(rules, role, primal, arity)
        if (wanted is None and not arity.required_keywords) or only_raises(
            rules.rule(role)
        ):
            continue
        if wanted is None or arity.required_keywords:
            yield keyword_only(rules, role, arity)
        else:
            yield _wrong_count(rules, role, arity, wanted)


def _given(rules: FunctionRules, role: str, count: int) -> int:
    """How many arguments JAX gives a rule of a function of `count` arguments."""
    if role == "bwd":
        static = len(rules.nondiff_argnums)
        return static + 2 + (count - static if rules.with_accums else 0)
    return count + (role == "rem")


def _wanted(
    rules: FunctionRules, role: str, primal: Arity | None, arity: Arity
) -> int | None:
    """The number of arguments that a rule must take and does not; None if it does."""
    if primal is not None and primal.most is not None:
        wanted = _given(rules, role, primal.most)
        return None if arity.takes(wanted) else wanted
    if role == "bwd" and not rules.with_accums:
        wanted = _given(rules, role, 0)
        return None if arity.takes(wanted) else wanted
    least = 0 if primal is None else primal.least  # of a function with *args
    if primal is not None and arity.most is not None:
        wanted = _given(rules, role, least)
        return wanted if arity.most < wanted else None
    return None


def _swapped(rules: FunctionRules, primal: Arity) -> bool:
    fwd, bwd = visible_arity(rules.fwd), visible_arity(rules.bwd)
    if fwd is None or bwd is None or primal.most is None:
        return False
    to_fwd, to_bwd = (_given(rules, role, primal.most) for role in ("fwd", "bwd"))
    fits = fwd.takes(to_fwd) and bwd.takes(to_bwd)
    return not fits and fwd.takes(to_bwd) and bwd.takes(to_fwd)


def _named_for_each_other(rules: FunctionRules) -> bool:
    """Whether `f_bwd` is given as fwd of `f`, and `f_fwd` as its bwd.

    The name of the function is asked for: an adjoint may take another's rules.
    """
    names = rules.rule_name("fwd"), rules.rule_name("bwd")
    found = [
        re.fullmatch(rf"_*{re.escape(rules.name.strip('_'))}_({ending})", name)
        for name, ending in zip(names, (_BACKWARD, _FORWARD), strict=True)
    ]
    return all(found) and not rules.has_rem


_BACKWARD, _FORWARD = "bwd|backward|rev|reverse", "fwd|forward"


def _swapped_finding(rules: FunctionRules, primal: Arity) -> Finding:
    fwd, bwd = rules.rule_name("fwd"), rules.rule_name("bwd")
    names = primal.names
    if _named_for_each_other(rules):
        what = f"is named for a backward, and bwd rule `{bwd}` for a forward: they are "
        what += "swapped."
    else:
        what = f"takes what bwd is given, and bwd rule `{bwd}` what fwd is given: they "
        what += "are swapped."
    return rules.finding(
        "SH405",
        "fwd",
        what,
        expected=f"fwd({', '.join(names)}) and bwd({rules.bwd_parameters(names)})",
        got=f"{fwd}{parameters_of(rules.fwd)} as fwd and "
        f"{bwd}{parameters_of(rules.bwd)} as bwd",
        remedies=(f"{rules.called}.defvjp({bwd}, {fwd})",),
    )


def parameters_of(rule: Any) -> str:
    """The parameters that a rule has, as it names them."""
    arity = arity_of_function(rule)
    names = arity.names if arity is not None else ("...",)
    star = ("*args",) if arity is not None and arity.most is None else ()
    return f"({', '.join((*names, *star))})"


def keyword_only(rules: FunctionRules, role: str, arity: Arity) -> Finding:
    """The finding about parameters that JAX, which names none, cannot give."""
    names = ", ".join(f"`{name}`" for name in arity.required_keywords)
    who = "has" if role == "primal" else "requires"
    return rules.finding(
        "SH406",
        role,
        f"{who} {names} by keyword only, and JAX gives all arguments by position.",
        path=arity.required_keywords[0],
        expected="positional parameters, or keyword-only ones with defaults",
        got=f"required keyword-only {names}",
        jax_says="The following keyword arguments could not be resolved to positions: "
        f"{', '.join(arity.required_keywords)}"
        if role == "primal"
        else None,
        remedies=(
            f"{arity.required_keywords[0]}=...   # give it a default",
            "drop the `*`",
        ),
    )


def _wrong_count(rules: FunctionRules, role: str, arity: Arity, wanted: int) -> Finding:
    primal = visible_arity(rules.fun)
    count = primal.most if primal is not None and primal.most is not None else None
    names = positional_names(rules.fun, wanted if count is None else count)
    expected = f"{rules.rule_name(role)}({_call(rules, role, names)})"
    line, why = _signature(rules, role, names), _why(rules, role)
    return cannot_take(rules, _CALLED[role], role, arity, wanted, expected, why, line)


def cannot_take(
    rules: FunctionRules,
    code: str,
    role: str,
    arity: Arity,
    wanted: int,
    expected: str,
    why: tuple[str, ...],
    line: str,
) -> Finding:
    """The finding about a rule that cannot take as many arguments as JAX gives it."""
    parameters = parameters_of(rules.rule(role))
    return rules.finding(
        code,
        role,
        f"takes {arity.counted} {parameters}; JAX gives it {wanted}.",
        expected=expected,
        got=f"{rules.rule_name(role)}{parameters}",
        facts=why,
        remedies=(line,),
    )


def _why(rules: FunctionRules, role: str) -> tuple[str, ...]:
    if role != "bwd":
        return ("fwd takes the arguments of the function, in the same order.",) + (
            ("The nondiff ones stay in their places; only bwd takes them first.",)
            if rules.nondiff_argnums
            else ()
        )
    facts: tuple[str, ...] = (
        "bwd takes the residuals and the cotangent of the output",
    )
    if rules.nondiff_argnums:
        facts += ("after the nondiff arguments, in the order of the function",)
    if rules.with_accums:
        facts += ("and then one accumulator for each differentiable argument",)
    return ("; ".join(facts) + ".",)


def _call(rules: FunctionRules, role: str, names: tuple[str, ...]) -> str:
    if role == "bwd":
        return rules.bwd_parameters(names)
    return ", ".join((*(("res",) if role == "rem" else ()), *names))


def _signature(rules: FunctionRules, role: str, names: tuple[str, ...]) -> str:
    name = rules.rule_name(role)
    name = name if name.isidentifier() and callable(rules.rule(role)) else role
    return f"def {name}({_call(rules, role, names)}): ..."


# --- returns --------------------------------------------------------------------------


def _returns(rules: FunctionRules, role: str) -> Iterator[Finding]:
    if role == "bwd" and rules.with_accums:
        wanted = "None, or a dict of logs; the cotangents go to the accumulators"
        remedy = "x_acc.accum(x_ct)   # instead of return"
        yield from always_returns(rules, "SH420", role, {"None"}, wanted, remedy)
    elif role == "bwd":
        wanted = "a tuple of cotangents"
        wanted = "a pair (cotangents, logs)" if rules.with_logs else wanted
        remedy = "return (x_ct,)   # one an argument"
        yield from always_returns(rules, "SH414", role, SEQUENCE, wanted, remedy)
    else:
        wanted, remedy = "a pair (output, residuals)", "return out, res"
        yield from always_returns(rules, "SH410", role, SEQUENCE, wanted, remedy)


SEQUENCE = frozenset({"a tuple", "a list"})


def always_returns(
    rules: FunctionRules,
    code: str,
    role: str,
    right: Set[str],
    wanted: str,
    remedy: str,
) -> Iterator[Finding]:
    """The finding about a rule no `return` of which gives what is right.

    One that may decline, by a `raise` of its own, is left alone.
    """
    rule = rules.rule(role)
    certain = certain_returns(rule)
    if not certain or certain & right or _may_raise(rule):
        return
    got = " or ".join(sorted(certain))
    yield rules.finding(
        code,
        role,
        f"always returns {got}; it must return {wanted}.",
        expected=wanted,
        got=got,
        remedies=(remedy,),
    )


def _may_raise(rule: Any) -> bool:
    code = getattr(rule, "__code__", None)
    return code is None or any(
        instruction.opname == "RAISE_VARARGS"
        for instruction in dis.get_instructions(code)
    )
