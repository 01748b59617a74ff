"""SH904: attributes that equality and hash of an instance ignore. Never raised."""

from typing import Any

import jax
import pytest
from jax.experimental.hijax import HiPrim

from strict_hijax import StrictHiPrim, check
from tests.primitives import AVAL, sine, unary


def setting(base: Any = StrictHiPrim, params: Any = None, **attributes: Any) -> Any:
    """An `__init__` that sets attributes beside what it must."""

    def __init__(self: Any) -> None:
        self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, params or {}
        vars(self).update(attributes)
        base.__init__(self)

    return __init__


def advice(prim: Any) -> list[str]:
    return [text for text in check(prim).advice if text.startswith("SH904")]


def test_an_attribute_that_is_not_in_params() -> None:
    (text,) = advice(sine(__init__=setting(n=3))())
    assert text.startswith("SH904 `mylib.Sine` sets `self.n`, which is not in `params`")
    assert "got:      self.n: " in text
    assert "self.params = dict(n=n)" in text
    assert "explain SH904" in text


def test_each_attribute_is_told() -> None:
    assert len(advice(sine(__init__=setting(n=3, mode="fast"))())) == 2


def test_a_class_that_is_not_strict() -> None:
    prim = unary(HiPrim, __init__=setting(HiPrim, n=3))()
    assert len(advice(prim)) == 1


def test_the_examples_of_a_class() -> None:
    report = check(sine(__init__=setting(n=3), examples=True))
    assert "advice: SH904" in str(report)


@pytest.mark.parametrize(
    "made",
    [
        lambda: sine(),
        lambda: sine(__init__=setting(params={"n": 3}, n=3)),
        lambda: sine(__init__=setting(_cache={})),
        lambda: sine(__init__=setting(aval=AVAL, avals=(AVAL,))),
        lambda: sine(__init__=setting(effects=frozenset())),
        lambda: sine(__init__=setting(skip_linearization_on_zero_tangents=True)),
        lambda: sine(
            __init__=setting(n=3),
            __eq__=lambda self, other: self is other,
            __hash__=lambda self: 0,
        ),
        lambda: sine(n=3),
        lambda: sine(__init__=setting(n=3), keywords={"ignore": ("SH904",)}),
    ],
    ids=[
        "nothing",
        "a parameter",
        "a private attribute",
        "the declared types",
        "effects",
        "a flag of JAX",
        "an equality of its own",
        "an attribute of the class",
        "ignored",
    ],
)
def test_what_says_nothing(made: Any) -> None:
    assert advice(made()()) == []


def test_it_is_never_raised() -> None:
    prim = sine(__init__=setting(n=3), examples=True)()
    assert jax.jit(prim)(jax.numpy.ones(3)).shape == (3,)
