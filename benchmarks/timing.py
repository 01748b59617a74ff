"""Timing of several contenders in turn, in one process."""

import gc
import time
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

import numpy as np

type Contender = Callable[[int], float]

SAMPLE_SECONDS = 2e-3
CLOCKS = {"wall": "perf_counter_ns", "cpu": "process_time_ns"}

_clock = time.perf_counter_ns


def use_clock(name: str) -> None:
    """Measure the time on the wall from now on, or the processor's time."""
    global _clock
    _clock = getattr(time, CLOCKS[name])


def clock() -> str:
    """The name in `time` of the clock in use."""
    return _clock.__name__


def interleaved(
    contenders: Mapping[str, Contender],
    rounds: int,
    *,
    warmup: int = 1,
    collect_every: int = 1,
) -> dict[str, np.ndarray]:
    """Time every contender once a round, each order of them as often as any other.

    Args:
        contenders: each is called with the number of the round, prepares what it
            must, and returns the seconds of what counts.
        rounds: the samples of each.
        warmup: rounds before, which are not counted.
        collect_every: rounds between collections of garbage.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    orders = list(permutations(contenders))
    for number in range(-warmup, rounds):
        if number % collect_every == 0 or number < 0:
            gc.collect()
        gc.disable()
        try:
            for name in orders[number % len(orders)]:
                seconds = contenders[name](number + warmup)
                if number >= 0:
                    times[name].append(seconds)
        finally:
            gc.enable()
    return {name: np.array(series) for name, series in times.items()}


def seconds_of(fun: Callable[[], Any]) -> float:
    """The seconds of one call."""
    start = _clock()
    fun()
    return (_clock() - start) / 1e9


def repeated(
    funs: Mapping[str, Callable[[], Any]], *, at_least: float = SAMPLE_SECONDS
) -> dict[str, Contender]:
    """Contenders that are the means of many calls, the same number for all.

    What a sample costs once, whatever the number of calls, is then shared out evenly.
    """
    for fun in funs.values():
        fun()
    calls = 1
    while min(_loop(fun, calls) for fun in funs.values()) * calls < at_least:
        calls *= 2

    def contender(fun: Callable[[], Any]) -> Contender:
        return lambda _: _loop(fun, calls)

    return {name: contender(fun) for name, fun in funs.items()}


def _loop(fun: Callable[[], Any], calls: int) -> float:
    start = _clock()
    for _ in range(calls):
        fun()
    return (_clock() - start) / 1e9 / calls
