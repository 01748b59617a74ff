"""Kinds 25, 27 and 28: tangents, and the rules of vmap, dead code and checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.operators import fault
from benchmarks.detection.primitives import NEW
from benchmarks.detection.source import Primitive
from benchmarks.detection.stages import Stage
from benchmarks.detection.trees import Leaf, numbered, types

from .sites import (
    not_linear,
    not_zero_at_zero,
    other_dtypes,
    other_shapes,
    other_structures,
    other_types,
    real_primal,
    too_many_flags,
    with_a_tangent,
)

type Mutants = Iterator[Primitive]

# --- 25: jvp and linearized -----------------------------------------------------------


def _tangent_rules(p: Primitive) -> list[str]:
    return [name for name in ("jvp", "linearized") if p.is_written(name)]


@fault(25, Stage.RULE, "SH322", "SH323", "SH301", "SH302", jvp="hand")
def no_pair_of_output_and_tangents(p: Primitive) -> Mutants:
    """An output that is a pair is taken for an output and its tangents."""
    rule = p.method("jvp")
    dots = numbered(p.spec.output, "dot")
    for result in (
        "out",
        dots,
        f"(out, {dots}, None)",
        f"{{'out': out, 'dots': {dots}}}",
        "(out,)",
        "'out'",
        "object()",
        f"iter((out, {dots}))",
    ):
        yield p.having(jvp=rule.giving(result))


def _tangents(p: Primitive, name: str, text: str) -> Primitive:
    rule = p.method(name)
    kept = rule.then(f"dots = {numbered(p.spec.output, 'dot')}")
    result = f"out, {text}" if name == "jvp" else text
    return p.having(**{name: kept.giving(result)})


@fault(25, Stage.RULE, "SH323", jvp="hand", asks=True)
def tangents_of_another_structure(p: Primitive) -> Mutants:
    for name in _tangent_rules(p):
        for text in other_structures(p.spec.output, "dots"):
            yield _tangents(p, name, text)


@fault(25, Stage.RULE, "SH323", lin="hand", asks=True)
def tangents_of_another_structure_from_linearized(p: Primitive) -> Mutants:
    for text in other_structures(p.spec.output, "dots"):
        yield _tangents(p, "linearized", text)


def _wrong(p: Primitive, name: str, line: str) -> Primitive:
    return p.having(**{name: p.method(name).then(line)})


@fault(25, Stage.RULE, "SH324", "SH325", jvp="hand")
def a_tangent_of_another_type(p: Primitive) -> Mutants:
    for j in p.spec.float_outs:
        for other in other_types(p.spec.outs[j]):
            yield _wrong(p, "jvp", f"dot_{j} = fit(dot_{j}, {other})")


@fault(25, Stage.RULE, "SH324", "SH325", lin="hand")
def a_tangent_of_another_type_from_linearized(p: Primitive) -> Mutants:
    for j in p.spec.float_outs:
        for other in other_types(p.spec.outs[j]):
            yield _wrong(p, "linearized", f"dot_{j} = fit(dot_{j}, {other})")


@fault(25, Stage.RULE, "SH327", jvp="hand")
def a_tangent_that_is_no_value(p: Primitive) -> Mutants:
    for name in _tangent_rules(p):
        for j in p.spec.float_outs:
            for value in ("'zero'", "object()"):
                yield _wrong(p, name, f"dot_{j} = {value}")


def _checked(p: Primitive, name: str, line: str) -> Primitive:
    """It is told where types are known; else by `check`."""
    return _wrong(p, name, line).but(notes={"checked": True})


@fault(25, Stage.CHECK, "SH328", jvp="hand")
def a_tangent_of_a_primitive_that_is_not_linear(p: Primitive) -> Mutants:
    for name in _tangent_rules(p):
        for j in p.spec.float_outs:
            for text in not_linear(f"dot_{j}", p.spec.outs[j]):
                yield _checked(p, name, f"dot_{j} = {text}")


@fault(25, Stage.CHECK, "SH328", lin="hand")
def a_tangent_from_linearized_that_is_not_linear(p: Primitive) -> Mutants:
    for j in p.spec.float_outs:
        for text in not_linear(f"dot_{j}", p.spec.outs[j]):
            yield _checked(p, "linearized", f"dot_{j} = {text}")


@fault(25, Stage.CHECK, "SH329", jvp="hand")
def a_tangent_of_a_primitive_with_a_constant_that_is_added(p: Primitive) -> Mutants:
    primal = real_primal(p.spec.float_ins, p.spec.ins)
    for name in _tangent_rules(p):
        for j in p.spec.float_outs:
            for text in not_zero_at_zero(f"dot_{j}", p.spec.outs[j], primal):
                yield _checked(p, name, f"dot_{j} = {text}")


@fault(25, Stage.CHECK, "SH319", jvp="hand")
def an_output_of_a_primitive_that_depends_on_a_tangent(p: Primitive) -> Mutants:
    for j in p.spec.float_outs:
        for text in with_a_tangent(f"dot_{j}"):
            yield _checked(p, "jvp", f"out = at(out, {j}, lambda x: {text})")


# --- 27: batch ------------------------------------------------------------------------


@fault(27, Stage.RULE, "SH330", "SH301", "SH331", has=("vmap",), asks=True)
def no_pair_of_outputs_and_dimensions(p: Primitive) -> Mutants:
    """An output that is a pair is taken for an output and its dimensions."""
    rule = p.method("batch")
    for result in (
        "outs",
        "(outs, dims_out, None)",
        "(outs,)",
        "{'outs': outs}",
        "None",
        "0",
    ):
        yield p.having(batch=rule.giving(result))


@fault(27, Stage.RULE, "SH331", "SH332", has=("vmap",), asks=True)
def dimensions_of_another_structure(p: Primitive) -> Mutants:
    rule = p.method("batch")
    for text in other_structures(p.spec.output, "dims_out"):
        yield p.having(batch=rule.giving(f"outs, {text}"))


@fault(27, Stage.RULE, "SH301", has=("vmap",))
def batched_outputs_of_another_structure(p: Primitive) -> Mutants:
    rule = p.method("batch")
    for text in other_structures(p.spec.output, "outs"):
        yield p.having(batch=rule.giving(f"{text}, dims_out"))


def _dim(p: Primitive, j: int, dim: str) -> Primitive:
    line = f"dims_out = at(dims_out, {j}, lambda _: {dim})"
    return p.having(batch=p.method("batch").then(line))


@fault(27, Stage.RULE, "SH332", "SH333", has=("vmap",))
def a_dimension_that_does_not_exist(p: Primitive) -> Mutants:
    for j, leaf in enumerate(p.spec.outs):
        n = len(leaf.shape) + 1
        for dim in (f"{n}", f"{n + 2}", "-1", "'0'", "1.5", "0.0"):
            yield _dim(p, j, dim)


@fault(27, Stage.RULE, "SH334", "SH335", has=("vmap",))
def a_dimension_that_is_not_the_mapped_one(p: Primitive) -> Mutants:
    """The mapped axis has a size that no other axis has."""
    for j, leaf in enumerate(p.spec.outs):
        for dim in range(1, len(leaf.shape) + 1):
            yield _dim(p, j, f"{dim}")
        yield _dim(p, j, "None")


@fault(27, Stage.RULE, "SH334", has=("vmap",))
def a_batched_output_of_another_type(p: Primitive) -> Mutants:
    rule = p.method("batch")
    for j, leaf in enumerate(p.spec.outs):
        for dtype in other_dtypes(leaf):
            change = f"lambda x: fit(x, x.shape, '{dtype}')"
            yield p.having(batch=rule.then(f"outs = at(outs, {j}, {change})"))
        for shape in other_shapes(leaf):
            change = f"lambda x: fit(x, (x.shape[0], *{shape}), '{leaf.dtype}')"
            yield p.having(batch=rule.then(f"outs = at(outs, {j}, {change})"))
        yield p.having(batch=rule.then(f"outs = at(outs, {j}, lambda x: x[0])"))


# --- 28: dce and remat ----------------------------------------------------------------


@fault(28, Stage.RULE, "SH340", has=("dce",))
def no_flags_and_primitive(p: Primitive) -> Mutants:
    rule = p.method("dce")
    for result in (
        "self",
        "True, True",
        "(True, True, self, None)",
        "None",
        "True, True, 'self'",
        "True, True, type(self)",
    ):
        yield p.having(dce=rule.giving(result))


@fault(28, Stage.RULE, "SH342", has=("dce",), asks=True)
def flags_of_another_structure(p: Primitive) -> Mutants:
    rule = p.method("dce")
    ins, outs = too_many_flags(p.spec.inputs), too_many_flags(p.spec.output)
    for flags in (f"{ins}, True", f"True, {outs}", "'all', True", "True, 1"):
        yield p.having(dce=rule.giving(f"{flags}, self"))


@fault(28, Stage.RULE, "SH341", has=("dce",))
def an_output_that_is_used_and_not_produced(p: Primitive) -> Mutants:
    rule = p.method("dce")
    yield p.having(dce=rule.but(body=()).giving("False, False, None"))
    yield p.having(dce=rule.giving("True, False, self"))


@fault(28, Stage.RULE, "SH343", has=("dce",))
def a_primitive_that_does_not_fit_its_flags(p: Primitive) -> Mutants:
    rule = p.method("dce")
    yield p.having(dce=rule.giving("False, True, self"))
    for attribute, tree in (("in_avals", p.spec.inputs), ("out_aval", p.spec.output)):
        wrong = (*p.spec.inputs[:-1], Leaf((7,), "float32"))
        declared = types(wrong) if attribute == "in_avals" else types((tree, tree))
        lines = (
            *rule.body,
            "other = object.__new__(type(self))",
            "other.__dict__.update(self.__dict__)",
            f"other.{attribute} = {declared}",
            "type(self).__mro__[-2].__init__(other)",
        )
        yield p.having(dce=rule.but(body=lines).giving("True, True, other"))


_REMAT = {"has": ("remat rule",)}


@fault(28, Stage.RULE, "SH345", **_REMAT)
def no_output_and_rem(p: Primitive) -> Mutants:
    rule = p.method("remat")
    short, long = (
        ("out, rem", "out, res, rem, None") if NEW else ("out", "out, res, rem")
    )
    for result in (short, long, "rem", "None", "{'out': out, 'rem': rem}"):
        yield p.having(remat=rule.giving(result))


@fault(28, Stage.RULE, "SH346", **_REMAT)
def a_rem_that_cannot_be_called(p: Primitive) -> Mutants:
    rule = p.method("remat")
    for value in ("out", "None", "'rem'", "3"):
        yield p.having(remat=rule.then(f"rem = {value}"))


@fault(28, Stage.RULE, "SH301", "SH302", **_REMAT)
def another_output_from_remat(p: Primitive) -> Mutants:
    rule = p.method("remat")
    for j, leaf in enumerate(p.spec.outs):
        for other in other_types(leaf):
            yield p.having(
                remat=rule.then(f"out = at(out, {j}, lambda x: fit(x, {other}))")
            )
    for text in other_structures(p.spec.output, "out"):
        yield p.having(remat=rule.then(f"out = {text}"))


@fault(28, Stage.RULE, "SH301", "SH302", **_REMAT)
def another_output_from_rem(p: Primitive) -> Mutants:
    rule = p.method("remat")
    for j, leaf in enumerate(p.spec.outs):
        for other in other_types(leaf):
            changed = f"lambda *a: at(again(*a), {j}, lambda x: fit(x, {other}))"
            yield p.having(remat=rule.then("again = rem", f"rem = {changed}"))
    for text in other_structures(p.spec.output, "out"):
        changed = f"lambda *a: (lambda out: {text})(again(*a))"
        yield p.having(remat=rule.then("again = rem", f"rem = {changed}"))
