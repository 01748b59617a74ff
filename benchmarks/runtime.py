"""The run time of compiled programs: nothing of strict_hijax is left in them."""

from collections.abc import Callable, Iterator
from typing import Any

import jax

from .kit import PLAIN, STRICT, Kit
from .programs import Program, programs, values
from .rows import Row, Samples, Settings, row_of
from .statistics import Within, geometric_mean_ratio
from .timing import interleaved, repeated
from .transforms import gradient

FIGURE = "jitted run time of the gradient, strict / plain"
DEVICES = ("gpu", "tpu")


def rows(settings: Settings) -> Iterator[Row]:
    """A row for each program, then all together, then the control.

    The control is a second build of the plain program against the first: what its
    interval shows is the noise of the machine.
    """
    several = []
    for program in programs()[:: 6 if settings.quick else 1]:
        settings.say(f"run time: {program.name}")
        samples = _samples(program, settings)
        several.append(samples)
        yield row_of(FIGURE, program.name, samples)
    yield _together(FIGURE, several, "strict")
    yield _together("control: the plain program built twice", several, "again")
    for device in DEVICES:
        if device != jax.default_backend():
            yield Row(FIGURE, f"on {device}", None, Within(1))


def _together(figure: str, several: list[Samples], name: str) -> Row:
    pairs = [{"strict": s[name], "plain": s["plain"]} for s in several]
    rounds = sum(len(s["plain"]) for s in several)
    subject = f"geometric mean of {len(several)} programs"
    return Row(figure, subject, geometric_mean_ratio(pairs), Within(1), rounds=rounds)


def _samples(program: Program, settings: Settings) -> Samples:
    arrays = values(program.specs)

    def call_of(kit: Kit) -> Callable[[], Any]:
        fun, _ = gradient(program.build(kit), program.specs)
        compiled = jax.jit(fun)
        return lambda: jax.block_until_ready(compiled(*arrays))

    builds = {"strict": STRICT, "plain": PLAIN, "again": PLAIN}
    contenders = repeated({name: call_of(kit) for name, kit in builds.items()})
    return interleaved(contenders, settings.rounds(60), collect_every=20)
