"""Annotations with names that do not exist where `dims` asks for their types."""

from typing import Any

import pytest

from strict_hijax import RuleValueError, StrictHijaxError

BEFORE = """
from typing import TYPE_CHECKING
from jaxtyping import Array
from strict_hijax import checked_custom_vjp
"""
RULES = """
@checked_custom_vjp(dims={"b": 8})
def f(x: "Floatt[Array, 'b']"):
    return x * 2

f.defvjp(lambda x: (f(x), None), lambda res, g: (g * 2.0,))
"""


def executed(before: str, after: str = "") -> dict[str, Any]:
    module = {"__name__": "mylib"}
    exec(BEFORE + before + RULES + after, module)
    return module


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("if TYPE_CHECKING:\n    from jaxtyping import Float as Floatt", ""),
        ("", "from jaxtyping import Float as Floatt"),
    ],
    ids=["nowhere", "for type checkers", "below"],
)
def test_a_name_that_is_not_there_is_told(before: str, after: str) -> None:
    with pytest.raises(StrictHijaxError, match="SH426") as caught:
        executed(before, after)
    assert "cannot be read here: NameError: name 'Floatt'" in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert not isinstance(caught.value, RuleValueError)


@pytest.mark.parametrize(
    "before",
    [
        "from jaxtyping import Float as Floatt",
        "import jaxtyping; Floatt=jaxtyping.Float",
    ],
)
def test_a_name_that_is_there_is_accepted(before: str) -> None:
    assert executed(before)["f"](1.0) == 2.0
