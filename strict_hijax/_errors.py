"""Findings, the exceptions that carry them, and how a message looks.

Checks return `Finding`s; the outermost layer hands them to `raise_findings`, which
drops those that are ignored and raises the rest. This module imports nothing of
ours but the table of codes, what an exception of the user's says, and what keeps our
frames out of tracebacks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jax.errors import UnexpectedTracerError

from ._codes import CODES
from ._raised import has_text, raised_at, shortened


class Location(NamedTuple):
    """A place in the user's code; `text` is what stands there."""

    filename: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{shortened(self.filename)}:{self.line}"


def location_of(function: object, text: str = "") -> Location | None:
    """Where a function is written, if it is written in Python."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return Location(code.co_filename, code.co_firstlineno, text)


class Finding(NamedTuple):
    """One fault: what, where, expected, got, and what to write instead.

    Attributes:
      code: the stable code, such as `SH311`.
      subject: qualified name of the class or function.
      headline: the sentence that follows the code; it names the subject.
      rule: name of the rule that is at fault, if it is one.
      path: which argument or output, as a key path such as `params['w']`.
      expected, got: what the contract asks for and what was found.
      location: file and line of the rule, or of the class.
      facts: more lines about what was found.
      jax_says: what stock JAX says about the same fault, word for word.
      remedies: lines to write instead; each one mends it.
      stock: what stock JAX raises for it, where that is not of the code's class.
    """

    code: str
    subject: str
    headline: str
    rule: str | None = None
    path: str | None = None
    expected: str | None = None
    got: str | None = None
    location: Location | None = None
    facts: tuple[str, ...] = ()
    jax_says: str | None = None
    remedies: tuple[str, ...] = ()
    stock: type[Exception] | None = None

    def message(self) -> str:
        """The whole text that a user sees, after the name of the exception."""
        return f"{self.code} {self.headline}\n" + "\n".join(self._body())

    def _body(self) -> Iterator[str]:
        facts = list(self.facts)
        if self.location is not None:
            text = f"   {self.location.text}" if self.location.text else ""
            facts.insert(0, f"{self.location}{text}")
        if self.expected is not None:
            facts.append(f"expected: {self.expected}")
        if self.got is not None:
            facts.append(f"got:      {self.got}")
        yield from _block(facts)
        if self.jax_says is not None:  # word for word, also where it has several lines
            yield from ("", f"  JAX says: {self.jax_says}")
        if len(self.remedies) == 1:
            yield from _block(["To mend it:", f"  {self.remedies[0]}"])
        elif self.remedies:
            yield from _block(
                ["To mend it, one of:", *(f"  {line}" for line in self.remedies)]
            )
        yield from _block([f"More: python -m strict_hijax explain {self.code}"])

    def error(self) -> StrictHijaxError:
        """The exception that carries this finding alone."""
        return _class_for(self)(self)


def _block(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        for line in lines:
            yield from (f"  {part}" for part in line.splitlines())


class StrictHijaxError(Exception):
    """Base of all errors of strict_hijax.

    Each subclass also derives from what stock JAX raises for the same fault, so
    that existing `except` clauses go on working.

    Attributes:
      code, subject, rule, path, expected, got, location: see `Finding`.
      hint: what to write instead, one alternative a line.
      findings: the finding that the error carries; several for a
        `MultipleFaultsError`.

    Example:
      >>> from strict_hijax import StrictHiPrim, StrictHijaxError
      >>> try:
      ...     class Sin(StrictHiPrim):
      ...         def expand(self, x):
      ...             return x
      ... except StrictHijaxError as error:
      ...     print(error.code, isinstance(error, NotImplementedError))
      SH102 True
    """

    def __init__(self, finding: Finding):
        Exception.__init__(self, finding.message())  # other bases may want more
        self.finding = finding
        self.findings: tuple[Finding, ...] = (finding,)
        self.code = finding.code
        self.subject = finding.subject
        self.rule = finding.rule
        self.path = finding.path
        self.expected = finding.expected
        self.got = finding.got
        self.location = finding.location
        self.hint = "\n".join(finding.remedies)

    __str__ = Exception.__str__  # that of a KeyError would show a repr

    def __reduce__(self) -> tuple[Callable[..., StrictHijaxError], tuple[object, ...]]:
        return error_for, (self.findings,)


class MissingRuleError(StrictHijaxError, NotImplementedError):
    """A rule that the class promises, or that another rule needs, is not there."""


class DefinitionError(StrictHijaxError, TypeError):
    """A class, a rule or a decorated function is defined in a way that cannot work."""


class SignatureError(DefinitionError):
    """A rule cannot take the arguments that JAX gives it."""


class NoRulesError(StrictHijaxError, AttributeError):
    """A custom_vjp function is called before its rules are defined."""


class NotInitializedError(StrictHijaxError, AttributeError):
    """`super().__init__()` was not called, or before the attributes were set."""


class ConstructionError(StrictHijaxError, TypeError):
    """An instance declares types or parameters of a form that JAX cannot use."""


class ArgumentError(StrictHijaxError, TypeError):
    """A call gives arguments that do not match what is declared."""


class RuleTypeError(StrictHijaxError, TypeError):
    """A rule returns something of another kind or type than its contract."""


class RuleValueError(StrictHijaxError, ValueError):
    """A rule returns a structure, shape or cotangent that does not fit."""


class RuleIndexError(StrictHijaxError, IndexError):
    """A rule names an axis that does not exist."""


class TangentStructureError(StrictHijaxError, ValueError, RuntimeError):
    """Tangents have another structure than the outputs.

    Stock JAX raises ValueError for those of `jvp`, RuntimeError for `linearized`.
    """


class NonlinearRuleError(StrictHijaxError, NotImplementedError, TypeError):
    """A rule is not linear in its tangents.

    Stock JAX raises NotImplementedError where it cannot transpose an operation, and
    a bare AssertionError for a product of tangents; where stock has only that, ours is
    a TypeError.
    """


class EffectError(StrictHijaxError, NotImplementedError):
    """A rule has a side effect that custom derivatives do not allow."""


class ClosedOverTracerError(StrictHijaxError, UnexpectedTracerError):
    """A rule closes over a value of a transformation that has ended."""


class UntraceableRuleError(StrictHijaxError):
    """A rule raised while it was traced; also an instance of what it raised."""


class UsageError(StrictHijaxError, ValueError):
    """strict_hijax itself was called with something that it cannot use."""


class AdviceWarning(UserWarning):
    """What is worth a look and may be meant, said where a class is defined."""


AdviceWarning.__module__ = "strict_hijax"


class MultipleFaultsError(StrictHijaxError):
    """Several faults of one class or function, the first of them listed together.

    It is also an instance of the stock class of each of its faults.
    """

    def __init__(self, findings: Sequence[Finding]):
        first = findings[0]
        super().__init__(first)
        self.findings = tuple(findings)
        shown = [finding.message() for finding in findings[:_MOST_SHOWN]]
        if left := findings[_MOST_SHOWN:]:
            shown.append(f"and {len(left)} more: {_in_short(left)}")
        listed = "\n\n".join(shown)
        self.args = (f"{len(findings)} faults in `{first.subject}`\n\n{listed}",)


# A rule that is wrong in the same way for each of many leaves is one mistake.
_MOST_SHOWN = 4
_MOST_NAMED = 6


def _in_short(findings: Sequence[Finding]) -> str:
    """Codes and paths of findings that are not shown."""
    named = [
        f"{finding.code} {finding.path or finding.rule or ''}".strip()
        for finding in findings[:_MOST_NAMED]
    ]
    dots = ", ..." if len(findings) > _MOST_NAMED else ""
    return f"{', '.join(named)}{dots} (all of them are in `error.findings`)"


_PUBLIC: tuple[type[StrictHijaxError], ...] = (
    StrictHijaxError,
    MissingRuleError,
    DefinitionError,
    SignatureError,
    NoRulesError,
    NotInitializedError,
    ConstructionError,
    ArgumentError,
    RuleTypeError,
    RuleValueError,
    RuleIndexError,
    TangentStructureError,
    NonlinearRuleError,
    EffectError,
    ClosedOverTracerError,
    UntraceableRuleError,
    UsageError,
    MultipleFaultsError,
)
for _error in _PUBLIC:
    _error.__module__ = "strict_hijax"
ERROR_CLASSES: dict[str, Any] = {error.__name__: error for error in _PUBLIC}


def _class_for(finding: Finding) -> type[StrictHijaxError]:
    """The class of a finding's code, which is also what stock JAX raises."""
    cls: type[StrictHijaxError] = ERROR_CLASSES[CODES[finding.code].error]
    if finding.stock is None or issubclass(cls, finding.stock):
        return cls
    return _combined(cls.__name__, frozenset({cls, finding.stock}))


@functools.cache
def _combined(name: str, members: frozenset[type[Exception]]) -> Any:
    """An error of this name that is also all that its members are, but ours."""
    stock = {base for member in members for base in member.__mro__[:-1]}
    stock = {b for b in stock if not issubclass(b, StrictHijaxError)}
    stock -= {Exception, BaseException}
    most_derived = [
        b for b in stock if not any(o is not b and issubclass(o, b) for o in stock)
    ]
    bases = (ERROR_CLASSES[name], *sorted(most_derived, key=lambda b: b.__name__))
    return type(name, tuple(dict.fromkeys(bases)), {"__module__": "strict_hijax"})


def error_for(findings: Sequence[Finding]) -> StrictHijaxError:
    """The one exception for some findings; a lone finding is raised as itself."""
    if len(findings) == 1:
        return findings[0].error()
    members = frozenset(map(_class_for, findings))
    return _combined("MultipleFaultsError", members)(findings)


def untraceable_error(finding: Finding, cause: Exception) -> StrictHijaxError:
    """The exception for a rule that raised `cause`, which it is also an instance of.

    A cause without a text is told by its place.
    """
    place = None if has_text(cause) else raised_at(cause)
    if place is not None and not any(place in fact for fact in finding.facts):
        finding = finding._replace(facts=(*finding.facts, place))
    bases: tuple[type, ...] = (UntraceableRuleError, type(cause))
    if isinstance(cause, StrictHijaxError):
        bases = (UntraceableRuleError,)
    try:
        cls: Any = type("UntraceableRuleError", bases, {"__module__": "strict_hijax"})
        error: StrictHijaxError = cls.__new__(cls)
    except TypeError:  # a class that cannot be derived from, or made like this
        error = UntraceableRuleError.__new__(UntraceableRuleError)
    StrictHijaxError.__init__(error, finding)
    error.__cause__ = cause
    return error
