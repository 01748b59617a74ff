"""What is said of exceptions of the user, also where they say nothing themselves."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import ShapeDtypeStruct as S

from strict_hijax import StrictHijaxError, check, checked_custom_vjp
from strict_hijax._raised import in_short, raised_at
from tests.primitives import sine

X = S((3,), jnp.float32)


def helper(x: Any) -> None:
    """Raises without a word."""
    if x.ndim:
        raise ValueError


LINE = helper.__code__.co_firstlineno + 3
PLACE = f"raised at tests/test_raised.py:{LINE} in helper"


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


def test_the_place_is_told_and_the_line_where_there_is_no_text() -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        helper(jnp.ones(3))
    assert raised_at(raised.value) == f"{PLACE}: raise ValueError"
    assert in_short(raised.value) == f"ValueError, {PLACE}: raise ValueError"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no\nmore"), "ValueError: no"),
        (KeyError("w"), "KeyError: 'w'"),
        (ValueError("x" * 300), f"ValueError: {'x' * 200}"),
    ],
)
def test_the_first_line_of_the_text(error: Exception, words: str) -> None:
    assert in_short(caught(error)) == words
    place = raised_at(caught(error))
    assert place is not None
    assert place.endswith(" in caught")


def test_an_exception_that_was_never_raised_has_no_place() -> None:
    assert raised_at(ValueError()) is None
    assert in_short(ValueError()) == "ValueError"


def test_an_exception_from_within_jax_is_placed_in_the_users_code() -> None:
    with pytest.raises(TypeError) as raised:
        jnp.ones(3) @ jnp.ones(4)  # type: ignore[unused-ignore]
    place = raised_at(raised.value)
    assert place is not None
    assert place.startswith("raised at tests/test_raised.py:")


def define(role: str, **options: Any) -> Any:
    checked = checked_custom_vjp(lambda x: x * 2.0, **options)

    def fwd(x: Any) -> Any:
        if role == "fwd":
            helper(x)
        return x * 2.0, None

    def bwd(res: Any, ct: Any) -> Any:
        if role == "bwd":
            helper(ct)
        return (ct * 2.0,)

    checked.defvjp(fwd, bwd)
    return checked


@pytest.mark.parametrize("role", ["fwd", "bwd"])
def test_a_rule_of_a_function_that_raises_without_a_word(role: str) -> None:
    with pytest.raises(ValueError, match="SH424") as raised:
        define(role, example_args=(X,))
    assert isinstance(raised.value, StrictHijaxError)
    assert raised.value.got == "ValueError"
    assert f"  {PLACE}: raise ValueError\n" in str(raised.value)
    assert str(raised.value).count(PLACE) == 1


def test_a_rule_of_a_primitive_that_raises_without_a_word() -> None:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        helper(g)

    with pytest.raises(ValueError, match="SH320") as raised:
        check(sine(vjp_bwd=vjp_bwd)())
    assert f"  ValueError, {PLACE}: raise ValueError\n" in str(raised.value)


def test_examples_that_raise_without_a_word() -> None:
    def examples(cls: Any) -> Any:
        helper(jnp.ones(3))

    with pytest.raises(ValueError, match="SH121") as raised:
        check(sine(examples=classmethod(examples)))
    assert str(raised.value).count(PLACE) == 1


def test_types_for_which_the_function_itself_raises_without_a_word() -> None:
    checked = checked_custom_vjp(helper)
    checked.defvjp(lambda x: (helper(x), None), lambda res, ct: (None,))
    with pytest.raises(StrictHijaxError, match="SH425") as raised:
        check(checked, jax.typeof(jnp.ones(3)))
    assert PLACE in str(raised.value)


def test_a_rule_that_declines_without_a_word_is_told_with_its_place() -> None:
    def bwd(res: Any, ct: Any) -> Any:
        if ct.ndim:
            raise NotImplementedError
        return (ct,)

    checked = checked_custom_vjp(lambda x: x * 2.0)
    checked.defvjp(lambda x: (x * 2.0, None), bwd)
    (unchecked,) = check(checked, X).unchecked
    line = bwd.__code__.co_firstlineno + 2
    assert unchecked.startswith("bwd bwd: NotImplementedError, raised at tests/")
    assert f"test_raised.py:{line} in bwd: raise NotImplementedError" in unchecked
