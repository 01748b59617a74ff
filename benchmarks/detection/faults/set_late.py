"""Rules set on an instance, or on a class when its statement is over."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.operators import fault
from benchmarks.detection.source import Method, Primitive
from benchmarks.detection.stages import Stage

from .cotangents import RETURNING, untouched, with_cotangents, wrong_types

type Mutants = Iterator[Primitive]


# --- on the instance ------------------------------------------------------------------


def _on_the_instance(p: Primitive, rule: str, mutants: Mutants) -> Mutants:
    """The class keeps its right rule; each instance has the wrong one of a mutant."""
    for mutant in mutants:
        text = mutant.method(rule).text("own_rule")
        own = f"self.{rule} = partial(own_rule, self)"
        yield p.but(before=(*p.before, text)).declaring(own=own)


@fault(13, Stage.NEW, "SH114", reverse_in=("accums", "retval", "logs"))
def a_value_set_for_a_rule_of_the_instance(p: Primitive) -> Mutants:
    for rule in ("vjp_fwd", "vjp_bwd", "vjp_bwd_retval", "expand"):
        for value in ("3", "'sin'", "(lambda x: x,)"):
            if rule in p.members:
                yield p.declaring(own=f"self.{rule} = {value}")


@fault(22, Stage.RULE, "SH311", reverse="accums")
def an_accumulator_left_untouched_by_a_rule_of_the_instance(p: Primitive) -> Mutants:
    places = list(range(len(p.spec.float_ins)))
    yield from _on_the_instance(p, "vjp_bwd", untouched(p, "vjp_bwd", places))


@fault(22, Stage.RULE, "SH315", "SH316", "SH317", reverse="accums")
def a_cotangent_of_another_type_by_a_rule_of_the_instance(p: Primitive) -> Mutants:
    places = list(range(len(p.spec.float_ins)))
    yield from _on_the_instance(p, "vjp_bwd", wrong_types(p, "vjp_bwd", places))


@fault(23, Stage.RULE, "SH313", reverse="retval", asks=True)
def cotangents_of_a_rule_of_the_instance_that_are_no_tuple(p: Primitive) -> Mutants:
    mutants = with_cotangents(p, "list(cts)", "iter(cts)", "dict(enumerate(cts))")
    yield from _on_the_instance(p, "vjp_bwd_retval", mutants)


# --- on the class ---------------------------------------------------------------------


def _afterwards(p: Primitive, *lines: str) -> Primitive:
    return p.but(after=(*p.after, *(line.replace("{p}", p.name) for line in lines)))


@fault(2, Stage.NEW, "SH102", at_import=False, reverse_in=("accums", *RETURNING))
def a_backward_rule_deleted(p: Primitive) -> Mutants:
    owner = "{p}Base" if p.layout == "base" else "{p}"
    for rule in ("vjp_bwd", "vjp_bwd_retval", "vjp_bwd_retval_logs", "vjp_fwd"):
        if rule in p.of_base and p.layout == "base":
            yield _afterwards(p, f"del {owner}.{rule}")
        elif rule in p.members and rule not in p.of_base:
            yield _afterwards(p, f"del {{p}}.{rule}")


@fault(4, Stage.NEW, "SH104", at_import=False, jvp="hand")
def a_pair_set_for_one_name(p: Primitive) -> Mutants:
    for rule in ("vjp_fwd", "vjp_bwd", "vjp_bwd_retval"):
        yield _afterwards(p, f"{{p}}.{rule} = vjp_from_jvp")
    yield _afterwards(p, "{p}.lin = linearize_from_jvp")


@fault(9, Stage.NEW, "SH109", at_import=False, reverse="accums")
def a_second_backward_rule_set(p: Primitive) -> Mutants:
    for rule in ("vjp_bwd_retval", "vjp_bwd_retval_logs"):
        yield _afterwards(p, f"{{p}}.{rule} = lambda self, res, g: jnp.sin(g)")


@fault(9, Stage.NEW, "SH109", at_import=False, reverse_in=RETURNING, layout="one")
def an_accumulating_rule_set_beside_another(p: Primitive) -> Mutants:
    for given in ("self, res, g, *accs", "self, *args"):
        yield _afterwards(p, f"{{p}}.vjp_bwd = lambda {given}: None")


@fault(10, Stage.NEW, "SH110", at_import=False)
def a_rule_set_that_cannot_take_what_jax_gives(p: Primitive) -> Mutants:
    for rule in ("expand", "vjp_fwd", "jvp"):
        for given in ("", "self, *, x", "self, x, *, y"):
            if p.is_written(rule):
                yield _afterwards(p, f"{{p}}.{rule} = lambda {given}: jnp.sin(1.0)")


# --- a derived half beside a rule by hand ---------------------------------------------

_TAKES_AN_ARRAY = (
    ("(jnp.cos(res),)",),
    ("(-res,)",),
    ("(res * jnp.float32(2),)",),
    ("(res.astype('float32'),)",),
    ("(jnp.cos(x),)", "x, _ = res"),
    ("(x * y * z,)", "x, y, z = res"),
)


def _with_a_backward(p: Primitive, half: str) -> Mutants:
    for result, *body in _TAKES_AN_ARRAY:
        rule = Method(("self", "res", "g"), tuple(body)).giving(result)
        yield p.having(vjp_fwd=half, vjp_bwd_retval=rule)
        logged = rule.giving(f"{result}, None")
        yield p.having(vjp_fwd=half, vjp_bwd_retval_logs=logged)
        accums = tuple(f"{name}_acc" for name in p.spec.names)
        sink = tuple(f"{acc}.accum({result}[0])" for acc in accums)
        given = Method(("self", "res", "g", *accums), tuple(body), sink)
        yield p.having(vjp_fwd=half, vjp_bwd=given)


@fault(5, Stage.DEF, "SH105", reverse="from_jvp")
def a_derived_forward_rule_and_a_backward_rule_by_hand(p: Primitive) -> Mutants:
    yield from _with_a_backward(p, "vjp_fwd = vjp_from_jvp[0]")


@fault(5, Stage.DEF, "SH105", reverse="from_jvp", layout="base")
def a_pair_in_a_base_and_a_backward_rule_by_hand(p: Primitive) -> Mutants:
    p = p.but(of_base=(p.of_base | {"vjp_fwd"}) - {"vjp_bwd", "vjp_bwd_retval"})
    yield from _with_a_backward(p, "vjp_fwd, vjp_bwd_retval = vjp_from_jvp")
