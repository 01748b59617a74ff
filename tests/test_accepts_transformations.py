"""What must be accepted: right primitives in any company, the same as with `HiPrim`."""

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import HiPrim, linearize_from_jvp
from jax.sharding import AxisType

from strict_hijax import StrictHiPrim
from tests.primitives import AVAL, X, binary, both, gradient, init, sine, unary

# --- the instance in the hands of JAX -------------------------------------------------


def primitive_in(jaxpr: Any) -> Any:
    (eqn,) = jaxpr.eqns
    return eqn.params["_prim"]


def test_the_primitive_in_a_jaxpr_is_the_users() -> None:
    prim = sine(__init__=init((AVAL,), n=3))()
    held = primitive_in(jax.make_jaxpr(prim)(X))
    assert held == prim
    assert prim == held
    assert hash(held) == hash(prim)
    assert isinstance(held, type(prim))
    assert (held.n, held.params) == (3, {"n": 3})
    assert repr(held) == repr(prim)
    assert len({held, prim}) == 1
    assert held != sine(__init__=init((AVAL,), n=4))()


def test_a_jaxpr_prints_as_with_hiprim() -> None:
    def printed(cls: Any) -> str:
        return str(jax.make_jaxpr(lambda x: gradient(cls(), x))(X))

    assert printed(unary(StrictHiPrim)) == printed(unary(HiPrim))


class Pickled(StrictHiPrim):
    def __init__(self, n: int):
        self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, {"n": n}
        super().__init__()

    def __reduce__(self) -> Any:
        return Pickled, (self.params["n"],)

    def expand(self, x: Any) -> Any:
        return self.params["n"] * x

    def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
        return self(x), None

    def vjp_bwd(self, res: Any, g: Any, x_acc: Any) -> None:
        x_acc.accum(self.params["n"] * g)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_are_equal_and_work(duplicate: Any) -> None:
    prim = Pickled(2)
    again = duplicate(prim)
    assert again == prim
    np.testing.assert_array_equal(again(X), 2 * X)


def test_pickles_are_equal_also_of_what_jax_holds() -> None:
    prim = Pickled(2)
    held = primitive_in(jax.make_jaxpr(prim)(X))
    for value in (prim, held, copy.deepcopy(held)):
        again = pickle.loads(pickle.dumps(value))
        assert type(again) is Pickled
        assert again == prim
        np.testing.assert_array_equal(again(X), 2 * X)


def test_attributes_in_slots() -> None:
    class Slotted(StrictHiPrim):
        __slots__ = ("factor",)

        def __init__(self, factor: float):
            self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, {}
            self.factor = factor
            super().__init__()

        def expand(self, x: Any) -> Any:
            return self.factor * x

        def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
            return self(x), None

        def vjp_bwd_retval(self, res: Any, g: Any) -> Any:
            return (self.factor * g,)

    np.testing.assert_array_equal(gradient(Slotted(3.0), X), 3 * np.ones(3))


def test_effects_of_an_instance() -> None:
    from jax._src.callback import IOEffect

    seen: list[float] = []

    def make(base: Any) -> Any:
        def __init__(self: Any) -> None:
            self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, {}
            self.effects = frozenset({IOEffect()})
            super(cls, self).__init__()

        def expand(self: Any, x: Any) -> Any:
            jax.debug.callback(lambda x: seen.append(float(x)), x[0])
            return jnp.sin(x)

        cls: Any = unary(base, __init__=__init__, expand=expand)
        return cls

    both(make, lambda cls: (cls()(X), jax.jit(cls())(X)))
    jax.effects_barrier()
    assert len(seen) == 4


def test_nothing_keeps_an_instance_alive() -> None:
    prim = sine()()
    gradient(prim, X)
    jax.clear_caches()
    gone = weakref.ref(prim)
    del prim
    gc.collect()
    assert gone() is None


def test_a_call_leaves_no_cycle_behind() -> None:
    prim = sine()()
    prim(X)
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            prim(X)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_no_tracer_leaks() -> None:
    prim = sine()()
    with jax.checking_leaks():
        jax.jit(partial(gradient, prim))(X)
        sine(examples=True)


# --- transformations and configurations ----------------------------------------------


def everywhere(base: Any) -> Any:
    """The sine with every rule, through each rule at most once."""
    rules = dict(zip(("lin", "linearized"), linearize_from_jvp, strict=True))

    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        return self(*primals), tangents[0] * jnp.cos(primals[0])

    def batch(self: Any, axis: Any, args: Any, dims: Any) -> Any:
        (x,), (dim,) = args, dims
        if dim is None:
            return Sine(x)(x), None
        return jax.lax.map(lambda row: Sine(row)(row), jnp.moveaxis(x, dim, 0)), 0

    class Sine(base):  # type: ignore[misc]
        def __init__(self, x: Any):
            self.in_avals, self.out_aval = (jax.typeof(x),), jax.typeof(x)
            self.params = {}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return jnp.sin(x)

        def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
            return self(x), x

        def vjp_bwd(self, x: Any, g: Any, x_acc: Any) -> None:
            x_acc.accum(g * jnp.cos(x))

    Sine.jvp, Sine.batch = jvp, batch
    Sine.lin, Sine.linearized = rules["lin"], rules["linearized"]
    return lambda: lambda x: Sine(x)(x)


def scan(f: Any) -> Any:
    return lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, length=3)[0]


def cond(f: Any) -> Any:
    return lambda x: jax.lax.cond(x.sum() > 0, f, lambda x: x, x)


def fori_loop(f: Any) -> Any:
    return lambda x: jax.lax.fori_loop(0, 3, lambda i, x: x - f(x), x)


def while_loop(f: Any) -> Any:
    return lambda x: jax.lax.while_loop(lambda c: c.sum() > 1, f, x)


def second_order(f: Any) -> Any:
    return lambda x: jax.grad(lambda x: jax.grad(lambda x: f(x).sum())(x).sum())(x)


def reverse(f: Any) -> Any:
    return lambda x: jax.grad(lambda x: f(x).sum())(x)


def vmapped(f: Any) -> Any:
    return lambda x: jax.vmap(f)(jnp.stack([x, 2 * x]))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "call": lambda f: f,
    "grad": reverse,
    "grad of scan": lambda f: reverse(scan(f)),
    "grad of cond": lambda f: reverse(cond(f)),
    "while": while_loop,
    "grad in while": lambda f: fori_loop(reverse(f)),
    "grad of checkpoint": lambda f: reverse(jax.checkpoint(f)),
    "vmap": vmapped,
    "vmap of grad": lambda f: vmapped(reverse(f)),
    "grad of vmap": lambda f: reverse(vmapped(f)),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](x),
    "second order": second_order,
    "forward over reverse": lambda f: lambda x: jax.jvp(reverse(f), (x,), (x,)),
    "hessian": lambda f: jax.hessian(lambda x: f(x).sum()),
    "jacobian": jax.jacrev,
    "grad of jit": lambda f: reverse(jax.jit(f)),
}


@pytest.fixture(params=["jax_remat3", "jax_custom_vjp3", "jax_disable_bwd_checks"])
def flag(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    old = getattr(jax.config, name)
    jax.config.update(name, not old)
    yield name
    jax.config.update(name, old)


@pytest.mark.parametrize("program", PROGRAMS)
def test_transformations(program: str) -> None:
    transform = PROGRAMS[program]
    both(everywhere, lambda make: transform(make())(X))
    both(everywhere, lambda make: jax.jit(transform(make()))(X))


@pytest.mark.parametrize("program", ["grad", "grad of scan", "grad of checkpoint"])
@pytest.mark.usefixtures("flag")
def test_configurations(program: str) -> None:
    both(everywhere, lambda make: jax.jit(PROGRAMS[program](make()))(X))


def test_closing_over_the_tracers_of_an_outer_transformation() -> None:
    def make(base: Any) -> Any:
        def f(x: Any, scale: Any) -> Any:
            cls = unary(
                base,
                vjp_bwd=lambda self, x, g, a: a.accum(g * jnp.cos(x) * scale),
            )
            return gradient(cls(), x)

        return f

    both(make, lambda f: f(X, 2.0))
    both(make, lambda f: jax.jit(f)(X, 2.0))
    both(make, lambda f: jax.lax.map(lambda s: f(X, s), X))


def test_a_ref_in_the_residuals() -> None:
    def make(base: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(3))

        def vjp_bwd(self: Any, ref: Any, g: Any, a: Any, r: Any) -> None:
            ref[...] += g
            a.accum(g)

        cls = binary(
            base,
            __init__=init((AVAL, jax.typeof(ref)), AVAL),
            expand=lambda self, x, ref: 2 * x,
            vjp_fwd=lambda self, nz, x, ref: (self(x, ref), ref),
            vjp_bwd=vjp_bwd,
        )
        return cls, ref

    def run(made: Any) -> Any:
        cls, ref = made
        out = jax.grad(lambda x: cls()(x, ref).sum())(X)
        return out, ref[...]

    both(make, run)


# --- several devices ------------------------------------------------------------------


@pytest.fixture(params=[AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
def mesh(request: pytest.FixtureRequest) -> Iterator[Any]:
    mesh = jax.make_mesh((4,), ("i",), axis_types=(request.param,))
    with jax.set_mesh(mesh):
        yield mesh


def test_jit_with_shardings(mesh: Any) -> None:
    x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("i")))
    both(everywhere, lambda make: jax.jit(reverse(make()))(x))
    both(everywhere, lambda make: reverse(make())(x))


@pytest.mark.parametrize("check_vma", [True, False])
def test_shard_map(mesh: Any, check_vma: bool) -> None:
    x = jax.device_put(jnp.arange(8.0), jax.NamedSharding(mesh, jax.P("i")))

    def run(make: Any) -> Any:
        def loss(x: Any) -> Any:
            return jax.lax.psum(make()(x).sum(), "i")

        mapped = jax.shard_map(
            loss, in_specs=jax.P("i"), out_specs=jax.P(), check_vma=check_vma
        )
        return jax.jit(jax.grad(mapped))(x)

    both(everywhere, run)


def test_a_type_made_outside_of_the_mesh(mesh: Any) -> None:
    prim = sine(examples=True)()
    np.testing.assert_array_equal(jax.jit(prim)(X), jax.jit(jnp.sin)(X))


def test_threads_define_and_use_classes_at_once() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(5):
                gradient(sine(examples=True)(), X)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
