"""Kind 29: rules of functions that JAX cannot call, from their definition alone."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.operators import fault
from benchmarks.detection.source import Function, Method
from benchmarks.detection.stages import Stage

type Mutants = Iterator[Function]

FUNCTION = {"family": "function"}


def roles(f: Function) -> list[str]:
    """The rules that there are besides the function itself."""
    return [role for role in f.methods if role != "primal"]


@fault(29, Stage.CALL, "SH401", at_import=False, **FUNCTION)
def no_rules_by_the_time_of_a_call(f: Function) -> Mutants:
    yield f.but(define=())


@fault(29, Stage.DEF, "SH409", **FUNCTION)
def none_for_a_rule(f: Function) -> Mutants:
    for role in roles(f):
        yield f.but(define=(f.define[0].replace(f"{{f}}_{role}", "None"),))
        yield f.having(**{role: "None"})


@fault(29, Stage.DEF, "SH402", **FUNCTION)
def a_value_for_a_rule(f: Function) -> Mutants:
    for role in roles(f):
        for value in ("3", "'rule'", "(jnp.sin, jnp.cos)", "{}", "np.ones(2)"):
            yield f.having(**{role: value})


@fault(29, Stage.DEF, "SH403", "SH404", "SH405", **FUNCTION)
def another_number_of_parameters(f: Function) -> Mutants:
    for role in roles(f):
        rule = f.method(role)
        yield f.having(**{role: rule.but(params=(*rule.params, "more"))})
        yield f.having(**{role: rule.but(params=(*rule.params, "more", "still"))})
        for left in range(len(rule.params)):
            yield f.having(**{role: rule.but(params=rule.params[:left])})


def _arities(f: Function) -> tuple[int, int]:
    return len(f.method("fwd").params), len(f.method("bwd").params)


def _swapped(f: Function) -> Function:
    line = f.define[0].replace("_fwd", "_FWD").replace("_bwd", "_fwd")
    return f.but(define=(line.replace("_FWD", "_bwd"),))


@fault(29, Stage.DEF, "SH405", "SH403", "SH404", **FUNCTION)
def fwd_and_bwd_swapped(f: Function) -> Mutants:
    fwd, bwd = _arities(f)
    if fwd != bwd:
        yield _swapped(f)


@fault(
    29,
    Stage.CALL,
    *("SH405", "SH410", "SH411", "SH412", "SH413", "SH414", "SH420", "SH424"),
    needs={"count": 2, "integers": False},
    static=None,
    form="defvjp",
    symbolic_zeros=False,
    **FUNCTION,
)
def fwd_and_bwd_swapped_where_both_take_two(f: Function) -> Mutants:
    """Their names may tell it; else there is nothing to see before they are traced."""
    fwd, bwd = _arities(f)
    if fwd == bwd:
        yield _swapped(f)


@fault(29, Stage.DEF, "SH402", **FUNCTION)
def a_generator_or_coroutine_for_a_rule(f: Function) -> Mutants:
    for role in roles(f):
        rule = f.method(role)
        yield f.having(**{role: rule.but(returns=f"yield {rule.result}")})
        yield f.having(**{role: rule.but(prefix="async def")})


def _keyword(rule: Method) -> Iterator[Method]:
    yield rule.but(params=(*rule.params, "*", "axis"))
    *before, last = rule.params
    yield rule.but(params=(*before, "*", last))


@fault(29, Stage.DEF, "SH406", static=None, **FUNCTION)
def a_required_keyword_of_a_rule(f: Function) -> Mutants:
    for role in f.methods:
        for changed in _keyword(f.method(role)):
            yield f.having(**{role: changed})


@fault(29, Stage.DEF, "SH407", static=None, **FUNCTION)
def nondiff_argnums_that_do_not_exist(f: Function) -> Mutants:
    n = len(f.spec.params)
    for value in (
        f"({n},)",
        f"({n + 3},)",
        "(-1,)",
        "(0, 0)",
        "('x',)",
        "(0.0,)",
        f"(0, {n})",
    ):
        yield f.but(options={"nondiff_argnums": value})


@fault(29, Stage.DEF, "SH408", static=None, **FUNCTION)
def nondiff_argnames_that_do_not_exist(f: Function) -> Mutants:
    for value in ("('mode',)", "('X',)", "('x', 'mode')", "('x', 'x')", "('',)"):
        yield f.but(options={"nondiff_argnames": value})


# --- advice ---------------------------------------------------------------------------


@fault(
    30,
    Stage.CHECK,
    "SH902",
    at_import=False,
    needs={"count": 2},
    form="defvjp",
    symbolic_zeros=False,
    style="self",
    **FUNCTION,
)
def fwd_with_the_parameters_in_another_order(f: Function) -> Mutants:
    """Each is used as what it is given, so that nothing but the names is odd."""
    fwd = f.method("fwd")
    names = fwd.params
    for shift in range(1, len(names)):
        params = (*names[shift:], *names[:shift])
        body = (f"{', '.join(names)} = {', '.join(params)}", *fwd.body)
        changed = f.having(fwd=fwd.but(params=params, body=body))
        yield changed.but(notes={"advised": True})


@fault(30, Stage.CHECK, "SH903", at_import=False, **FUNCTION)
def rules_defined_twice(f: Function) -> Mutants:
    first = Method(
        f.method("fwd").params, f.method("fwd").body, returns="return out, res"
    )
    line = f.define[0].replace("_fwd", "_other")
    more = first.text(f"{f.name}_other")
    yield f.but(define=(more, line, *f.define), notes={"advised": True})
    yield f.but(define=(*f.define, more, line), notes={"advised": True})
