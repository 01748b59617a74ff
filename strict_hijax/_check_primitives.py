"""check for primitives: an instance, or a class by its examples."""

from __future__ import annotations

from typing import Any

from ._checked import original_of
from ._construction import instance_advice
from ._definition import ClassFacts, checkpoint_advice, facts_of_instance
from ._errors import Finding, StrictHijaxError
from ._examples import (
    examples_of,
    failing_examples,
    judge,
    trace_instance,
)
from ._ignoring import without_ignored
from ._raised import in_short
from ._report import CheckReport, advice_of
from ._tracing import raise_traced, subject_of
from ._transforms_of import facts_of_class, transforms_of


def check_primitive(target: Any) -> CheckReport:
    """Check an instance or a class; raise what is found."""
    return _check_class(target) if isinstance(target, type) else _check_instance(target)


def _check_class(cls: type) -> CheckReport:
    facts = facts_of_class(cls)
    try:
        instances = examples_of(cls)
    except StrictHijaxError:
        raise
    except Exception as error:
        raise failing_examples(cls, error) from error
    reports = tuple(_check_instance(prim) for prim in instances)
    return CheckReport(facts.subject, transforms=transforms_of(facts), examples=reports)


def _check_instance(prim: Any) -> CheckReport:
    prim = original_of(prim)  # it may have been found in a jaxpr
    facts = facts_of_instance(facts_of_class(type(prim)), prim)
    traced = trace_instance(facts, prim)
    judge(facts, traced, lambda error: False)
    raise_traced([traced], _ignored_by(type(prim)))
    return CheckReport(
        subject_of(facts, prim),
        rules=tuple(traced.reports),
        residual_bytes=traced.residual_bytes,
        transforms=transforms_of(facts),
        unchecked=tuple(f"{rule}: {in_short(e)}" for rule, e in traced.unchecked),
        advice=tuple(map(advice_of, _advice(facts, prim, traced.advice))),
    )


def _advice(facts: ClassFacts, prim: Any, of_results: list[Finding]) -> list[Finding]:
    found = [*checkpoint_advice(facts), *instance_advice(facts, prim), *of_results]
    return without_ignored(found, _ignored_by(facts.cls))


def _ignored_by(cls: type) -> frozenset[str]:
    return getattr(cls, "_ignored", frozenset[str]())
