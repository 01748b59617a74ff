"""A program run stage by stage, and where it is stopped."""

from __future__ import annotations

import contextlib
import enum
import itertools
import linecache
import sys
import types
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from strict_hijax import StrictHijaxError, check

from . import functions, primitives, uses
from .hitypes import HiType
from .source import Function, Primitive


class Stage(enum.IntEnum):
    """When a fault is told, from early to late; `faults.md` has the same names."""

    DEF = 0
    IMPORT = 1
    NEW = 2
    CALL = 3
    RULE = 4
    CHECK = 5


@dataclass(frozen=True)
class Outcome:
    """Where a program was stopped, and by what; at no stage if it never was."""

    stage: Stage | None
    codes: frozenset[str] = frozenset()
    error: str = ""

    @property
    def is_ours(self) -> bool:
        return bool(self.codes)


type Step = tuple[Stage, Callable[[], object]]


def run(program: Any, *, strict: bool, typed: bool = False) -> Outcome:
    """Run a program until something is raised."""
    with quiet(), configuration(program):
        try:
            return _run(program, strict, typed)
        finally:
            forget(program.name)


@contextlib.contextmanager
def configuration(program: Any) -> Generator[None]:
    """What `defremat` needs throughout: JAX's newer implementations."""
    with contextlib.ExitStack() as stack:
        if getattr(program.spec, "form", "") in functions.REMAT:
            for name in uses.NEWER:
                stack.enter_context(uses.flag(name))
        yield


def _run(program: Any, strict: bool, typed: bool) -> Outcome:
    stage = Stage.IMPORT if typed else Stage.DEF
    try:
        for at, step in steps(program, strict=strict, typed=typed):
            stage = at
            step()
    except Advised as advised:
        return Outcome(stage, advised.codes)
    except StrictHijaxError as error:
        codes = frozenset(finding.code for finding in error.findings)
        return Outcome(stage, codes, str(error))
    except Exception as error:
        return Outcome(stage, error=f"{type(error).__name__}: {error}")
    return Outcome(None)


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """JAX warns of float0 and of complex numbers cast to real ones; not here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_executions = itertools.count()


def executed(source: str, name: str) -> dict[str, Any]:
    """The namespace of a module, whose lines tracebacks and `inspect` can show.

    Each stands at lines of its own: functions made anew of the same code are checked
    as long as they take little of the time of one program.
    """
    filename = f"<{_module(name)}>"
    source = "\n" * (next(_executions) % 5000) + source
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    module = sys.modules[_module(name)] = types.ModuleType(_module(name))
    exec(compile(source, filename, "exec"), vars(module))
    return vars(module)


def _module(name: str) -> str:
    return f"generated_{name}"


def forget(name: str) -> None:
    sys.modules.pop(_module(name), None)
    linecache.cache.pop(f"<{_module(name)}>", None)


def steps(program: Any, *, strict: bool, typed: bool) -> Iterator[Step]:
    """What is done with a program, in order."""
    where = Stage.IMPORT if typed else Stage.DEF
    scope: dict[str, Any] = {}
    source = program.source(strict=strict, typed=typed)
    yield where, lambda: scope.update(executed(source, program.name))
    more = program.notes.get("steps")
    if more is not None:
        yield from more(program, scope, strict)
    elif strict and program.notes.get("checked"):
        yield Stage.CHECK, lambda: check(eval(program.construct, scope))
    elif isinstance(program, HiType):
        yield from _of_hitype(program, scope, strict)
    else:
        yield from usual_steps(program, scope)
    if strict and program.notes.get("advised"):
        yield Stage.CHECK, lambda: advise(program, scope)


def usual_steps(program: Primitive | Function, scope: dict[str, Any]) -> Iterator[Step]:
    """A forward call, and what its rules are for."""
    if isinstance(program, Primitive):
        yield from _of_primitive(program, scope)
    else:
        yield from _of_function(program, scope)


class Advised(Exception):
    """What `check` says is worth a look."""

    def __init__(self, codes: frozenset[str]):
        super().__init__()
        self.codes = codes


def advise(program: Any, scope: dict[str, Any]) -> None:
    """Raise the codes of the advice that the report of `check` has."""
    if isinstance(program, Primitive):
        report = check(eval(program.construct, scope))
    else:
        args = [eval(arg, scope) for arg in program.args]
        report = check(scope[program.name], *args)
    if report.advice:
        raise Advised(frozenset(text.split()[0] for text in report.advice))


# --- primitives -----------------------------------------------------------------------


def call_of_primitive(
    program: Primitive, scope: dict[str, Any], prim: Any
) -> uses.Call:
    """The call of an instance with the arguments of a program."""
    args = tuple(eval(arg, scope) for arg in program.args)
    refs = tuple(getattr(t, "ref", False) for t in program.spec.inputs)
    return uses.Call(prim, args, refs)


def _of_primitive(program: Primitive, scope: dict[str, Any]) -> Iterator[Step]:
    made: list[Any] = []
    yield Stage.NEW, lambda: made.append(eval(program.construct, scope))
    call = lambda: call_of_primitive(program, scope, made[0])  # noqa: E731
    yield Stage.CALL, lambda: uses.forward(call())
    usual = (*uses_of_primitive(program.spec), *program.notes.get("uses", ()))
    for use in program.notes.get("only", usual):
        yield Stage.RULE, lambda use=use: use(call())


def uses_of_primitive(spec: primitives.Spec) -> Iterator[Callable[[uses.Call], object]]:
    """What can be done with a primitive that has these rules."""
    has_refs = any(leaf.ref for leaf in spec.ins)
    yield uses.looked_up
    if spec.reverse:
        yield uses.gradient
        if spec.reverse == "accums" and not has_refs:
            yield uses.into_refs
        if spec.reverse in ("accums", "logs") and not has_refs:
            yield uses.with_logs
    if spec.jvp:
        yield uses.forward_mode
        yield uses.checkpointed
    if spec.lin:
        yield uses.linearized
    if "batch" in spec.rules:
        yield uses.mapped
    if "transpose" in spec.rules:
        yield uses.transposed
    if "dce" in spec.rules:
        yield uses.eliminated
    # JAX 0.12.1 cannot transpose a checkpoint of its newer implementation.
    if "remat" in spec.rules and spec.reverse and spec.detour != "checkpoint":
        yield uses.checkpointed_anew


# --- functions ------------------------------------------------------------------------


def call_of_function(program: Function, scope: dict[str, Any]) -> uses.Call:
    """The call of a function with the arguments of a program."""
    args = [eval(arg, scope) for arg in program.args]
    fun, place = scope[program.name], program.spec.position
    if place is None:
        return uses.Call(fun, tuple(args))
    static = args.pop(place)

    def with_static(*rest: Any) -> Any:
        return fun(*rest[:place], static, *rest[place:])

    return uses.Call(with_static, tuple(args))


def _of_function(program: Function, scope: dict[str, Any]) -> Iterator[Step]:
    for use in program.notes.get("only", ()):
        yield Stage.RULE, lambda use=use: use(program, scope)
    if "only" in program.notes:
        return
    call = lambda: call_of_function(program, scope)  # noqa: E731
    yield Stage.CALL, lambda: uses.forward(call())
    for use in uses_of_function(program):
        yield Stage.RULE, lambda use=use: use(call())


def uses_of_function(program: Function) -> Iterator[Callable[[uses.Call], object]]:
    """What can be done with a function."""
    if program.wrapper == "custom_jvp":
        yield uses.forward_mode
        yield uses.linearized
    yield uses.gradient
    if program.spec.logs or program.spec.accumulates:
        yield uses.with_logs
    yield uses.mapped
    yield uses.checkpointed


# --- hijax types ----------------------------------------------------------------------


def _of_hitype(program: HiType, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
    made: list[Any] = []
    value = lambda: eval(program.value, scope)  # noqa: E731
    yield Stage.NEW, lambda: made.append(eval(program.construct, scope))
    if strict:  # before anything is done with the type, as a test would
        specs = lambda: [eval(spec, scope) for spec in program.axes]  # noqa: E731
        yield Stage.CHECK, lambda: check(made[0], value(), specs=specs())
    yield Stage.CALL, lambda: jax.jit(lambda v: v).trace(value()).lower()
    if program.spec.is_vector:
        differentiate = lambda v: jax.vjp(lambda v: v, v)[1](v)  # noqa: E731
        yield Stage.RULE, lambda: jax.jit(differentiate).trace(value()).lower()
