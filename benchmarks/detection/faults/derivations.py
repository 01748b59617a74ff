"""Kinds 4 to 7: derivations that are not what they look like."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.operators import fault
from benchmarks.detection.source import Method, Primitive
from benchmarks.detection.stages import Stage

type Mutants = Iterator[Primitive]


# --- 4: a pair for one name -----------------------------------------------------------


@fault(4, Stage.DEF, "SH104", reverse_in=("from_jvp", "from_lin"))
def a_pair_of_reverse_rules_for_one_name(p: Primitive) -> Mutants:
    pair = f"vjp_{p.spec.reverse}"
    for name in ("vjp_fwd", "vjp_bwd_retval", "vjp_bwd", "vjp"):
        yield p.having(vjp_fwd=f"{name} = {pair}")


@fault(4, Stage.DEF, "SH104", lin="from_jvp")
def a_pair_of_linear_rules_for_one_name(p: Primitive) -> Mutants:
    for name in ("lin", "linearized", "linearize"):
        yield p.having(lin=f"{name} = linearize_from_jvp")


# --- 5: halves that do not fit --------------------------------------------------------


@fault(5, Stage.DEF, "SH105", reverse_in=("from_jvp", "from_lin"))
def a_pair_of_reverse_rules_for_the_wrong_names(p: Primitive) -> Mutants:
    pair = f"vjp_{p.spec.reverse}"
    for names in ("vjp_bwd_retval, vjp_fwd", "vjp_fwd, vjp_bwd", "vjp_bwd, vjp_fwd"):
        yield p.having(vjp_fwd=f"{names} = {pair}")
    if not p.spec.lin:
        yield p.having(vjp_fwd=f"lin, linearized = {pair}")


@fault(5, Stage.DEF, "SH105", lin="from_jvp")
def a_pair_of_linear_rules_for_the_wrong_names(p: Primitive) -> Mutants:
    yield p.having(lin="linearized, lin = linearize_from_jvp")


@fault(5, Stage.DEF, "SH105", lin="hand", reverse_in=("accums", "retval", "logs"))
def a_derived_rule_for_the_wrong_name(p: Primitive) -> Mutants:
    for name in ("batch", "transpose", "linearized"):
        yield p.lacking(name).having(**{f"wrong_{name}": f"{name} = jvp_from_lin"})
    if not p.spec.jvp:
        yield p.having(jvp="vjp_fwd = jvp_from_lin")


@fault(5, Stage.DEF, "SH105", reverse="from_jvp", jvp="hand", lin="hand")
def halves_of_two_derivations(p: Primitive) -> Mutants:
    for first, second in (("jvp", "lin"), ("lin", "jvp")):
        yield p.having(
            vjp_fwd=f"vjp_fwd = vjp_from_{first}[0]",
            vjp_bwd_retval=f"vjp_bwd_retval = vjp_from_{second}[1]",
        )


@fault(5, Stage.DEF, "SH105", reverse_in=("from_jvp", "from_lin"))
def a_forward_rule_by_hand_and_a_derived_backward_rule(p: Primitive) -> Mutants:
    """It keeps an array, where the derived half wants what only JAX's own makes."""
    names = p.spec.names
    out = "jnp.sin(jnp.float32(1))"
    fwd = Method(("self", "nzs_in", *names)).giving(f"{out}, jnp.cos(jnp.float32(1))")
    bwd = f"vjp_bwd_retval = vjp_{p.spec.reverse}[1]"
    yield p.having(vjp_fwd=fwd, vjp_bwd_retval=bwd)


@fault(5, Stage.DEF, "SH105", lin="from_jvp")
def a_derived_lin_and_a_linearized_by_hand(p: Primitive) -> Mutants:
    """It computes with residuals that are an object of JAX's own."""
    names = (f"{name}_dot" for name in p.spec.names)
    rule = Method(("self", "res", *names)).giving("jnp.cos(res)")
    yield p.having(lin="lin = linearize_from_jvp[0]", linearized=rule)


# --- 6: derived from nothing ----------------------------------------------------------


@fault(6, Stage.DEF, "SH106", reverse="from_jvp", lacks=("linearize",))
def reverse_rules_from_a_jvp_that_is_not_there(p: Primitive) -> Mutants:
    yield p.lacking("jvp")


@fault(6, Stage.DEF, "SH106", reverse="from_lin", lin="hand")
def reverse_rules_from_a_lin_that_is_not_there(p: Primitive) -> Mutants:
    yield p.lacking("lin", "linearized")


@fault(6, Stage.DEF, "SH106", lin="from_jvp")
def linear_rules_from_a_jvp_that_is_not_there(p: Primitive) -> Mutants:
    yield p.lacking("jvp")


@fault(6, Stage.DEF, "SH106", jvp="from_lin", lin="hand")
def a_jvp_from_a_lin_that_is_not_there(p: Primitive) -> Mutants:
    yield p.lacking("lin", "linearized")


@fault(6, Stage.DEF, "SH106", reverse="from_lin", lin="from_jvp")
def through_a_chain(p: Primitive) -> Mutants:
    yield p.lacking("jvp")


@fault(6, Stage.DEF, "SH106", reverse="from_jvp", lacks=("linearize",), layout="base")
def through_a_base_class(p: Primitive) -> Mutants:
    yield p.lacking("jvp").but(of_base=p.of_base | {"vjp_fwd"})
    yield p.lacking("jvp").but(of_base=p.of_base - {"vjp_fwd"})


# --- 7: in a circle -------------------------------------------------------------------


@fault(7, Stage.DEF, "SH107", has=("jvp", "linearize"))
def jvp_and_lin_from_each_other(p: Primitive) -> Mutants:
    yield p.lacking("linearized").having(
        jvp="jvp = jvp_from_lin", lin="lin, linearized = linearize_from_jvp"
    )
