"""Kinds 21 to 24 and 26: what backward rules give."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection import uses
from benchmarks.detection.operators import fault
from benchmarks.detection.source import Method, Primitive
from benchmarks.detection.stages import Stage
from benchmarks.detection.trees import Leaf, leaves

from .sites import other_dtypes, other_shapes, other_structures

type Mutants = Iterator[Primitive]

# --- 21: results of vjp_bwd -----------------------------------------------------------


@fault(21, Stage.RULE, "SH309", "SH116", reverse="accums")
def something_else_than_logs(p: Primitive) -> Mutants:
    rule, ct = p.method("vjp_bwd"), f"ct_{p.spec.float_ins[0]}"
    for result in (
        ct,
        f"tuple([{ct}])",
        f"({ct}, {{}})",
        f"[{ct}] * 2",
        f"__import__('collections').OrderedDict(norm={ct})",
        f"__import__('collections').defaultdict(list, norm={ct})",
        "type('Logs', (dict,), {})()",
        "'norm'",
        "True",
        "set()",
        "iter([])",
    ):
        yield p.having(vjp_bwd=rule.giving(result))
        yield p.having(vjp_bwd=rule.giving(result).but(sink=()))


@fault(21, Stage.RULE, "SH310", reverse_in=("accums", "logs"))
def logs_with_wrong_entries(p: Primitive) -> Mutants:
    ct = f"ct_{p.spec.float_ins[0]}"
    for logs in (
        f"{{0: {ct}}}",
        f"{{('a', 'b'): {ct}}}",
        f"{{'norm': {ct}, None: {ct}}}",
        "{'norm': 'large'}",
        f"{{'norm': ({ct}, object())}}",
        "{'norm': {'of': jnp.sin}}",
    ):
        yield _logging(p, logs)


def _logging(p: Primitive, logs: str) -> Primitive:
    if p.is_written("vjp_bwd"):
        return p.having(vjp_bwd=p.method("vjp_bwd").giving(logs))
    rule = p.method("vjp_bwd_retval_logs")
    changed = rule.then(f"cts, _ = {rule.result}").giving(f"cts, {logs}")
    return p.having(vjp_bwd_retval_logs=changed)


# --- 22: accumulators -----------------------------------------------------------------


def untouched(p: Primitive, rule: str, places: list[int]) -> Mutants:
    method = p.method(rule)
    for place in places:
        sink = method.sink[:place] + method.sink[place + 1 :]
        yield p.having(**{rule: method.but(sink=sink)})
    yield p.having(**{rule: method.but(sink=())})


def wrong_types(p: Primitive, rule: str, places: list[int]) -> Mutants:
    method = p.method(rule)
    for place in places:
        i = p.spec.float_ins[place]
        leaf = p.spec.ins[i]
        for dtype in other_dtypes(leaf):
            line = f"ct_{i} = fit(ct_{i}, {leaf.shape}, '{dtype}')"
            yield p.having(**{rule: method.then(line)})
        for shape in other_shapes(leaf):
            line = f"ct_{i} = fit(ct_{i}, {shape}, '{leaf.dtype}')"
            yield p.having(**{rule: method.then(line)})


def _no_values(p: Primitive, rule: str, places: list[int]) -> Mutants:
    method = p.method(rule)
    for place in places:
        i = p.spec.float_ins[place]
        for value in ("'zero'", "object()", "jnp.sin", f"(ct_{i}, None)", f"[ct_{i}]"):
            yield p.having(**{rule: method.then(f"ct_{i} = {value}")})


def _all(p: Primitive) -> list[int]:
    return list(range(len(p.spec.float_ins)))


def _of_containers(p: Primitive) -> list[int]:
    first = range(len(leaves(p.spec.inputs[0])))
    return [k for k, i in enumerate(p.spec.float_ins) if i in first]


def _of_refs(p: Primitive) -> list[int]:
    return [k for k, i in enumerate(p.spec.float_ins) if p.spec.ins[i].ref]


_TYPES = ("SH315", "SH316", "SH317")


@fault(22, Stage.RULE, "SH311", reverse="accums")
def an_accumulator_left_untouched(p: Primitive) -> Mutants:
    yield from untouched(p, "vjp_bwd", _all(p))


@fault(22, Stage.RULE, *_TYPES, reverse="accums")
def a_cotangent_of_another_type(p: Primitive) -> Mutants:
    yield from wrong_types(p, "vjp_bwd", _all(p))


@fault(22, Stage.RULE, "SH312", reverse="accums")
def a_cotangent_that_is_no_value(p: Primitive) -> Mutants:
    yield from _no_values(p, "vjp_bwd", _all(p))


@fault(
    22,
    Stage.RULE,
    "SH311",
    *_TYPES,
    "SH312",
    reverse="accums",
    needs={"container": True},
)
def in_a_container_of_inputs(p: Primitive) -> Mutants:
    places = _of_containers(p)
    yield from untouched(p, "vjp_bwd", places)
    yield from wrong_types(p, "vjp_bwd", places)
    yield from _no_values(p, "vjp_bwd", places)


@fault(
    22, Stage.RULE, "SH311", *_TYPES, "SH312", reverse="accums", needs={"refs": False}
)
def with_refs_for_the_gradients(p: Primitive) -> Mutants:
    """`with_refs` alone differentiates: the accumulators are of the other class."""
    for make in (untouched, wrong_types, _no_values):
        for mutant in make(p, "vjp_bwd", _all(p)):
            yield mutant.but(notes={"only": (uses.into_refs,)})


@fault(
    22,
    Stage.RULE,
    "SH311",
    *_TYPES,
    "SH312",
    reverse="accums",
    jvp="",
    lin="",
    needs={"refs": True},
)
def for_an_input_that_is_a_ref(p: Primitive) -> Mutants:
    places = _of_refs(p)
    yield from untouched(p, "vjp_bwd", places)
    yield from wrong_types(p, "vjp_bwd", places)
    yield from _no_values(p, "vjp_bwd", places)


# --- 23, 24: returned cotangents ------------------------------------------------------


def _rule_and_cotangents(p: Primitive) -> tuple[str, Method, str]:
    """The returning rule, ready to return what becomes of `cts`."""
    logs = p.is_written("vjp_bwd_retval_logs")
    name = "vjp_bwd_retval_logs" if logs else "vjp_bwd_retval"
    rule = p.method(name)
    unpack = "cts, _ = " if logs else "cts = "
    return name, rule.then(unpack + rule.result), ", None" if logs else ""


def with_cotangents(p: Primitive, *results: str) -> Mutants:
    name, rule, logs = _rule_and_cotangents(p)
    for result in results:
        yield p.having(**{name: rule.giving(f"{result}{logs}")})


def _saying(mutants: Mutants) -> Mutants:
    """None is no cotangent, and one for several leaves is one for each of them.

    So a JAX that takes these makes of them what they say.
    """
    for mutant in mutants:
        yield mutant.but(notes={"says something else": True})


RETURNING = ("retval", "logs")
_AS_TAKEN = ("SH313", "SH314", "SH315", "SH316")
"""Newer versions take one cotangent for all; it then has the wrong type."""


@fault(23, Stage.RULE, *_AS_TAKEN, reverse_in=RETURNING, asks=True)
def cotangents_that_are_no_tuple(p: Primitive) -> Mutants:
    yield from with_cotangents(
        p,
        "list(cts)",
        "dict(enumerate(cts))",
        "(x for x in cts)",
        "iter(cts)",
        "(lambda: None)()",
        "__import__('collections').namedtuple('Cts', 'x')(cts)",
        "type('Cts', (tuple,), {})(cts)",
    )
    first = f"ct_{p.spec.float_ins[0]}"
    yield from _saying(with_cotangents(p, "jnp.float32(1)", first))


@fault(23, Stage.RULE, *_AS_TAKEN, reverse_in=RETURNING, asks=True)
def another_number_of_cotangents(p: Primitive) -> Mutants:
    yield from with_cotangents(
        p, "(*cts, None)", "cts[:-1]", "cts + cts", "(cts, cts, cts, cts, cts)"
    )


@fault(23, Stage.RULE, "SH314", reverse_in=RETURNING, asks=True)
def a_cotangent_of_another_structure(p: Primitive) -> Mutants:
    for i, tree in enumerate(p.spec.inputs):
        name = f"cts[{i}]"
        one = ["None", f"{name}[0]", f"jax.tree.leaves({name})[0]"]
        for text in (*other_structures(tree, name), *one[: not isinstance(tree, Leaf)]):
            made = with_cotangents(p, f"(*cts[:{i}], {text}, *cts[{i + 1} :])")
            yield from _saying(made) if text in one else made


def _returned_type(p: Primitive, i: int, other: str) -> Primitive:
    name = next(n for n in ("vjp_bwd_retval", "vjp_bwd_retval_logs") if n in p.members)
    line = f"ct_{i} = fit(ct_{i}, {other})"
    return p.having(**{name: p.method(name).then(line)})


@fault(23, Stage.RULE, "SH315", reverse_in=RETURNING)
def a_returned_cotangent_of_another_shape(p: Primitive) -> Mutants:
    for i in p.spec.float_ins:
        leaf = p.spec.ins[i]
        for shape in other_shapes(leaf):
            yield _returned_type(p, i, f"{shape}, '{leaf.dtype}'")


@fault(23, Stage.RULE, "SH316", reverse_in=RETURNING)
def a_returned_cotangent_of_another_dtype(p: Primitive) -> Mutants:
    for i in p.spec.float_ins:
        leaf = p.spec.ins[i]
        for dtype in other_dtypes(leaf):
            yield _returned_type(p, i, f"{leaf.shape}, '{dtype}'")


@fault(23, Stage.RULE, "SH312", reverse_in=RETURNING)
def a_returned_cotangent_that_is_no_value(p: Primitive) -> Mutants:
    name = next(n for n in ("vjp_bwd_retval", "vjp_bwd_retval_logs") if n in p.members)
    for i in p.spec.float_ins:
        for value in ("'zero'", "object()", "jnp.sin"):
            yield p.having(**{name: p.method(name).then(f"ct_{i} = {value}")})


@fault(23, Stage.RULE, "SH315", "SH316", reverse_in=RETURNING)
def a_number_of_python_for_another_type(p: Primitive) -> Mutants:
    """Right for a float32 scalar, and for that alone."""
    name = next(n for n in ("vjp_bwd_retval", "vjp_bwd_retval_logs") if n in p.members)
    for i in p.spec.float_ins:
        leaf = p.spec.ins[i]
        if (leaf.shape, leaf.dtype) != ((), "float32"):
            yield p.having(**{name: p.method(name).then(f"ct_{i} = 1.0")})


@fault(24, Stage.RULE, "SH313", "SH309", "SH115", reverse="logs", asks=True)
def no_pair_of_cotangents_and_logs(p: Primitive) -> Mutants:
    """Two cotangents alone are taken for cotangents and logs."""
    _, rule, _ = _rule_and_cotangents(p)
    for result in (
        "cts",
        "(cts, None, None)",
        "{'cts': cts}",
        "(cts,)",
        "None and cts",
        "iter((cts, None))",
        "jnp.float32(1)",
    ):
        yield p.having(vjp_bwd_retval_logs=rule.giving(result))


@fault(24, Stage.RULE, "SH309", reverse="logs")
def logs_that_are_no_dict(p: Primitive) -> Mutants:
    ct = f"ct_{p.spec.float_ins[0]}"
    _, rule, _ = _rule_and_cotangents(p)
    for logs in (
        f"[{ct}]",
        ct,
        "'norm'",
        f"({ct},)",
        "()",
        "__import__('collections').OrderedDict()",
        "0",
    ):
        yield p.having(vjp_bwd_retval_logs=rule.giving(f"cts, {logs}"))


# --- 26: transpose --------------------------------------------------------------------


@fault(26, Stage.RULE, "SH309", "SH116", has=("transpose",))
def transpose_that_returns_cotangents(p: Primitive) -> Mutants:
    rule, ct = p.method("transpose"), f"ct_{p.spec.float_ins[0]}"
    for result in (ct, f"tuple([{ct}])", f"({ct},)", f"[{ct}]", f"({ct}, None)"):
        for sink in (rule.sink, ()):
            changed = p.having(transpose=rule.giving(result).but(sink=sink))
            yield changed.but(notes={"only": (uses.transposed,)})


@fault(26, Stage.RULE, "SH311", has=("transpose",))
def transpose_that_accumulates_nothing(p: Primitive) -> Mutants:
    yield p.having(transpose=p.method("transpose").but(sink=()))


@fault(26, Stage.RULE, "SH311", has=("transpose",), at_import=False, needs={"count": 2})
def transpose_that_leaves_one_accumulator_untouched(p: Primitive) -> Mutants:
    """At import it is not known which inputs are linear."""
    yield from untouched(p, "transpose", _all(p))


@fault(26, Stage.RULE, *_TYPES, "SH312", has=("transpose",))
def transpose_with_a_cotangent_of_another_type(p: Primitive) -> Mutants:
    yield from wrong_types(p, "transpose", _all(p))
    yield from _no_values(p, "transpose", _all(p))
