"""Rules that are set on a class, or deleted, when the class statement is over."""

import unittest.mock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import linearize_from_jvp, vjp_from_jvp

import strict_hijax
from strict_hijax import MissingRuleError, StrictHiPrim, check
from tests.primitives import AVAL, X, found_in, gradient, init, sine, vjp_fwd


def retval(self: Any, x: Any, g: Any) -> Any:
    return (g * jnp.cos(x),)


def jvp(self: Any, primals: Any, tangents: Any) -> Any:
    return self(*primals), tangents[0] * jnp.cos(primals[0])


def assert_sine(prim: Any) -> None:
    np.testing.assert_allclose(prim(X), jnp.sin(X))
    np.testing.assert_allclose(gradient(prim, X), jnp.cos(X), rtol=1e-6)


# --- faults ---------------------------------------------------------------------------

FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "two backward rules": ({"vjp_bwd_retval": retval}, "SH109"),
    "a whole pair": ({"vjp_fwd": vjp_from_jvp, "jvp": jvp}, "SH104"),
    "a wrong arity": ({"vjp_bwd": lambda self, x: None}, "SH110"),
    "another number of inputs": ({"expand": lambda self, x, y: x}, "SH111"),
    "a deleted backward": ({"vjp_bwd": None}, "SH102"),
    "a deleted expand": ({"expand": None}, "SH101"),
    "a number": ({"vjp_bwd": 3}, "SH114"),
    "half of a pair": ({"lin": linearize_from_jvp[0], "jvp": jvp}, "SH108"),
    "derived from nothing": ({"lin": None, "vjp_fwd": vjp_from_jvp[0]}, "SH106"),
}


def patch(cls: Any, rules: dict[str, Any]) -> None:
    for name, rule in rules.items():
        if rule is not None:
            setattr(cls, name, rule)
        elif name in vars(cls):
            delattr(cls, name)


@pytest.mark.parametrize(("rules", "code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_at_the_next_construction_and_each_after_it(rules, code):
    cls = sine()
    patch(cls, rules)
    for _ in range(2):
        assert code in {finding.code for finding in found_in(cls).findings}


@pytest.mark.parametrize(("rules", "code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_at_the_next_call(rules, code):
    prim = sine()()
    prim(X)
    patch(type(prim), rules)
    for _ in range(2):
        error = found_in(lambda: prim(X))
        assert code in {finding.code for finding in error.findings}


def test_a_fault_in_a_base_is_told_for_its_subclasses():
    base = sine()
    derived = type(base)("Derived", (base,), {})
    prim = derived()
    base.vjp_bwd_retval = retval
    assert found_in(derived).code == "SH109"
    assert found_in(lambda: prim(X)).subject.endswith("Derived")


def test_the_error_is_one_that_jax_would_raise():
    cls = sine()
    del cls.vjp_bwd
    with pytest.raises(MissingRuleError, match="Sine` promises `grad`"):
        cls()
    with pytest.raises(NotImplementedError):
        cls()


# --- what is legitimate ---------------------------------------------------------------


@pytest.mark.parametrize("first", ["delete", "set"])
def test_one_backward_rule_in_place_of_another_in_any_order(first):
    cls = sine()
    prim = cls()
    if first == "delete":
        del cls.vjp_bwd
        cls.vjp_bwd_retval = retval
    else:
        cls.vjp_bwd_retval = retval
        del cls.vjp_bwd
    assert_sine(prim)
    assert_sine(cls())


def test_a_pair_set_one_after_the_other():
    cls = sine()
    del cls.vjp_bwd
    cls.vjp_fwd, cls.vjp_bwd_retval = vjp_from_jvp
    cls.jvp = jvp
    assert_sine(cls())


def test_a_class_that_is_mended():
    cls = sine()
    cls.vjp_bwd_retval = retval
    found_in(cls)
    del cls.vjp_bwd_retval
    assert_sine(cls())


def test_patches_that_are_undone(monkeypatch):
    cls = sine()
    prim = cls()
    with monkeypatch.context() as patching:
        patching.delattr(cls, "vjp_bwd")
        patching.setattr(cls, "vjp_bwd_retval", retval, raising=False)
        patching.setattr(cls, "expand", lambda self, x: 2 * x)
        np.testing.assert_array_equal(prim(X), 2 * X)
    assert_sine(prim)
    with unittest.mock.patch.object(cls, "expand", autospec=True) as expand:
        expand.side_effect = lambda self, x: 3 * x
        np.testing.assert_array_equal(prim(X), 3 * X)
    assert_sine(cls())


def test_what_was_ignored_at_the_class_statement_is_no_news():
    with strict_hijax.ignore("SH109"):
        cls = sine(vjp_bwd_retval=retval, vjp_bwd=lambda s, x, g, a: a.accum(g))
    cls.expand = lambda self, x: 2 * x
    np.testing.assert_array_equal(cls()(X), 2 * X)
    other = sine(keywords={"ignore": "SH109"})
    other.vjp_bwd_retval = retval
    assert_sine(other())


def test_a_decorator_that_gives_a_class_its_rules():
    def differentiable(cls: Any) -> Any:
        cls.jvp = jvp
        cls.vjp_fwd, cls.vjp_bwd_retval = vjp_from_jvp
        return cls

    @differentiable
    class Good(StrictHiPrim, supports=()):
        __init__ = init((AVAL,))

        def expand(self, x):
            return jnp.sin(x)

    assert_sine(Good())
    assert check(Good())


def test_other_attributes_change_nothing():
    cls = sine()
    before = cls._facts
    cls.doc, cls.helper = "text", lambda self: 3
    del cls.doc
    assert cls._facts is before
    assert not cls._is_changed
    assert_sine(cls())


def test_rules_of_a_class_that_only_a_jaxpr_uses():
    cls = sine()
    prim = cls()
    jaxpr = jax.make_jaxpr(lambda x: prim(x))(X)
    del cls.vjp_fwd
    (out,) = jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, X)
    np.testing.assert_allclose(out, jnp.sin(X))
    cls.vjp_fwd = vjp_fwd
    assert_sine(prim)
