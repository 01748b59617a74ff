"""Checks on what backward rules of a primitive give to accumulators, and on logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._accumulators import Watches
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding, Location
from strict_hijax._exchanged import (
    ask_if_exchanged,
    places_of_leaves,
)
from strict_hijax._rules import RULES
from strict_hijax._types import (
    any_zero,
    describe_value,
    paths_of,
    wrong_logs,
)

from .cotangents import cotangent_finding, cotangents_findings, names_of_inputs


def logs_findings(facts: ClassFacts, rule: str, result: Any) -> list[Finding]:
    """What is wrong with the result of a rule that may only return logs."""
    if result is None:
        return []
    if type(result) is not dict:
        return [_not_logs(facts, rule, result)]
    return list(_entries(facts, rule, result))


def cotangents_and_logs_findings(
    facts: ClassFacts, prim: Any, rule: str, result: Any
) -> list[Finding]:
    """What is wrong with the pair that `vjp_bwd_retval_logs` returns."""
    if isinstance(result, tuple | list) and len(result) == 2:
        cotangents, logs = result
        found = cotangents_findings(facts, prim, rule, cotangents)
        return [*found, *logs_findings(facts, rule, logs)]
    return [
        facts.finding(
            "SH313",
            f"has a `{rule}` that returns {describe_value(result)} in place of a pair.",
            rule=rule,
            expected=RULES[rule].returns,
            got=describe_value(result),
            remedies=("return (cotangents, None)   # no logs",),
        )
    ]


def _not_logs(facts: ClassFacts, rule: str, result: Any) -> Finding:
    caller = rule if RULES[rule].accumulates else "vjp_bwd"
    jax_says = (
        f"{facts.cls.__name__}.{caller} should return None or a dict of "
        f"backward-pass log entries, got {type(result).__name__}"
    )
    if not RULES[rule].accumulates:
        return facts.finding(
            "SH309",
            f"has a `{rule}` whose logs are {describe_value(result)}.",
            rule=rule,
            path="logs",
            expected="None, or a dict of logs",
            got=describe_value(result),
            jax_says=jax_says,
            remedies=("return cotangents, {'name': array}",),
        )
    accumulate = "; ".join(f"{name}_acc.accum({name}_ct)" for name in facts.inputs)
    remedies = [f"{accumulate}   # in place of return"]
    if rule == "vjp_bwd":
        remedies.append("def vjp_bwd_retval(self, res, g): ...   # or rename it")
    return facts.finding(
        "SH309",
        f"has a `{rule}` that returns {describe_value(result)}; it must give its "
        "cotangents to the accumulators.",
        rule=rule,
        expected=RULES[rule].returns,
        got=describe_value(result),
        jax_says=jax_says,
        remedies=tuple(remedies),
    )


def _entries(facts: ClassFacts, rule: str, logs: dict[Any, Any]) -> Iterator[Finding]:
    for path, got in wrong_logs(logs):
        yield facts.finding(
            "SH310",
            f"has a `{rule}` that logs {got}, at `{path}`.",
            rule=rule,
            path=path,
            expected="a dict from strings to pytrees of arrays",
            got=got,
            remedies=("return {'name': array}",),
        )


def accumulator_findings(
    facts: ClassFacts, prim: Any, rule: str, watches: Watches, out_ct: Any
) -> list[Finding]:
    """What is wrong with what a rule gave to its accumulators.

    One left untouched is a fault only where every cotangent of the outputs is there:
    a rule may leave at once when one is a symbolic zero.
    """
    if _jax.bwd_checks_disabled():
        return []
    if all(watch is None or (watch.touched and not watch.wrong) for watch in watches):
        return []
    paths = list(paths_of(prim.in_tree, names_of_inputs(facts, prim)))
    may_skip = any_zero(out_ct) or not tree_util.tree_leaves(out_ct)
    names = list(paths_of(prim.in_tree, facts.accumulators(rule, len(prim.in_avals))))
    findings, untouched = list[Finding](), list[Finding]()
    for watch, path, name in zip(watches, paths, names, strict=False):
        if watch is None:
            continue
        for cotangent, (filename, line) in watch.wrong:
            place = Location(filename, line, f"in {rule}")
            finding = cotangent_finding(facts, rule, path, watch.aval, cotangent, place)
            if finding is not None:
                findings.append(finding)
        if not watch.touched and not may_skip:
            untouched.append(_untouched(facts, rule, path, name))
    wrong = [(p, w) for p, w in zip(paths, watches, strict=False) if w and w.wrong]
    places = places_of_leaves(
        [path for path, _ in wrong],
        [watch.aval for _, watch in wrong],
        [watch.wrong[0][0] for _, watch in wrong],
    )
    return _without_repeats([*ask_if_exchanged(findings, places), *untouched])


def _without_repeats(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for an accumulator that stands in two places."""
    return list({(f.code, f.path, f.location): f for f in findings}.values())


def _untouched(facts: ClassFacts, rule: str, path: str, accumulator: str) -> Finding:
    name = path[: next((i for i, c in enumerate(path) if c in ".["), len(path))]
    return facts.finding(
        "SH311",
        f"has a `{rule}` that gives nothing to the accumulator of `{path}`: its "
        "gradient is silently zero.",
        rule=rule,
        path=path,
        expected="a cotangent for each input that is differentiated",
        got="no call of `accum`, and no use of `ref` or `inst()`",
        remedies=(
            f"{accumulator}.accum({name}_ct)",
            f"{accumulator}.accum(None)   # zero on purpose",
        ),
    )
