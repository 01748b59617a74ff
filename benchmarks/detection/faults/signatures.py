"""Kinds 10, 11, 13 and 14: rules that cannot take what they are given, or give it."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.operators import fault
from benchmarks.detection.primitives import NEW
from benchmarks.detection.source import Method, Primitive
from benchmarks.detection.stages import Stage

type Mutants = Iterator[Primitive]

LEADING = {
    "expand": 0,
    "vjp_fwd": 1,
    "vjp_bwd": 2,
    "vjp_bwd_retval": 2,
    "vjp_bwd_retval_logs": 2,
    "jvp": 2,
    "lin": 1,
    "linearized": 1,
    "transpose": 1,
    "batch": 3,
    "dce": 1 + NEW,
    "remat": 1,
}
"""How many arguments come before those that there are one of per input."""

PER_INPUT = {"expand", "vjp_fwd", "vjp_bwd", "lin", "linearized", "transpose", "remat"}
STRUCTURED = {"vjp_bwd", "linearized"}  # may be given `sres` as well


def by_hand(p: Primitive) -> list[str]:
    """The rules that are written by hand."""
    return [name for name in p.members if p.is_written(name) and name in LEADING]


# --- 10: arguments --------------------------------------------------------------------


@fault(10, Stage.DEF, "SH110", "SH111")
def too_few_parameters(p: Primitive) -> Mutants:
    for name in by_hand(p):
        rule = p.method(name)
        for left in range(LEADING[name]):
            yield p.having(**{name: rule.but(params=rule.params[: left + 1])})
        yield p.having(**{name: rule.but(params=())})


@fault(10, Stage.DEF, "SH110")
def too_many_parameters(p: Primitive) -> Mutants:
    for name in by_hand(p):
        if name not in PER_INPUT:
            rule = p.method(name)
            for more in (("more",), ("more", "still")):
                yield p.having(**{name: rule.but(params=(*rule.params, *more))})


@fault(10, Stage.DEF, "SH110")
def a_required_keyword(p: Primitive) -> Mutants:
    for name in by_hand(p):
        rule = p.method(name)
        yield p.having(**{name: rule.but(params=(*rule.params, "*", "axis"))})
        if len(rule.params) > 1:
            *before, last = rule.params
            yield p.having(**{name: rule.but(params=(*before, "*", last))})


# --- 11: the number of inputs ---------------------------------------------------------


def _counts(name: str, rule: Method) -> set[int]:
    """The numbers of inputs that a signature can be for."""
    most = len(rule.params) - 1 - LEADING[name]
    return {most, most - 1} if name in STRUCTURED else {most}


@fault(11, Stage.DEF, "SH110", "SH111", reverse_in=("accums", "retval", "logs"))
def another_number_of_inputs(p: Primitive) -> Mutants:
    """So many that the rule cannot be one with structured residuals, either."""
    rules = [name for name in by_hand(p) if name in PER_INPUT]
    for name in rules:
        rule = p.method(name)
        others = [_counts(o, p.method(o)) for o in rules if o != name]
        for change in (-2, -1, 1, 2):
            kept = rule.params[: len(rule.params) + min(change, 0)]
            more = tuple(f"more_{i}" for i in range(change))
            changed = rule.but(params=(*kept, *more))
            counts = _counts(name, changed)
            if len(kept) > LEADING[name] and any(map(counts.isdisjoint, others)):
                yield p.having(**{name: changed})


# --- 13: what cannot be called --------------------------------------------------------


@fault(13, Stage.DEF, "SH114")
def a_generator(p: Primitive) -> Mutants:
    for name in by_hand(p):
        rule = p.method(name)
        result = rule.result if rule.returns else ""
        yield p.having(**{name: rule.but(returns=f"yield {result}".rstrip())})


@fault(13, Stage.DEF, "SH114")
def a_coroutine(p: Primitive) -> Mutants:
    for name in by_hand(p):
        yield p.having(**{name: p.method(name).but(prefix="async def")})


@fault(13, Stage.DEF, "SH114")
def an_async_generator(p: Primitive) -> Mutants:
    for name in by_hand(p):
        rule = p.method(name).but(prefix="async def")
        if name != "dce":  # which returns a value in its body
            yield p.having(**{name: rule.but(returns=f"yield {rule.result}")})


@fault(13, Stage.DEF, "SH114")
def a_value_that_cannot_be_called(p: Primitive) -> Mutants:
    for name in by_hand(p):
        for value in ("3", "'sin'", "(1, 2)", "{}", "np.ones(3)", "True"):
            yield p.having(**{name: f"{name} = {value}"})


@fault(13, Stage.DEF, "SH114", reverse_in=("retval", "logs"))
def none_for_the_backward_rule_that_is_called(p: Primitive) -> Mutants:
    yield p.having(vjp_bwd="vjp_bwd = None")


@fault(13, Stage.DEF, "SH114")
def a_property_with_arguments(p: Primitive) -> Mutants:
    for name in by_hand(p):
        rule = p.method(name)
        if len(rule.params) > 1:
            yield p.having(**{name: rule.but(decorators=("@property",))})


# --- 14: returns ----------------------------------------------------------------------

_MUST_RETURN = {"vjp_fwd", "lin", "jvp", "vjp_bwd_retval", "vjp_bwd_retval_logs"}


@fault(14, Stage.DEF, "SH115")
def no_return(p: Primitive) -> Mutants:
    for name in by_hand(p):
        if name in _MUST_RETURN:
            for text in (None, "return", "return None"):
                yield p.having(**{name: p.method(name).but(returns=text)})


@fault(14, Stage.NEW, "SH115", lin="hand")
def no_return_where_there_are_outputs(p: Primitive) -> Mutants:
    for name in ("expand", "linearized"):
        for text in (None, "return", "return None"):
            yield p.having(**{name: p.method(name).but(returns=text)})


@fault(14, Stage.DEF, "SH116", reverse="accums", has=("transpose",))
def an_accumulating_rule_that_returns_cotangents(p: Primitive) -> Mutants:
    cotangents = [f"ct_{i}" for i in p.spec.float_ins]
    listed = ", ".join(cotangents)
    for name in ("vjp_bwd", "transpose"):
        for result in (f"({listed},)", f"[{listed}]", "0", "1.0"):
            rule = p.method(name)
            yield p.having(**{name: rule.giving(result)})
            yield p.having(**{name: rule.giving(result).but(sink=())})
