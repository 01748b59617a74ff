"""Annotations with names that do not exist: a mistake, or names yet to come."""

import sys
import types
from pathlib import Path

import pytest

from strict_hijax import RuleValueError, StrictHijaxError

RULES = """
@checked_custom_vjp(dims={"b": 8})
def f(x: "Floatt[Array, 'b']"):
    return x * 2

f.defvjp(lambda x: (f(x), None), lambda res, g: (g * 2.0,))
"""
BEFORE = """
from typing import TYPE_CHECKING
from jaxtyping import Array
from strict_hijax import checked_custom_vjp
"""


def imported(source: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(source, "utf-8")
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, path.stem, module)
    exec(compile(source, path, "exec"), vars(module))


def test_a_name_that_the_module_never_defines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StrictHijaxError, match="SH426") as caught:
        imported(BEFORE + RULES, tmp_path / "never_defined.py", monkeypatch)
    words = "`x` is annotated with `Floatt`, which its module never defines"
    assert words in str(caught.value)
    assert caught.value.path == "x"
    assert isinstance(caught.value, ValueError)
    assert not isinstance(caught.value, RuleValueError)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("checking", "if TYPE_CHECKING:\n    from typing import Any as Floatt", ""),
        ("checking_whole", "if TYPE_CHECKING:\n    import Floatt.more", ""),
        ("star", "from typing import *", ""),
        ("below", "", "from jaxtyping import Float as Floatt"),
        ("assigned", "", "Floatt = Array"),
        ("a_class", "", "class Floatt: ..."),
        ("a_parameter", "def g(Floatt): ...", ""),
        ("put_in", "", "globals()['Flo' + 'att'] = Array"),
    ],
)
def test_a_name_that_may_come(
    name: str,
    before: str,
    after: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = BEFORE + before + RULES + after
    imported(source, tmp_path / f"may_come_{name}.py", monkeypatch)


def test_without_a_file_nothing_is_certain() -> None:
    exec(BEFORE + RULES, {"__name__": "a_notebook"})
