"""A measured figure as a row of a table, and the settings of a run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .statistics import Estimate, Target, ratio

NOT_MEASURED = "not measured here"


@dataclass(frozen=True)
class Row:
    """One figure: what it is, its value with an interval, and its target.

    `medians` are the contenders' times in seconds; `estimate` is None where this
    machine cannot measure the figure.
    """

    figure: str
    subject: str
    estimate: Estimate | None
    target: Target | None = None
    unit: str = ""
    medians: Mapping[str, float] = field(default_factory=dict)
    rounds: int = 0

    @property
    def verdict(self) -> str:
        if self.estimate is None:
            return NOT_MEASURED
        return self.target.verdict(self.estimate) if self.target else ""

    def as_json(self) -> dict[str, Any]:
        """The row as plain data."""
        found = self.estimate
        return {
            "figure": self.figure,
            "subject": self.subject,
            "value": found and found.value,
            "interval": found and [found.low, found.high],
            "unit": self.unit,
            "target": str(self.target) if self.target else None,
            "verdict": self.verdict,
            "median_seconds": dict(self.medians),
            "rounds": self.rounds,
        }


@dataclass(frozen=True)
class Settings:
    """How long a run may take, and where it says what it is doing."""

    quick: bool = False
    say: Callable[[str], None] = lambda _: None

    def rounds(self, full: int) -> int:
        """The number of rounds: `full`, or a few in a quick run."""
        return max(5, full // 10) if self.quick else full


type Samples = Mapping[str, np.ndarray]
type Section = Callable[[Settings], Iterator[Row]]


def medians_of(samples: Samples) -> dict[str, float]:
    return {name: float(np.median(series)) for name, series in samples.items()}


def row_of(
    figure: str,
    subject: str,
    samples: Samples,
    target: Target | None = None,
    estimate: Estimate | None = None,
    unit: str = "",
) -> Row:
    """The row of some samples; the ratio of strict to plain unless `estimate`."""
    return Row(
        figure,
        subject,
        ratio(samples) if estimate is None else estimate,
        target,
        unit,
        medians_of(samples),
        len(next(iter(samples.values()))),
    )
