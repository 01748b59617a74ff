"""What the eager check of a function costs, beside tracing its rules with JAX."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax

from . import functions
from .kit import PLAIN, STRICT, Kit, fresh
from .programs import DEEP, DENSE, X
from .rows import Row, Samples, Settings, row_of
from .statistics import AtMost, estimate, ratio
from .timing import interleaved, seconds_of

CHECK, BEYOND = AtMost(1.2), AtMost(1.0)

CASES: dict[str, tuple[Callable[[Kit], Any], tuple[Any, ...]]] = {
    "two inputs": (functions.two_inputs, (X, X)),
    "pytrees": (functions.pytrees, DENSE),
    "a network of 12 layers": (functions.deep, DEEP),
}


def rows(settings: Settings) -> Iterator[Row]:
    """The check at definition, then the check at a forward-only first call."""
    for name, (build, specs) in CASES.items():
        settings.say(f"eager check: {name}")
        samples = _check_samples(build, specs, settings)
        # The check is of the definition as a whole, its checks without types included.
        figure = "eager check / make_jaxpr of forward and backward"
        yield row_of(figure, name, samples, CHECK, ratio(samples, "strict", "rules"))
        figure = "eager check / make_jaxpr of primal, forward and backward"
        yield row_of(figure, name, samples, None, ratio(samples, "strict", "all"))
    yield from _forward_only(settings)


def _check_samples(build: Any, specs: Any, settings: Settings) -> Samples:
    """A strict definition with types against tracing of the same rules by JAX."""
    typed = STRICT._replace(custom_vjp=STRICT.typed(*specs))

    def strict(number: int) -> float:
        return seconds_of(partial(fresh(build, number), typed))

    def rules(number: int, primal: bool = False) -> float:
        fun = fresh(build, number)(PLAIN)
        return seconds_of(lambda: trace_rules(fun, specs, primal=primal))

    contenders = {"strict": strict, "rules": rules, "all": partial(rules, primal=True)}
    return interleaved(contenders, settings.rounds(80))


def trace_rules(fun: Any, specs: Any, *, primal: bool = False) -> None:
    """Trace the rules of a `jax.custom_vjp`, and its primal if asked to."""
    if primal:
        jax.make_jaxpr(fun.fun)(*specs)
    _, (out, residuals) = jax.make_jaxpr(fun.fwd, return_shape=True)(*specs)
    jax.make_jaxpr(fun.bwd)(residuals, out)


def _forward_only(settings: Settings) -> Iterator[Row]:
    """A program that only runs forward, and never needs the rules that are checked.

    The rules are traced right after the plain program, so that what jax.numpy has
    cached for the one is cached for the other, as it is for the check.
    """
    for name, (build, specs) in CASES.items():
        settings.say(f"forward only: {name}")
        samples = _forward_samples(build, specs, settings)
        found = estimate(samples, lambda m: (m["strict"] - m["plain"]) / m["rules"])
        figure = "forward-only trace and lower beyond plain / tracing its rules"
        yield row_of(figure, name, samples, BEYOND, found)


def _forward_samples(build: Any, specs: Any, settings: Settings) -> Samples:
    def program(kit: Kit) -> Callable[[int], float]:
        def sample(number: int) -> float:
            fun = fresh(build, number)(kit)
            jax.clear_caches()
            return seconds_of(lambda: jax.jit(fun).trace(*specs).lower())

        return sample

    def rules(number: int) -> float:
        fun = fresh(build, number)(PLAIN)
        jax.clear_caches()
        jax.jit(fun).trace(*specs).lower()
        return seconds_of(lambda: trace_rules(fun, specs))

    contenders = {"strict": program(STRICT), "plain": program(PLAIN), "rules": rules}
    return interleaved(contenders, settings.rounds(60))
