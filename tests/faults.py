"""Tables of faulty definitions, and all that a user relies on in the error of each."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from strict_hijax import StrictHijaxError


@dataclasses.dataclass(frozen=True)
class Faulty:
    """A function that makes one fault, and what must be said of it."""

    make: Callable[[], Any]
    code: str
    stock: type[Exception]
    rule: str | None
    says: tuple[str, ...]


class Table(list[Faulty]):
    """Faulty definitions, added by a decorator; `check` runs one of them."""

    def add(
        self,
        code: str,
        stock: type[Exception],
        *says: str,
        rule: str | None = None,
    ) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        def decorate(make: Callable[[], Any]) -> Callable[[], Any]:
            self.append(Faulty(make, code, stock, rule, says))
            return make

        return decorate

    def parametrize(self) -> Any:
        names = [faulty.make.__name__ for faulty in self]
        assert len(names) == len(set(names))
        return pytest.mark.parametrize("faulty", self, ids=names)


def check(faulty: Faulty, subject: str = "Bad") -> StrictHijaxError:
    """Run what is faulty, and look at every part of the error."""
    with pytest.raises(StrictHijaxError) as caught:
        faulty.make()
    error = caught.value
    assert [finding.code for finding in error.findings] == [faulty.code]
    assert isinstance(error, faulty.stock)
    assert error.subject.endswith(subject)
    assert error.rule == faulty.rule
    message = str(error)
    assert message.startswith(f"{faulty.code} `{error.subject}`")
    for part in (f"`{faulty.rule}`" if faulty.rule else "", *faulty.says):
        assert part in message
    assert f"explain {faulty.code}" in message
    check_remedies(error)
    return error


def check_remedies(error: StrictHijaxError) -> None:
    """There is a line to write instead, and each such line is Python."""
    lines = error.hint.splitlines()
    assert lines
    for line in lines:
        with contextlib.suppress(SyntaxError):
            ast.parse(line)
            continue
        ast.parse(f"{line}\ndef decorated(): ...")
