"""What stands in jaxprs for a primitive: like the user's instance, and checked."""

import copy
import dataclasses
import functools
import gc
import pickle
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import HiPrim, vjp_from_jvp

from strict_hijax import RuleValueError, StrictHijaxError, StrictHiPrim, check
from tests.primitives import AVAL, X, both, found_in, gradient, init, sine, unary


class Scaled(StrictHiPrim):
    """At module level, so that it can be pickled."""

    __slots__ = ("note",)

    def __init__(self, scale=2.0):
        self.in_avals, self.out_aval = (AVAL,), AVAL
        self.params = {"scale": scale}
        self.note = "kept in a slot"
        super().__init__()

    def expand(self, x):
        return self.scale * jnp.sin(x)

    def vjp_fwd(self, nzs_in, x):
        return self(x), x

    def vjp_bwd_retval(self, x, g):
        return (self.scale * g * jnp.cos(x),)

    def jvp(self, primals, tangents):
        (x,), (x_dot,) = primals, tangents
        return self(x), self.scale * x_dot * jnp.cos(x)

    def batch(self, axis_data, args, dims):
        return type(self)(self.scale)(args[0]), 0


def held_by_jax(prim: Any) -> Any:
    (eqn,) = jax.make_jaxpr(lambda x: prim(x))(X).eqns
    return eqn.params["_prim"]


# --- its class ------------------------------------------------------------------------


def names_of_types(jaxpr: Any) -> list[type]:
    return [type(eqn.params["_prim"]) for eqn in jaxpr.eqns if "_prim" in eqn.params]


def test_a_table_by_type_finds_the_class():
    def interpret(jaxpr: Any, x: Any) -> Any:
        table = {Scaled: lambda prim, x: prim.scale * jnp.sin(x)}
        values = {jaxpr.jaxpr.invars[0]: x}
        for eqn in jaxpr.eqns:
            prim = eqn.params["_prim"]
            result = table[type(prim)](prim, *(values[v] for v in eqn.invars))
            values[eqn.outvars[0]] = result
        return values[jaxpr.jaxpr.outvars[0]]

    prim = Scaled(3.0)
    jaxpr = jax.make_jaxpr(lambda x: prim(prim(x)))(X)
    assert [type(e.params["_prim"]) is Scaled for e in jaxpr.eqns] == [True, True]
    np.testing.assert_allclose(interpret(jaxpr, X), prim(prim(X)), rtol=1e-6)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: lambda x: jax.vjp(f, x)[0],
        lambda f: lambda x: jax.jvp(f, (x,), (x,)),
        lambda f: jax.checkpoint(f),
    ],
    ids=["vjp", "jvp", "checkpoint"],
)
def test_the_class_is_the_users_under_transformations(transform):
    jaxpr = jax.make_jaxpr(transform(Scaled()))(X)
    found = names_of_types(jaxpr)
    for eqn in jaxpr.eqns:
        if "jaxpr" in eqn.params:
            found += names_of_types(eqn.params["jaxpr"])
    assert found
    assert set(found) == {Scaled}
    assert Scaled.__subclasses__() == []


# --- equality and caches --------------------------------------------------------------


def test_it_is_equal_to_the_instance():
    prim = Scaled()
    held = held_by_jax(prim)
    assert held == prim
    assert prim == held
    assert held == held_by_jax(prim)
    assert hash(held) == hash(prim)
    assert held != held_by_jax(Scaled(3.0))
    assert str(held) == str(prim)
    assert held.note == prim.note


def test_equality_of_the_users_own():
    @dataclasses.dataclass(unsafe_hash=True)
    class Times(StrictHiPrim):
        n: int

        def __post_init__(self):
            init((AVAL,))(self)

        def expand(self, x):
            return self.n * x

        def vjp_fwd(self, nzs_in, x):
            return self(x), None

        def vjp_bwd_retval(self, res, g):
            return (self.n * g,)

    prim = Times(3)
    held = held_by_jax(prim)
    assert type(held) is Times
    assert (held == prim, held == Times(3), held == Times(4)) == (True, True, False)
    assert hash(held) == hash(prim)
    np.testing.assert_array_equal(gradient(prim, X), jnp.full(3, 3.0))


def test_equal_calls_are_traced_once():
    traced: list[str] = []

    def expand(self: Any, x: Any) -> Any:
        traced.append("expand")
        return jnp.sin(x)

    def run(cls: Any) -> int:
        traced.clear()
        apply = jax.jit(lambda prim, x: prim(x), static_argnums=0)
        for _ in range(3):
            apply(cls(), X)
            jax.jit(cls())(X)
        return len(traced)

    assert both(functools.partial(unary, expand=expand), run) > 0


# --- copies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda prim: pickle.loads(pickle.dumps(prim))],
    ids=["copy", "deepcopy", "pickle"],
)
@pytest.mark.parametrize("of", [lambda prim: prim, held_by_jax], ids=["own", "held"])
def test_a_copy_is_an_instance_like_the_users(duplicate, of):
    prim = Scaled(3.0)
    found = duplicate(of(prim))
    assert type(found) is Scaled
    assert vars(found).keys() == vars(prim).keys()
    assert found.note == prim.note
    np.testing.assert_allclose(found(X), 3 * jnp.sin(X), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(found)(X), 3 * jnp.sin(X), rtol=1e-6)


def test_a_copy_has_rules_of_its_own():
    prim = Scaled(3.0)
    found = copy.copy(held_by_jax(prim))
    found.scale = 5.0
    np.testing.assert_allclose(found(X), 5 * jnp.sin(X), rtol=1e-6)
    np.testing.assert_allclose(prim(X), 3 * jnp.sin(X), rtol=1e-6)


def test_nothing_is_left_on_the_instance_or_kept_alive():
    prim = Scaled()
    before = dict(vars(prim))
    gradient(prim, X)
    assert vars(prim) == before
    reference = weakref.ref(prim)
    gc.disable()
    try:
        prim(X)
        del prim
        assert reference() is None
    finally:
        gc.enable()


def test_what_is_set_after_construction_counts():
    def run(cls: Any) -> Any:
        prim = cls()
        prim.scale = 3.0
        held = jax.make_jaxpr(lambda x: prim(x))(X)
        prim.scale = 5.0
        return prim(X), jax.core.eval_jaxpr(held.jaxpr, held.consts, X)

    both(functools.partial(unary, expand=lambda self, x: self.scale * x), run)


# --- its rules ------------------------------------------------------------------------


def test_rules_of_what_jax_holds_are_checked_and_those_of_the_instance_are_not():
    cls = sine(expand=lambda self, x: x[:2])
    prim = cls()
    assert prim.expand(X).shape == (2,)
    with pytest.raises(StrictHijaxError, match="`expand`"):
        held_by_jax(prim).expand(X)


def test_derived_rules_run_on_what_jax_holds():
    vjp_fwd, vjp_bwd_retval = vjp_from_jvp
    cls = sine(
        vjp_fwd=vjp_fwd,
        vjp_bwd_retval=vjp_bwd_retval,
        jvp=lambda self, primals, tangents: (self(*primals), tangents[0][:2]),
    )
    held = held_by_jax(cls())
    assert held.vjp_fwd.__func__ is vjp_fwd
    error = found_in(lambda: gradient(cls(), X))
    assert error.rule == "jvp"


def test_a_rule_in_a_cached_property_is_checked_and_may_be_right():
    class Good(sine(vjp_bwd=None, keywords={"supports": ()})):
        @functools.cached_property
        def vjp_bwd_retval(self):
            return lambda x, g: (g * self.factor(x),)

        factor = staticmethod(jnp.cos)

    prim = Good()
    for _ in range(2):
        np.testing.assert_allclose(gradient(prim, X), jnp.cos(X), rtol=1e-6)

    class Bad(Good):
        factor = staticmethod(lambda x: jnp.cos(x)[:2, None])

    prim = Bad()
    for _ in range(2):
        assert found_in(lambda: gradient(prim, X)).rule == "vjp_bwd_retval"


def by_property(rule: Any) -> Any:
    return sine(vjp_bwd=None, vjp_bwd_retval=property(lambda self: rule))


def test_a_rule_that_a_property_gives():
    cls = by_property(lambda x, g: (g * jnp.cos(x),))
    np.testing.assert_allclose(gradient(cls(), X), jnp.cos(X), rtol=1e-6)
    assert "vjp_bwd_retval" in {rule.name for rule in check(cls()).rules}


def test_a_wrong_rule_that_a_property_gives_is_found_by_check():
    prim = by_property(lambda x, g: (g[:2],))()
    assert found_in(lambda: check(prim)).rule == "vjp_bwd_retval"


def test_a_property_that_gives_no_rule_is_found_at_construction():
    error = found_in(by_property(3))
    assert (error.code, error.rule) == ("SH114", "vjp_bwd_retval")
    assert "the Python int 3" in str(error)


def test_a_property_that_gives_a_rule_of_wrong_arity_is_found_at_construction():
    assert found_in(by_property(lambda x: (x,))).code == "SH110"


def test_a_property_that_is_not_ready_yet():
    def later(self: Any) -> Any:
        raise AttributeError("not configured")

    cls = sine(vjp_bwd=None, vjp_bwd_retval=property(later))
    np.testing.assert_allclose(cls()(X), jnp.sin(X))


class WithoutSelf(StrictHiPrim):
    """At module level, so that it can be pickled."""

    __init__ = init((AVAL,))

    @staticmethod
    def expand(x):
        return jnp.sin(x)

    @classmethod
    def vjp_fwd(cls, nzs_in, x):
        return cls()(x), x

    @staticmethod
    def vjp_bwd(x, g, x_acc):
        x_acc.accum(g * jnp.cos(x))


def test_rules_that_are_all_static_or_of_the_class():
    for prim in (WithoutSelf(), copy.copy(held_by_jax(WithoutSelf()))):
        np.testing.assert_allclose(prim(X), jnp.sin(X))
        np.testing.assert_allclose(gradient(prim, X), jnp.cos(X), rtol=1e-6)
    found = pickle.loads(pickle.dumps(WithoutSelf()))
    np.testing.assert_allclose(found(X), jnp.sin(X))


# --- rules on the instance ------------------------------------------------------------


def with_own(set_late: bool = False, **rules: Any) -> Any:
    """An instance that sets rules on itself, beside those of its class."""

    def __init__(self: Any) -> None:
        init((AVAL,))(self)
        vars(self).update(rules)

    cls = sine(__init__=init((AVAL,)) if set_late else __init__)
    prim = cls()
    vars(prim).update(rules)
    return prim


class Helper:
    def accumulate(self, x, g, acc):
        acc.accum(3 * g)


BACKWARDS = {
    "accumulates": {"vjp_bwd": lambda x, g, acc: acc.accum(2 * g * jnp.cos(x))},
    "decorated": {"vjp_bwd": jax.named_call(lambda x, g, a: a.accum(2 * g))},
    "partial": {
        "vjp_bwd": functools.partial(lambda k, x, g, acc: acc.accum(k * g), 2),
    },
    "a bound method": {"vjp_bwd": Helper().accumulate},
    "varargs": {"vjp_bwd": lambda *args: args[-1].accum(args[1])},
    "none": {"jvp": None},
}


@pytest.mark.parametrize("late", [False, True], ids=["in __init__", "after it"])
@pytest.mark.parametrize("rules", BACKWARDS.values(), ids=BACKWARDS)
def test_right_rules_on_an_instance(rules, late):
    prim = with_own(late, **rules)
    got = gradient(prim, X)
    plain = unary(HiPrim)()
    vars(plain).update(rules)
    np.testing.assert_array_equal(got, gradient(plain, X))
    assert check(prim)


@pytest.mark.parametrize("late", [False, True], ids=["in __init__", "after it"])
def test_a_rule_on_an_instance_that_accumulates_nothing(late):
    prim = with_own(late, vjp_bwd=lambda x, g, acc: None)
    assert found_in(lambda: gradient(prim, X)).code == "SH311"
    assert found_in(lambda: check(prim)).code == "SH311"


def test_a_rule_on_an_instance_with_cotangents_of_another_shape():
    prim = with_own(vjp_bwd=lambda x, g, acc: acc.accum(g[:2]))
    with pytest.raises(RuleValueError):
        gradient(prim, X)


def test_a_rule_on_an_instance_is_checked_by_examples():
    def __init__(self: Any) -> None:
        init((AVAL,))(self)
        self.vjp_bwd = lambda x, g, acc: acc.accum(g[:2])

    error = found_in(lambda: sine(__init__=__init__, examples=True))
    assert error.rule == "vjp_bwd"


def test_other_instances_are_not_touched():
    prim = with_own(vjp_bwd=lambda x, g, acc: acc.accum(7 * g))
    other = type(prim)()
    vars(other).pop("vjp_bwd")
    np.testing.assert_allclose(gradient(other, X), jnp.cos(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (3, "SH114"),
        (lambda x: None, "SH110"),
        (lambda x, g, a, b, c: a.accum(g), "SH111"),
        (lambda x, g, a: (g,), "SH116"),
    ],
    ids=["no function", "too few", "too many", "returns"],
)
def test_a_rule_on_an_instance_that_cannot_work(rule, code):
    error = found_in(lambda: with_own(vjp_bwd=rule))
    assert (error.code, error.rule) == (code, "vjp_bwd")
