"""Right programs of users, beside stock: caches, contexts, counters, late rules.

Each was refused once, or ran otherwise than on stock.
"""

import ast
import functools
import itertools
import struct
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import check, checked_custom_jvp, checked_custom_vjp

X = jnp.arange(1.0, 4.0)
SPEC = jax.ShapeDtypeStruct((3,), "float32")
P = jax.sharding.PartitionSpec


def total(f: Any, *args: Any) -> Any:
    return jax.grad(lambda *args: f(*args).sum())(*args)


def defined(decorator: Any, fun: Any, fwd: Any, bwd: Any, **options: Any) -> Any:
    made = decorator(fun, **options)
    made.defvjp(fwd, bwd)
    return made


def same(program: Any, *decorators: Any) -> Any:
    """What a program gives with our decorator, once it is what stock's gives."""
    wanted, got = (
        jax.tree.map(np.asarray, program(decorator)) for decorator in decorators
    )
    jax.tree.map(np.testing.assert_array_equal, got, wanted)
    return got


def same_vjp(program: Any) -> Any:
    return same(program, jax.custom_vjp, checked_custom_vjp)


# --- values that are made once and kept -----------------------------------------------


def in_lru_cache(make: Any) -> Any:
    return functools.lru_cache(make)


def in_dict(make: Any) -> Any:
    kept: dict[str, Any] = {}

    def get() -> Any:
        if "value" not in kept:
            kept["value"] = make()
        return kept["value"]

    return get


def in_attribute(make: Any) -> Any:
    class Lazy:
        value = None

    lazy = Lazy()

    def get() -> Any:
        if lazy.value is None:
            lazy.value = make()
        return lazy.value

    return get


def in_cached_property(make: Any) -> Any:
    class Lazy:
        @functools.cached_property
        def value(self) -> Any:
            return make()

    lazy = Lazy()
    return lambda: lazy.value


TABLES = {
    "arange": lambda: jnp.arange(3, dtype=jnp.float32),
    "key": lambda: jax.random.normal(jax.random.key(0), (3,)),
    "split keys": lambda: jax.vmap(jax.random.normal)(
        jax.random.split(jax.random.key(1), 3)
    ),
    "jitted": lambda: jnp.linspace(0.0, 1.0, 3),
    "with a rule of its own": lambda: jax.nn.relu(jnp.ones(3) * 2),
    "a tuple": lambda: (jnp.ones(3), jnp.zeros(3))[0],
}


@pytest.mark.parametrize("where", ["primal", "fwd", "bwd", "all"])
@pytest.mark.parametrize(
    "cache", [in_lru_cache, in_dict, in_attribute, in_cached_property]
)
@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_is_made_once(where, cache, typed, table):
    get = cache(TABLES[table])
    value = TABLES[table]()

    def of(role: str) -> Any:
        return get() if where in (role, "all") else value

    options = {"example_args": (SPEC,)} if typed else {}
    f = defined(
        checked_custom_vjp,
        lambda x: x * of("primal"),
        lambda x: (x * of("fwd"), None),
        lambda _, g: (g * of("bwd"),),
        **options,
    )
    np.testing.assert_allclose(f(X), X * value, rtol=1e-6)
    np.testing.assert_allclose(total(f, X), value, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(f)(X), X * value, rtol=1e-6)
    np.testing.assert_allclose(get(), value, rtol=1e-6)


@pytest.mark.parametrize("where", ["primal", "jvp"])
@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("cache", [in_lru_cache, in_dict])
def test_a_table_that_a_jvp_rule_makes_once(where, typed, cache):
    get = cache(TABLES["arange"])
    value = TABLES["arange"]()

    def of(role: str) -> Any:
        return get() if where == role else value

    options = {"example_args": (SPEC,)} if typed else {}
    f = checked_custom_jvp(lambda x: x * of("primal"), **options)
    f.defjvp(lambda p, t: (p[0] * value, t[0] * of("jvp")))
    np.testing.assert_array_equal(f(X), X * value)
    np.testing.assert_array_equal(total(f, X), value)
    np.testing.assert_array_equal(jax.jit(f)(X), X * value)


def test_a_value_that_is_large_is_not_computed_ahead():
    made = []

    def bwd(_: Any, g: Any) -> Any:
        made.append(jnp.zeros((1 << 13, 1 << 12)))
        return (g,)

    f = defined(checked_custom_vjp, lambda x: x * 1, lambda x: (x * 1, None), bwd)
    f(X)
    assert isinstance(made[0], jax.core.Tracer)


def test_an_effect_is_not_run_ahead():
    printed = []

    def bwd(_: Any, g: Any) -> Any:
        jax.debug.callback(lambda: printed.append(1))
        return (g,)

    f = defined(checked_custom_vjp, lambda x: x * 1, lambda x: (x * 1, None), bwd)
    f(X)
    jax.effects_barrier()
    assert printed == []


# --- rules that need what is not there yet --------------------------------------------


def sharded(_: Any, g: Any) -> Any:
    double = jax.shard_map(lambda g: g * 2, in_specs=P("dp"), out_specs=P("dp"))
    return (double(g),)


def of_the_mesh(_: Any, g: Any) -> Any:
    return (g * jax.sharding.get_abstract_mesh().shape["dp"],)


CONFIG: dict[str, float] = {}
HELPERS = types.SimpleNamespace()

NOT_READY = {
    "shard_map": sharded,
    "the mesh": of_the_mesh,
    "a config": lambda _, g: (g * CONFIG["scale"],),
    "an attribute": lambda _, g: (HELPERS.scale(g),),
    "a name": lambda _, g: (defined_in_a_later_cell(g),),
    "a shape": lambda _, g: ((g.reshape(-1, 8) * 2).reshape(-1),),
    "an open file": lambda _, g: (g * len(open("nowhere").read()),),  # noqa: SIM115
}


@pytest.mark.parametrize("bwd", NOT_READY.values(), ids=NOT_READY)
@pytest.mark.parametrize("run", [lambda f: f(X), lambda f: jax.jit(f)(X)])
def test_a_bwd_that_is_not_ready_is_for_the_gradient_to_tell(bwd, run):
    program = lambda decorator: run(  # noqa: E731
        defined(decorator, lambda x: x * 2, lambda x: (x * 2, None), bwd)
    )
    same_vjp(program)


def test_a_bwd_that_is_ready_when_the_gradient_is_taken():
    def program(decorator: Any) -> Any:
        scale: dict[str, float] = {}
        f = defined(
            decorator,
            lambda x: x * 2,
            lambda x: (x * 2, None),
            lambda _, g: (g * scale["of"],),
        )
        before = f(X)
        scale["of"] = 5.0
        return before, total(f, X)

    same_vjp(program)


def test_a_bwd_that_needs_values_in_eager_use():
    def packed(r: Any, g: Any) -> Any:
        return (struct.unpack("f", struct.pack("f", r))[0] * g,)

    def read(r: Any, g: Any) -> Any:
        return (ast.literal_eval(str(float(r))) * g,)

    for bwd in (packed, read):

        def program(decorator: Any, bwd: Any = bwd) -> Any:
            f = defined(decorator, lambda x: x * x, lambda x: (x * x, x), bwd)
            return f(2.0), jax.grad(f)(2.0)

        same_vjp(program)


# --- side effects of the function itself ----------------------------------------------


@pytest.mark.parametrize("fwd_calls_it", [True, False])
@pytest.mark.parametrize("run", [lambda f: f(X), lambda f: jax.jit(f)(X)])
def test_what_the_function_draws_and_counts(fwd_calls_it, run):
    def program(decorator: Any) -> Any:
        rng, numbers, count = np.random.default_rng(0), itertools.count(), []

        def primal(x: Any) -> Any:
            count.append(1)
            return x * rng.normal() + next(numbers)

        f = decorator(primal)
        fwd = f if fwd_calls_it else lambda x: x * 1.0
        f.defvjp(lambda x: (fwd(x), None), lambda _, g: (g,))
        return run(f), run(f), len(count), next(numbers), rng.normal()

    same_vjp(program)


def test_static_arguments_do_not_make_it_run_twice():
    def program(decorator: Any) -> Any:
        count: list[Any] = []

        def primal(n: Any, x: Any) -> Any:
            count.append(n)
            return x * n

        f = decorator(primal, nondiff_argnums=(0,))
        f.defvjp(lambda n, x: (f(n, x), None), lambda n, _, g: (g * n,))
        return f(3, X), f(3, X), f(4, X), len(count)

    same_vjp(program)


# --- rules that are set late ----------------------------------------------------------


def test_a_rule_that_is_set_after_defvjp_is_the_one_that_runs():
    def program(decorator: Any) -> Any:
        f = defined(
            decorator, lambda x: x * 2, lambda x: (x * 2, None), lambda _, g: (g * 2,)
        )
        first = total(f, X)
        f.bwd = lambda _, g: (g * 7,)
        second = total(f, X)
        f.fwd = lambda x: (x * 2, x)
        f.bwd = lambda x, g: (g * x,)
        third = total(f, X)
        f.fun = lambda x: x * 5
        return first, second, third, f(X)

    same_vjp(program)


def test_a_jvp_rule_that_is_set_after_defjvp_is_the_one_that_runs():
    def program(decorator: Any) -> Any:
        f = decorator(lambda x: x * 2)
        f.defjvp(lambda p, t: (p[0] * 2, t[0] * 2))
        first = jax.jvp(f, (X,), (X,))
        f.jvp = lambda p, t: (p[0] * 2, t[0] * 9)
        return first, jax.jvp(f, (X,), (X,))

    same(program, jax.custom_jvp, checked_custom_jvp)


# --- arguments of odd kinds -----------------------------------------------------------


class WithArray:
    """A pytree whose own data is a NumPy array, which has no truth value."""

    def __init__(self, value: Any, mask: Any) -> None:
        self.value = value
        self.mask = mask


jax.tree_util.register_pytree_node(
    WithArray,
    lambda node: ((node.value,), node.mask),
    lambda mask, children: WithArray(children[0], mask),
)


class Unhashable(str):
    __hash__ = None  # type: ignore[assignment]


def test_an_array_among_the_data_of_a_pytree():
    def program(decorator: Any) -> Any:
        f = defined(
            decorator,
            lambda node: node.value * 2,
            lambda node: (node.value * 2, None),
            lambda _, g: (None,),
        )
        return [f(WithArray(X, np.ones(3))) for _ in range(3)]

    same_vjp(program)


@pytest.mark.parametrize(
    "static", [Unhashable("a"), {"a": 1}, [1, 2], {1}, float("nan"), slice(1, 2)]
)
def test_a_static_argument_that_has_no_key(static):
    def program(decorator: Any) -> Any:
        f = decorator(lambda s, x: x * 2, nondiff_argnums=(0,))
        f.defvjp(lambda s, x: (x * 2, None), lambda s, _, g: (g * 2,))
        return f(static, X), f(static, X), total(functools.partial(f, static), X)

    same_vjp(program)


# --- symbolic shapes ------------------------------------------------------------------


def test_a_function_that_is_exported_with_symbolic_shapes():
    f = defined(
        checked_custom_vjp,
        jnp.sin,
        lambda x: (jnp.sin(x), x),
        lambda r, g: (g * jnp.cos(r),),
    )
    (b,) = jax.export.symbolic_shape("b")
    spec = jax.ShapeDtypeStruct((b,), jnp.float32)
    exported = jax.export.export(jax.jit(f))(spec)
    np.testing.assert_allclose(exported.call(X), jnp.sin(X), rtol=1e-6)
    of_gradient = jax.export.export(jax.jit(lambda x: total(f, x)))(spec)
    np.testing.assert_allclose(of_gradient.call(X), jnp.cos(X), rtol=1e-6)
    report = check(f, spec)
    assert "residuals: 4*b bytes a call" in str(report)


def test_a_jvp_function_that_is_exported_with_symbolic_shapes():
    f = checked_custom_jvp(lambda x, w: x @ w)
    f.defjvp(lambda p, t: (p[0] @ p[1], t[0] @ p[1] + p[0] @ t[1]))
    b, c = jax.export.symbolic_shape("b, c")
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((b, c), (c, 4))]
    exported = jax.export.export(jax.jit(f))(*specs)
    assert exported.call(jnp.ones((2, 3)), jnp.ones((3, 4))).shape == (2, 4)
    check(f, *specs)
