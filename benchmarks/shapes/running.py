"""Running a row: the operation is made from a base, run, and its result compared."""

import contextlib
import dataclasses
import functools
import itertools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.kit import fresh

from .bases import Base
from .layouts import Layout
from .rows import Row

RIGHT, WRONG, REFUSED, UNUSED = "right", "wrong", "refused", "not called"


class Outcome(NamedTuple):
    """What becomes of a row: taken and right, taken and wrong, or refused.

    Or not called, where this JAX does not ask the rule.
    """

    verdict: str
    error: Exception | None = None

    def __str__(self) -> str:
        if self.error is None:
            return self.verdict
        return f"{self.verdict}, {type(self.error).__name__}"


def outcome(row: Row, base: Base) -> Outcome:
    """Make the operation of a row from a base and run it."""
    run, calls = RUNS[row.run], []

    def give(right: Any) -> Any:
        calls.append(row)
        return row.give(right)

    with _options(row.config), warnings.catch_warnings(action="ignore"):
        try:
            operation = _operation(dataclasses.replace(row, give=give), base)
            got = run(operation, row.layout)
        except Exception as error:
            return Outcome(REFUSED, error)
    if not calls:
        return Outcome(UNUSED)
    is_right = row.meant is not None and _equal(got, row.meant(_true(row)))
    return Outcome(RIGHT if is_right else WRONG)


def _true(row: Row) -> Any:
    """What comes out of the operation with derivatives that JAX takes itself."""
    return RUNS[row.run](row.layout.apply, row.layout)


def _equal(got: Any, true: Any) -> bool:
    leaves, treedef = jax.tree.flatten(got)
    others, other = jax.tree.flatten(true)
    return treedef == other and all(map(_same, leaves, others))


def _same(got: Any, true: Any) -> bool:
    return got.dtype == true.dtype and np.array_equal(got, true)


@contextlib.contextmanager
def _options(names: tuple[str, ...]) -> Iterator[None]:
    before = {name: getattr(jax.config, name) for name in names}
    try:
        for name in names:
            jax.config.update(name, True)
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


# --- what is run ----------------------------------------------------------------------


def _grad(fun: Callable[..., Any], layout: Layout) -> Any:
    out, pullback = jax.vjp(fun, *layout.arguments())
    cotangents = jax.tree.leaves(layout.cotangents())
    return out, pullback(jax.tree.structure(out).unflatten(cotangents))


def _jvp(fun: Callable[..., Any], layout: Layout) -> Any:
    return jax.jvp(fun, layout.arguments(), layout.arguments(3))


def _linearize(fun: Callable[..., Any], layout: Layout) -> Any:
    out, linear = jax.linearize(fun, *layout.arguments())
    return out, linear(*layout.arguments(3))


def _vmap(fun: Callable[..., Any], layout: Layout) -> Any:
    stack = lambda x: np.stack([x, x + 1, x + 2, x + 3])  # noqa: E731
    return jax.vmap(fun)(*jax.tree.map(stack, layout.arguments()))


def _jit(fun: Callable[..., Any], layout: Layout) -> Any:
    """With one of its outputs used, so that JAX asks what can be removed."""
    first = lambda *args: jax.tree.leaves(fun(*args))[0]  # noqa: E731
    return jax.jit(first)(*layout.arguments())


RUNS: dict[str, Callable[[Callable[..., Any], Layout], Any]] = {
    "call": lambda fun, layout: fun(*layout.arguments()),
    "grad": _grad,
    "jvp": _jvp,
    "linearize": _linearize,
    "vmap": _vmap,
    "jit": _jit,
}


# --- the operation --------------------------------------------------------------------


# strict_hijax checks a piece of code with a few types only: each row has its own copy.
_serial = itertools.count()


def _operation(row: Row, base: Base) -> Callable[..., Any]:
    kind, _, rule = row.rule.partition(".")
    if kind == "custom_vjp":
        return fresh(_custom_vjp, next(_serial))(row, base, rule)
    if kind == "custom_jvp":
        return fresh(_custom_jvp, next(_serial))(row, base)
    return _primitive(row, base)


def _custom_vjp(row: Row, base: Base, rule: str) -> Callable[..., Any]:
    layout = row.layout

    def operation(*args: Any) -> Any:
        return layout.apply(*args)

    def fwd(*args: Any) -> Any:
        right = layout.apply(*args), args
        return row.give(right) if rule == "fwd" else right

    def bwd(res: Any, out_ct: Any) -> Any:
        right = layout.cotangents_of(res, out_ct)
        if rule == "bwd with logs":
            return row.give((right, None))
        return row.give(right) if rule == "bwd" else right

    made = base.custom_vjp(operation)
    define = made.defvjp_with_logs if rule == "bwd with logs" else made.defvjp
    define(fwd, bwd)
    return made


def _custom_jvp(row: Row, base: Base) -> Callable[..., Any]:
    layout = row.layout

    def operation(*args: Any) -> Any:
        return layout.apply(*args)

    def jvp(primals: Any, tangents: Any) -> Any:
        right = layout.apply(*primals), layout.tangents_of(primals, tangents)
        return row.give(right)

    made = base.custom_jvp(operation)
    made.defjvp(jvp)
    return made


def _primitive(row: Row, base: Base) -> Callable[..., Any]:
    rules = _rules(row.layout)
    needed = {"expand", "vjp_fwd", "vjp_bwd_retval", row.rule}
    if row.rule in ("lin", "linearized"):
        needed |= {"lin", "linearized"}
    if row.rule in ("vjp_bwd", "vjp_bwd_retval_logs"):
        needed -= {"vjp_bwd_retval"}
    body = {name: rules[name] for name in needed & rules.keys()}
    if row.rule == "vjp_bwd":
        body["vjp_bwd"] = _accumulating(row)
    else:
        body[row.rule] = _given(body[row.rule], row.give)
    body["__init__"] = _init(row.layout)
    cls = types.new_class("Operation", (base.prim,), {}, lambda ns: ns.update(body))
    return cls()


def _given(rule: Callable[..., Any], give: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(rule)
    def given(*args: Any) -> Any:
        return give(rule(*args))

    return given


def _accumulating(row: Row) -> Callable[..., Any]:
    def vjp_bwd(self: Any, res: Any, out_ct: Any, *accumulators: Any) -> Any:
        cotangents = row.layout.cotangents_of(res, out_ct)
        pairs = list(zip(accumulators, cotangents, strict=True))
        given, logs = row.give((pairs, None))
        for accumulator, cotangent in given:
            accumulator.accum(cotangent)
        return logs

    return vjp_bwd


def _init(layout: Layout) -> Callable[[Any], None]:
    def init(self: Any) -> None:
        self.in_avals, self.out_aval = layout.types()
        self.params = {}
        type(self).__mro__[1].__init__(self)

    return init


def _rules(layout: Layout) -> dict[str, Callable[..., Any]]:
    """Every rule as it should be."""
    bwd, tangents = layout.cotangents_of, layout.tangents_of
    dims = jax.tree.map(lambda _: 0, layout.output)

    def flags(self: Any, used_outs: Any, *_: Any) -> Any:
        of = lambda tree: jax.tree.map(lambda _: True, tree)  # noqa: E731
        return of(layout.inputs), of(layout.output), self

    return {
        "expand": lambda self, *args: layout.apply(*args),
        "vjp_fwd": lambda self, nzs_in, *args: (self(*args), args),
        "vjp_bwd_retval": lambda self, res, out_ct: bwd(res, out_ct),
        "vjp_bwd_retval_logs": lambda self, res, out_ct: (bwd(res, out_ct), None),
        "jvp": lambda self, primals, dots: (self(*primals), tangents(primals, dots)),
        "lin": lambda self, nzs_in, *args: (self(*args), args),
        "linearized": lambda self, res, *dots: tangents(res, dots),
        "batch": lambda self, axis, args, _: (layout.apply(*args), dims),
        "dce": flags,
    }
