"""What came of checking one type, and what it means if a method of it raises."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

import jax

from strict_hijax import _jax
from strict_hijax._errors import Finding, StrictHijaxError
from strict_hijax._raised import in_short
from strict_hijax._report import RuleReport, describe_all
from strict_hijax._types import describe, describe_value, type_of

from .facts import TypeFacts


@dataclasses.dataclass
class TypeChecked:
    """What came of checking one type: findings, and what stands in the report."""

    facts: TypeFacts
    ty: Any
    findings: list[Finding] = dataclasses.field(default_factory=list[Finding])
    causes: dict[Finding, Exception] = dataclasses.field(
        default_factory=dict[Finding, Exception]
    )
    reports: list[RuleReport] = dataclasses.field(default_factory=list[RuleReport])
    unchecked: list[str] = dataclasses.field(default_factory=list[str])

    def find(self, code: str, method: str, sentence: str, **fields: Any) -> None:
        fields.setdefault("location", self.facts.where(method))
        fields.setdefault("facts", (f"the type: {describe(self.ty)}",))
        found = self.facts.finding(code, sentence, rule=method, **fields)
        self.findings.append(found)

    def report(self, method: str, takes: Sequence[Any], gives: Sequence[Any]) -> None:
        row = RuleReport(method, describe_all(takes), describe_all(gives))
        if row not in self.reports:
            self.reports.append(row)

    @contextlib.contextmanager
    def running(self, method: str) -> Generator[None]:
        """A method that raises declines, or is at fault."""
        try:
            yield
        except Stop:
            pass
        except NotImplementedError as error:
            self.unchecked.append(f"{method}: {in_short(error)}")
        except StrictHijaxError as error:
            self.findings += error.findings
        except Exception as error:
            self.find(
                "SH715",
                method,
                f"has a `{method}` that raises {type(error).__name__}.",
                facts=(in_short(error), f"the type: {describe(self.ty)}"),
                remedies=(
                    f"mend `{method}`; the exception above this one has the line",
                    "raise NotImplementedError   # where it declines on purpose",
                ),
            )
            self.causes[self.findings[-1]] = error


class Stop(Exception):
    """A fault was found, and what follows from it is not looked at."""


def described(given: Any) -> str:
    """What stands in place of a type, or a type in place of a list, in words."""
    if isinstance(given, _jax.AbstractValue):
        return f"the type {describe(given)}"
    if isinstance(given, jax.ShapeDtypeStruct):
        return "a ShapeDtypeStruct"
    value = describe_value(given)
    return f"the value {value}" if type_of(given) is not None else value
