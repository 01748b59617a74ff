"""Which checks are turned off by code, and how findings are raised that are not."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Generator, Iterable

from . import _jax
from ._codes import CODES, codes_instead, family_of, nearest_code
from ._errors import Finding, StrictHijaxError, error_for

IGNORE_VARIABLE = "STRICT_HIJAX_IGNORE"

_ignored_in_block: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "strict_hijax_ignored", default=frozenset()
)


def parse_codes(codes: object, where: str) -> frozenset[str]:
    """Codes that a user gave to `where`; an unknown one is an error."""
    if isinstance(codes, str):
        codes = (codes,)
    if not isinstance(codes, Iterable):
        raise _unknown_code(codes, where)
    given: list[object] = list(codes)
    for code in given:
        if not isinstance(code, str) or code not in CODES:
            raise _unknown_code(code, where)
    return frozenset(map(str, given))


def _unknown_code(code: object, where: str) -> StrictHijaxError:
    near = nearest_code(str(code))
    did_you_mean = f"; did you mean {near}?" if near else "."
    family = [] if near else family_of(str(code))
    such = f"one of {', '.join(family)}" if family else "codes such as 'SH311'"
    return Finding(
        code="SH120",
        subject=where,
        headline=f"`{where}` names {code!r}, which is no code of strict_hijax"
        f"{did_you_mean}",
        got=repr(code),
        expected=f"{such}; all of them: python -m strict_hijax explain --all",
        remedies=codes_instead(str(code)),
    ).error()


def codes_of_environment() -> frozenset[str]:
    """The codes that STRICT_HIJAX_IGNORE turns off for this process."""
    value = os.environ.get(IGNORE_VARIABLE, "")
    return parse_codes(
        [c for c in map(str.strip, value.split(",")) if c], IGNORE_VARIABLE
    )


@_jax.user_boundary
def ignore(*codes: str) -> contextlib.AbstractContextManager[None]:
    """Turn checks off by code within a block, in this thread or task.

    A rule that JAX does not call again is not checked again: after a first call
    under `ignore`, a jitted function keeps its compiled program, and the check of
    that rule does not run later either. Clear it with `jax.clear_caches()`.

    What is defined in the block and used after it is checked when it is used: around
    a class statement, `ignore` covers the statement, and no gradient after the block.

    Args:
      *codes: codes such as "SH316".

    Raises:
      UsageError: a code is not known; the message has the nearest known one.

    Example:
      >>> import strict_hijax
      >>> with strict_hijax.ignore("SH316"):
      ...     pass
    """
    return _ignoring(parse_codes(codes, "strict_hijax.ignore"))


@contextlib.contextmanager
def _ignoring(codes: frozenset[str]) -> Generator[None]:
    token = _ignored_in_block.set(_ignored_in_block.get() | codes)
    try:
        yield
    finally:
        _ignored_in_block.reset(token)


def without_ignored(
    findings: Iterable[Finding], ignored: frozenset[str] = frozenset()
) -> list[Finding]:
    """The findings that neither `ignored`, nor a block, nor the process turns off."""
    found = list(findings)
    if not found:
        return found
    ignored = ignored | _ignored_in_block.get() | codes_of_environment()
    return [finding for finding in found if finding.code not in ignored]


def raise_findings(
    findings: Iterable[Finding], ignored: frozenset[str] = frozenset()
) -> None:
    """Raise what is left of the findings, as one exception; return if nothing is.

    What is advice among them is not raised, and kept by who collects it.
    """
    left = without_ignored(findings, ignored)
    if faults := [finding for finding in left if not CODES[finding.code].is_advice]:
        raise error_for(faults) from None
    if (collected := _collected.get()) is not None:
        collected += left


_collected: contextvars.ContextVar[list[Finding] | None] = contextvars.ContextVar(
    "strict_hijax_advice", default=None
)


@contextlib.contextmanager
def collecting_advice(advice: list[Finding]) -> Generator[None]:
    """Within, advice about results of rules is added to this list."""
    token = _collected.set(advice)
    try:
        yield
    finally:
        _collected.reset(token)


codes_of_environment()  # an unknown code there fails the import
