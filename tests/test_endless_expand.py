"""An `expand` that calls the primitive on its own inputs: it never ends."""

from typing import Any

import pytest

from tests.primitives import AVAL, found_in, init, sine


def _helped(self: Any, x: Any) -> Any:
    y = self(x)
    return y + 1


def _two(self: Any, x: Any, w: Any) -> Any:
    return self(x, w)


@pytest.mark.parametrize("expand", [lambda self, x: self(x), _helped, _two])
def test_an_expand_that_calls_itself_fails_the_class_statement(expand: Any) -> None:
    keywords = {"supports": ()}
    error = found_in(
        lambda: sine(expand=expand, vjp_fwd=None, vjp_bwd=None, keywords=keywords)
    )
    assert (error.code, error.rule) == ("SH123", "expand")
    assert isinstance(error, TypeError)


def _on_a_part(self: Any, x: Any) -> Any:
    return x if x.ndim == 0 else self(x)


def _smaller(self: Any, x: Any) -> Any:
    return self(x[1:])


def _another(self: Any, x: Any) -> Any:
    x = x + 1
    return self(x)


def _exchanged(self: Any, x: Any, w: Any) -> Any:
    return self(w, x)


@pytest.mark.parametrize(
    "expand",
    [_on_a_part, _smaller, _another, _exchanged, lambda self, x: self.helper(x)],
)
def test_what_may_end_is_accepted(expand: Any) -> None:
    assert sine(expand=expand, vjp_fwd=None, vjp_bwd=None, keywords={"supports": ()})


def test_a_class_with_a_call_of_its_own_is_accepted() -> None:
    body: dict[str, Any] = {
        "__init__": init((AVAL,)),
        "__call__": lambda self, x: x,
        "expand": lambda self, x: self(x),
    }
    assert sine(**body)
