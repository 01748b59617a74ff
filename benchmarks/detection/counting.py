"""What came of a run, by kind of fault, and the tables and JSON of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .kinds import KINDS
from .measuring import Verdict
from .stages import Outcome, Stage


@dataclass(frozen=True)
class Record:
    """One mutant, and where it was told; small enough to be sent between processes."""

    kind: int
    operator: str
    latest: str
    without: str
    given: str
    stock: str
    caught: bool
    source: str = ""
    why: str = ""

    @classmethod
    def of(cls, verdict: Verdict) -> Record:
        """The record of a verdict, with its text where it is not caught."""
        operator = verdict.operator
        missed = not verdict.caught
        return cls(
            operator.kind,
            operator.name,
            operator.stage.name.lower(),
            _stage(verdict.without),
            _stage(verdict.given),
            verdict.in_stock,
            verdict.caught,
            verdict.source if missed else "",
            _why(verdict) if missed else "",
        )


def _stage(outcome: Outcome) -> str:
    return "never" if outcome.stage is None else outcome.stage.name.lower()


def _why(verdict: Verdict) -> str:
    operator = verdict.operator
    lines = [f"wanted: {', '.join(sorted(operator.codes))} by {operator.stage.name}"]
    for name, outcome in (("without", verdict.without), ("with", verdict.given)):
        first = outcome.error.splitlines()[0][:200] if outcome.error else "nothing"
        lines.append(f"{name} types, at {_stage(outcome)}: {first}")
    return "\n".join(lines)


@dataclass(frozen=True)
class KindRow:
    """The count of one kind of fault."""

    kind: int
    operators: int
    mutants: int
    caught: int
    latest: str
    without: dict[str, int]
    given: dict[str, int]
    stock: dict[str, int]

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        share = f"{100 * self.caught / self.mutants:.1f} %" if self.mutants else "-"
        stock = [str(self.stock.get(name, 0)) for name in ("early", "late", "silent")]
        return (
            str(self.kind),
            KINDS[self.kind],
            str(self.operators),
            str(self.mutants),
            share,
            _listed(self.without),
            _listed(self.given),
            self.latest,
            *stock,
        )


COLUMNS = (
    "kind",
    "fault",
    "operators",
    "mutants",
    "caught",
    "told, types not known",
    "told, types known",
    "latest",
    "JAX: early",
    "late",
    "silent",
)


def _listed(stages: dict[str, int]) -> str:
    order = [stage.name.lower() for stage in Stage] + ["never"]
    return ", ".join(f"{name} {stages[name]}" for name in order if stages.get(name))


def rows_of(records: Sequence[Record]) -> list[KindRow]:
    """A row for each kind of fault that was tried."""
    return [
        _row(kind, [record for record in records if record.kind == kind])
        for kind in KINDS
        if any(record.kind == kind for record in records)
    ]


def _row(kind: int, records: Sequence[Record]) -> KindRow:
    stages = {stage.name.lower(): stage for stage in Stage}
    named = sorted({record.latest for record in records}, key=lambda n: stages[n])
    return KindRow(
        kind,
        len({record.operator for record in records}),
        len(records),
        sum(record.caught for record in records),
        ", ".join(named),
        dict(Counter(record.without for record in records)),
        dict(Counter(record.given for record in records)),
        dict(Counter(record.stock for record in records if record.stock)),
    )


def markdown(rows: Iterable[KindRow]) -> str:
    """The table as it stands in the page of this folder."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_json(rows: Iterable[KindRow]) -> list[dict[str, Any]]:
    """The rows as plain data."""
    return [asdict(row) for row in rows]
