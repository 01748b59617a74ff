"""A corpus of programs, each run with stock JAX to see whether it is taken.

Names of programs in text files end in a hash of their source: one that is edited is
another program, and is not compared with what it was.
"""

import contextlib
import functools
import hashlib
import importlib
import io
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import report
from benchmarks.shapes import BASES, ROWS, outcome
from strict_hijax._pages import pages

from . import stock

ROOT = Path(__file__).resolve().parents[2]
TAKEN = "taken"
type Source = Callable[[], Iterator[tuple[str, str]]]
ERRORS = (
    "at_definition",
    "of_primitives",
    "of_functions",
    "of_jvp_functions",
    "of_types",
)


def programs() -> dict[str, str]:
    """Each program by its name, and what becomes of it; what they print is dropped."""
    quiet = contextlib.redirect_stdout(io.StringIO())
    with warnings.catch_warnings(action="ignore"), quiet:
        found = dict(sorted(pair for source in SOURCES for pair in _those_of(source)))
        jax.effects_barrier()
    return found


def _those_of(source: Source) -> list[tuple[str, str]]:
    """The programs of a source; none where what they need is not installed."""
    try:
        return list(source())
    except ImportError as error:
        report.say(f"left out, {source.__name__.strip('_')}: {error}")
        return []


def attempt(program: Callable[[], Any]) -> str:
    """Whether a program is taken, or the class of what it raises."""
    try:
        program()
    except Exception as error:
        return f"refused, {type(error).__name__}"
    return TAKEN


def named(name: str, source: str) -> str:
    """The name of a program in a text, with a hash of it."""
    return f"{name} {hashlib.sha256(source.encode()).hexdigest()[:6]}"


def _shapes() -> Iterator[tuple[str, str]]:
    for row in ROWS:
        yield f"shape: {row}", str(outcome(row, BASES["stock"]))


def _blocks(text: str) -> list[str]:
    return re.findall(r"^```python.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def _pages() -> Iterator[tuple[str, str]]:
    for code, page in pages().items():
        for number, source in enumerate(_blocks(page)):
            name = named(f"page: {code}: block {number}", source)
            yield name, attempt(functools.partial(stock.run, source))


def _readme() -> Iterator[tuple[str, str]]:
    """Later blocks use what earlier ones import."""
    names: dict[str, object] = {"__name__": "readme"}
    for number, source in enumerate(_blocks((ROOT / "README.md").read_text("utf-8"))):
        found = attempt(functools.partial(stock.run, source, names))
        yield named(f"README: block {number}", source), found


def _errors() -> Iterator[tuple[str, str]]:
    """The wrong programs of the tests, but for those that need several devices."""
    programs = importlib.import_module("tests.jax_error_programs")
    modules = (importlib.import_module(f"tests.test_jax_errors_{m}") for m in ERRORS)
    cases = [case for module in modules for case in module.CASES]
    counts: dict[str, int] = {}
    for case in cases:
        number = counts[case.name] = counts.get(case.name, 0) + 1
        name = f"error: {case.name}" + (f" ({number})" if number > 1 else "")
        with programs.options(case.config):
            program = functools.partial(case.program, programs.Program(strict=False))
            yield name, attempt(program)


def _examples() -> Iterator[tuple[str, str]]:
    """Examples are traced and not compiled."""
    plain = importlib.import_module("examples.plain")
    for example in importlib.import_module("examples.registry").ALL:
        function = plain.plain_twin(example.function)
        for transform, make in TRANSFORMS.items():
            traced = functools.partial(jax.eval_shape, make(function), *example.specs)
            yield f"example: {example.name}: {transform}", attempt(traced)


def _faulty() -> Iterator[tuple[str, str]]:
    """Where a faulty module fails: at which stage, or in silence."""
    measured = importlib.import_module("examples.demo.stock")
    folder = ROOT / "examples" / "faulty"
    for module in pkgutil.iter_modules([str(folder)]):
        source = (folder / f"{module.name}.py").read_text("utf-8")
        found = measured.outcome(measured.measure(module.name))
        yield named(f"faulty: {module.name}", source), found


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def total(*args: Any) -> Any:
        leaves = jax.tree.leaves(function(*args))
        return sum(jnp.sum(leaf.astype("float32")) for leaf in leaves)

    return jax.grad(total, allow_int=True)


def _tangent(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: jax.jvp(function, args, jax.tree.map(_dot, args))


def _dot(x: Any) -> Any:
    is_float = jnp.issubdtype(x.dtype, jnp.inexact)
    return jnp.ones_like(x) if is_float else jnp.zeros(x.shape, jax.dtypes.float0)


TRANSFORMS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "grad": _gradient,
    "jvp": _tangent,
    "grad of checkpoint": lambda function: _gradient(jax.checkpoint(function)),
    "grad of grad": lambda function: _gradient(_gradient(function)),
}


SOURCES = (_shapes, _pages, _readme, _errors, _examples, _faulty)
