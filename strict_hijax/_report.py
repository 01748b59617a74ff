"""What `check` returns: types in and out of each rule, effects, residual bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ._errors import Finding
from ._types import describe


@dataclasses.dataclass(frozen=True)
class RuleReport:
    """One rule as it was traced: the types that went in and came out, its effects.

    A forward rule gives the outputs and then the residuals; a backward rule gives the
    cotangents, "None" where it gives none.
    """

    name: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    effects: tuple[str, ...] = ()

    def __str__(self) -> str:
        effects = f"   effects: {', '.join(self.effects)}" if self.effects else ""
        takes, gives = ", ".join(self.takes), ", ".join(self.gives)
        return f"{self.name}: ({takes}) -> ({gives}){effects}"


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """What `check` saw of a primitive or function.

    Attributes:
      subject: its qualified name, with its declared types.
      rules: each rule that was traced.
      residual_bytes: bytes that the forward rule keeps for the backward, in one call;
        None where there is no forward rule. Of symbolic shapes, an expression of them.
      transforms: what is provided, derived or missing, by transform.
      unchecked: rules that could not be traced here, each with the reason.
      advice: what is worth a look and may be meant; each begins with its code.
      examples: the reports of a class's examples, where a class was checked.
    """

    subject: str
    rules: tuple[RuleReport, ...] = ()
    residual_bytes: int | None = None
    transforms: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    unchecked: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    examples: tuple[CheckReport, ...] = ()

    def __str__(self) -> str:
        lines = [self.subject, *(f"  {rule}" for rule in self.rules)]
        if self.residual_bytes is not None:
            lines.append(f"  residuals: {_grouped(self.residual_bytes)} bytes a call")
        lines += [f"  not checked here: {reason}" for reason in self.unchecked]
        lines += [f"  {name}: {how}" for name, how in self.transforms.items()]
        for example in self.examples:  # their transforms are those of the class
            alone = dataclasses.replace(example, transforms={})
            lines += [f"  {line}" for line in str(alone).splitlines()]
        for advice in self.advice:
            first, *more = advice.splitlines()
            lines += [f"  advice: {first}", *(f"  {line}" for line in more)]
        return "\n".join(lines)


def _grouped(size: Any) -> str:
    return f"{size:,}" if isinstance(size, int) else str(size)


def advice_of(finding: Finding) -> str:
    """A finding that may be meant: the code, what it is about, and what to write."""
    lines = [f"{finding.code} {finding.headline}"]
    if finding.location is not None:
        lines.append(f"{finding.location}   {finding.location.text}")
    lines += [f"expected: {finding.expected}", f"got:      {finding.got}"]
    lines += [f"where it is not meant: {remedy}" for remedy in finding.remedies]
    lines.append(f"more: python -m strict_hijax explain {finding.code}")
    return "\n  ".join(lines)


def bytes_of(avals: Sequence[Any]) -> Any:
    """How many bytes values of these types take: an int, or an expression of sizes."""
    total: Any = 0
    for aval in avals:
        size, dtype = getattr(aval, "size", 0), getattr(aval, "dtype", None)
        total += size * int(getattr(dtype, "itemsize", 0) or 0)
    return total


def describe_all(avals: Sequence[Any]) -> tuple[str, ...]:
    """Types in words."""
    return tuple(describe(aval) for aval in avals)
