"""Mutants and right programs drawn, run and counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis
import jax
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from . import faults as faults
from .asking import is_right
from .operators import FAMILIES, OPERATORS, Operator
from .stages import Outcome, Stage, run


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant.

    Attributes:
      operator: what made it.
      without, given: where strict_hijax told it, types not known and known.
      stock: where stock JAX told it.
      source: its text.
      is_fault: whether it is one for the installed JAX.
    """

    operator: Operator
    without: Outcome
    given: Outcome
    stock: Outcome | None
    source: str
    is_fault: bool = True

    def is_caught(self, *, typed: bool) -> bool:
        """Whether it was told, as what it is, no later than it must be."""
        outcome = self.given if typed else self.without
        if self.operator.raises and not typed and not outcome.is_ours:
            return outcome.stage is not None and outcome.stage <= Stage.RULE
        in_time = outcome.stage is not None and (
            outcome.stage <= self.operator.latest(typed=typed)
        )
        return in_time and bool(outcome.codes & self.operator.codes)

    @property
    def caught(self) -> bool:
        return self.is_caught(typed=False) and self.is_caught(typed=True)

    @property
    def alarm(self) -> Alarm | None:
        """What is refused and no fault."""
        for outcome in (self.without, self.given):
            if not self.is_fault and outcome.stage is not None:
                return Alarm(TAKEN, outcome, False, self.source)
        return None

    @property
    def in_stock(self) -> str:
        """What stock JAX does with it: "early", "late" or "silent"; "" for no such."""
        if self.stock is None:
            return ""
        if self.stock.stage is None:
            return "silent"
        return "late" if self.stock.stage > Stage.CALL else "early"


@dataclass(frozen=True)
class Alarm:
    """A right program that was stopped; `stock` says that JAX stops it, too."""

    family: str
    outcome: Outcome
    stock: bool
    source: str


TAKEN = "mutant that JAX takes and gets right"

_ANY_SIZE = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
_CLEAR_EVERY = 150


class _Caches:
    """JAX's caches, emptied now and then: no program is run twice."""

    def __init__(self) -> None:
        self.count = 0

    def used(self) -> None:
        self.count += 1
        if self.count % _CLEAR_EVERY == 0:
            jax.clear_caches()


_caches = _Caches()


def judge(operator: Operator, mutant: Any, *, stock: bool = True) -> Verdict:
    """Run a mutant on strict_hijax, without and with types, and on stock JAX."""
    _caches.used()
    return Verdict(
        operator,
        run(mutant, strict=True),
        run(mutant, strict=True, typed=True),
        run(mutant, strict=False) if stock and operator.stock else None,
        mutant.source(strict=True, typed=False),
        not (operator.asks and is_right(mutant, operator.original(mutant))),
    )


def drawn[T](strategy: st.SearchStrategy[T], count: int, seed: int) -> list[T]:
    """So many values of a strategy; fewer, where there are no more."""
    found: list[T] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=_ANY_SIZE,
    )
    @hypothesis.given(strategy)
    def collect(value: T) -> None:
        found.append(value)

    collect()
    return found


def seed_of(seed: int, name: str) -> int:
    """A seed for one part of a run."""
    return random.Random(f"{seed} {name}").getrandbits(32)


def mutants(operator: Operator, count: int, seed: int) -> Iterator[Any]:
    """Different mutants of one operator."""
    seen: set[str] = set()
    for mutant in drawn(operator.mutants(), count, seed_of(seed, operator.name)):
        if mutant is None:
            continue
        source = mutant.source(strict=True, typed=False)
        source = str(mutant.args) + source.replace(mutant.name, "")
        if source not in seen:
            seen.add(source)
            yield mutant


def verdicts(
    operators: Iterable[Operator], each: int, seed: int, *, stock: bool = True
) -> Iterator[Verdict]:
    """So many mutants of each operator, judged."""
    for operator in operators:
        for mutant in mutants(operator, each, seed):
            yield judge(operator, mutant, stock=stock)


def alarms(
    families: Sequence[str], each: int, seed: int, say: Callable[[int], None]
) -> Iterator[Alarm]:
    """Right programs of each family that are stopped; `say` hears of each program.

    What strict_hijax lets pass has also passed JAX, by which it is run; so stock JAX is
    asked only where a program is stopped.
    """
    for family in families:
        specs, build = FAMILIES[family]
        for spec in drawn(specs(), each, seed_of(seed, family)):
            program = build(spec)
            _caches.used()
            say(1)
            for typed in program.notes.get("typed", (False, True)):
                outcome = run(program, strict=True, typed=typed)
                if outcome.stage is not None:
                    stock = run(program, strict=False).stage is not None
                    source = program.source(strict=True, typed=typed)
                    yield Alarm(family, outcome, stock, source)
                    break


def operators_of(kinds: Iterable[int]) -> list[Operator]:
    wanted = set(kinds)
    return [operator for operator in OPERATORS if operator.kind in wanted]
