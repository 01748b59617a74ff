"""Effects of the rules of a primitive, and what checkpoint makes of them: fault 34."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback
from jax.extend.core import Primitive

from strict_hijax import (
    AdviceWarning,
    EffectError,
    StrictHiPrim,
    UsageError,
    check,
    ignore,
)
from strict_hijax._jax import Effect, IOEffect, custom_derivatives_allowed_effects
from tests.primitives import AVAL, X, both, found_in, gradient, init, sine, unary


class ForeignEffect(Effect):
    """An effect of another library, which JAX does not know."""

    def __str__(self) -> str:
        return "Foreign"


foreign_p = Primitive("foreign")
foreign_p.def_impl(lambda x: x)


@foreign_p.def_effectful_abstract_eval
def _(aval: Any) -> Any:
    return aval, {ForeignEffect()}


def foreign(x: Any) -> Any:
    return foreign_p.bind(x)


def log(x: Any) -> Any:
    return io_callback(lambda x: x, AVAL, x)


# --- expand ---------------------------------------------------------------------------


def writes(self: Any, x: Any) -> Any:
    log(x)
    return jnp.sin(x)


UNDECLARED = {
    "a callback": (writes, "IOEffect", "io_callback"),
    "in a scan": (
        lambda self, x: jax.lax.scan(lambda c, _: (log(c), None), x, length=2)[0],
        "IOEffect",
        "io_callback",
    ),
    "of another library": (lambda self, x: foreign(x), "ForeignEffect", "foreign"),
    "an ordered print": (
        lambda self, x: jax.debug.print("{}", x, ordered=True) or jnp.sin(x),
        "OrderedDebugEffect",
        "debug_print",
    ),
}


@pytest.mark.parametrize("name", UNDECLARED)
def test_effect_of_expand_that_is_not_declared(name: str) -> None:
    expand, effect, primitive = UNDECLARED[name]
    body: dict[str, Any] = {"expand": expand, "vjp_fwd": None, "vjp_bwd": None}
    body["keywords"] = {"supports": ()}
    prim = sine(**body)()
    for find in (
        lambda: check(prim),
        lambda: jax.jit(prim).lower(X),
        lambda: sine(**body, examples=True),
    ):
        error = found_in(find)
        assert isinstance(error, EffectError)
        assert (error.code, error.subject, error.rule) == (
            "SH505",
            "mylib.Sine",
            "expand",
        )
        assert error.path == primitive
        assert effect in str(error)
        assert error.location is not None
        assert f"tests/test_primitive_effects.py:{error.location.line}" in str(error)
        assert f"self.effects = frozenset({{{effect}()}})" in str(error)
    assert f"`{primitive}` at tests/test_primitive_effects.py:" in str(
        found_in(lambda: check(prim))
    )
    with ignore("SH505"):
        check(prim)


def test_a_write_that_is_not_declared() -> None:
    ref = jax.typeof(jax.new_ref(X))

    def make(**more: Any) -> Any:
        def expand(self: Any, r: Any, x: Any) -> Any:
            r[...] = x
            return x

        return sine(
            "Store",
            __init__=init((ref, AVAL), AVAL),
            expand=expand,
            vjp_fwd=None,
            vjp_bwd=None,
            keywords={"supports": ()},
            **more,
        )

    error = found_in(lambda: check(make()()))
    assert (error.code, error.path) == ("SH505", "swap")
    assert "WriteEffect(0)" in str(error)
    from jax._src.state.types import WriteEffect

    check(make(effects=frozenset({WriteEffect(0)}))())


def reads(self: Any, x: Any) -> Any:
    jax.debug.print("{}", x)
    return jnp.sin(x)


def own_array(self: Any, x: Any) -> Any:
    ref = jax.new_ref(x)
    ref[...] += 1.0
    return jnp.sin(ref[...] - 1.0)


@pytest.mark.parametrize("expand", [reads, own_array], ids=["debug", "own array"])
def test_what_need_not_be_declared(expand: Any) -> None:
    both(
        lambda base: unary(base, expand=expand),
        lambda cls: (cls()(X), jax.jit(cls())(X), gradient(cls(), X)),
    )
    check(unary(StrictHiPrim, expand=expand)())


def test_a_declared_effect_is_allowed_in_every_rule() -> None:
    body = {"expand": writes, "effects": frozenset({IOEffect()})}
    prim = sine(**body, keywords={"effects": "pure"})()
    check(prim)
    assert jax.make_jaxpr(lambda x: gradient(prim, x))(X).effects


# --- reverse rules --------------------------------------------------------------------


def forward(effect: Any) -> dict[str, Any]:
    return {"vjp_fwd": lambda self, nzs, x: (self(x), effect(x))}


def backward(effect: Any) -> dict[str, Any]:
    return {"vjp_bwd": lambda self, x, g, x_acc: x_acc.accum(effect(g) * jnp.cos(x))}


def returned(effect: Any) -> dict[str, Any]:
    return {"vjp_bwd_retval": lambda self, x, g: (effect(g) * jnp.cos(x),)}


NOT_ALLOWED = [
    ("vjp_fwd", forward, foreign, {}, "SH501"),
    ("vjp_bwd", backward, foreign, {}, "SH501"),
    ("vjp_bwd_retval", returned, foreign, {}, "SH501"),
    ("vjp_bwd", backward, log, {"effects": "remat"}, "SH502"),
    ("vjp_bwd_retval", returned, log, {"effects": "remat"}, "SH502"),
    ("vjp_fwd", forward, log, {"effects": "pure"}, "SH503"),
    ("vjp_bwd", backward, log, {"effects": "pure"}, "SH503"),
    ("vjp_bwd", backward, log, {"effects": (ForeignEffect,)}, "SH503"),
]


@pytest.mark.parametrize(("rule", "make", "effect", "keywords", "code"), NOT_ALLOWED)
def test_effect_that_the_policy_does_not_allow(
    rule: str, make: Any, effect: Any, keywords: Any, code: str
) -> None:
    if code == "SH503" and not custom_derivatives_allowed_effects.contains(IOEffect()):
        assert effect is log  # 0.11.2: refused by "jax", and by these as well
    prim = sine(**make(effect), keywords=keywords)()
    for find in (
        lambda: check(prim),
        lambda: jax.make_jaxpr(lambda x: gradient(prim, x))(X),
        lambda: sine(**make(effect), keywords=keywords, examples=True),
    ):
        error = found_in(find)
        assert (error.code, error.rule) == (code, rule)
        assert isinstance(error, EffectError)
        assert f"has in its `{rule}` the effect" in str(error)
        assert "tests/test_primitive_effects.py:" in str(error)


@pytest.mark.parametrize(
    ("make", "effect", "keywords"),
    [
        (backward, log, {}),
        (returned, log, {}),
        (backward, foreign, {"effects": (ForeignEffect,)}),
        (backward, lambda x: jax.debug.print("{}", x) or x, {"effects": "remat"}),
    ],
)
def test_effect_that_the_policy_allows(make: Any, effect: Any, keywords: Any) -> None:
    check(sine(**make(effect), keywords=keywords)())


def test_accumulators_that_are_refs_are_no_side_effect() -> None:
    prim = sine(keywords={"effects": "pure"})()
    check(prim)

    def of_refs(x: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(3))
        jax.vjp(prim, x)[1].with_refs(ref)(x)
        return ref[...]

    expected = jax.make_jaxpr(of_refs)(X)
    assert len(expected.out_avals) == 1


def test_the_policy_is_inherited() -> None:
    base = sine("Base", keywords={"effects": "pure"})
    error = found_in(
        lambda: sine("Sub", (base,), **backward(log), __init__=None, examples=True)
    )
    assert error.code == "SH503"
    sine("Sub", (base,), **backward(log), keywords={"effects": "jax"}, examples=True)


def test_a_policy_that_does_not_exist() -> None:
    error = found_in(lambda: sine(keywords={"effects": "none"}))
    assert isinstance(error, UsageError)
    assert (error.code, error.subject) == ("SH504", "mylib.Sine")


# --- checkpoint -----------------------------------------------------------------------


def jvp(self: Any, primals: Any, tangents: Any) -> Any:
    return self(*primals), jnp.cos(primals[0]) * tangents[0]


REMAT = {"supports": ("grad", "remat")}


def test_reverse_rules_beside_jvp_are_advice_at_definition() -> None:
    with pytest.warns(AdviceWarning, match="takes the gradient from `jvp`") as caught:
        cls = sine(jvp=jvp, keywords=REMAT)
    (warning,) = caught
    assert "SH906 `mylib.Sine`" in str(warning.message)
    assert "vjp_fwd, vjp_bwd_retval = vjp_from_jvp" in str(warning.message)
    assert "jax_remat3" in str(warning.message)
    (advice,) = check(cls()).advice
    assert advice.startswith("SH906 `mylib.Sine`")


def test_advice_is_true() -> None:
    """A backward of 7 g and a tangent of 3 t: checkpoint gives 3."""
    prim = sine(
        jvp=lambda self, p, t: (self(*p), 3 * t[0]),
        vjp_bwd=lambda self, x, g, x_acc: x_acc.accum(7 * g),
    )()
    assert gradient(prim, X).tolist() == [7.0] * 3
    assert gradient(jax.checkpoint(prim), X).tolist() == [3.0] * 3


def test_advice_that_is_ignored_or_not_promised_is_not_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cls = sine(jvp=jvp)
        sine(jvp=jvp, keywords=REMAT | {"ignore": "SH906"})
        sine(jvp=jvp, keywords=REMAT | {"abstract": True})
    assert len(check(cls()).advice) == 1
    with ignore("SH906"):
        assert check(cls()).advice == ()


def test_one_source_for_both_is_as_it_should_be() -> None:
    from jax.experimental.hijax import (
        jvp_from_lin,
        linearize_from_jvp,
        vjp_from_jvp,
        vjp_from_lin,
    )

    lin = {
        "lin": lambda self, nzs, x: (self(x), x),
        "linearized": lambda self, x, t: jnp.cos(x) * t,
        "jvp": jvp_from_lin,
    }
    from_lin = dict(zip(("vjp_fwd", "vjp_bwd_retval"), vjp_from_lin, strict=True))
    from_jvp = dict(zip(("vjp_fwd", "vjp_bwd_retval"), vjp_from_jvp, strict=True))
    chain = dict(zip(("lin", "linearized"), linearize_from_jvp, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check(sine(**lin, **from_lin, keywords=REMAT)()).advice == ()
        assert check(sine(jvp=jvp, **from_jvp, keywords=REMAT)()).advice == ()
        both_ways = sine(jvp=jvp, **chain, **from_lin, keywords=REMAT)
        assert check(both_ways()).advice == ()


def test_an_effect_that_jax_refuses_in_a_loop_is_no_rule_that_declines() -> None:
    def looped(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (foreign(c), None), x, None, length=2)[0]

    error = found_in(
        lambda: sine(vjp_bwd=lambda self, x, g, a: a.accum(looped(g)), examples=True)
    )
    assert (error.code, error.rule) == ("SH320", "vjp_bwd")
    assert isinstance(error, NotImplementedError)
    assert "Effects not supported in `scan`" in str(error)


def test_no_line_is_told_of_an_effect_within_a_loop_that_jax_lowers() -> None:
    """What JAX lowers has the line of the call of the primitive."""

    def expand(self: Any, x: Any) -> Any:
        return jax.lax.cond(x[0] > 0, lambda: log(x), lambda: x)

    prim = sine(expand=expand, vjp_fwd=None, vjp_bwd=None, keywords={"supports": ()})()
    error = found_in(lambda: jax.jit(prim).lower(X))
    assert error.code == "SH505"
    assert error.location is not None
    assert error.location.line == expand.__code__.co_firstlineno
    assert " at " not in error.got
