"""The table: each rule with each shape of its result."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from .given import (
    OF_A_CONTAINER,
    OF_A_COTANGENT,
    OF_A_NESTED_TREE,
    OF_A_PAIR,
    OF_ALL_COTANGENTS,
    OF_AN_ARRAY,
    OF_COTANGENTS,
    OF_FLAGS,
    OF_NESTED_COTANGENTS,
    OF_NESTED_FLAGS,
    Given,
    same,
    zeros,
)
from .layouts import CONTAINERS, NESTED, Layout


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One rule that gives its result in one shape.

    Attributes:
      name: the rule, the structure in question, and what is given for it.
      rule: of a primitive by its name; `custom_vjp.fwd` and the like of functions.
      run: what is done with the operation, a key of `running.RUNS`.
      layout: the structures of inputs and output.
      give: what the rule returns, as a function of its right result.
      meant: what should come out, as a function of what comes out of the right rule;
        None where nothing would be right.
      config: options of JAX that are on.
    """

    name: str
    rule: str
    run: str
    layout: Layout
    give: Callable[[Any], Any]
    meant: Callable[[Any], Any] | None
    config: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


ONE, TWO, PAIR = Layout(), Layout((0, 0)), Layout(output=(0, 0))

INPUTS = {name: Layout((tree, 0)) for name, tree in CONTAINERS.items()}
OUTPUTS = {name: Layout(output=tree) for name, tree in CONTAINERS.items()}
NESTED_INPUT, NESTED_OUTPUT = Layout((NESTED, 0)), Layout(output=NESTED)

SOME = ("tuple", "dict", "dataclass")
SOME_INPUTS = {name: INPUTS[name] for name in SOME}
SOME_OUTPUTS = {name: OUTPUTS[name] for name in SOME}


def _rows(
    rule: str,
    run: str,
    what: str,
    layout: Layout,
    given: Iterable[Given],
    at: tuple[int, ...] = (),
) -> Iterator[Row]:
    """A row for each shape that is given at one place of the result of a rule."""
    is_cotangent = at and rule in ("vjp_bwd_retval", "custom_vjp.bwd")
    for shape in given:
        meant = shape.meant
        if meant is not None and is_cotangent:  # (output, cotangents) come out
            meant = _at((1, *at), meant)
        yield Row(
            f"{rule}, {what}: {shape.name}",
            rule,
            run,
            layout,
            _at(at, shape.give),
            meant,
        )


def _at(place: tuple[int, ...], change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A change of one part of nested tuples."""
    if not place:
        return change
    first, *rest = place
    inner = _at(tuple(rest), change)
    return lambda parts: (*parts[:first], inner(parts[first]), *parts[first + 1 :])


def _of_structure(
    rule: str,
    run: str,
    what: str,
    layouts: dict[str, Layout],
    nested: Layout,
    shapes: tuple[Iterable[Given], Iterable[Given]],
    at: tuple[int, ...] = (),
) -> Iterator[Row]:
    """Rows for each kind of container, and for a nested one."""
    for name, layout in layouts.items():
        yield from _rows(rule, run, f"{what} a {name}", layout, shapes[0], at)
    yield from _rows(rule, run, f"{what} nested", nested, shapes[1], at)


COTANGENTS = (OF_COTANGENTS, OF_NESTED_COTANGENTS)
PARTS = (OF_A_CONTAINER, OF_A_NESTED_TREE)
FLAGS = (OF_FLAGS, OF_NESTED_FLAGS)

LOGS = (
    Given("no logs", lambda pair: (pair[0], None), same),
    Given("a dict of logs", lambda pair: (pair[0], {"size": 1.0}), same),
    Given("a list of logs", lambda pair: (pair[0], [1.0]), None),
    Given("a string for logs", lambda pair: (pair[0], "size"), None),
    Given("a third part", lambda pair: (*pair, None), None),
)
ACCUMULATED = (  # of pairs of an accumulator and its cotangent, and of logs
    *LOGS[:-1],
    Given(
        "the cotangents", lambda pair: (pair[0], tuple(ct for _, ct in pair[0])), None
    ),
    Given("no cotangent", lambda pair: ([], None), None),
    Given("one cotangent left out", lambda pair: (pair[0][1:], None), None),
    Given(
        "None for one",
        lambda pair: ([(pair[0][0][0], None), pair[0][1]], None),
        lambda got: (got[0], (zeros(got[1][0]), got[1][1])),
    ),
)
ONE_FLAG = (
    Given("True", lambda pair: (*pair, True), same),
    Given("None", lambda pair: (*pair, None), None),
    Given("1", lambda pair: (*pair, 1), same),
    Given("a list of True", lambda pair: (*pair, [True]), None),
    Given("False", lambda pair: (*pair, False), lambda got: (got[0], zeros(got[1]))),
    Given("True, and None after it", lambda pair: (*pair, True, None), same),
    Given("two parts after it", lambda pair: (*pair, True, None, None), None),
)
OF_DIMS = (
    Given("None", lambda dim: None, None),
    Given("-1", lambda dim: -1, None),
    Given("True", lambda dim: True, None),
    Given("a tuple of it", lambda dim: (dim,), None),
    Given("an array", jax.numpy.asarray, None),
)
PRODUCT = Layout((0, 0), (0, 0))


def _of_primitives() -> Iterator[Row]:
    bwd, grad = "vjp_bwd_retval", "grad"
    yield from _rows(bwd, grad, "two inputs", TWO, OF_ALL_COTANGENTS)
    yield from _rows(bwd, grad, "one input", ONE, (_bare(), _listed()))
    yield from _rows(bwd, grad, "for an array", TWO, OF_A_COTANGENT, (0,))
    yield from _of_structure(bwd, grad, "for", INPUTS, NESTED_INPUT, COTANGENTS, (0,))
    yield from _rows("vjp_bwd", grad, "the pair", TWO, ACCUMULATED)
    logs = "vjp_bwd_retval_logs"
    yield from _rows(logs, grad, "the pair", TWO, (*OF_A_PAIR, *LOGS))
    yield from _rows(logs, grad, "two inputs", TWO, OF_ALL_COTANGENTS, (0,))
    yield from _rows("expand", "call", "an array", ONE, OF_AN_ARRAY)
    yield from _of_structure(
        "expand", "call", "output", SOME_OUTPUTS, NESTED_OUTPUT, PARTS
    )
    for rule, run in (("vjp_fwd", grad), ("lin", "linearize")):
        yield from _rows(rule, run, "the pair", PAIR, OF_A_PAIR)
        yield from _rows(rule, run, "nzs_out", ONE, ONE_FLAG)
        yield from _of_structure(
            rule, run, "output", SOME_OUTPUTS, NESTED_OUTPUT, PARTS, (0,)
        )
        for name, layout in (*SOME_OUTPUTS.items(), ("nested one", NESTED_OUTPUT)):
            shapes = FLAGS[layout is NESTED_OUTPUT]
            for shape in shapes:
                yield Row(
                    f"{rule}, nzs_out of a {name}: {shape.name}",
                    rule,
                    run,
                    layout,
                    _with_flags(layout, shape.give),
                    shape.meant,
                )
    yield from _rows("linearized", "linearize", "an array", ONE, OF_AN_ARRAY)
    yield from _of_structure(
        "linearized", "linearize", "tangents", SOME_OUTPUTS, NESTED_OUTPUT, PARTS
    )
    yield from _rows("jvp", "jvp", "the pair", PAIR, OF_A_PAIR)
    yield from _of_structure(
        "jvp", "jvp", "output", SOME_OUTPUTS, NESTED_OUTPUT, PARTS, (0,)
    )
    yield from _of_structure(
        "jvp", "jvp", "tangents", SOME_OUTPUTS, NESTED_OUTPUT, PARTS, (1,)
    )
    yield from _rows("batch", "vmap", "the pair", PAIR, OF_A_PAIR)
    yield from _rows("batch", "vmap", "dims of an array", ONE, OF_DIMS, (1,))
    yield from _of_structure(
        "batch", "vmap", "outputs", SOME_OUTPUTS, NESTED_OUTPUT, PARTS, (0,)
    )
    yield from _of_structure(
        "batch", "vmap", "dims", OUTPUTS, NESTED_OUTPUT, FLAGS, (1,)
    )
    yield from _of_dce()


def _bare() -> Given:
    return Given("the cotangent itself", lambda cts: cts[0], same)


def _listed() -> Given:
    return Given("a list of it", list, same)


def _with_flags(
    layout: Layout, give: Callable[[Any], Any]
) -> Callable[[Any], tuple[Any, ...]]:
    flags = jax.tree.map(lambda _: True, layout.output)
    return lambda pair: (*pair, give(flags))


def _of_dce() -> Iterator[Row]:
    for part, name in ((0, "used_ins"), (1, "produced_outs")):
        yield from _rows("dce", "jit", name, PRODUCT, OF_FLAGS, (part,))
    yield from _rows("dce", "jit", "the three", PRODUCT, DCE)


DCE = (
    Given("a list", list, same),
    Given("True, True, itself", lambda three: (True, True, three[2]), same),
    Given("flags alone", lambda three: three[:2], None),
    Given("no primitive", lambda three: (*three[:2], None), None),
    Given("None", lambda three: None, None),
)


def _of_functions() -> Iterator[Row]:
    fwd, bwd, jvp = "custom_vjp.fwd", "custom_vjp.bwd", "custom_jvp.jvp"
    yield from _rows(fwd, "grad", "the pair", PAIR, OF_A_PAIR)
    yield from _of_structure(
        fwd, "grad", "output", SOME_OUTPUTS, NESTED_OUTPUT, PARTS, (0,)
    )
    yield from _rows(bwd, "grad", "two inputs", TWO, OF_ALL_COTANGENTS)
    yield from _rows(bwd, "grad", "one input", ONE, (_bare(), _listed()))
    yield from _rows(bwd, "grad", "for an array", TWO, OF_A_COTANGENT, (0,))
    yield from _of_structure(
        bwd, "grad", "for", SOME_INPUTS, NESTED_INPUT, COTANGENTS, (0,)
    )
    yield from _rows(
        "custom_vjp.bwd with logs", "grad", "the pair", TWO, (*OF_A_PAIR, *LOGS)
    )
    yield from _rows(jvp, "jvp", "the pair", PAIR, OF_A_PAIR)
    yield from _of_structure(
        jvp, "jvp", "output", SOME_OUTPUTS, NESTED_OUTPUT, PARTS, (0,)
    )
    yield from _of_structure(
        jvp, "jvp", "tangents", SOME_OUTPUTS, NESTED_OUTPUT, PARTS, (1,)
    )


def _with_options(rows: Iterable[Row]) -> Iterator[Row]:
    """Functions as JAX runs them by default, and by primitives."""
    for row in rows:
        yield row
        option = f"jax_{row.rule.partition('.')[0]}3"
        if hasattr(jax.config, option):
            yield dataclasses.replace(
                row, name=f"{row.name} ({option})", config=(option,)
            )


ROWS: tuple[Row, ...] = (*_of_primitives(), *_with_options(_of_functions()))
