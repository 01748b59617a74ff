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
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from strict_hijax import StrictHijaxError, check

from . import functions, primitives
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
    with quiet(), _configuration(program):
        try:
            return _run(program, strict, typed)
        finally:
            _forget(program.name)


@contextlib.contextmanager
def _configuration(program: Any) -> Generator[None]:
    """What `defremat` needs throughout: JAX's newer implementations."""
    with contextlib.ExitStack() as stack:
        if getattr(program.spec, "form", "") in functions.REMAT:
            for name in NEWER:
                stack.enter_context(_flag(name))
        yield


NEWER = ("jax_remat3", "jax_custom_vjp3")


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


def executed(source: str, name: str) -> dict[str, Any]:
    """The namespace of a module, whose lines tracebacks and `inspect` can show."""
    filename = f"<{_module(name)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    module = sys.modules[_module(name)] = types.ModuleType(_module(name))
    exec(compile(source, filename, "exec"), vars(module))
    return vars(module)


def _module(name: str) -> str:
    return f"generated_{name}"


def _forget(name: str) -> None:
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
    elif isinstance(program, Primitive):
        yield from _of_primitive(program, scope)
    elif isinstance(program, HiType):
        yield from _of_hitype(program, scope, strict)
    else:
        yield from _of_function(program, scope)
    if strict and program.notes.get("advised"):
        yield Stage.CHECK, lambda: advise(program, scope)


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


# --- uses -----------------------------------------------------------------------------


def total(outputs: Any) -> Any:
    """A real scalar that every inexact output has a share in."""
    found = [
        jnp.sum(jnp.real(x).astype("float32"))
        for x in jax.tree.leaves(outputs)
        if jnp.issubdtype(jnp.result_type(x), jnp.inexact)
    ]
    return sum(found, start=jnp.float32(0))


@dataclass(frozen=True)
class Call:
    """A callable, its arguments, and which of their leaves are differentiated."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    refs: tuple[bool, ...] = ()

    @property
    def leaves(self) -> list[Any]:
        return jax.tree.leaves(self.args)

    def inexact(self) -> list[int]:
        kinds = [jnp.issubdtype(np.asarray(x).dtype, jnp.inexact) for x in self.leaves]
        return [i for i, kind in enumerate(kinds) if kind]

    def on(self, moved: list[Any]) -> Any:
        """The call with these values for the inexact leaves."""
        found = list(self.leaves)
        for i, value in zip(self.inexact(), moved, strict=True):
            found[i] = value
        args = jax.tree.unflatten(jax.tree.structure(self.args), found)
        made = [
            jax.new_ref(jnp.asarray(arg)) if is_ref else arg
            for arg, is_ref in itertools.zip_longest(args, self.refs[: len(args)])
        ]
        return self.fun(*made)

    @property
    def values(self) -> list[Any]:
        return [self.leaves[i] for i in self.inexact()]


def forward(call: Call) -> object:
    return jax.jit(call.on).trace(call.values).lower()


def traced(fun: Callable[..., Any], *args: Any) -> object:
    return jax.make_jaxpr(fun)(*args)


def looked_up(call: Call) -> object:
    """An interpreter of jaxprs finds a primitive in its table, by its type."""
    table = {type(call.fun): "the rule"}
    eqns = jax.make_jaxpr(call.on)(call.values).jaxpr.eqns
    prims = [eqn.params["_prim"] for eqn in eqns if "_prim" in eqn.params]
    return [table[type(prim)] for prim in prims]


def gradient(call: Call) -> object:
    return traced(jax.grad(lambda moved: total(call.on(moved))), call.values)


_vjp: Any = jax.vjp  # whose result has more than it is annotated with


def into_refs(call: Call) -> object:
    """The gradient accumulated in Refs."""

    def run(moved: list[Any]) -> Any:
        out, vjp = _vjp(lambda *m: call.on(list(m)), *moved)
        refs = [jax.new_ref(jnp.zeros_like(x)) for x in moved]
        vjp.with_refs(*refs)(jax.tree.map(_ones_for, out))
        return [ref[...] for ref in refs]

    return traced(run, call.values)


def with_logs(call: Call) -> object:
    def run(moved: list[Any]) -> Any:
        out, vjp = _vjp(call.on, moved)
        return vjp.with_logs(jax.tree.map(_ones_for, out))

    return traced(run, call.values)


def _ones_for(x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.ones_like(x)
    return np.zeros(x.shape, jax.dtypes.float0)


def forward_mode(call: Call) -> object:
    run = lambda moved: jax.jvp(call.on, (moved,), (moved,))  # noqa: E731
    return traced(run, call.values)


def linearized(call: Call) -> object:
    return traced(lambda m: jax.linearize(call.on, m)[1](m), call.values)


def mapped(call: Call) -> object:
    many = [np.stack([x, x, x, x, x]) for x in call.values]
    return traced(jax.vmap(call.on), many)


def transposed(call: Call) -> object:
    out = jax.eval_shape(call.on, call.values)
    back = jax.linear_transpose(call.on, call.values)
    return traced(back, jax.tree.map(lambda x: np.ones(x.shape, x.dtype), out))


def eliminated(call: Call) -> object:
    """The call with its result unused, and with some of it used."""

    def unused(moved: list[Any]) -> Any:
        call.on(moved)
        return moved

    def first(moved: list[Any]) -> Any:
        return jax.tree.leaves(call.on(moved))[0]

    for fun in (unused, first):
        jaxpr = jax.make_jaxpr(fun)(call.values).jaxpr
        dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))  # as grad of jit does
    return None


def checkpointed(call: Call) -> object:
    saved = jax.checkpoint(call.on)
    return traced(jax.grad(lambda moved: total(saved(moved))), call.values)


def checkpointed_anew(call: Call) -> object:
    """The same with JAX's newer implementations."""
    with contextlib.ExitStack() as stack:
        for name in NEWER:
            stack.enter_context(_flag(name))
        return checkpointed(call)


@contextlib.contextmanager
def _flag(name: str) -> Generator[None]:
    old = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, old)


# --- primitives -----------------------------------------------------------------------


def _of_primitive(program: Primitive, scope: dict[str, Any]) -> Iterator[Step]:
    made: list[Any] = []
    yield Stage.NEW, lambda: made.append(eval(program.construct, scope))
    args = lambda: tuple(eval(arg, scope) for arg in program.args)  # noqa: E731
    refs = tuple(getattr(t, "ref", False) for t in program.spec.inputs)
    call = lambda: Call(made[0], args(), refs)  # noqa: E731
    yield Stage.CALL, lambda: forward(call())
    uses = (*uses_of_primitive(program.spec), *program.notes.get("uses", ()))
    for use in program.notes.get("only", uses):
        yield Stage.RULE, lambda use=use: use(call())


def uses_of_primitive(spec: primitives.Spec) -> Iterator[Callable[[Call], object]]:
    """What can be done with a primitive that has these rules."""
    has_refs = any(leaf.ref for leaf in spec.ins)
    yield looked_up
    if spec.reverse:
        yield gradient
        if spec.reverse == "accums" and not has_refs:
            yield into_refs
        if spec.reverse in ("accums", "logs") and not has_refs:
            yield with_logs
    if spec.jvp:
        yield forward_mode
        yield checkpointed
    if spec.lin:
        yield linearized
    if "batch" in spec.rules:
        yield mapped
    if "transpose" in spec.rules:
        yield transposed
    if "dce" in spec.rules:
        yield eliminated
    if "remat" in spec.rules and spec.reverse:
        yield checkpointed_anew


# --- functions ------------------------------------------------------------------------


def _of_function(program: Function, scope: dict[str, Any]) -> Iterator[Step]:
    spec: functions.Spec = program.spec
    position = spec.position

    def call() -> Call:
        args = [eval(arg, scope) for arg in program.args]
        fun = scope[program.name]
        if position is None:
            return Call(fun, tuple(args))
        place, static = position, args.pop(position)

        def with_static(*rest: Any) -> Any:
            given = list(rest)
            given.insert(place, static)
            return fun(*given)

        return Call(with_static, tuple(args))

    for use in program.notes.get("only", ()):
        yield Stage.RULE, lambda use=use: use(program, scope)
    if "only" in program.notes:
        return
    yield Stage.CALL, lambda: forward(call())
    if program.wrapper == "custom_jvp":
        yield Stage.RULE, lambda: forward_mode(call())
        yield Stage.RULE, lambda: linearized(call())
    yield Stage.RULE, lambda: gradient(call())
    if spec.logs or spec.accumulates:
        yield Stage.RULE, lambda: with_logs(call())
    yield Stage.RULE, lambda: mapped(call())
    yield Stage.RULE, lambda: checkpointed(call())


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
