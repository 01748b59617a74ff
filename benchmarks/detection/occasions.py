"""Calls that a plain use lacks: of many functions, with many shapes, without jit.

Each of them is a change of a program, with the steps that it is run by. Right programs
(`habits.py`) and mutants (`faults/occasions.py`) are made of the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from . import stages, uses
from .source import Function, Member, Method, Primitive
from .stages import Stage, Step
from .trees import specs

COUNT = 25
"""More than anybody looks at by hand, and more than any bound of a cache was."""

type Steps = Callable[[Any, dict[str, Any], bool], Iterator[Step]]


def run_by(program: Any, steps: Steps, **notes: Any) -> Any:
    """The program, run by these steps."""
    return program.but(notes={"steps": steps, **notes})


def call_of(program: Any, scope: dict[str, Any]) -> uses.Call:
    """The call of a program: of its function, or of one instance."""
    if isinstance(program, Primitive):
        if "the_instance" not in scope:
            scope["the_instance"] = eval(program.construct, scope)
        return stages.call_of_primitive(program, scope, scope["the_instance"])
    return stages.call_of_function(program, scope)


def step(stage: Stage, use: Callable[[uses.Call], object], *given: Any) -> Step:
    """One use of the call of a program in its scope."""
    return stage, lambda: use(call_of(*given))


# --- uses with values -----------------------------------------------------------------


def concrete(call: uses.Call) -> uses.Call:
    """The call with arrays of JAX's for those of NumPy."""
    return uses.Call(call.fun, jax.tree.map(jnp.asarray, call.args), call.refs)


def forward_now(call: uses.Call) -> Any:
    """Without jit."""
    call = concrete(call)
    return call.on(call.values)


def gradient_now(call: uses.Call) -> Any:
    """Without jit, so that the rules of a function are given values."""
    call = concrete(call)
    return jax.grad(lambda moved: uses.total(call.on(moved)))(call.values)


def tangents_now(call: uses.Call) -> Any:
    call = concrete(call)
    return jax.jvp(call.on, (call.values,), (call.values,))


def eagerly(program: Any, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
    """A forward call and a gradient, both without jit."""
    yield step(Stage.CALL, forward_now, program, scope)
    yield step(Stage.RULE, gradient_now, program, scope)


# --- many functions of one factory ----------------------------------------------------


def of_a_factory(f: Function) -> Function:
    """`COUNT` functions, made by a function that is called with the number of each."""
    made = f"made = [{f.name}_in(i) for i in range({COUNT})]"
    return run_by(f.but(outside=("i",), after=(made,)), _each_function)


def _each_function(
    program: Function, scope: dict[str, Any], strict: bool
) -> Iterator[Step]:
    def use(how: Callable[[uses.Call], object], i: int) -> object:
        return how(call_of(program, scope | {program.name: scope["made"][i]}))

    for i in range(COUNT):
        yield Stage.CALL, partial(use, traced, i)
    yield Stage.RULE, partial(use, uses.gradient, COUNT - 1)


def traced(call: uses.Call) -> object:
    return uses.traced(call.on, call.values)


# --- many shapes ----------------------------------------------------------------------

ELEMENTWISE = {"elementwise": True}


def for_any_shape(f: Function) -> Function:
    """An elementwise function that takes its shape from its input."""
    return f.but(methods={role: _any_shape(rule) for role, rule in f.methods.items()})


def _any_shape(rule: Member) -> Member:
    if isinstance(rule, str):
        return rule
    body, sink = (
        tuple(line.replace("(3,)", "x_0.shape") for line in lines)
        for lines in (rule.body, rule.sink)
    )
    return rule.but(body=body, sink=sink)


def of_size(f: Function, n: int) -> Function:
    """The same, called with as many numbers."""
    return f.but(args=tuple(arg.replace("(3,)", f"({n},)") for arg in f.args))


def each_shape(
    program: Function, scope: dict[str, Any], strict: bool
) -> Iterator[Step]:
    for n in range(1, COUNT + 1):
        yield step(Stage.CALL, traced, of_size(program, n), scope)
    yield step(Stage.RULE, uses.gradient, of_size(program, COUNT), scope)


# --- static arguments -----------------------------------------------------------------

STATIC = {"static_in": (0, 1, "last")}


def with_static(f: Function, value: str) -> Function:
    """The same, called with another static argument."""
    args = list(f.args)
    args[f.spec.position] = value
    return f.but(args=tuple(args))


def with_example(f: Function, value: str) -> Function:
    """The same, with another static argument where types are given."""
    examples = list(map(specs, f.spec.inputs))
    examples.insert(f.spec.position, value)
    return f.but(example_args=f"({', '.join(examples)},)")


def each_static(values: Sequence[str]) -> Steps:
    """A forward call and a gradient with one value after the other."""

    def steps(program: Function, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
        for value in values:
            called = with_static(program, value)
            yield step(Stage.CALL, traced, called, scope)
            if value in (values[0], values[-1]):
                yield step(Stage.RULE, uses.gradient, called, scope)

    return steps


# --- lines in a rule ------------------------------------------------------------------


def roles(program: Any) -> list[str]:
    """The rules written by hand that compute an array with a name."""
    written = program.methods if isinstance(program, Function) else program.members
    return [
        role
        for role, rule in written.items()
        if isinstance(rule, Method) and _subject(program, role)
    ]


def _subject(program: Any, role: str) -> str:
    """The name of what a rule computes; empty where it has none."""
    if role in ("primal", "expand"):
        return "out_0"
    if role in ("fwd", "rem", "vjp_fwd", "lin"):
        return "out"
    if role.startswith(("jvp", "linearized")):
        return f"dot_{program.spec.float_outs[0]}"
    if role.startswith(("bwd", "vjp_bwd", "transpose")):
        return f"ct_{program.spec.float_ins[0]}"
    return ""


def with_value(program: Any, role: str, text: str) -> Any:
    """With an array that a rule computes replaced by `text`, in which it is VALUE."""
    name = _subject(program, role)
    if name == "out":
        line = f"out = at(out, 0, lambda x: {text.replace('VALUE', 'x')})"
    else:
        line = f"{name} = {text.replace('VALUE', name)}"
    return with_line(program, role, line)


def with_line(program: Any, role: str, line: str) -> Any:
    """With one more line in a rule."""
    return program.having(**{role: program.method(role).then(line)})
