"""What must be accepted: right primitives of unusual form, the same as with `HiPrim`.

Each test fails if the check that it is near to were naive. What is compared with plain
`HiPrim` is made twice, by a function of the base class.
"""

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
from jax.experimental.hijax import (
    HiPrim,
    jvp_from_lin,
    linearize_from_jvp,
    vjp_from_jvp,
    vjp_from_lin,
)
from jax.sharding import AxisType

from strict_hijax import StrictHiPrim, check
from tests.primitives import AVAL, X, gradient, init, sine

type Make = Callable[[Any], Any]


def both(make: Make, run: Callable[[Any], Any]) -> Any:
    """What a strict class gives, once it is seen to be what the plain one gives."""
    strict, plain = run(make(StrictHiPrim)), run(make(HiPrim))
    jax.tree.map(np.testing.assert_array_equal, strict, plain)
    return strict


def binary(base: Any, **body: Any) -> Any:
    """The product of two arrays."""
    rules = {
        "__init__": plain_init((AVAL, AVAL)),
        "expand": lambda self, x, y: x * y,
        "vjp_fwd": lambda self, nz, x, y: (self(x, y), (x, y)),
    }
    return type(base)("Product", (base,), rules | body)


def unary(base: Any, **body: Any) -> Any:
    """The sine."""
    rules = {
        "__init__": plain_init((AVAL,)),
        "expand": lambda self, x: jnp.sin(x),
        "vjp_fwd": lambda self, nz, x: (self(x), x),
    }
    if not body.keys() & {"vjp_bwd_retval", "vjp_bwd_retval_logs"}:
        rules["vjp_bwd"] = lambda self, x, g, a: a.accum(g * jnp.cos(x))
    return type(base)("Sine", (base,), rules | body)


def plain_init(in_avals: Any, out_aval: Any = None, **params: Any) -> Any:
    def __init__(self: Any) -> None:
        self.in_avals, self.params = in_avals, params
        self.out_aval = in_avals[0] if out_aval is None else out_aval
        HiPrim.__init__(self) if not isinstance(self, StrictHiPrim) else (
            StrictHiPrim.__init__(self)
        )

    return __init__


# --- symbolic zeros and accumulators --------------------------------------------------


def is_symbolic(g: Any) -> bool:
    return type(g).__name__ == "Zero"


def two_outputs(base: Any) -> Any:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        if is_symbolic(g[1]):
            return  # no influence, by this rule
        x_acc.accum(g[1] * 2)

    return unary(
        base,
        __init__=plain_init((AVAL,), (AVAL, AVAL)),
        expand=lambda self, x: (x, 2 * x),
        vjp_bwd=vjp_bwd,
    )


@pytest.mark.parametrize("output", [0, 1])
def test_a_rule_that_leaves_at_once_for_a_symbolic_zero(output: int) -> None:
    both(two_outputs, lambda cls: jax.grad(lambda x: cls()(x)[output].sum())(X))


def test_symbolic_zeros_are_returned_as_they_came() -> None:
    def vjp_bwd_retval(self: Any, x: Any, g: Any) -> Any:
        return (g[0],)

    both(
        lambda base: unary(
            base,
            __init__=plain_init((AVAL,), (AVAL, AVAL)),
            expand=lambda self, x: (x, 2 * x),
            vjp_bwd_retval=vjp_bwd_retval,
        ),
        lambda cls: jax.grad(lambda x: cls()(x)[1].sum())(X),
    )


@pytest.mark.parametrize("nothing", [None, "float0", "integer"])
def test_whatever_is_returned_for_an_integer_input(nothing: Any) -> None:
    indices = jnp.array([0, 0, 2])
    given = {
        None: None,
        "float0": np.zeros(3, jax.dtypes.float0),
        "integer": jnp.zeros(3, jnp.int32),
    }[nothing]

    def vjp_bwd_retval(self: Any, i: Any, g: Any) -> Any:
        return jnp.zeros(3).at[i].add(g), given

    both(
        lambda base: binary(
            base,
            __init__=plain_init((AVAL, jax.typeof(indices)), AVAL),
            expand=lambda self, x, i: x[i],
            vjp_fwd=lambda self, nz, x, i: (self(x, i), i),
            vjp_bwd_retval=vjp_bwd_retval,
        ),
        lambda cls: gradient(cls(), X, indices),
    )


def test_an_accumulator_that_wants_nothing() -> None:
    def vjp_bwd(self: Any, res: Any, g: Any, x_acc: Any, y_acc: Any) -> None:
        x_acc.accum(g * res[1])
        y_acc.accum(g * res[0])

    both(partial(binary, vjp_bwd=vjp_bwd), lambda cls: gradient(cls(), X, 2 * X))


def test_an_explicit_zero() -> None:
    cls = sine(vjp_bwd=lambda self, x, g, a: a.accum(None), examples=True)
    np.testing.assert_array_equal(gradient(cls(), X), np.zeros(3))


def add_to_the_ref(g: Any, x: Any, accum: Any) -> None:
    accum.inst().ref[...] += g * jnp.cos(x)


def hand_on(g: Any, x: Any, accum: Any) -> None:
    jax.vjp(jnp.sin, x)[1].with_refs(accum)(g)


def hand_on_beside_one_without_influence(g: Any, x: Any, accum: Any) -> None:
    unused = jax.new_ref(jnp.zeros(()))
    jax.vjp(lambda x, _: jnp.sin(x), x, 1.0)[1].with_refs(accum, unused)(g)


def hand_on_to_a_function_without_influence(g: Any, x: Any, accum: Any) -> None:
    jax.vjp(lambda x, y: jnp.sin(y), x, x)[1].with_refs(accum, jax.new_ref(x))(g)


def through_an_inner_jit(g: Any, x: Any, accum: Any) -> None:
    jax.vjp(jax.jit(jnp.sin), x)[1].with_refs(accum)(g)


def replace_the_value(g: Any, x: Any, accum: Any) -> None:
    accum.accum(g)
    if hasattr(accum, "val"):
        accum.val = accum.val * jnp.cos(x)


GIVES = [
    hand_on,
    hand_on_beside_one_without_influence,
    hand_on_to_a_function_without_influence,
    through_an_inner_jit,
]


@pytest.mark.parametrize("give", [*GIVES, replace_the_value])
def test_an_accumulator_that_is_handed_on(give: Any) -> None:
    make = partial(unary, vjp_bwd=lambda self, x, g, a: give(g, x, a))
    both(make, lambda cls: gradient(cls(), X))
    both(make, lambda cls: jax.jit(partial(gradient, cls()))(X))


@pytest.mark.parametrize("give", [*GIVES, add_to_the_ref])
def test_a_ref_accumulator_that_is_handed_on(give: Any) -> None:
    def run(cls: Any) -> Any:
        ref = jax.new_ref(jnp.ones(3))
        jax.vjp(cls(), X)[1].with_refs(ref)(X)
        return ref[...]

    make = partial(unary, vjp_bwd=lambda self, x, g, a: give(g, x, a))
    both(make, run)
    both(make, lambda cls: jax.jit(lambda: run(cls))())


def test_the_same_array_for_two_inputs() -> None:
    def vjp_bwd(self: Any, res: Any, g: Any, x_acc: Any, y_acc: Any) -> None:
        x_acc.accum(g * res[1])
        y_acc.accum(g * res[0])

    make = partial(binary, vjp_bwd=vjp_bwd)
    both(make, lambda cls: jax.grad(lambda x: cls()(x, x).sum())(X))

    def run(cls: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(3))
        jax.vjp(lambda x: cls()(x, x), X)[1].with_refs(ref)(X)
        return ref[...]

    both(make, run)


def test_one_stand_in_for_one_accumulator() -> None:
    def vjp_bwd(self: Any, res: Any, g: Any, x_acc: Any, y_acc: Any) -> None:
        x_acc.accum(g * res[1])
        if y_acc is not x_acc:
            y_acc.accum(g * res[0])
        else:
            x_acc.accum(g * res[0])

    both(
        partial(binary, vjp_bwd=vjp_bwd),
        lambda cls: jax.grad(lambda x: cls()(x, x).sum())(X),
    )


def test_logs_reach_with_logs() -> None:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> dict[str, Any]:
        x_acc.accum(g)
        return {"norm": jnp.linalg.norm(g)}

    def run(cls: Any) -> Any:
        return jax.vjp(cls(), X)[1].with_logs(X)

    both(partial(unary, vjp_bwd=vjp_bwd), run)


def test_logs_of_the_returning_form() -> None:
    def vjp_bwd_retval_logs(self: Any, x: Any, g: Any) -> Any:
        return (g * jnp.cos(x),), {"norm": jnp.linalg.norm(g)}

    def run(cls: Any) -> Any:
        return jax.vjp(cls(), X)[1].with_logs(X)

    both(partial(unary, vjp_bwd_retval_logs=vjp_bwd_retval_logs), run)
    assert check(unary(StrictHiPrim, vjp_bwd_retval_logs=vjp_bwd_retval_logs)()).rules


def test_structured_residuals() -> None:
    def make(base: Any) -> Any:
        return unary(
            base,
            vjp_fwd=lambda self, nz, x: (self(x), None, True, {"x": x}),
            vjp_bwd=lambda self, res, sres, g, a: a.accum(g * jnp.cos(sres["x"])),
        )

    both(make, lambda cls: gradient(cls(), X))


# --- declining ------------------------------------------------------------------------


def decline(self: Any, *args: Any) -> Any:
    raise NotImplementedError("not differentiable")


def test_one_rule_that_declines_in_every_slot() -> None:
    cls = sine(
        jvp=decline, lin=decline, vjp_fwd=decline, transpose=decline, examples=True
    )
    np.testing.assert_array_equal(cls()(X), jnp.sin(X))
    with pytest.raises(NotImplementedError, match="not differentiable"):
        gradient(cls(), X)
    with pytest.raises(NotImplementedError, match="not differentiable"):
        jax.jvp(cls(), (X,), (X,))


def test_a_rule_that_only_runs_eagerly() -> None:
    def expand(self: Any, x: Any) -> Any:
        return jnp.sin(x) if float(x[0]) > 0 else x

    both(partial(unary, expand=expand), lambda cls: (cls()(X), cls()(-X)))


def test_out_aval_none_for_a_primitive_that_only_writes() -> None:
    ref_aval = jax.typeof(jax.new_ref(X))

    def expand(self: Any, ref: Any, x: Any) -> None:
        ref[...] += x

    def make(base: Any) -> Any:
        def __init__(self: Any) -> None:
            self.in_avals, self.out_aval, self.params = (ref_aval, AVAL), None, {}
            super(cls, self).__init__()

        keywords = {} if base is HiPrim else {"supports": ()}
        body = {"__init__": __init__, "expand": expand}
        cls: Any = type(base)("Write", (base,), body, **keywords)
        return cls

    def run(cls: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(3))
        cls()(ref, X)
        jax.jit(cls())(ref, X)
        return ref[...]

    both(make, run)


def test_none_inside_in_avals_and_no_inputs_at_all() -> None:
    with_none = partial(
        unary,
        __init__=plain_init(((AVAL, None),), AVAL),
        expand=lambda self, pair: jnp.sin(pair[0]),
        vjp_bwd=lambda self, res, g, pair: pair[0].accum(g * jnp.cos(res[0])),
    )
    both(with_none, lambda cls: jax.grad(lambda x: cls()((x, None)).sum())(X))
    returned = partial(
        unary,
        __init__=plain_init(((AVAL, None),), AVAL),
        expand=lambda self, pair: jnp.sin(pair[0]),
        vjp_bwd_retval=lambda self, res, g: ((g * jnp.cos(res[0]), None),),
    )
    both(returned, lambda cls: jax.grad(lambda x: cls()((x, None)).sum())(X))
    constant = partial(
        unary,
        __init__=plain_init((), AVAL),
        expand=lambda self: jnp.ones(3),
        vjp_fwd=lambda self, nz: (self(), None),
        vjp_bwd_retval=lambda self, res, g: (),
    )
    both(constant, lambda cls: (cls()(), jax.jit(cls())()))
    assert check(constant(StrictHiPrim)()).rules


# --- helpers, inheritance and forms of rules ------------------------------------------


def test_rules_that_are_helpers_with_other_types() -> None:
    def vjp_fwd(self: Any, nz: Any, x: Any) -> Any:
        halves = self.expand(x[:1]), self.expand(x[1:])
        return jnp.concatenate(halves), x

    def vjp_bwd(self: Any, x: Any, g: Any, a: Any) -> None:
        a.accum(self.vjp_bwd_retval(x[:1], g[:1])[0].sum() + 0 * x)

    def vjp_bwd_retval(self: Any, x: Any, g: Any) -> Any:
        return (g * jnp.cos(x),)

    make = partial(
        unary, vjp_fwd=vjp_fwd, vjp_bwd=vjp_bwd, vjp_bwd_retval=vjp_bwd_retval
    )
    strict = both(make, lambda cls: gradient(cls(), X))
    assert strict.shape == (3,)


def test_a_batch_rule_that_runs_expand_on_the_batch() -> None:
    make = partial(
        unary,
        batch=lambda self, axis, args, dims: (self.expand(*args), dims[0]),
    )
    both(make, lambda cls: jax.vmap(cls())(jnp.ones((4, 3))))


def test_linearized_and_transpose_may_use_rules_on_other_types() -> None:
    make = partial(
        unary,
        lin=lambda self, nz, x: (self(x), x),
        linearized=lambda self, x, t: self.expand((x + jnp.pi / 2)[None])[0] * t,
    )
    both(make, lambda cls: jax.linearize(cls(), X)[1](X))


def test_super_in_rules_and_a_diamond() -> None:
    class Left:
        def expand(self, x: Any) -> Any:
            return 2 * super().expand(x)  # type: ignore[misc]

    class Right:
        def expand(self, x: Any) -> Any:
            return super().expand(x)[:3] + 0  # type: ignore[misc]

    def make(base: Any) -> Any:
        root = unary(
            base,
            expand=lambda self, x: jnp.concatenate([jnp.sin(x), x]),
            vjp_bwd_retval=lambda self, x, g: (g * jnp.cos(x), None),
        )

        def vjp_bwd_retval(self: Any, x: Any, g: Any) -> Any:
            return super(cls, self).vjp_bwd_retval(x, 2 * g)[:1]

        body = {"vjp_bwd_retval": vjp_bwd_retval}
        cls: Any = type(base)("Twice", (Left, Right, root), body)
        return cls

    both(make, lambda cls: (cls()(X), gradient(cls(), X)))


def test_rules_of_a_mixin_and_of_a_plain_base() -> None:
    class Backward:
        def vjp_fwd(self: Any, nzs_in: Any, x: Any) -> Any:
            return self(x), x

        def vjp_bwd_retval(self, x: Any, g: Any) -> Any:
            return (g * jnp.cos(x),)

    def make(base: Any) -> Any:
        body = {"__init__": plain_init((AVAL,)), "expand": lambda self, x: jnp.sin(x)}
        return type(base)("Mixed", (Backward, base), body)

    both(make, lambda cls: gradient(cls(), X))


def test_rules_that_are_aliases_partials_static_or_decorated() -> None:
    def forward(x: Any, nz: Any, y: Any) -> Any:
        return jnp.sin(y), y

    def make(base: Any) -> Any:
        def vjp_fwd(self: Any, nz: Any, x: Any) -> Any:
            return self(x), x

        return unary(
            base,
            expand=staticmethod(jax.jit(jnp.sin)),
            vjp_fwd=vjp_fwd,
            lin=vjp_fwd,
            linearized=classmethod(lambda cls, x, t: t * jnp.cos(x)),
            vjp_bwd_retval=staticmethod(
                partial(lambda k, x, g: (k * g * jnp.cos(x),), 1)
            ),
        )

    both(make, lambda cls: gradient(cls(), X))
    both(make, lambda cls: jax.linearize(cls(), X)[1](X))


def test_rules_that_are_patched_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(cls: Any) -> Any:
        prim = cls()
        before = prim(X), gradient(prim, X)
        with monkeypatch.context() as patch:
            patch.setattr(cls, "expand", lambda self, x: 2 * x)
            patch.setattr(cls, "vjp_bwd", lambda self, x, g, a: a.accum(2 * g))
            during = prim(X), gradient(prim, X)
        return before, during, prim(X), gradient(prim, X)

    both(unary, run)


def test_a_rule_that_is_set_on_the_instance() -> None:
    def run(cls: Any) -> Any:
        prim = cls()
        prim.expand = lambda x: 3 * x
        return prim(X)

    both(unary, run)


def test_a_rule_that_is_patched_in_a_base() -> None:
    base = unary(StrictHiPrim)
    derived = type(base)("Derived", (base,), {})
    prim = derived()
    prim(X)
    base.expand = lambda self, x: 5 * x
    np.testing.assert_array_equal(prim(X), 5 * X)


@pytest.mark.parametrize(
    "derived",
    [
        lambda: dict(zip(("vjp_fwd", "vjp_bwd_retval"), vjp_from_jvp, strict=True)),
        lambda: dict(zip(("lin", "linearized"), linearize_from_jvp, strict=True)),
    ],
)
def test_rules_derived_from_jvp(derived: Any) -> None:
    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        return self(*primals), tangents[0] * jnp.cos(primals[0])

    def run(cls: Any) -> Any:
        return jax.jvp(cls(), (X,), (X,)), gradient(cls(), X)

    rules = derived()
    both(lambda base: unary(base, jvp=jvp, **rules), run)


def test_rules_derived_from_lin() -> None:
    rules = dict(zip(("vjp_fwd", "vjp_bwd_retval"), vjp_from_lin, strict=True))

    def make(base: Any) -> Any:
        return unary(
            base,
            lin=lambda self, nz, x: (self(x), x),
            linearized=lambda self, x, t: t * jnp.cos(x),
            jvp=jvp_from_lin,
            **rules,
        )

    both(make, lambda cls: (jax.jvp(cls(), (X,), (X,)), gradient(cls(), X)))


def test_dce_that_returns_the_primitive_itself_or_another() -> None:
    def dce(self: Any, used_outs: Any, *live_ins: Any) -> Any:
        return True, True, self

    def run(cls: Any) -> Any:
        jaxpr = jax.make_jaxpr(lambda x: (cls()(x), x)[1:])(X)
        closed = jax.jit(lambda x: [jnp.sum(cls()(x)), x][1])
        return closed(X), gradient(cls(), X), len(str(jaxpr)) > 0

    both(partial(unary, dce=dce), run)


def test_a_call_of_the_users_own() -> None:
    def make(base: Any) -> Any:
        def __call__(self: Any, x: Any) -> Any:
            return super(cls, self).__call__(jnp.asarray(x, jnp.float32))

        cls: Any = unary(base, __call__=__call__)
        return cls

    both(make, lambda cls: (cls()(np.arange(3)), gradient(cls(), X)))


def test_the_primitive_itself_under_jit() -> None:
    both(unary, lambda cls: jax.jit(cls())(X))


def test_calls_of_rules_are_as_many_as_with_hiprim() -> None:
    def run(cls_of: Any) -> list[str]:
        calls: list[str] = []

        def counted(name: str, rule: Any) -> Any:
            def call(self: Any, *args: Any) -> Any:
                calls.append(name)
                return rule(self, *args)

            return call

        cls = cls_of(
            expand=counted("expand", lambda self, x: jnp.sin(x)),
            vjp_fwd=counted("vjp_fwd", lambda self, nz, x: (self(x), x)),
            vjp_bwd=counted("vjp_bwd", lambda self, x, g, a: a.accum(g)),
        )
        prim = cls()
        prim(X)
        gradient(prim, X)
        jax.jit(partial(gradient, prim))(X)
        jax.vmap(jnp.sin)(X)
        return calls

    assert run(partial(unary, StrictHiPrim)) == run(partial(unary, HiPrim))


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
    both(make, lambda f: jax.vmap(lambda s: f(X, s))(X))
    both(make, lambda f: jax.lax.map(lambda s: f(X, s), X))


def test_a_ref_in_the_residuals() -> None:
    def make(base: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(3))

        def vjp_bwd(self: Any, ref: Any, g: Any, a: Any, r: Any) -> None:
            ref[...] += g
            a.accum(g)

        cls = binary(
            base,
            __init__=plain_init((AVAL, jax.typeof(ref)), AVAL),
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
