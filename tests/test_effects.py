"""Effects of a function's primal and rules: fault 34."""

import importlib

import jax
import jax.numpy as jnp
import pytest
from jax import ShapeDtypeStruct as S
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback
from jax.extend.core import Primitive

from strict_hijax import (
    EffectError,
    UntraceableRuleError,
    UsageError,
    _jax,
    checked_custom_vjp,
)
from strict_hijax._jax import Effect, IOEffect, custom_derivatives_allowed_effects
from tests.custom_vjp_cases import error_of

X = jnp.ones(3)
SPEC = S((3,), jnp.float32)
OLD_JAX = jax.__version_info__ < (0, 12)


def tap(x):
    """Not allowed in custom derivatives."""
    record = lambda context, out, x: None  # noqa: E731
    return buffer_callback(record, S(x.shape, x.dtype), has_side_effect=True)(x)


def log(x):
    """Allowed from 0.12 on, and not under checkpoint."""
    return io_callback(lambda x: x, S(x.shape, x.dtype), x)


def show(x):
    """Allowed everywhere but where nothing is."""
    jax.debug.print("{}", x)
    return x


class CommunicationEffect(Effect):
    """As a library would have for its own primitives."""

    __str__ = lambda self: "Communication"  # noqa: E731


communicate_p = Primitive("communicate")
communicate_p.def_impl(lambda x: x)
communicate_p.def_effectful_abstract_eval(lambda x: (x, {CommunicationEffect()}))


def communicate(x):
    """An effect of another library, not registered."""
    return communicate_p.bind(x)


def in_scan(body, x):
    return jax.lax.scan(lambda c, _: (body(c), None), x, None, length=2)[0]


def in_cond(body, x):
    return jax.lax.cond(x.sum() > 0, body, lambda x: x, x)


def in_while(body, x):
    return jax.lax.while_loop(lambda c: c.sum() < 3, body, x)


def in_jit(body, x):
    return jax.jit(lambda x: jax.jit(body)(x))(x)


def in_custom_jvp(body, x):
    inner = jax.custom_jvp(body)
    inner.defjvp(lambda primals, tangents: (inner(*primals), tangents[0]))
    return inner(x)


def in_custom_vjp(body, x):
    inner = jax.custom_vjp(body)
    inner.defvjp(lambda x: (body(x), None), lambda res, ct: (ct,))
    return inner(x)


def in_checkpoint(body, x):
    return jax.checkpoint(body)(x)


def directly(body, x):
    return body(x)


AROUND = [
    directly,
    in_scan,
    in_cond,
    in_while,
    in_jit,
    in_custom_jvp,
    in_custom_vjp,
    in_checkpoint,
]
around = pytest.mark.parametrize("within", AROUND, ids=lambda f: f.__name__)
each_rule = pytest.mark.parametrize("where", ["primal", "fwd", "bwd"])


def define(body, where, within=directly, **options):
    """A function with an effect in one place."""

    def effectful(x):
        return within(body, x)

    def pure(x):
        return x * 2.0

    checked = checked_custom_vjp(effectful if where == "primal" else pure, **options)

    def fwd(x):
        return (effectful(x) if where == "fwd" else x * 2.0), None

    def bwd(res, ct):
        return (effectful(ct) if where == "bwd" else ct * 2.0,)

    checked.defvjp(fwd, bwd)
    return checked


def expect(action, code, where, primitive, effect, has_line=True):
    error = error_of(
        action, code, EffectError, NotImplementedError, where, primitive, effect
    )
    assert error.rule == where
    assert error.path == primitive
    assert error.location.filename == __file__
    assert f"`{primitive}`" in str(error)
    assert f"tests/test_effects.py:{error.location.line}" in str(error)
    if has_line:
        assert f"`{primitive}` at {error.location}" in str(error)
    return error


@around
@each_rule
def test_an_effect_that_custom_derivatives_do_not_allow(within, where):
    error = expect(
        lambda: define(tap, where, within, example_args=(SPEC,)),
        "SH501",
        where,
        "buffer_callback",
        "BufferCallbackEffect",
    )
    assert "Effects not supported in `custom_vjp`" in str(error)


@around
@each_rule
def test_an_effect_that_checkpoint_does_not_allow(within, where):
    old = OLD_JAX and where != "bwd"  # 0.11.2 does not allow it at all
    if OLD_JAX and within in (in_custom_jvp, in_custom_vjp) and where == "bwd":
        pytest.skip("0.11.2 has none of these in an inner custom derivative")
    expect(
        lambda: define(log, where, within, effects="remat", example_args=(SPEC,)),
        "SH501" if old else "SH502",
        where,
        "io_callback",
        "IOEffect",
    )


@around
@each_rule
def test_an_effect_where_none_is_allowed(within, where):
    expect(
        lambda: define(show, where, within, effects="pure", example_args=(SPEC,)),
        "SH503",
        where,
        "debug_print" if jax.__version_info__ >= (0, 11) else "debug_callback",
        "DebugEffect",
    )


@each_rule
def test_an_effect_is_found_at_a_first_call(where):
    checked = define(tap, where)
    if where == "primal":  # its code is not run a second time, and no jaxpr is there
        checked(X)
    else:
        action = lambda: checked(X)  # noqa: E731
        expect(action, "SH501", where, "buffer_callback", "BufferCallbackEffect")


@each_rule
def test_an_effect_is_found_at_a_first_call_under_jit(where):
    checked = define(tap, where)
    action = lambda: jax.jit(checked)(X)  # noqa: E731
    expect(action, "SH501", where, "buffer_callback", "BufferCallbackEffect")


@pytest.mark.parametrize("where", ["fwd", "bwd"])
def test_an_effect_is_found_where_jax_traces_the_rule(where):
    checked = define(tap, where, eager=False)
    grad = jax.jit(jax.grad(lambda x: checked(x).sum()))
    action = lambda: grad(X)  # noqa: E731
    # What JAX transposes has the line of what it is the transpose of: bwd is named.
    expect(
        action,
        "SH501",
        where,
        "buffer_callback",
        "BufferCallbackEffect",
        has_line=where != "bwd",
    )


@each_rule
def test_an_effect_of_another_library_and_how_to_register_it(where):
    error = expect(
        lambda: define(communicate, where, example_args=(SPEC,)),
        "SH501",
        where,
        "communicate",
        "CommunicationEffect",
    )
    assert "custom_derivatives_allowed_effects.add_type(CommunicationEffect)" in str(
        error
    )


@each_rule
def test_a_registered_effect_is_allowed(where, monkeypatch):
    registry = custom_derivatives_allowed_effects
    monkeypatch.setattr(registry, "_effect_types", {*registry._effect_types})
    registry.add_type(CommunicationEffect)
    define(communicate, where, example_args=(SPEC,))


@each_rule
@pytest.mark.parametrize("body", [show, log])
def test_effects_that_jax_allows(body, where):
    if OLD_JAX and body is log and where != "bwd":
        pytest.skip("0.11.2 does not allow it in the primal and in fwd")
    define(body, where, example_args=(SPEC,))


@each_rule
def test_types_that_are_given_are_allowed_and_no_others(where):
    define(log, where, effects=(IOEffect,), example_args=(SPEC,))
    expect(
        lambda: define(show, where, effects=[IOEffect], example_args=(SPEC,)),
        "SH503",
        where,
        "debug_print",
        "DebugEffect",
    )


def test_axis_names_and_arrays_of_its_own_are_no_side_effects():
    def total(x):
        ref = jax.new_ref(x)
        ref[...] += 1.0
        return jax.lax.psum(ref[...], "i")

    checked = checked_custom_vjp(
        total, effects="pure", axes={"i": 2}, example_args=(SPEC,)
    )
    checked.defvjp(lambda x: (total(x), None), lambda res, ct: (ct,))


def test_an_effect_in_several_rules_is_reported_once_a_line():
    def effectful(x):
        return tap(x)

    checked = checked_custom_vjp(effectful, example_args=(SPEC,))
    with pytest.raises(EffectError) as raised:
        checked.defvjp(lambda x: (checked(x), None), lambda res, ct: (effectful(ct),))
    assert len(raised.value.findings) == 1


def test_an_effect_can_be_ignored():
    define(tap, "primal", example_args=(SPEC,), ignore="SH501")


@pytest.mark.parametrize("policy", ["pur", "none", 3, None, (int,), ["IOEffect"]])
def test_a_policy_that_does_not_exist(policy):
    error = error_of(
        lambda: checked_custom_vjp(tap, effects=policy),
        "SH504",
        UsageError,
        ValueError,
        "effects",
        subject="tap",
    )
    assert error.path == "effects"


def test_the_nearest_policy_is_named():
    with pytest.raises(UsageError, match="did you mean 'pure'"):
        checked_custom_vjp(tap, effects="pur")


@pytest.mark.parametrize("within", [in_scan, in_cond, in_while])
@pytest.mark.parametrize("where", ["fwd", "bwd"])
def test_an_effect_that_jax_refuses_in_a_loop_or_branch(within, where):
    refused = UntraceableRuleError, NotImplementedError, "Effects not supported in"
    error_of(
        lambda: define(communicate, where, within, example_args=(SPEC,)),
        "SH424",
        *refused,
    )


def test_a_rule_that_declines_in_words_of_jax_is_none_that_jax_refuses():
    def declines(x):
        if x.ndim:
            raise NotImplementedError("Effects not supported in this rule")
        return x

    define(declines, "bwd", example_args=(SPEC,))(X)


def test_a_policy_of_the_users_own_is_not_told_in_jaxs_words():
    with pytest.raises(EffectError, match="SH503") as caught:
        define(show, "fwd", effects="pure", example_args=(SPEC,))
    error = caught.value
    assert error.finding.jax_says is None
    assert "` has the effect DebugEffect, which " in str(error)
    place = error.hint.splitlines()[-1]
    name, module = place.removeprefix("  # ").split(" is in ")
    assert hasattr(importlib.import_module(module), name)


def test_what_is_called_twice_is_looked_into_once(monkeypatch):
    looked, body = [], log
    inner = _jax.inner_jaxprs
    monkeypatch.setattr(
        _jax, "inner_jaxprs", lambda params: looked.append(params) or inner(params)
    )
    for _ in range(40):
        body = jax.jit(lambda x, f=body: f(x) + f(x))
    action = lambda: define(body, "fwd", example_args=(SPEC,), effects="pure")  # noqa: E731
    error = error_of(action, "SH503", EffectError, NotImplementedError)
    assert "`io_callback`" in str(error)
    assert len(looked) <= 3 * 41
