"""Right programs that do what programs do: cache, count, come late, and are made often.

Each habit is a change of a right program that leaves it right, with the steps by which
it is run. A step may compare with stock JAX, and raises where the two differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from . import functions, jvp_functions, primitives, stages, strategies, uses
from .occasions import (
    COUNT,
    ELEMENTWISE,
    STATIC,
    call_of,
    each_shape,
    each_static,
    eagerly,
    for_any_shape,
    forward_now,
    gradient_now,
    of_a_factory,
    roles,
    run_by,
    step,
    tangents_now,
    with_line,
    with_value,
)
from .source import Function, Primitive
from .stages import Stage, Step

type Change = Callable[[Any], Iterator[Any]]

UNTYPED = {"typed": (False,)}
"""With types given, what a rule raises is told at import."""

_KINDS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "function": (strategies.function_specs, functions.function),
    "jvp function": (strategies.jvp_function_specs, jvp_functions.jvp_function),
    "primitive": (strategies.primitive_specs, primitives.primitive),
}

HABITS: dict[str, list[st.SearchStrategy[Any]]] = {}
"""Programs with each habit, of each kind that it is for."""


def habit(*kinds: str, **wants: Any) -> Callable[[Change], Change]:
    """Registers what makes the programs with a habit of a right one."""

    def register(change: Change) -> Change:
        made = [_changed(change, kind, wants) for kind in kinds or ("function",)]
        HABITS[change.__name__.replace("_", " ")] = made
        return change

    return register


def _changed(change: Change, kind: str, wants: Any) -> st.SearchStrategy[Any]:
    specs, build = _KINDS[kind]

    @st.composite
    def drawn(draw: st.DrawFn) -> Any:
        found = list(change(build(draw(specs(**wants)))))
        return draw(st.sampled_from(found)) if found else None

    return drawn().filter(lambda program: program is not None)


def programs() -> st.SearchStrategy[Any]:
    """Right programs with a habit."""
    return st.sampled_from(sorted(HABITS)).flatmap(lambda name: st.one_of(HABITS[name]))


BY_HAND = {"form_in": ("defvjp", "defvjp_with_logs", "defvjp_with_accums")}
NOT_TRACED = {"optimize_remat": False, **BY_HAND}
"""Rules that JAX itself traces in no eager gradient."""

# --- caches ---------------------------------------------------------------------------

CACHES = {
    "lru_cache": """\
@__import__('functools').lru_cache
def one(dtype):
    return jnp.ones((), dtype)""",
    "dict": """\
ONES = {}
def one(dtype):
    if dtype not in ONES:
        ONES[dtype] = jnp.ones((), dtype)
    return ONES[dtype]""",
    "attribute": """\
def one(dtype):
    if not hasattr(OWNER, 'one'):
        OWNER.one = jnp.ones((), dtype)
    return OWNER.one""",
}


@habit("function", "jvp function", static=None)
def a_constant_that_one_rule_caches(f: Function) -> Iterator[Function]:
    """An attribute may also be set on the function with rules itself."""
    for role in roles(f):
        for name, text in CACHES.items():
            owners = ("one", f.name) if name == "attribute" else ("",)
            for owner in owners:
                before = (text.replace("OWNER", owner),)
                cached = with_value(f, role, "VALUE * one(VALUE.dtype)")
                yield run_by(cached.but(before=before), _first_eagerly)


@habit("primitive", needs={"refs": False})
def a_constant_that_one_rule_of_a_primitive_caches(
    p: Primitive,
) -> Iterator[Primitive]:
    for role in roles(p):
        for name, text in CACHES.items():
            owners = ("one", p.name) if name == "attribute" else ("",)
            for owner in owners:
                before = (text.replace("OWNER", owner),)
                cached = with_value(p, role, "VALUE * one(VALUE.dtype)")
                yield run_by(cached.but(before=before), _first_eagerly)


def _first_eagerly(program: Any, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
    """So that stock JAX, too, fills a cache with values; then under jit."""
    for use in (forward_now, *_eager_uses(program), uses.forward, *_usual(program)):
        yield step(Stage.RULE, use, program, scope)


def _eager_uses(program: Any) -> Iterator[Callable[[uses.Call], object]]:
    found = list(_usual(program))
    if uses.forward_mode in found:
        yield tangents_now
    if uses.gradient in found:
        yield gradient_now


def _usual(program: Any) -> Iterator[Callable[[uses.Call], object]]:
    if isinstance(program, Primitive):
        return stages.uses_of_primitive(program.spec)
    return stages.uses_of_function(program)


# --- what is there only for the gradient ----------------------------------------------


def _needing(f: Function, text: str, *before: str, **more: Any) -> Iterator[Function]:
    for role in roles(f):
        if role != "primal":
            yield with_value(f, role, text).but(before=before, **more)


def _when(prepare: Callable[[dict[str, Any]], object], *, first: bool = False) -> Any:
    """Forward calls and the gradient; before it, or `first`, what it needs."""

    def steps(program: Any, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
        ready = Stage.DEF, lambda: prepare(scope)
        if first:
            yield ready
        yield step(Stage.CALL, forward_now, program, scope)
        yield step(Stage.CALL, uses.forward, program, scope)
        if not first:
            yield ready
        for use in _usual(program):
            yield step(Stage.RULE, use, program, scope)

    return steps


_DEFINE = """\
def define():
    global helper
    helper = lambda x: x"""


def _help(scope: dict[str, Any]) -> None:
    scope["define"]()


FUNCTIONS = ("function", "jvp function")


@habit(*FUNCTIONS, style="own")
def a_configuration_that_is_filled_before_the_gradient(
    f: Function,
) -> Iterator[Function]:
    fill = _when(lambda scope: scope["CONFIG"].update(scale=1))
    for program in _needing(f, "VALUE * CONFIG['scale']", "CONFIG = {}"):
        yield run_by(program, fill, **UNTYPED)


@habit(*FUNCTIONS, style="own")
def a_helper_that_is_defined_before_the_gradient(f: Function) -> Iterator[Function]:
    for program in _needing(f, "helper(VALUE)", _DEFINE):
        yield run_by(program, _when(_help), **UNTYPED)


@habit(*FUNCTIONS, style="own")
def a_helper_that_is_defined_before_the_first_call(f: Function) -> Iterator[Function]:
    for program in _needing(f, "helper(VALUE)", _DEFINE):
        yield run_by(program, _when(_help, first=True))


def _under_a_mesh(program: Any, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
    def gradient() -> object:
        auto = (jax.sharding.AxisType.Auto,)
        with jax.set_mesh(jax.make_mesh((1,), ("rows",), axis_types=auto)):
            return uses.gradient(call_of(program, scope))

    yield step(Stage.CALL, forward_now, program, scope)
    yield step(Stage.CALL, uses.forward, program, scope)
    yield Stage.RULE, gradient


@habit(*FUNCTIONS, style="own")
def a_mesh_that_is_there_for_the_gradient(f: Function) -> Iterator[Function]:
    replicated = "jax.lax.with_sharding_constraint(VALUE, jax.sharding.PartitionSpec())"
    for program in _needing(f, replicated):
        yield run_by(program, _under_a_mesh, **UNTYPED)


def _over_an_axis(program: Any, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
    def gradient() -> object:
        call = call_of(program, scope)
        over = jax.vmap(
            jax.grad(lambda moved: uses.total(call.on(moved))), axis_name="rows"
        )
        return uses.traced(over, [np.stack([x, x]) for x in call.values])

    yield step(Stage.CALL, forward_now, program, scope)
    yield step(Stage.CALL, uses.forward, program, scope)
    yield Stage.RULE, gradient


@habit(*FUNCTIONS, style="own", symbolic_zeros=False)
def an_axis_that_is_there_for_the_gradient(f: Function) -> Iterator[Function]:
    """An axis that is not bound may be so later; so types may be given."""
    for program in _needing(f, "jax.lax.pmean(VALUE, 'rows')"):
        yield run_by(program, _over_an_axis)


# --- rules for other types ------------------------------------------------------------


def _of_other_shapes(
    program: Function, scope: dict[str, Any], strict: bool
) -> Iterator[Step]:
    """Forward calls of a shape for which the rules are not made, then of their own."""
    for shape in ("(1, 3)", "(4, 1, 3)"):
        args = tuple(arg.replace("(3,)", shape) for arg in program.args)
        yield step(Stage.CALL, forward_now, program.but(args=args), scope)
        yield step(Stage.CALL, uses.forward, program.but(args=args), scope)
    yield from stages.usual_steps(program, scope)


@habit(*FUNCTIONS, style="own", **ELEMENTWISE)
def rules_for_one_shape_and_calls_of_others(f: Function) -> Iterator[Function]:
    for line in (
        "assert x_0.shape == (3,), 'only for three numbers'",
        "(n,) = x_0.shape",
        "if x_0.ndim > 1: raise TypeError('only for vectors')",
    ):
        for role in roles(f):
            if role != "primal":
                yield run_by(with_line(f, role, line), _of_other_shapes, **UNTYPED)


# --- rules that are set late ----------------------------------------------------------


def _like_stock(program: Any, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
    """The usual steps, and then the values, which must be those of stock JAX."""
    yield from stages.usual_steps(program, scope)
    yield Stage.RULE, lambda: _same(program, scope, forward_now)
    yield Stage.RULE, lambda: _same(program, scope, gradient_now)


def _same(
    program: Any, scope: dict[str, Any], use: Callable[[uses.Call], object]
) -> None:
    stock = stages.executed(program.source(strict=False, typed=False), program.name)
    found, right = (use(call_of(program, each)) for each in (scope, stock))
    jax.tree.map(np.testing.assert_array_equal, found, right)


_DECLINES = "def {f}_never(*args): raise NotImplementedError('set later')"


@habit(form="defvjp")
def a_rule_that_is_set_late(f: Function) -> Iterator[Function]:
    other = with_value(f, "bwd", "2 * VALUE").method("bwd")
    late = f.having(other=other)
    yield run_by(late.but(define=(*f.define, "{f}.bwd = {f}_other")), _like_stock)
    yield run_by(f.but(define=(*f.define, "{f}.fwd = {f}_fwd")), _like_stock)
    first = f.define[0].replace("{f}_bwd", "{f}_never")
    define = (_DECLINES, first, "{f}.bwd = {f}_bwd")
    yield run_by(f.but(define=define), _like_stock)


@habit("jvp function", form="defjvp")
def a_jvp_rule_that_is_set_late(f: Function) -> Iterator[Function]:
    other = with_value(f, "jvp", "2 * VALUE").method("jvp")
    late = f.having(other=other)
    yield run_by(late.but(define=(*f.define, "{f}.jvp = {f}_other")), _like_stock)
    first = f.define[0].replace("{f}_jvp", "{f}_never")
    yield run_by(f.but(define=(_DECLINES, first, "{f}.jvp = {f}_jvp")), _like_stock)


# --- many of them ---------------------------------------------------------------------


@habit(*FUNCTIONS)
def many_functions_of_a_factory(f: Function) -> Iterator[Function]:
    yield of_a_factory(f)


@habit(*FUNCTIONS, **ELEMENTWISE)
def many_shapes_of_one_function(f: Function) -> Iterator[Function]:
    yield run_by(for_any_shape(f), each_shape)


_FRESH = "type('Fresh', (), {'__radd__': lambda self, other: other + 1})()"


@habit("function", **STATIC)
def fresh_static_arguments(f: Function) -> Iterator[Function]:
    yield run_by(f, each_static([str(n) for n in range(COUNT)]))
    yield run_by(f, each_static([f"{n}.5" for n in range(COUNT)]))
    yield run_by(f, each_static([_FRESH] * COUNT))


# --- what must happen as often as without us ------------------------------------------

_COUNTS = ("COUNTED = []", "RANDOM = __import__('random').Random(0)")


def _observed(program: Any, scope: dict[str, Any]) -> list[Any]:
    """What calls return, and how often the function ran until then."""
    scope["COUNTED"].clear()
    scope["RANDOM"].seed(0)
    call = lambda: call_of(program, scope)  # noqa: E731
    compiled: Callable[..., Any] = jax.jit(lambda moved: call().on(moved))
    found: list[Any] = []
    for use in (
        lambda: forward_now(call()),
        lambda: forward_now(call()),
        lambda: compiled(call().values),
        lambda: compiled(call().values),
        lambda: gradient_now(call()),
    ):
        found += [jax.tree.map(np.asarray, use()), list(scope["COUNTED"])]
    return found


def _as_often(program: Any, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
    def compare() -> None:
        stock = stages.executed(program.source(strict=False, typed=False), program.name)
        found, right = (_observed(program, each) for each in (scope, stock))
        jax.tree.map(np.testing.assert_array_equal, found, right)

    yield Stage.RULE, compare


@habit(**NOT_TRACED)
def a_function_that_counts_its_runs(f: Function) -> Iterator[Function]:
    counts = with_line(f, "primal", "COUNTED.append(1)")
    draws = with_value(counts, "primal", "VALUE * RANDOM.randint(1, 9)")
    for program in (counts, draws):
        yield run_by(program.but(before=_COUNTS), _as_often)


# --- symbolic shapes ------------------------------------------------------------------


def _exported(program: Any, scope: dict[str, Any], strict: bool) -> Iterator[Step]:
    def export(differentiate: bool) -> object:
        call = call_of(program, scope)
        loss = lambda moved: uses.total(call.on(moved))  # noqa: E731
        fun = jax.grad(loss) if differentiate else call.on
        (n,) = jax.export.symbolic_shape("n")
        shape = jax.ShapeDtypeStruct((2 * n + 1,), call.values[0].dtype)
        return jax.export.export(jax.jit(fun))([shape])

    yield Stage.CALL, lambda: export(False)
    yield Stage.RULE, lambda: export(True)


@habit(*FUNCTIONS, **ELEMENTWISE)
def a_shape_with_a_symbol(f: Function) -> Iterator[Function]:
    program = run_by(for_any_shape(f), _exported)
    yield program
    symbol = "(*__import__('jax.export').export.symbolic_shape('n'),)"
    yield program.but(example_args=f.example_args.replace("(3,)", symbol))


# --- rules that need values -----------------------------------------------------------

_NEEDS = (
    "(float(jnp.sum(jnp.abs(VALUE))), VALUE)[1]",
    "(VALUE if bool(jnp.sum(jnp.abs(VALUE)) >= 0) else -VALUE)",
    "jnp.asarray(np.asarray(VALUE))",
    "VALUE * len({jnp.sum(jnp.abs(VALUE)).item()})",
)


@habit(symbolic_zeros=False, **NOT_TRACED)
def a_rule_that_needs_values(f: Function) -> Iterator[Function]:
    """It can only be used without jit, as on stock JAX."""
    for role in f.methods:
        for text in _NEEDS:
            yield run_by(with_value(f, role, text), eagerly, **UNTYPED)
