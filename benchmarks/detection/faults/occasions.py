"""Kinds 30, 33 and 29: rules that are wrong on one occasion among many.

Where types are not known these are told when JAX calls the rule at the latest: ahead of
that, rules are checked as long as it takes little of a program's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.detection import uses
from benchmarks.detection.occasions import (
    COUNT,
    ELEMENTWISE,
    STATIC,
    each_shape,
    each_static,
    eagerly,
    for_any_shape,
    of_a_factory,
    run_by,
    step,
    traced,
    with_example,
    with_line,
    with_static,
    with_value,
)
from benchmarks.detection.operators import fault
from benchmarks.detection.source import Function, Method
from benchmarks.detection.stages import Stage, Step

from .sites import other_dtypes

type Mutants = Iterator[Function]

FUNCTION = {"family": "function"}
JVP = {"family": "jvp function", "form": "defjvp"}
LATER = {"at_import": False}


def _wrong(f: Function, role: str, when: str) -> Mutants:
    """A rule that gives another dtype on one occasion."""
    j = f.spec.float_outs[0]
    leaf = f.spec.ins[f.spec.float_ins[0]] if role == "bwd" else f.spec.outs[j]
    for dtype in other_dtypes(leaf):
        cast = f"VALUE.astype('{dtype}') if {when} else VALUE"
        yield with_value(f, role, f"({cast})")


def _wrong_fwd_or_bwd(f: Function, when: str) -> Mutants:
    for role in ("fwd", "bwd"):
        yield from _wrong(f, role, when)


# --- one of many functions, shapes, values --------------------------------------------

LAST = f"i == {COUNT - 1}"


@fault(30, Stage.RULE, "SH412", "SH417", **FUNCTION)
def the_last_function_of_a_factory(f: Function) -> Mutants:
    for mutant in _wrong_fwd_or_bwd(f, LAST):
        yield of_a_factory(mutant)


@fault(33, Stage.RULE, "SH436", **JVP)
def the_last_jvp_function_of_a_factory(f: Function) -> Mutants:
    for mutant in _wrong(f, "jvp", LAST):
        yield of_a_factory(mutant)


SHAPE = f"VALUE.shape == ({COUNT},)"


@fault(30, Stage.RULE, "SH412", "SH417", **LATER, **ELEMENTWISE, **FUNCTION)
def the_last_shape_of_a_function(f: Function) -> Mutants:
    for mutant in _wrong_fwd_or_bwd(f, SHAPE):
        yield run_by(for_any_shape(mutant), each_shape)


@fault(33, Stage.RULE, "SH436", **LATER, **ELEMENTWISE, **JVP)
def the_last_shape_of_a_jvp_function(f: Function) -> Mutants:
    for mutant in _wrong(f, "jvp", SHAPE):
        yield run_by(for_any_shape(mutant), each_shape)


@fault(30, Stage.RULE, "SH412", "SH417", **LATER, **STATIC, **FUNCTION)
def one_of_two_zeros_as_a_static_argument(f: Function) -> Mutants:
    """They are equal, and have one hash."""
    for mutant in _wrong_fwd_or_bwd(f, "np.copysign(1, n) < 0"):
        yield run_by(mutant, each_static(["0.0", "-0.0"]))


@fault(30, Stage.RULE, "SH412", "SH417", **LATER, **STATIC, **FUNCTION)
def a_string_of_another_class_as_a_static_argument(f: Function) -> Mutants:
    before = ("class Mode(str): pass",)
    for mutant in _wrong_fwd_or_bwd(f, "type(n) is not str"):
        made = mutant.but(methods={k: _by_length(m) for k, m in mutant.methods.items()})
        steps = each_static(["'low'", "Mode('low')"])
        yield run_by(with_example(made, "'low'").but(before=before), steps)


def _by_length(rule: Any) -> Any:
    """The static argument is a word, of which the length is taken."""
    assert isinstance(rule, Method)
    body = tuple(line.replace("(1 + n)", "(1 + len(n))") for line in rule.body)
    return rule.but(body=body)


_CONFIG = """\
class Config:
    wide = True
    def __radd__(self, other):
        return other + 1
CONFIG = Config()"""


def _changed_between(
    program: Function, scope: dict[str, Any], strict: bool
) -> Iterator[Step]:
    """Calls and a gradient that are right, the change, and the same again."""
    for wide in (True, False):
        yield Stage.CALL, lambda wide=wide: setattr(scope["CONFIG"], "wide", wide)
        yield step(Stage.CALL, traced, program, scope)
        yield step(Stage.RULE, uses.gradient, program, scope)


@fault(30, Stage.RULE, "SH412", "SH417", **LATER, **STATIC, **FUNCTION)
def a_static_argument_that_is_changed(f: Function) -> Mutants:
    for mutant in _wrong_fwd_or_bwd(f, "not n.wide"):
        given = with_example(with_static(mutant, "CONFIG"), "CONFIG")
        yield run_by(given.but(before=(_CONFIG,)), _changed_between)


# --- a wrong rule that is set late ----------------------------------------------------


def _set(f: Function, role: str, mutants: Mutants) -> Mutants:
    for mutant in mutants:
        late = f.having(wrong=mutant.method(role))
        yield late.but(define=(*f.define, f"{{f}}.{role} = {{f}}_wrong"))


@fault(30, Stage.CALL, "SH412", "SH417", **LATER, form="defvjp", **FUNCTION)
def a_wrong_rule_set_on_a_function(f: Function) -> Mutants:
    for role in ("fwd", "bwd"):
        yield from _set(f, role, _wrong(f, role, "True"))


@fault(29, Stage.CALL, "SH403", "SH404", **LATER, form="defvjp", **FUNCTION)
def a_rule_set_on_a_function_that_jax_cannot_call(f: Function) -> Mutants:
    for role in ("fwd", "bwd"):
        rule = f.method(role)
        for params in ((*rule.params, "more"), rule.params[:-1]):
            changed = f.having(**{role: rule.but(params=params)})
            yield from _set(f, role, iter([changed]))


@fault(33, Stage.CALL, "SH436", **LATER, **JVP)
def a_wrong_jvp_rule_set_on_a_function(f: Function) -> Mutants:
    yield from _set(f, "jvp", _wrong(f, "jvp", "True"))


# --- what a rule raises, and what a function needs ------------------------------------

_PLAIN = """\
mine_p = Primitive('mine')
mine_p.def_abstract_eval(lambda x: x)
class Plain(HiPrim):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()
    def expand(self, x):
        return -x
def plain(x):
    return Plain(jax.typeof(x))(x)"""

_UNDIFFERENTIABLE = (
    "plain",
    "lambda t: t.at[...].apply(jnp.sin)",
    "mine_p.bind",
)


@fault(30, Stage.CALL, "SH424", raises=True, symbolic_zeros=False, **FUNCTION)
def a_rule_that_differentiates_what_has_no_derivative(f: Function) -> Mutants:
    for role in ("fwd", "bwd"):
        for fun in _UNDIFFERENTIABLE:
            derivative = f"jax.jvp({fun}, (VALUE,), (VALUE,))[1]"
            yield with_value(f, role, derivative).but(before=(_PLAIN,))


@fault(33, Stage.CALL, "SH424", raises=True, **JVP)
def a_jvp_rule_that_differentiates_what_has_no_derivative(f: Function) -> Mutants:
    for fun in _UNDIFFERENTIABLE:
        derivative = f"jax.jvp({fun}, (VALUE,), (VALUE,))[1]"
        yield with_value(f, "jvp", derivative).but(before=(_PLAIN,))


@fault(
    30,
    Stage.CALL,
    "SH412",
    "SH425",
    style="own",
    optimize_remat=False,
    form_in=("defvjp", "defvjp_with_logs", "defvjp_with_accums"),
    **FUNCTION,
)
def a_wrong_fwd_of_a_function_that_needs_values(f: Function) -> Mutants:
    """Given types, such a function is told that it cannot be traced for them."""
    for mutant in _wrong(f, "fwd", "True"):
        needs = with_line(mutant, "primal", "float(jnp.sum(jnp.abs(out_0)))")
        yield run_by(needs, eagerly)
