"""A whole run on all processors: mutants by operator, and right programs by family."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any

from .counting import KindRow, Record, as_json, rows_of
from .measuring import TAKEN, Alarm, alarms, verdicts
from .operators import FAMILIES, OPERATORS

SEED = 0
"""The seed of the table in the README."""

_CHUNK = 50


@dataclass(frozen=True)
class Size:
    """How many mutants of each operator, and right programs of each family."""

    mutants: int
    programs: int


FULL = Size(mutants=22, programs=505)
QUICK = Size(mutants=4, programs=50)


@dataclass
class Run:
    """What came of a run.

    Attributes:
      seed: all else follows from it and the size.
      records: every mutant.
      programs: how many right programs of each family there were.
      alarms: those of them that were stopped; on stock JAX it is an error of ours.
      seconds: how long it took.
    """

    seed: int
    records: list[Record] = field(default_factory=list[Record])
    programs: dict[str, int] = field(default_factory=dict[str, int])
    alarms: list[Alarm] = field(default_factory=list[Alarm])
    seconds: float = 0.0

    @property
    def rows(self) -> list[KindRow]:
        return rows_of(self.records)

    @property
    def missed(self) -> list[Record]:
        """Mutants that were not told, or too late, or as something else."""
        return [record for record in self.records if not record.caught]

    @property
    def is_clean(self) -> bool:
        return not self.missed and not self.alarms

    def as_json(self) -> dict[str, Any]:
        """The run as plain data."""
        return {
            "seed": self.seed,
            "seconds": self.seconds,
            "mutants": len(self.records),
            "caught": len(self.records) - len(self.missed),
            "programs": self.programs,
            "false_alarms": [_alarm(alarm) for alarm in self.alarms],
            "missed": [asdict(record) for record in self.missed],
            "kinds": as_json(self.rows),
        }


def _alarm(alarm: Alarm) -> dict[str, Any]:
    outcome = alarm.outcome
    stage = outcome.stage.name.lower() if outcome.stage is not None else ""
    return {
        "family": alarm.family,
        "stock": alarm.stock,
        "stage": stage,
        "error": outcome.error,
        "source": alarm.source,
    }


def fresh_seed() -> int:
    """A seed that nobody has used."""
    return random.SystemRandom().getrandbits(32)


@dataclass
class Part:
    """Mutants that are faults, and how many right programs there were of a family."""

    records: list[Record]
    family: str
    programs: int
    alarms: list[Alarm]


def tried(index: int, size: Size, seed: int) -> Part:
    """The mutants of one operator."""
    found = list(verdicts([OPERATORS[index]], size.mutants, seed))
    records = [Record.of(verdict) for verdict in found if verdict.is_fault]
    stopped = [verdict.alarm for verdict in found if verdict.alarm is not None]
    return Part(records, TAKEN, len(found) - len(records), stopped)


def accepted(family: str, count: int, seed: int) -> Part:
    """Right programs of one family."""
    seen: list[int] = []
    stopped = list(alarms([family], count, seed, seen.append))
    return Part([], family, len(seen), stopped)


def run_all(size: Size, seed: int, say: Callable[[str], None]) -> Run:
    """Everything, on as many processes as there are processors."""
    started = time.perf_counter()
    run = Run(seed, programs=dict.fromkeys((*FAMILIES, TAKEN), 0))
    context = multiprocessing.get_context("spawn")
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        tasks: list[Future[Part]] = [
            pool.submit(tried, index, size, seed) for index in range(len(OPERATORS))
        ]
        tasks += [
            pool.submit(accepted, family, count, seed + 1 + number)
            for family in FAMILIES
            for number, count in enumerate(_chunks(size.programs))
        ]
        for done, task in enumerate(as_completed(tasks), start=1):
            _add(run, task.result())
            if done % 20 == 0 or done == len(tasks):
                say(_progress(run, done, len(tasks)))
    run.records.sort(key=lambda record: (record.kind, record.operator))
    run.seconds = time.perf_counter() - started
    return run


def _chunks(count: int) -> Iterator[int]:
    for start in range(0, count, _CHUNK):
        yield min(_CHUNK, count - start)


def _add(run: Run, part: Part) -> None:
    run.records += part.records
    run.programs[part.family] += part.programs
    run.alarms += part.alarms


def _progress(run: Run, done: int, tasks: int) -> str:
    right = sum(run.programs.values())
    counts = (
        f"{len(run.records)} mutants, {len(run.missed)} missed; "
        f"{right} right programs, {len(run.alarms)} false alarms"
    )
    return f"{done} of {tasks} parts: {counts}"


def summary(run: Run) -> Sequence[str]:
    """The run in a few lines, with what was missed in full."""
    right = sum(run.programs.values())
    caught = len(run.records) - len(run.missed)
    share = 100 * caught / len(run.records) if run.records else 0.0
    lines = [
        (
            f"{caught} of {len(run.records)} mutants caught in time ({share:.2f} %), "
            f"{len(run.alarms)} false alarms on {right} right programs; "
            f"seed {run.seed}, {run.seconds:.0f} s"
        )
    ]
    for record in run.missed:
        lines += [f"missed: kind {record.kind}, {record.operator}", record.why]
        lines += [record.source]
    for alarm in run.alarms:
        where = "stock JAX" if alarm.stock else "strict_hijax"
        lines += [f"false alarm: {alarm.family}, by {where}", alarm.outcome.error]
        lines += [alarm.source]
    return lines
