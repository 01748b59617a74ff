"""The time before a program runs: trace, lower and compile."""

from collections.abc import Callable, Iterator
from typing import Any

import jax

from . import model, primitives
from .kit import TWINS, Kit, fresh
from .programs import MODEL_OF_FUNCTIONS, MODEL_OF_PRIMITIVES, Program, X, values
from .rows import Row, Samples, Settings, row_of
from .statistics import AtMost
from .timing import interleaved, seconds_of
from .transforms import forward, gradient, value_and_gradient

type Work = Callable[[Any, Any], Any]

FIRST_CALL, LOWERING, CHAIN = AtMost(1.05), AtMost(1.10), AtMost(1.10)


def rows(settings: Settings) -> Iterator[Row]:
    """First calls, then tracing and lowering, then tracing of a chain."""
    yield from _first_calls(settings)
    yield from _lowerings(settings)
    yield from _chains(settings)


def _first_calls(settings: Settings) -> Iterator[Row]:
    """Nothing is in JAX's caches, as at the start of a process."""
    arrays = values(model.specs())

    def call(fun: Any, _: Any) -> None:
        jax.block_until_ready(jax.jit(fun)(*arrays))

    for program in (MODEL_OF_PRIMITIVES, MODEL_OF_FUNCTIONS):
        settings.say(f"first call: {program.name}")
        samples = _samples(
            program, value_and_gradient, call, settings.rounds(30), cold=True
        )
        figure = "first call of a train step (trace, lower, compile), strict / plain"
        yield row_of(figure, program.name, samples, FIRST_CALL)


def _lowerings(settings: Settings) -> Iterator[Row]:
    """What jax.numpy has traced stays cached, so that it dilutes nothing."""
    cases = (
        (MODEL_OF_PRIMITIVES, value_and_gradient, LOWERING),
        (MODEL_OF_PRIMITIVES, forward, LOWERING),
        (MODEL_OF_FUNCTIONS, value_and_gradient, None),
        (MODEL_OF_FUNCTIONS, forward, None),
    )
    for program, transform, target in cases:
        subject = f"{program.name}, {transform.__name__.replace('_', ' ')}"
        settings.say(f"trace and lower: {subject}")
        samples = _samples(program, transform, _trace_and_lower, settings.rounds(60))
        yield row_of("trace and lower, strict / plain", subject, samples, target)


def _chains(settings: Settings) -> Iterator[Row]:
    """Of classes that were traced before, and of classes that are new each time."""
    four = Program("four primitives in a chain", primitives.chain, (X,))
    forty = Program("the chain ten times over", chain_of_forty, (X,))
    for program, new in ((four, False), (forty, False), (four, True)):
        subject = program.name + ", new classes" * new
        settings.say(f"trace of the gradient: {subject}")
        rounds = settings.rounds(200)
        samples = _samples(program, gradient, _trace, rounds, new=new)
        yield row_of("trace of the gradient, strict / plain", subject, samples, CHAIN)


def chain_of_forty(kit: Kit) -> Callable[[Any], Any]:
    """The chain of four primitives, ten times."""
    chained = primitives.chain(kit)

    def long(x):
        for _ in range(10):
            x = chained(x)
        return x

    return long


def _trace(fun: Any, specs: Any) -> Any:
    return jax.jit(fun).trace(*specs)


def _trace_and_lower(fun: Any, specs: Any) -> Any:
    return _trace(fun, specs).lower()


def _samples(
    program: Program,
    transform: Any,
    work: Work,
    rounds: int,
    *,
    cold: bool = False,
    new: bool = True,
) -> Samples:
    """Time `work` in each round, the building of the program left out.

    `cold` clears JAX's caches before; `new` takes a new copy of the program, and not
    only a new transformation of it.
    """

    def contender(kit: Kit):
        built = program.build(kit)

        def sample(number: int) -> float:
            fun = fresh(program.build, number)(kit) if new else built
            fun, specs = transform(fun, program.specs)
            if cold:
                jax.clear_caches()
            return seconds_of(lambda: work(fun, specs))

        return sample

    return interleaved({kit.name: contender(kit) for kit in TWINS}, rounds)
