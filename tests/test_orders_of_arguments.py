"""Rules and arguments in another order than JAX gives them, told by their names."""

from typing import Any

import jax.numpy as jnp
import pytest

from strict_hijax import (
    SignatureError,
    StrictHijaxError,
    UntraceableRuleError,
    check,
    checked_custom_vjp,
)

X = jnp.ones(3)


def times(x: Any, w: Any) -> Any:
    return x * w


def times_fwd(x: Any, w: Any) -> Any:
    return x * w, (x, w)


def times_bwd(res: Any, g: Any) -> Any:
    x, w = res
    return g * w, g * x


# --- fwd and bwd ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [("times_bwd", "times_fwd"), ("_times_backward", "_times_forward")],
)
def test_rules_that_are_named_for_each_other_are_swapped(
    first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(times_bwd, "__name__", first)
    monkeypatch.setattr(times_fwd, "__name__", second)
    with pytest.raises(SignatureError, match=r"SH405 .*named for a backward") as caught:
        checked_custom_vjp(times).defvjp(times_bwd, times_fwd)
    assert caught.value.hint == f"times.defvjp({second}, {first})"
    checked_custom_vjp(times, ignore="SH405").defvjp(times_bwd, times_fwd)


def test_an_adjoint_takes_the_rules_of_another() -> None:
    adjoint = checked_custom_vjp(lambda x, w: x * w)
    adjoint.defvjp(times_bwd, times_fwd)  # their types are another matter
    checked_custom_vjp(times).defvjp(times_fwd, times_bwd)


# --- static arguments -----------------------------------------------------------------


def power(x: Any, n: Any) -> Any:
    return x**n


def power_fwd(x: Any, n: Any) -> Any:
    return x**n, x


def test_bwd_with_its_static_argument_last_is_advised() -> None:
    def power_bwd(x: Any, g: Any, n: Any) -> Any:
        return (n * x ** (n - 1) * g,)

    f = checked_custom_vjp(power, nondiff_argnums=(1,))
    f.defvjp(power_fwd, power_bwd)
    (advice,) = check(f, 2.0, 3).advice
    assert advice.startswith("SH902 ")
    assert "bwd rule" in advice
    assert "def power_bwd(n, x, g): ..." in advice


def test_a_bwd_that_fails_for_the_order_of_its_arguments_says_so() -> None:
    def power_bwd(res: Any, g: Any, n: Any) -> Any:
        return (n * res["x"] ** (n - 1) * g,)

    f = checked_custom_vjp(power, nondiff_argnums=(1,))
    f.defvjp(lambda x, n: (x**n, {"x": x}), power_bwd)
    with pytest.raises(UntraceableRuleError, match="SH424") as caught:
        check(f, 2.0, 3)
    assert "It takes (res, g, n); JAX gives it (n, res, g)." in str(caught.value)
    assert caught.value.hint.startswith("def power_bwd(n, res, g): ...")


@pytest.mark.parametrize(
    "bwd",
    [
        lambda n, x, g: (n * x ** (n - 1) * g,),
        lambda exponent, x, g: (exponent * x ** (exponent - 1) * g,),
        lambda *args: (args[0] * args[1] ** (args[0] - 1) * args[2],),
    ],
)
def test_bwd_in_order_is_not_advised(bwd: Any) -> None:
    f = checked_custom_vjp(power, nondiff_argnums=(1,))
    f.defvjp(power_fwd, bwd)
    assert check(f, 2.0, 3).advice == ()


# --- whether an exception can be meant ------------------------------------------------


def misspells(res: Any, g: Any) -> Any:
    return res.sumn(), g


def asks_for_no_name(res: Any, g: Any) -> Any:
    return eval("nowhere"), g


def unpacks_too_few(res: Any, g: Any) -> Any:
    x, w, z = res
    return g * w * z, g * x


def declines(res: Any, g: Any) -> Any:
    if g.ndim:
        raise ValueError("only for scalars")
    return g, g


@pytest.mark.parametrize(
    ("bwd", "may"),
    [
        (misspells, False),
        (asks_for_no_name, False),
        (unpacks_too_few, False),
        (declines, True),
        (lambda res, g: (g @ jnp.ones(5), g), True),
    ],
)
def test_who_declines_is_told_how(bwd: Any, may: bool) -> None:
    f = checked_custom_vjp(times)
    f.defvjp(times_fwd, bwd)
    with pytest.raises(StrictHijaxError, match="SH424") as caught:
        check(f, X, X)
    assert ("raise NotImplementedError" in caught.value.hint) is may
