"""From timed samples to a figure with its interval, and to a verdict.

The samples of one measurement are taken in rounds: in each round every contender is
timed once. A ratio is that of the medians over all rounds. Its interval comes from
the bootstrap: rounds are drawn again with replacement, whole, so that what slows the
machine down for a while slows all contenders of a drawn round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 4000

type Samples = Mapping[str, Sequence[float] | np.ndarray]
type Medians = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A figure and the ends of its interval."""

    value: float
    low: float
    high: float


def estimate(
    samples: Samples,
    figure: Callable[[Medians], np.ndarray],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """A figure of medians, with its bootstrap interval.

    Args:
        samples: for each contender its times, one a round; all of equal length.
        figure: computes the figure from the contenders' medians, elementwise.
        confidence: the share of resampled figures inside the interval.
        resamples: how often the rounds are drawn again.
        seed: of the draws.
    """
    times = {name: np.asarray(series, float) for name, series in samples.items()}
    (rounds,) = {len(series) for series in times.values()}
    draws = np.random.default_rng(seed).integers(0, rounds, (resamples, rounds))
    drawn = {name: np.median(series[draws], axis=1) for name, series in times.items()}
    value = figure({name: np.median(series) for name, series in times.items()})
    tail = (1 - confidence) / 2
    low, high = np.quantile(figure(drawn), (tail, 1 - tail))
    return Estimate(float(value), float(low), float(high))


def ratio(samples: Samples, of: str = "strict", to: str = "plain") -> Estimate:
    """The ratio of the medians of two contenders."""
    return estimate(samples, lambda medians: medians[of] / medians[to])


def geometric_mean_ratio(
    several: Sequence[Samples], *, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """The geometric mean of strict over plain, over several measurements."""
    random = np.random.default_rng(seed)

    def log_ratio(times: Medians) -> np.ndarray:
        strict, plain = times["strict"], times["plain"]
        return np.log(np.median(strict, axis=-1) / np.median(plain, axis=-1))

    def drawn(samples: Samples) -> np.ndarray:
        times = {name: np.asarray(series, float) for name, series in samples.items()}
        rounds = len(times["plain"])
        draws = random.integers(0, rounds, (resamples, rounds))
        return log_ratio({name: series[draws] for name, series in times.items()})

    value = np.exp(np.mean([log_ratio(samples) for samples in several]))
    tail = (1 - CONFIDENCE) / 2
    resampled = np.exp(np.mean([drawn(samples) for samples in several], axis=0))
    low, high = np.quantile(resampled, (tail, 1 - tail))
    return Estimate(float(value), float(low), float(high))


def exponent(sizes: Sequence[float], times: Sequence[float | np.ndarray]) -> np.ndarray:
    """The slope of time against size, both as logarithms: 1 where time is linear."""
    x = np.log(sizes) - np.mean(np.log(sizes))
    return np.tensordot(x, np.log(np.stack(times)), 1) / np.sum(x * x)


@dataclass(frozen=True)
class AtMost:
    """A target that is met by figures up to `bound`."""

    bound: float
    unit: str = ""

    def __str__(self) -> str:
        return f"at most {self.bound:g}{self.unit}"

    def verdict(self, figure: Estimate) -> str:
        """Whether the figure is met, and whether the interval is sure of it."""
        met = "met" if figure.value <= self.bound else "not met"
        sure = not figure.low <= self.bound < figure.high
        return met if sure else f"{met}, within noise"


@dataclass(frozen=True)
class Within:
    """A target that is met where the interval contains `value`."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:.2f} in the interval"

    def verdict(self, figure: Estimate) -> str:
        """Whether the interval contains the value."""
        return "met" if figure.low <= self.value <= figure.high else "not met"


type Target = AtMost | Within
