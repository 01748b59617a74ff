"""Kinds 1 to 3, 8, 9 and 12: rules that are missing, misspelt, or there twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchmarks.detection import uses
from benchmarks.detection.operators import fault
from benchmarks.detection.primitives import NEW, Writer
from benchmarks.detection.source import Method, Primitive
from benchmarks.detection.stages import Stage

BACKWARD = ("vjp_bwd", "vjp_bwd_retval", "vjp_bwd_retval_logs")
BY_HAND = ("accums", "retval", "logs")

type Mutants = Iterator[Primitive]


# --- 1: expand ------------------------------------------------------------------------


@fault(1, Stage.DEF, "SH101")
def no_expand(p: Primitive) -> Mutants:
    yield p.lacking("expand")
    yield p.having(expand="expand = None")


@fault(1, Stage.DEF, "SH101", "SH112")
def expand_under_a_name_of_its_own(p: Primitive) -> Mutants:
    for name in ("compute", "__call__impl", "primal"):
        yield p.lacking("expand").having(**{name: p.method("expand")})


# --- 2, 3: promises -------------------------------------------------------------------


@fault(2, Stage.DEF, "SH102")
def no_reverse_rule(p: Primitive) -> Mutants:
    yield p.lacking("vjp_fwd", *BACKWARD)


@fault(2, Stage.DEF, "SH102", reverse_in=BY_HAND)
def only_a_forward_rule(p: Primitive) -> Mutants:
    yield p.lacking(*BACKWARD)


@fault(2, Stage.DEF, "SH102", reverse_in=BY_HAND)
def only_a_backward_rule(p: Primitive) -> Mutants:
    yield p.lacking("vjp_fwd")


_USES = {
    "jvp": uses.forward_mode,
    "remat": uses.checkpointed,
    "linearize": uses.linearized,
    "vmap": uses.mapped,
    "transpose": uses.transposed,
}


def _promise(p: Primitive, transform: str) -> Primitive:
    promised = sorted(p.spec.transforms | {transform})
    kept = p.promising(supports=repr(tuple(promised)))
    return kept.but(notes={"uses": (_USES[transform],)})


@fault(3, Stage.DEF, "SH103", reverse_in=BY_HAND, lacks=("jvp",))
def promises_jvp_or_remat_without_it(p: Primitive) -> Mutants:
    yield _promise(p, "jvp")
    yield _promise(p, "remat")


@fault(3, Stage.DEF, "SH103", reverse_in=(*BY_HAND, "from_jvp"), lacks=("linearize",))
def promises_linearize_without_it(p: Primitive) -> Mutants:
    yield _promise(p, "linearize")


@fault(3, Stage.DEF, "SH103", lacks=("vmap",))
def promises_vmap_without_it(p: Primitive) -> Mutants:
    yield _promise(p, "vmap")


@fault(3, Stage.DEF, "SH103", lacks=("transpose",))
def promises_transpose_without_it(p: Primitive) -> Mutants:
    yield _promise(p, "transpose")


# --- 8: lin and linearized ------------------------------------------------------------


@fault(8, Stage.DEF, "SH108", lin="hand")
def lin_without_linearized(p: Primitive) -> Mutants:
    yield p.lacking("linearized")


@fault(8, Stage.DEF, "SH108", lin="hand")
def linearized_without_lin(p: Primitive) -> Mutants:
    yield p.lacking("lin")


@fault(8, Stage.DEF, "SH108", lin="from_jvp")
def half_of_a_derived_pair_alone(p: Primitive) -> Mutants:
    yield p.having(lin="lin = linearize_from_jvp[0]")
    yield p.having(lin="linearized = linearize_from_jvp[1]")


# --- 9: two backward rules ------------------------------------------------------------


def _other_backward(p: Primitive) -> Iterator[dict[str, Method]]:
    """Backward rules of the other kinds, as they would be written."""
    write = Writer(p.spec)
    returning = write.backward(accumulates=False)
    logging = returning.giving(f"{returning.result}, None")
    others = {
        "vjp_bwd": write.backward(accumulates=True),
        "vjp_bwd_retval": returning,
        "vjp_bwd_retval_logs": logging,
    }
    for name, rule in others.items():
        if name not in p.members:
            yield {name: rule}


@fault(9, Stage.DEF, "SH109", reverse_in=BY_HAND, layout="one")
def two_backward_rules(p: Primitive) -> Mutants:
    for more in _other_backward(p):
        yield p.having(**more)


@fault(9, Stage.DEF, "SH109", reverse_in=("from_jvp", "from_lin"), layout="one")
def a_derived_backward_rule_and_another(p: Primitive) -> Mutants:
    for more in _other_backward(p):
        if "vjp_bwd_retval" not in more:
            yield p.having(**more)


@fault(9, Stage.DEF, "SH109", reverse_in=("accums", "logs"), layout="base")
def one_of_the_base_that_hides_that_of_the_class(p: Primitive) -> Mutants:
    hiding = "vjp_bwd" if "vjp_bwd" in p.members else "vjp_bwd_retval_logs"
    hidden = BACKWARD[1:] if hiding == "vjp_bwd" else ("vjp_bwd_retval",)
    for more in _other_backward(p):
        if more.keys() <= set(hidden):
            yield p.having(**more).but(of_base=(p.of_base | {hiding}) - more.keys())


# --- 12: names ------------------------------------------------------------------------


def _needed(p: Primitive) -> set[str]:
    """Rules that are promised, or that another rule is derived from."""
    spec = p.spec
    promised = {"grad"} if spec.supports is None else set(spec.supports)
    derived = {spec.reverse, spec.jvp, spec.lin}
    needs = {
        "expand": True,
        "vjp_fwd": "grad" in promised,
        "vjp_bwd": "grad" in promised,
        "vjp_bwd_retval": "grad" in promised,
        "vjp_bwd_retval_logs": "grad" in promised,
        "jvp": bool({"jvp", "remat"} & promised) or "from_jvp" in derived,
        "lin": "linearize" in promised or "from_lin" in derived,
        "linearized": "linearize" in promised or "from_lin" in derived,
        "batch": "vmap" in promised,
        "transpose": "transpose" in promised,
    }
    return {name for name, is_needed in needs.items() if is_needed}


def _swapped(name: str) -> Iterator[str]:
    for i, (a, b) in enumerate(itertools.pairwise(name)):
        if a != b and "_" not in (a, b):
            yield name[:i] + b + a + name[i + 2 :]


def _slips(name: str) -> Iterator[str]:
    """A letter left out or doubled, an underscore too few, too many, or a capital."""
    for i, letter in enumerate(name[:-1]):
        yield name[:i] + name[i + 1 :]
        yield name[:i] + letter + name[i:]
        if letter != "_" and name[i + 1] != "_" and i > 0:
            yield f"{name[: i + 1]}_{name[i + 1 :]}"
    yield name.capitalize()


_RULES = frozenset(
    {
        "batch",
        "batch_dim_rule",
        "dce",
        "expand",
        "jvp",
        "lin",
        "linearized",
        "linearize",
        "remat",
        "staging",
        "transpose",
        "vjp_fwd",
        *BACKWARD,
    }
)


def _renamed(p: Primitive, rule: str, names: Iterator[str]) -> Mutants:
    for name in dict.fromkeys(names):
        if name not in _RULES and not name.startswith("_"):
            yield p.lacking(rule).having(**{name: p.method(rule)})


_MISSING = ("SH101", "SH102", "SH103", "SH106", "SH108", "SH112")


@fault(12, Stage.DEF, *_MISSING)
def a_slip_in_a_name_that_is_needed(p: Primitive) -> Mutants:
    for rule in _needed(p) & set(filter(p.is_written, p.members)):
        yield from _renamed(p, rule, _swapped(rule))
        yield from _renamed(p, rule, _slips(rule))


@fault(
    12, Stage.DEF, "SH112", "SH108", lacks=("jvp",), reverse_in=BY_HAND, promise=False
)
def two_letters_swapped_in_a_name_that_nothing_needs(p: Primitive) -> Mutants:
    """Of more than three letters: `ljn` may be a word, as `vjp` is beside `jvp`."""
    for rule in sorted(set(filter(p.is_written, p.members)) - _needed(p)):
        if len(rule) > 3:
            yield from _renamed(p, rule, _swapped(rule))


@fault(12, Stage.DEF, "SH112", has=("transpose",), promise=False)
def a_slip_in_a_long_name_that_nothing_needs(p: Primitive) -> Mutants:
    """Of more than five letters; one that starts with the whole name is a helper's."""
    names = (name for name in _slips("transpose") if not name.startswith("transpose"))
    yield from _renamed(p, "transpose", names)


@fault(12, Stage.DEF, "SH113")
def expand_of_another_version(p: Primitive) -> Mutants:
    for name in ("to_lojax", "impl"):
        yield p.lacking("expand").having(**{name: p.method("expand")})


@fault(12, Stage.DEF, "SH113", "SH108", lin="hand", has=("linearize",))
def lin_of_another_version(p: Primitive) -> Mutants:
    yield p.lacking("lin").having(linearize=p.method("lin"))


if NEW:

    @fault(12, Stage.DEF, "SH113", has=("vmap",))
    def batch_of_another_version(p: Primitive) -> Mutants:
        old = Method(("self", "axis_data", "in_dims"), returns="return 0")
        yield p.lacking("batch").having(batch_dim_rule=old)
