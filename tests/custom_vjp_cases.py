"""Helpers for the tests of functions: what every error of ours must have."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import strict_hijax


def error_of(
    action: Callable[[], Any],
    code: str,
    ours: type[Exception],
    stock: type[Exception],
    *names: str,
    subject: str | None = None,
) -> strict_hijax.StrictHijaxError:
    """The error of an action: its class, the stock class, its code, what it names."""
    with pytest.raises(stock) as raised:
        action()
    error = raised.value
    assert isinstance(error, ours), error
    assert isinstance(error, strict_hijax.StrictHijaxError)
    assert error.code == code, error
    message = str(error)
    assert f"`{error.subject}`" in message
    if subject is not None:
        assert error.subject.rpartition(".")[2] == subject
    for name in names:
        assert re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message), (name, message)
    assert f"explain {code}" in message
    return error
