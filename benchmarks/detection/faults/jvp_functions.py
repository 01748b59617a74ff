"""Kinds 29 and 33 for functions with a jvp rule."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.operators import fault
from benchmarks.detection.source import Function
from benchmarks.detection.stages import Stage
from benchmarks.detection.trees import Leaf, numbered

from .sites import (
    not_linear,
    not_zero_at_zero,
    other_structures,
    other_types,
    real_primal,
    with_a_tangent,
)

type Mutants = Iterator[Function]

JVP = {"family": "jvp function"}
ONE = {"form": "defjvp", **JVP}
EACH = {"form": "defjvps", **JVP}


def rules(f: Function) -> list[str]:
    """The rules that are written: one, or one for each input with a tangent."""
    return [role for role in f.methods if role != "primal"]


# --- 29: definition -------------------------------------------------------------------


@fault(29, Stage.CALL, "SH401", at_import=False, **JVP)
def no_jvp_rule_by_the_time_of_a_call(f: Function) -> Mutants:
    yield f.but(define=())


@fault(29, Stage.DEF, "SH409", **ONE)
def none_for_a_jvp_rule(f: Function) -> Mutants:
    yield f.having(jvp="None")
    yield f.but(define=("{f}.defjvp(None)",))


@fault(29, Stage.DEF, "SH402", **JVP)
def a_value_or_generator_for_a_jvp_rule(f: Function) -> Mutants:
    for role in rules(f):
        rule = f.method(role)
        for value in ("3", "'rule'", "(jnp.sin, jnp.cos)", "np.ones(2)"):
            yield f.having(**{role: value})
        yield f.having(**{role: rule.but(returns=f"yield {rule.result}")})
        yield f.having(**{role: rule.but(prefix="async def")})


@fault(29, Stage.DEF, "SH430", **JVP)
def another_number_of_parameters_of_a_jvp_rule(f: Function) -> Mutants:
    for role in rules(f):
        rule = f.method(role)
        yield f.having(**{role: rule.but(params=(*rule.params, "more"))})
        for left in range(len(rule.params)):
            yield f.having(**{role: rule.but(params=rule.params[:left])})


@fault(29, Stage.DEF, "SH406", **JVP)
def a_required_keyword_of_a_jvp_rule(f: Function) -> Mutants:
    for role in rules(f):
        rule = f.method(role)
        yield f.having(**{role: rule.but(params=(*rule.params, "*", "axis"))})


@fault(29, Stage.DEF, "SH431", **EACH)
def another_number_of_jvp_rules(f: Function) -> Mutants:
    line = f.define[0]
    yield f.but(define=(line.replace(")", ", None)"),))
    if len(f.spec.inputs) > 1:
        yield f.but(define=(line.partition(",")[0] + ")",))


@fault(29, Stage.DEF, "SH407", "SH408", static=None, **JVP)
def static_arguments_of_a_jvp_function_that_do_not_exist(f: Function) -> Mutants:
    n = len(f.spec.params)
    for value in (f"({n},)", "(-1,)", "(0, 0)", "('x',)"):
        yield f.but(options={"nondiff_argnums": value})
    for value in ("('mode',)", "('x', 'x')"):
        yield f.but(options={"nondiff_argnames": value})


# --- 33: results ----------------------------------------------------------------------


def _dots(f: Function) -> str:
    return numbered(f.spec.output, "dot")


@fault(33, Stage.CALL, "SH432", "SH433", **ONE)
def no_pair_of_an_output_and_its_tangent(f: Function) -> Mutants:
    """An output that is a pair is taken for an output and a tangent."""
    rule, dots = f.method("jvp"), _dots(f)
    for result in (
        "out",
        dots,
        f"(out, {dots}, None)",
        f"{{'out': out, 'dot': {dots}}}",
        "(out,)",
        "'out'",
        "object()",
        f"iter((out, {dots}))",
        "(lambda: None)()",
    ):
        yield f.having(jvp=rule.giving(result))


@fault(33, Stage.CALL, "SH433", **ONE)
def an_output_of_another_structure(f: Function) -> Mutants:
    for text in other_structures(f.spec.output, "out"):
        yield f.having(jvp=f.method("jvp").then(f"out = {text}"))


@fault(33, Stage.CALL, "SH434", **ONE)
def an_output_of_another_type(f: Function) -> Mutants:
    for j, leaf in enumerate(f.spec.outs):
        for other in other_types(leaf):
            line = f"out = at(out, {j}, lambda x: fit(x, {other}))"
            yield f.having(jvp=f.method("jvp").then(line))


@fault(33, Stage.CALL, "SH435", asks=True, **ONE)
def a_tangent_of_another_structure(f: Function) -> Mutants:
    rule = f.method("jvp").then(f"dots = {_dots(f)}")
    for text in (*other_structures(f.spec.output, "dots"), "None"):
        yield f.having(jvp=rule.giving(f"out, {text}"))


@fault(33, Stage.CALL, "SH436", **ONE)
def a_tangent_of_the_output_of_another_type(f: Function) -> Mutants:
    yield from _other_tangents(f)


@fault(33, Stage.CALL, "SH436", "SH424", raises=True, **EACH)
def a_tangent_of_another_type_for_one_input(f: Function) -> Mutants:
    """JAX adds up the tangents of several rules before anybody sees them."""
    yield from _other_tangents(f)


def _other_tangents(f: Function) -> Mutants:
    for role in rules(f):
        for j in f.spec.float_outs:
            for other in other_types(f.spec.outs[j]):
                line = f"dot_{j} = fit(dot_{j}, {other})"
                yield f.having(**{role: f.method(role).then(line)})


@fault(33, Stage.CALL, "SH437", **ONE)
def a_tangent_of_the_output_that_is_no_value(f: Function) -> Mutants:
    yield from _no_tangents(f)


@fault(33, Stage.CALL, "SH437", "SH424", raises=True, **EACH)
def a_tangent_that_is_no_value_for_one_input(f: Function) -> Mutants:
    yield from _no_tangents(f)


def _no_tangents(f: Function) -> Mutants:
    for role in rules(f):
        for j in f.spec.float_outs:
            for value in ("'dot'", "object()", "jnp.sin"):
                yield f.having(**{role: f.method(role).then(f"dot_{j} = {value}")})


@fault(33, Stage.CALL, "SH440", **JVP)
def a_tangent_that_is_not_linear(f: Function) -> Mutants:
    for role, j, leaf in _made_tangents(f):
        for text in not_linear(f"dot_{j}", leaf):
            yield f.having(**{role: f.method(role).then(f"dot_{j} = {text}")})


@fault(33, Stage.CALL, "SH441", **JVP)
def a_tangent_with_a_constant_that_is_added(f: Function) -> Mutants:
    primal = real_primal(f.spec.float_ins, f.spec.ins)
    for role, j, leaf in _made_tangents(f):
        for text in not_zero_at_zero(f"dot_{j}", leaf, primal):
            yield f.having(**{role: f.method(role).then(f"dot_{j} = {text}")})


def _made_tangents(f: Function) -> Iterator[tuple[str, int, Leaf]]:
    for role in rules(f):
        for j in f.spec.float_outs:
            yield role, j, f.spec.outs[j]


@fault(33, Stage.CALL, "SH442", **ONE)
def an_output_that_depends_on_a_tangent(f: Function) -> Mutants:
    for j in f.spec.float_outs:
        for text in with_a_tangent(f"dot_{j}"):
            line = f"out = at(out, {j}, lambda x: {text})"
            yield f.having(jvp=f.method("jvp").then(line))
