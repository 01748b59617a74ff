"""`examples`: the instances by which a class is checked as soon as it exists."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

import jax

from . import _jax, _jax_traces
from ._checked import checked, checked_copy, checks_of, is_checked
from ._class_statements import qualified_name
from ._definition import ClassFacts, facts_of_instance
from ._definition.signatures import a
from ._errors import (
    Finding,
    NotInitializedError,
    StrictHijaxError,
    location_of,
    untraceable_error,
)
from ._raised import in_short
from ._readiness import is_executing, lacks_a_name, may_come_later
from ._tracing import Traced, raise_traced, trace_rules


def check_at_definition(cls: Any) -> bool:
    """Check a new class's examples; whether they wait for what they need."""
    try:
        return not _check_examples(cls)
    except StrictHijaxError as error:
        if _is_incomplete(cls, error):
            return True
        raise


def check_again(cls: Any) -> None:
    """The same once more, where a class that waits is used after the import.

    What may come even then, as in a notebook, is left to the checks in place.
    """
    if cls.__module__ == "__main__" or not is_executing(cls.__module__):
        cls._examples_waiting = False  # its examples are instances of it, too
        _check_examples(cls)


def _check_examples(cls: Any) -> bool:
    """Check a class's examples; False where what they need may come later."""
    may_wait = functools.partial(may_come_later, class_name=cls.__name__)
    try:
        instances = examples_of(cls)
    except (StrictHijaxError, ModuleNotFoundError) as error:
        if isinstance(error, StrictHijaxError):
            raise
        return True  # what is not installed here says nothing of the class
    except Exception as error:
        if may_wait(error):
            return False
        raise failing_examples(cls, error) from error
    all_traced = [trace_instance(cls._facts, prim) for prim in instances]
    waiting = [judge(cls._facts, traced, may_wait) for traced in all_traced]
    raise_traced(all_traced, cls._ignored)
    return not any(waiting)


def _is_incomplete(cls: Any, error: StrictHijaxError) -> bool:
    """Whether a class lacks what a decorator adds, or what is set on it further down.

    A decorator such as `dataclass` adds `__init__` to a class that exists.
    """
    cause = error.__cause__ if error.code == "SH121" else None
    if isinstance(cause, AttributeError):
        return cause.obj is cls or isinstance(cause.obj, cls)
    needs_init = isinstance(error, NotInitializedError) or isinstance(cause, TypeError)
    return needs_init and "__init__" not in vars(cls)


# --- what came of tracing the rules ---------------------------------------------------


def trace_instance(facts: ClassFacts, prim: Any) -> Traced:
    """Trace the rules of an instance, of a strict class or not."""
    facts = facts_of_instance(facts, prim)
    copy = checked(prim)
    if not is_checked(copy):  # of a class that is not strict
        copy = checked_copy(prim, checks_of(facts, frozenset()))
    return trace_rules(facts, copy)


def judge(
    facts: ClassFacts, traced: Traced, may_wait: Callable[[Exception], bool]
) -> bool:
    """Tell rules that lack a name from those that lack it yet; whether any does.

    A module that is not installed here says nothing of the rule.
    """
    waiting = False
    for rule, error in tuple(traced.unchecked):
        if lacks_a_name(error) and may_wait(error):
            waiting = True
        elif lacks_a_name(error):
            traced.unchecked.remove((rule, error))
            finding = _missing_name(facts, rule, error)
            traced.findings.append(finding)
            traced.causes[finding] = error
    for finding, cause in tuple(traced.causes.items()):
        later = _speaks_of_a_module(cause) and may_wait(cause)
        if later or isinstance(cause, ModuleNotFoundError):
            traced.findings.remove(finding)
            traced.unchecked.append((finding.rule or "", cause))
        elif isinstance(cause, _NEEDS_VALUES):
            place = traced.findings.index(finding)
            traced.findings[place] = _for_values_alone(facts, finding)
            traced.causes[traced.findings[place]] = cause
        waiting |= later
    return waiting


_NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def _for_values_alone(facts: ClassFacts, finding: Finding) -> Finding:
    """Say also what to write where the rule is only ever run eagerly."""
    line = facts.class_line('ignore=("SH320",)') + "   # it is never traced"
    return finding._replace(remedies=(*finding.remedies, line))


def _speaks_of_a_module(error: Exception) -> bool:
    """Whether a module, which may be imported by half, lacks a name."""
    if isinstance(error, AttributeError):
        return isinstance(error.obj, types.ModuleType)
    return isinstance(error, ImportError)


def _missing_name(facts: ClassFacts, rule: str, error: Exception) -> Finding:
    return facts.finding(
        "SH320",
        f"has {a(rule)} `{rule}` that uses a name which does not exist.",
        rule=rule,
        facts=(in_short(error),),
        remedies=(
            f"mend `{rule}`; the exception above this one has the line",
            facts.class_line('ignore=("SH320",)') + "   # it is defined later",
        ),
    )


# --- the examples themselves ----------------------------------------------------------


def examples_of(cls: Any) -> list[Any]:
    """The instances that a class's `examples` gives, made outside of any trace."""
    method = getattr(cls, "examples", None)
    static = inspect.getattr_static(cls, "examples", None)
    if method is None or not isinstance(static, classmethod | staticmethod):
        raise _no_examples(cls, method is not None).error()
    with _jax_traces.clean_context():
        found = method()
        if not isinstance(found, Iterable) or isinstance(found, _jax.HiPrim):
            raise _wrong_example(cls, found, "returns no list of instances").error()
        instances = list(found)
    if "examples" not in vars(cls):  # inherited: it may be about the base alone
        return [prim for prim in instances if isinstance(prim, cls)]
    if not instances:
        raise _wrong_example(cls, found, "yields nothing").error()
    for prim in instances:
        if not isinstance(prim, cls):
            if type(prim).__qualname__ == cls.__qualname__:
                raise _names_the_class_before(cls)
            raise _wrong_example(cls, prim, "gives something else").error()
    return instances


def _names_the_class_before(cls: type) -> NameError:
    """What Python would say, had there been no class of this name before."""
    name = cls.__name__
    return NameError(f"{name!r} still names the class before this one", name=name)


def failing_examples(cls: Any, error: Exception) -> StrictHijaxError:
    """The error for an `examples` that raises."""
    name = qualified_name(cls)
    finding = Finding(
        code="SH121",
        subject=name,
        headline=f"`{name}` has an `examples` that raises {type(error).__name__}.",
        path="examples",
        location=location_of(cls.examples, "def examples"),
        facts=(in_short(error),),
        expected=f"instances of {cls.__name__}, in a list or by yield",
        remedies=("mend `examples`; the exception above this one has the line",),
    )
    return untraceable_error(finding, error)


def _no_examples(cls: Any, is_method: bool) -> Finding:
    name = qualified_name(cls)
    return Finding(
        code="SH121",
        subject=name,
        headline=f"`{name}` has an `examples` that is no classmethod."
        if is_method
        else f"`{name}` has no `examples` to check.",
        path="examples",
        expected="@classmethod def examples(cls): yield cls(...)",
        remedies=("@classmethod   # above def examples(cls)",)
        if is_method
        else ("check(prim)   # an instance", "@classmethod def examples(cls): ..."),
    )


def _wrong_example(cls: Any, got: Any, what: str) -> Finding:
    name = qualified_name(cls)
    return Finding(
        code="SH121",
        subject=name,
        headline=f"`{name}` has an `examples` that {what} than instances of it."
        if what.startswith("gives")
        else f"`{name}` has an `examples` that {what}.",
        path="examples",
        expected=f"instances of {cls.__name__}, in a list or by yield",
        got=type(got).__name__,
        remedies=("yield cls(...)",),
    )
