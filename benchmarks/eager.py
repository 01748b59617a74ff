"""Calls outside jit, where each one passes through Python."""

from collections.abc import Callable, Iterator
from typing import Any

import jax

from . import functions, primitives
from .kit import TWINS, Kit
from .programs import DENSE, X, values
from .rows import Row, Settings, row_of
from .statistics import AtMost
from .timing import interleaved, repeated
from .transforms import differentiable, loss_of

type Fun = Callable[..., Any]

PRIMITIVE_FORWARD, FUNCTION_FORWARD, GRADIENT = AtMost(1.5), AtMost(1.10), AtMost(1.10)

CASES: dict[str, tuple[Callable[[Kit], Fun], tuple[Any, ...]]] = {
    "primitive, one input": (primitives.elementwise, (X,)),
    "primitive, two inputs": (primitives.accumulating, (X, X)),
    "primitive, pytrees": (primitives.pytrees, DENSE),
    "function, one operation": (functions.with_logs, (X,)),
    "function, one input": (functions.elementwise, (X,)),
    "function, two inputs": (functions.two_inputs, (X, X)),
    "function, pytrees": (functions.pytrees, DENSE),
}


def rows(settings: Settings) -> Iterator[Row]:
    """Forward calls, then gradient calls."""
    for name, (build, specs) in CASES.items():
        yield _forward(name, build, specs, settings)
    yield _instance(settings)
    for name, (build, specs) in CASES.items():
        yield _gradient(name, build, specs, settings)


def _forward(name: str, build: Any, specs: Any, settings: Settings) -> Row:
    """A primitive is constructed and called, as the wrapper that users call does."""
    target = PRIMITIVE_FORWARD if name.startswith("primitive") else FUNCTION_FORWARD
    figure = "eager forward call, strict / plain"
    return _measure(figure, name, build, specs, target, settings)


def _instance(settings: Settings) -> Row:
    """An instance that exists already is called."""
    build, specs = primitives.instance, (X,)
    figure = "eager forward call, strict / plain"
    name = "primitive, an instance that exists"
    return _measure(figure, name, build, specs, PRIMITIVE_FORWARD, settings)


def _gradient(name: str, build: Any, specs: Any, settings: Settings) -> Row:
    def differentiated(kit: Kit) -> Fun:
        return jax.grad(loss_of(build(kit)), differentiable(specs))

    figure = "eager gradient call, strict / plain"
    return _measure(figure, name, differentiated, specs, GRADIENT, settings)


def _measure(
    figure: str,
    name: str,
    build: Callable[[Kit], Fun],
    specs: Any,
    target: AtMost,
    settings: Settings,
) -> Row:
    settings.say(f"{figure}: {name}")
    arrays = values(specs)

    def call_of(kit: Kit) -> Callable[[], Any]:
        fun = build(kit)
        return lambda: fun(*arrays)

    contenders = repeated({kit.name: call_of(kit) for kit in TWINS})
    samples = interleaved(contenders, settings.rounds(150), collect_every=25)
    return row_of(figure, name, samples, target)
