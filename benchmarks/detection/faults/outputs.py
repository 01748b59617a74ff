"""Kinds 19 and 20: the primal output, and what forward rules return with it."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.operators import fault
from benchmarks.detection.source import Primitive
from benchmarks.detection.stages import Stage

from .sites import NO_VALUES, other_structures, other_types, too_many_flags

type Mutants = Iterator[Primitive]

# --- 19: the primal -------------------------------------------------------------------


@fault(19, Stage.CALL, "SH302")
def another_type_from_expand(p: Primitive) -> Mutants:
    rule = p.method("expand")
    for j, leaf in enumerate(p.spec.outs):
        for other in other_types(leaf):
            yield p.having(expand=rule.then(f"out_{j} = fit(out_{j}, {other})"))


@fault(19, Stage.CALL, "SH301")
def another_structure_from_expand(p: Primitive) -> Mutants:
    rule = p.method("expand")
    kept = rule.then(f"out = {rule.result}")
    for text in other_structures(p.spec.output, "out"):
        yield p.having(expand=kept.giving(text))


def _another_type(p: Primitive, name: str) -> Mutants:
    for j, leaf in enumerate(p.spec.outs):
        for other in other_types(leaf):
            line = f"out = at(out, {j}, lambda x: fit(x, {other}))"
            yield p.having(**{name: p.method(name).then(line)})


def _another_structure(p: Primitive, name: str) -> Mutants:
    for text in other_structures(p.spec.output, "out"):
        yield p.having(**{name: p.method(name).then(f"out = {text}")})


by_hand = ("accums", "retval", "logs")


@fault(19, Stage.RULE, "SH302", reverse_in=by_hand)
def another_type_from_vjp_fwd(p: Primitive) -> Mutants:
    yield from _another_type(p, "vjp_fwd")


@fault(19, Stage.RULE, "SH301", reverse_in=by_hand)
def another_structure_from_vjp_fwd(p: Primitive) -> Mutants:
    yield from _another_structure(p, "vjp_fwd")


@fault(19, Stage.RULE, "SH302", lin="hand")
def another_type_from_lin(p: Primitive) -> Mutants:
    yield from _another_type(p, "lin")


@fault(19, Stage.RULE, "SH301", lin="hand")
def another_structure_from_lin(p: Primitive) -> Mutants:
    yield from _another_structure(p, "lin")


@fault(19, Stage.RULE, "SH302", jvp="hand")
def another_type_from_jvp(p: Primitive) -> Mutants:
    yield from _another_type(p, "jvp")


@fault(19, Stage.RULE, "SH301", jvp="hand")
def another_structure_from_jvp(p: Primitive) -> Mutants:
    yield from _another_structure(p, "jvp")


# --- 20: what forward rules return ----------------------------------------------------


def _returning(p: Primitive, *results: str) -> Mutants:
    """Each forward rule that keeps residuals, with another result."""
    for name in ("vjp_fwd", "lin"):
        if p.is_written(name):
            for result in results:
                yield p.having(**{name: p.method(name).giving(result)})


@fault(20, Stage.RULE, "SH305", "SH111", reverse_in=by_hand)
def no_tuple_of_two_to_four(p: Primitive) -> Mutants:
    """Beside a `vjp_bwd` for the residuals of four, the class statement tells it."""
    yield from _returning(
        p,
        "{'out': out, 'res': res}",
        "(out,)",
        "(out, res, True, None, None)",
        "jnp.float32(1)",
        "iter((out, res))",
        "(x for x in (out, res))",
        "'out'",
        "object()",
    )


@fault(20, Stage.RULE, "SH305", "SH301", "SH302", reverse_in=by_hand)
def residuals_forgotten(p: Primitive) -> Mutants:
    """An output that is a pair is then taken for an output and residuals."""
    yield from _returning(p, "out")


@fault(20, Stage.RULE, "SH306", reverse_in=by_hand)
def a_residual_that_is_no_value(p: Primitive) -> Mutants:
    rule = p.method("vjp_fwd")
    for value in NO_VALUES:
        for kept in (f"(*res, {value})", f"{{'kept': res, 'more': {value}}}"):
            yield p.having(vjp_fwd=rule.then(f"res = {kept}"))


@fault(20, Stage.RULE, "SH306", reverse="from_lin", lin="hand")
def a_residual_of_lin_that_is_no_value(p: Primitive) -> Mutants:
    """Alone, `lin` may keep anything; not so where reverse rules come from it."""
    for value in NO_VALUES:
        yield p.having(lin=p.method("lin").then(f"res = (*res, {value})"))


@fault(20, Stage.RULE, "SH307", reverse_in=by_hand, asks=True, fourth=False)
def flags_that_do_not_fit(p: Primitive) -> Mutants:
    wrong = ("'yes'", "3", too_many_flags(p.spec.output), "{'out': 'x'}", "1.0")
    yield from _returning(p, *(f"out, res, {flags}" for flags in wrong))


@fault(20, Stage.RULE, "SH308", reverse_in=("retval", "logs"))
def structured_residuals_that_nothing_receives(p: Primitive) -> Mutants:
    rule = p.method("vjp_fwd")
    for kept in ("(jnp.float32(1),)", "res", "{'factor': jnp.float32(2)}"):
        yield p.having(vjp_fwd=rule.giving(f"out, res, True, {kept}"))
