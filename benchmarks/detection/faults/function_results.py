"""Kinds 30 and 32: what the rules of a function return."""

from __future__ import annotations

from collections.abc import Iterator

import jax

from benchmarks.detection.functions import FORMS
from benchmarks.detection.operators import fault
from benchmarks.detection.source import Function
from benchmarks.detection.stages import Stage
from benchmarks.detection.trees import leaves

from .sites import NO_VALUES, other_dtypes, other_shapes, other_structures, other_types

type Mutants = Iterator[Function]

FUNCTION = {"family": "function"}
RETURNING = tuple(form for form in FORMS if "accums" not in form)
LOGGING = tuple(form for form in FORMS if "logs" in form)
HAS_ACCUMS = hasattr(jax.custom_vjp, "defvjp_with_accums")


def forward(f: Function) -> list[str]:
    return [role for role in ("fwd", "rem") if role in f.methods]


# --- 30: fwd --------------------------------------------------------------------------


@fault(30, Stage.CALL, "SH410", "SH411", **FUNCTION)
def fwd_without_a_pair(f: Function) -> Mutants:
    """An output that is a pair is taken for an output and residuals."""
    for role in forward(f):
        for result in (
            "out",
            "(out, res, None)",
            "(out,)",
            "{'out': out, 'res': res}",
            "jnp.float32(1)",
            "iter((out, res))",
            "'out'",
            "object()",
        ):
            yield f.having(**{role: f.method(role).giving(result)})


@fault(30, Stage.CALL, "SH411", **FUNCTION)
def fwd_with_an_output_of_another_structure(f: Function) -> Mutants:
    for role in forward(f):
        for text in other_structures(f.spec.output, "out"):
            yield f.having(**{role: f.method(role).then(f"out = {text}")})


@fault(30, Stage.CALL, "SH412", **FUNCTION)
def fwd_with_an_output_of_another_type(f: Function) -> Mutants:
    for role in forward(f):
        for j, leaf in enumerate(f.spec.outs):
            for other in other_types(leaf):
                line = f"out = at(out, {j}, lambda x: fit(x, {other}))"
                yield f.having(**{role: f.method(role).then(line)})


@fault(30, Stage.CALL, "SH413", **FUNCTION)
def a_residual_of_fwd_that_is_no_value(f: Function) -> Mutants:
    for role in forward(f):
        for value in NO_VALUES:
            for kept in (f"(*res, {value})", f"(*res, {{'more': {value}}})"):
                yield f.having(**{role: f.method(role).then(f"res = {kept}")})


# --- 30: bwd --------------------------------------------------------------------------


def _with(f: Function, text: str) -> Function:
    """A function whose bwd returns other cotangents, made of `cts`."""
    rule, logs = f.method("bwd"), f.spec.logs
    rule = rule.then(("cts, _ = " if logs else "cts = ") + rule.result)
    return f.having(bwd=rule.giving(f"{text}, None" if logs else text))


@fault(30, Stage.CALL, "SH414", form_in=RETURNING, asks=True, **FUNCTION)
def bwd_without_a_tuple(f: Function) -> Mutants:
    for text in (
        "jnp.float32(1)",
        "dict(enumerate(cts))",
        "iter(cts)",
        "(x for x in cts)",
        "(lambda: None)()",
        "'cts'",
        f"ct_{f.spec.float_ins[0]}",
    ):
        yield _with(f, text)


@fault(30, Stage.CALL, "SH414", form_in=RETURNING, asks=True, **FUNCTION)
def bwd_with_another_number_of_cotangents(f: Function) -> Mutants:
    for text in ("(*cts, None)", "cts[:-1]", "cts + cts", "(*cts, *cts, cts[0])"):
        yield _with(f, text)
    if f.spec.position is not None:
        i = min(f.spec.position, len(f.spec.inputs))
        yield _with(f, f"(*cts[:{i}], None, *cts[{i}:])")


def _not_copied(i: int, texts: Iterator[str]) -> Iterator[str]:
    """Without one cotangent for a whole container, which JAX copies to each leaf."""
    name = f"cts[{i}]"
    for text in texts:
        if not text.startswith("jax.tree.leaves") and text != f"{name}[0]":
            yield text


@fault(30, Stage.CALL, "SH415", form_in=RETURNING, asks=True, **FUNCTION)
def bwd_with_a_cotangent_of_another_structure(f: Function) -> Mutants:
    for i, tree in enumerate(f.spec.inputs):
        for text in _not_copied(i, other_structures(tree, f"cts[{i}]")):
            yield _with(f, f"(*cts[:{i}], {text}, *cts[{i + 1} :])")


def _typed(f: Function, i: int, other: str) -> Function:
    return f.having(bwd=f.method("bwd").then(f"ct_{i} = fit(ct_{i}, {other})"))


@fault(30, Stage.CALL, "SH416", **FUNCTION)
def bwd_with_a_cotangent_of_another_shape(f: Function) -> Mutants:
    for i in f.spec.float_ins:
        leaf = f.spec.ins[i]
        for shape in other_shapes(leaf):
            yield _typed(f, i, f"{shape}, '{leaf.dtype}'")


@fault(30, Stage.CALL, "SH417", **FUNCTION)
def bwd_with_a_cotangent_of_another_dtype(f: Function) -> Mutants:
    for i in f.spec.float_ins:
        leaf = f.spec.ins[i]
        for dtype in other_dtypes(leaf):
            yield _typed(f, i, f"{leaf.shape}, '{dtype}'")


@fault(30, Stage.CALL, "SH416", "SH417", **FUNCTION)
def bwd_with_a_number_of_python_for_another_type(f: Function) -> Mutants:
    """Right for a float32 scalar, and for that alone."""
    for i in f.spec.float_ins:
        if (f.spec.ins[i].shape, f.spec.ins[i].dtype) != ((), "float32"):
            yield f.having(bwd=f.method("bwd").then(f"ct_{i} = 1.0"))


@fault(30, Stage.CALL, "SH419", **FUNCTION)
def bwd_with_a_cotangent_that_is_no_value(f: Function) -> Mutants:
    for i in f.spec.float_ins:
        for value in ("'zero'", "object()", "jnp.sin"):
            yield f.having(bwd=f.method("bwd").then(f"ct_{i} = {value}"))


# --- 30: logs -------------------------------------------------------------------------


@fault(30, Stage.CALL, "SH420", "SH414", form_in=LOGGING, asks=True, **FUNCTION)
def no_pair_of_cotangents_and_their_logs(f: Function) -> Mutants:
    """Two cotangents alone are taken for cotangents and logs."""
    rule = f.method("bwd").then(f"cts, _ = {f.method('bwd').result}")
    for text in (
        "cts",
        "(cts, None, None)",
        "{'cts': cts}",
        "(cts,)",
        "jnp.float32(1)",
    ):
        yield f.having(bwd=rule.giving(text))


def _logs(f: Function, text: str) -> Function:
    rule = f.method("bwd")
    if f.spec.accumulates:
        return f.having(bwd=rule.giving(text))
    return f.having(bwd=rule.then(f"cts, _ = {rule.result}").giving(f"cts, {text}"))


SPEAKING = tuple(form for form in FORMS if "logs" in form or "accums" in form)


@fault(30, Stage.CALL, "SH420", form_in=SPEAKING, **FUNCTION)
def wrong_logs_of_a_function(f: Function) -> Mutants:
    ct = f"ct_{f.spec.float_ins[0]}"
    for text in (
        f"[{ct}]",
        ct,
        "'norm'",
        f"tuple([{ct}])",
        "__import__('collections').OrderedDict(norm=1.0)",
        f"{{0: {ct}}}",
        "{'norm': 'large'}",
        f"{{'norm': ({ct}, object())}}",
    ):
        yield _logs(f, text)


# --- 30: static arguments -------------------------------------------------------------


@fault(30, Stage.CALL, "SH422", at_import=False, static_in=(0, 1, "last"), **FUNCTION)
def an_array_in_a_static_position(f: Function) -> Mutants:
    for value in (
        "jnp.float32(2)",
        "jnp.ones(2)",
        "{'n': jnp.ones(())}",
        "jax.random.key(0)",
    ):
        args = list(f.args)
        args[f.spec.position] = value
        yield f.but(args=tuple(args))


# --- 30: advice -----------------------------------------------------------------------


@fault(
    30,
    Stage.CHECK,
    "SH901",
    at_import=False,
    needs={"container": True},
    form_in=("defvjp", "defvjp_with_logs"),
    **FUNCTION,
)
def one_cotangent_for_a_container(f: Function) -> Mutants:
    """Where all leaves have one type; where not, it is a cotangent of another type."""
    for i, tree in enumerate(f.spec.inputs):
        found = leaves(tree)
        if len(found) > 1 and len(set(found)) == 1 and found[0].is_float:
            text = f"jax.tree.leaves(cts[{i}])[0]"
            changed = _with(f, f"(*cts[:{i}], {text}, *cts[{i + 1} :])")
            yield changed.but(notes={"advised": True})


@fault(
    30,
    Stage.CHECK,
    "SH905",
    at_import=False,
    needs={"integers": True},
    form_in=("defvjp", "defvjp_with_logs"),
    **FUNCTION,
)
def a_cotangent_for_an_integer_and_none_for_a_number(f: Function) -> Mutants:
    for i in f.spec.float_ins:
        if len(f.spec.float_ins) < 2:
            continue
        rule = f.method("bwd").then(f"moved = ct_{i}", f"ct_{i} = None")
        changed = _with(f.having(bwd=rule), "(*cts[:-1], moved)")
        yield changed.but(notes={"advised": True})


# --- 32: nothing at all ---------------------------------------------------------------


@fault(32, Stage.CALL, "SH421", form_in=RETURNING, **FUNCTION)
def none_for_every_argument(f: Function) -> Mutants:
    """By a computation; `return None, None` in the code says that it is meant."""
    yield _with(f, "tuple(None for _ in cts)")
    yield _with(f, "tuple([None] * len(cts))")
    lines = [f"ct_{i} = None" for i in f.spec.float_ins]
    yield f.having(bwd=f.method("bwd").then(*lines))


if HAS_ACCUMS:

    @fault(32, Stage.CALL, "SH421", form="defvjp_with_accums", **FUNCTION)
    def nothing_for_any_accumulator(f: Function) -> Mutants:
        yield f.having(bwd=f.method("bwd").but(sink=()))
