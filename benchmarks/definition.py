"""What a class statement and a `defvjp` cost at import."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .functions import elementwise
from .kit import TWINS, Kit, fresh
from .primitives import sine_class
from .rows import Row, Samples, Settings, row_of
from .statistics import AtMost, Estimate, Medians, estimate, exponent
from .timing import interleaved, seconds_of

PER_CLASS, LINEAR = AtMost(0.5, " ms"), AtMost(1.1)
SIZES = (10, 100, 1000)

type Factory = Callable[[Kit], Any]


def rows(settings: Settings) -> Iterator[Row]:
    """Per class, then against the number of classes, then per function."""
    figure = "defining a class, strict minus plain"
    yield _each(figure, "five rules", sine_class, settings, PER_CLASS)
    yield _each(figure, "with examples, which are traced", with_examples, settings)
    yield from _many(settings)
    figure = "defining a function, strict minus plain"
    yield _each(figure, "no types given", elementwise, settings)


@cache
def _base(kit: Kit) -> type[Any]:
    return sine_class(kit)


def with_examples(kit: Kit) -> type[Any]:
    """A class whose rules are traced as soon as it is defined."""

    class Sine(_base(kit)):
        @classmethod
        def examples(cls):
            yield cls(jax.typeof(jnp.float32(0)))

    return Sine


def _each(
    figure: str,
    subject: str,
    factory: Factory,
    settings: Settings,
    target: AtMost | None = None,
) -> Row:
    """The cost of one definition, in milliseconds."""
    settings.say(f"{figure}: {subject}")
    rounds, count = settings.rounds(40), 20
    contenders = {kit.name: _defining(factory, kit, count) for kit in TWINS}
    return _beyond(figure, subject, interleaved(contenders, rounds), target)


def _beyond(figure: str, subject: str, samples: Samples, target: Any) -> Row:
    """A row of strict minus plain, in milliseconds."""
    found = estimate(samples, lambda m: 1e3 * (m["strict"] - m["plain"]))
    return row_of(figure, subject, samples, target, found, " ms each")


def _many(settings: Settings) -> Iterator[Row]:
    """The cost of many classes, and the exponent of its growth."""
    rounds = settings.rounds(20)
    sizes = SIZES[:-1] if settings.quick else SIZES
    strict: dict[str, np.ndarray] = {}
    for size in sizes:
        settings.say(f"definition of {size} classes")
        contenders = {kit.name: _defining(sine_class, kit, size) for kit in TWINS}
        samples = interleaved(contenders, rounds)
        strict[str(size)] = size * samples["strict"]
        figure, subject = "defining many classes, strict minus plain", f"{size} at once"
        yield _beyond(figure, subject, samples, PER_CLASS)
    figure = "growth with the number of classes: exponent"
    subject = f"{sizes[0]} to {sizes[-1]} classes, strict"
    yield row_of(figure, subject, strict, LINEAR, growth(strict))


def growth(samples: Samples) -> Estimate:
    """The exponent of time against size, where samples are named by their size."""
    sizes = [int(name) for name in samples]

    def figure(medians: Medians) -> np.ndarray:
        return exponent(sizes, [medians[name] for name in samples])

    return estimate(samples, figure)


def _defining(factory: Factory, kit: Kit, count: int) -> Callable[[int], float]:
    """A contender: the seconds of one of `count` definitions, each of new code."""

    def sample(number: int) -> float:
        first = (number + 1) * count
        factories = [fresh(factory, first + i) for i in range(count)]
        defined: list[Any] = []  # kept: freeing them is not part of the definition

        def define() -> None:
            defined.extend(factory(kit) for factory in factories)

        return seconds_of(define) / count

    return sample
