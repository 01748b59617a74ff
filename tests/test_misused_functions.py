"""Functions that lack rules: wrapped too early, or taken for another kind."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from strict_hijax import (
    NoRulesError,
    StrictHijaxError,
    StrictHiType,
    UsageError,
    check,
    checked_custom_jvp,
    checked_custom_vjp,
    transforms,
)

X = jnp.ones(3)
TOOLS = [checked_custom_vjp, checked_custom_jvp]


def twice(x: Any) -> Any:
    return x * 2


def define(function: Any) -> Any:
    if hasattr(function, "defvjp"):
        function.defvjp(lambda x: (x * 2, None), lambda res, g: (g * 2,))
    else:
        function.defjvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * 2))
    return function


def refused(action: Any, code: str) -> StrictHijaxError:
    with pytest.raises(StrictHijaxError, match=code) as caught:
        action()
    return caught.value


# --- no rules -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["custom_vjp", "custom_jvp"])
@pytest.mark.parametrize("use", [lambda f: f(X), lambda f: check(f, X)])
def test_a_function_that_was_wrapped_before_its_rules(name: str, use: Any) -> None:
    stock: Any = getattr(jax, name)(twice)
    tool = {"custom_vjp": checked_custom_vjp, "custom_jvp": checked_custom_jvp}[name]
    wrapped: Any = tool(stock)
    assert "before its rules" in str(refused(lambda: use(wrapped), "SH401"))
    define(stock)
    error = refused(lambda: use(wrapped), "SH401")
    assert isinstance(error, NoRulesError)
    assert "It was wrapped before its rules were defined" in str(error)
    assert error.hint.startswith(f"checked_{name}(twice)   # after f.def")
    assert "wrapped.def" in error.hint
    define(wrapped)
    use(wrapped)


@pytest.mark.parametrize("use", [lambda f: f(X), lambda f: check(f, X)])
def test_a_function_with_rules_of_the_other_kind(use: Any) -> None:
    error = refused(lambda: use(checked_custom_vjp(jax.nn.relu)), "SH401")
    assert error.hint.startswith("checked_custom_jvp(relu) ")
    stock = define(jax.custom_vjp(twice))
    error = refused(lambda: use(checked_custom_jvp(stock)), "SH401")
    assert error.hint.startswith("checked_custom_vjp(twice) ")
    define(checked_custom_vjp(jax.nn.relu))(X)  # rules of both kinds are fine


@pytest.mark.parametrize("tool", TOOLS)
def test_what_to_write_for_a_lambda_is_code(tool: Any) -> None:
    f = tool(lambda x: x * 2)
    hint = refused(lambda: f(X), "SH401").hint
    f_fwd, f_bwd = lambda x: (x * 2, None), lambda res, g: (g * 2,)
    f_jvp = lambda primals, tangents: (primals[0] * 2, tangents[0] * 2)  # noqa: E731
    exec(hint, {"f": f, "f_fwd": f_fwd, "f_bwd": f_bwd, "f_jvp": f_jvp})
    assert jax.grad(f)(1.0) == 2.0


# --- methods of the other kind --------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "method", "other"),
    [
        (checked_custom_vjp, "defjvp", "checked_custom_jvp"),
        (checked_custom_vjp, "defjvps", "checked_custom_jvp"),
        (checked_custom_jvp, "defvjp", "checked_custom_vjp"),
    ],
)
def test_a_method_of_the_other_kind(tool: Any, method: str, other: str) -> None:
    checked = tool(twice)
    with pytest.raises(AttributeError, match=rf"SH427 .*no `{method}`") as caught:
        getattr(checked, method)
    assert isinstance(caught.value, UsageError)
    assert type(caught.value).__name__ == "UsageError"
    assert caught.value.hint.startswith(f"@{other} ")
    assert not hasattr(checked, method)


@pytest.mark.parametrize("tool", TOOLS)
def test_other_attributes_are_as_without_us(tool: Any) -> None:
    def fun(x: Any) -> Any:
        return x

    fun.define = 3  # type: ignore[attr-defined]
    assert tool(fun).define == 3
    with pytest.raises(AttributeError, match="defwhat") as caught:
        tool(fun).defwhat  # noqa: B018
    assert not isinstance(caught.value, StrictHijaxError)
    inner = define(jax.custom_jvp(twice))
    assert checked_custom_vjp(inner).defjvp == inner.defjvp


# --- check ----------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_check_looks_into_jit(tool: Any) -> None:
    f = define(tool(twice))
    assert str(check(jax.jit(f), X)) == str(check(f, X))
    assert str(check(jax.jit(jax.jit(f)), X)) == str(check(f, X))


@pytest.mark.parametrize(
    "wrap", [jax.grad, lambda f: functools.partial(f, X), jax.vmap, jax.checkpoint]
)
def test_check_names_the_function_inside(wrap: Any) -> None:
    error = refused(lambda: check(wrap(define(checked_custom_vjp(twice))), X), "SH122")
    assert error.hint.startswith("check(twice, *args) ")


def test_check_of_a_plain_function_names_primitives_too() -> None:
    hint = refused(lambda: check(jax.jit(lambda x: x), X), "SH122").hint
    assert "check(MyPrim(...))" in hint


def test_a_class_of_types_is_checked_by_an_instance() -> None:
    class Quantized(StrictHiType, abstract=True):
        pass

    assert refused(lambda: check(Quantized), "SH122").hint.startswith(
        "check(Quantized(...), value)"
    )
    assert refused(lambda: transforms(Quantized), "SH122").hint.startswith(
        "check(Quantized(...), value).transforms"
    )


def test_transforms_of_a_function_names_its_kind() -> None:
    f = define(checked_custom_jvp(twice))
    assert refused(lambda: transforms(f), "SH122").hint.endswith(
        "a custom_jvp function"
    )
