"""Kind 34: effects of rules, wherever in them they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.detection.operators import fault
from benchmarks.detection.primitives import NEW
from benchmarks.detection.source import Function, Primitive
from benchmarks.detection.stages import Stage

AROUND = (
    "directly",
    "in_scan",
    "in_cond",
    "in_while",
    "in_jit",
    "in_custom_jvp",
    "in_checkpoint",
)

REFUSING = ("in_scan", "in_cond", "in_while")
"""In these JAX itself refuses what no library has registered for them."""

FUNCTION = {"family": "function"}


def _uses(*effects: str) -> Iterator[str]:
    """Effects in what they can stand in, with VALUE for what has them."""
    for around in AROUND:
        for effect in effects:
            if effect != "communicate" or around not in REFUSING:
                yield f"{around}({effect}, VALUE)"


def _in_function(f: Function, uses: Iterable[str], roles: Iterable[str]) -> Any:
    """A function with one of these effects in one of its rules."""
    found = tuple(uses)
    for role in roles:
        rule = f.method(role)
        for use in found:
            if role == "bwd":
                i = f.spec.float_ins[0]
                line = f"ct_{i} = {use.replace('VALUE', f'ct_{i}')}"
            elif role == "primal":
                line = f"out_0 = {use.replace('VALUE', 'out_0')}"
            else:
                line = f"out = at(out, 0, lambda x: {use.replace('VALUE', 'x')})"
            yield f.having(**{role: rule.then(line)})


def _by(f: Function, policy: str) -> Function:
    return f.but(strict_options={"effects": policy})


@fault(34, Stage.CALL, "SH501", style="own", **FUNCTION)
def an_effect_that_custom_derivatives_do_not_allow(f: Function) -> Iterator[Function]:
    yield from _in_function(f, _uses("tap", "communicate"), f.methods)


@fault(
    34,
    Stage.CALL,
    "SH424",
    style="own",
    symbolic_zeros=False,
    raises=True,
    **FUNCTION,
)
def an_effect_that_jax_refuses_in_a_loop_or_branch(f: Function) -> Iterator[Function]:
    """Not in the function itself: a call of that is stopped by JAX."""
    roles = [role for role in f.methods if role != "primal"]
    uses = [f"{around}(communicate, VALUE)" for around in REFUSING]
    yield from _in_function(f, uses, roles)


@fault(34, Stage.CALL, "SH502", "SH501", style="own", form="defvjp", **FUNCTION)
def an_effect_that_checkpoint_does_not_allow(f: Function) -> Iterator[Function]:
    """On 0.11.2, JAX's custom derivatives have none in a bwd within a custom jvp."""
    for mutant in _in_function(f, _uses("log"), f.methods):
        if NEW or "in_custom_jvp" not in mutant.method("bwd").text(""):
            yield _by(mutant, "'remat'")


@fault(34, Stage.CALL, "SH503", style="own", **FUNCTION)
def an_effect_where_none_is_allowed(f: Function) -> Iterator[Function]:
    for mutant in _in_function(f, _uses("show"), f.methods):
        yield _by(mutant, "'pure'")
        yield _by(mutant, "(LibraryEffect,)")


@fault(34, Stage.DEF, "SH504", stock=False, **FUNCTION)
def an_effect_policy_that_does_not_exist(f: Function) -> Iterator[Function]:
    for policy in ("'pur'", "'none'", "3", "None", "(int,)", "['IOEffect']", "'JAX'"):
        yield _by(f, policy)


# --- primitives -----------------------------------------------------------------------


@fault(34, Stage.CALL, "SH505", needs={"refs": False})
def an_effect_of_expand_that_is_not_declared(p: Primitive) -> Iterator[Primitive]:
    rule = p.method("expand")
    for use in _uses("log", "tap", "communicate"):
        if NEW or "in_custom_jvp" not in use:  # 0.11.2 refuses it there
            line = f"out_0 = {use.replace('VALUE', 'out_0')}"
            yield p.having(expand=rule.then(line))


def _in_reverse_rules(p: Primitive, uses: Iterable[str]) -> Iterator[Primitive]:
    i = p.spec.float_ins[0]
    backward = [name for name in p.members if name.startswith("vjp_bwd")]
    for use in uses:
        line = f"out = at(out, 0, lambda x: {use.replace('VALUE', 'x')})"
        yield p.having(vjp_fwd=p.method("vjp_fwd").then(line))
        for name in backward:
            line = f"ct_{i} = {use.replace('VALUE', f'ct_{i}')}"
            yield p.having(**{name: p.method(name).then(line)})


REVERSE = {"reverse_in": ("accums", "retval", "logs"), "needs": {"refs": False}}


@fault(34, Stage.RULE, "SH501", **REVERSE)
def an_effect_of_a_reverse_rule_that_is_not_allowed(
    p: Primitive,
) -> Iterator[Primitive]:
    yield from _in_reverse_rules(p, _uses("tap", "communicate"))
