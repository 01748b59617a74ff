"""check for functions: every rule traced for given inputs, and a report of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from strict_hijax._effects import EffectPolicy
from strict_hijax._errors import Finding
from strict_hijax._ignoring import raise_findings, without_ignored
from strict_hijax._report import CheckReport, advice_of, describe_all

from .advice import order_advice, replaced_advice
from .declared_types import DeclaredTypes, Source, given_inputs
from .eager import Examination
from .exceptions import first_line
from .families import Family, family_of
from .first_calls import Checker
from .misused import inside_jit, no_rules, without_rules
from .rules import FunctionRules, Inputs


def check_function(function: Any, *args: Any, **kwargs: Any) -> CheckReport:
    """Check all rules of a checked function, or of any custom_vjp or custom_jvp.

    Args:
      function: the function.
      *args, **kwargs: its arguments: arrays, specs, and static values. Without any,
        those that it declares: by `example_args`, by `dims`, or as defaults.

    Returns:
      The report of its VJP rules, or of its rematerialization rules where it has only
      those.

    Raises:
      StrictHijaxError: a rule breaks its contract, or the arguments do not fit.
    """
    function = inside_jit(function)
    family = family_of(function)
    attributes = None if family is None else family.attributes_of(function)
    if family is None or attributes is None:
        raise without_rules(function).error()
    all_rules = family.rules_of(attributes)
    if not all_rules:
        wrapped = getattr(function, "_wrapped", None)
        raise no_rules(family, function, wrapped).error()
    options = getattr(function, "_options", None)
    policy = EffectPolicy() if options is None else options.policy
    ignored = frozenset[str]() if options is None else options.ignored
    declared = DeclaredTypes() if options is None else options.declared
    before = getattr(function, "_accepted", ())
    reports: list[CheckReport] = []
    advice: list[Finding] = []
    for rules in all_rules:
        raise_findings(family.defined(rules), ignored)
        source, inputs = _given(declared, rules, args, kwargs)
        checker = Checker(rules, policy, ignored, True, family.examine)
        seen = checker.check_at_import(inputs, declared.axes, source)
        reports.append(_report(family, rules, inputs, seen))
        advice += [*replaced_advice(before, rules), *order_advice(rules), *seen.advice]
    left = without_ignored(advice, ignored)
    return dataclasses.replace(reports[-1], advice=tuple(map(advice_of, left)))


def _given(
    declared: DeclaredTypes, rules: FunctionRules, args: Any, kwargs: Any
) -> tuple[Source, Inputs]:
    """The inputs to check: the arguments of `check`, or what the function declares."""
    inputs = None if args or kwargs else declared.inputs(rules)
    if inputs is not None:
        return declared.source, inputs
    return "check", given_inputs(rules, args, kwargs, "check")


def _report(
    family: Family, rules: FunctionRules, inputs: Inputs, seen: Examination
) -> CheckReport:
    takes = ", ".join(describe_all(inputs.avals))
    outputs = () if seen.outputs is None else seen.outputs.avals
    unchecked: tuple[str, ...] = ()
    if seen.stopped is not None:
        role, error = seen.stopped
        unchecked = (f"{role} {rules.rule_name(role)}: {first_line(error)}",)
    return CheckReport(
        f"{rules.subject}: ({takes}) -> ({', '.join(describe_all(outputs))})",
        rules=tuple(rule.report() for rule in seen.traced),
        residual_bytes=seen.residual_bytes,
        transforms=dict(family.transforms),
        unchecked=unchecked,
    )
