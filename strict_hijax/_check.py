"""check: every rule that exists traced abstractly, and held to its contract."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable
from typing import Any

from . import _jax
from ._checked import Twin, checked, make_twin_class, twin_of
from ._definition import ClassFacts, qualified_name
from ._errors import (
    Finding,
    NotInitializedError,
    StrictHijaxError,
    location_of,
    untraceable_error,
)
from ._report import CheckReport
from ._tracing import Traced, raise_traced, subject_of, trace_rules
from ._transforms import facts_of_class, transforms_of


@_jax.user_boundary
def check(target: Any, *args: Any, **kwargs: Any) -> CheckReport:
    """Trace every rule of a primitive or function and hold it to its contract.

    Nothing is computed: it is safe at import, initialises no backend and allocates no
    device memory.

    Args:
      target: an instance of a `HiPrim` (strict or not), a class with `examples`, or a
        function made by `checked_custom_vjp` or `jax.custom_vjp`.
      *args: for a function, its arguments: arrays or `jax.ShapeDtypeStruct`s. Without
        any, those that it declares by `example_args`, by `dims`, or as defaults.
      **kwargs: for a function, its keyword arguments.

    Returns:
      A `CheckReport`: types in and out of each rule, effects, bytes of residuals kept
      in one call, and the transforms that are supported.

    Raises:
      StrictHijaxError: a rule breaks its contract; all faults are in one exception.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from strict_hijax import check, checked_custom_vjp
      >>> @checked_custom_vjp
      ... def square(x):
      ...     return x * x
      >>> square.defvjp(lambda x: (square(x), x), lambda x, g: (2 * x * g,))
      >>> check(square, jax.ShapeDtypeStruct((3,), "float32")).residual_bytes
      12
    """
    if _is_primitive(target) and (args or kwargs):
        raise _arguments_for_a_primitive().error()
    if isinstance(target, _jax.HiPrim):
        return check_instance(target)
    if _is_primitive(target):
        return _check_class(target)
    if callable(target) and not isinstance(target, type):
        from ._custom_derivatives import check_function

        return check_function(target, *args, **kwargs)
    raise _without_rules(target).error()


def _is_primitive(target: Any) -> bool:
    cls = target if isinstance(target, type) else type(target)
    return issubclass(cls, _jax.HiPrim)


def _without_rules(target: object) -> Finding:
    return Finding(
        code="SH122",
        subject="strict_hijax.check",
        headline="`strict_hijax.check` is given something that has no rules.",
        expected="a HiPrim instance, a HiPrim class with `examples`, or a custom_vjp "
        "function and its arguments",
        got=repr(target)[:80],
        remedies=("check(MyPrim)", "check(fun, *args)"),
    )


def _arguments_for_a_primitive() -> Finding:
    return Finding(
        code="SH122",
        subject="strict_hijax.check",
        headline="`strict_hijax.check` is given arguments for a primitive, which "
        "declares its types itself, in `in_avals`.",
        path="args",
        expected="the instance alone, or its class",
        remedies=("check(prim)",),
    )


def _check_class(cls: type) -> CheckReport:
    facts = facts_of_class(cls)
    try:
        instances = _examples(cls)
    except StrictHijaxError:
        raise
    except Exception as error:
        raise _failing_examples(cls, error) from error
    reports = tuple(check_instance(prim) for prim in instances)
    return CheckReport(facts.subject, transforms=transforms_of(facts), examples=reports)


def check_instance(prim: Any) -> CheckReport:
    """Check one instance; raise what is found."""
    facts = facts_of_class(type(prim))
    traced = _traced(facts, prim)
    raise_traced([traced], _ignored_by(type(prim)))
    return CheckReport(
        subject_of(facts, prim),
        rules=tuple(traced.reports),
        residual_bytes=traced.residual_bytes,
        transforms=transforms_of(facts),
        unchecked=tuple(f"{rule}: {_in_short(e)}" for rule, e in traced.unchecked),
    )


def _traced(facts: ClassFacts, prim: Any) -> Traced:
    twin = checked(prim)
    if not isinstance(twin, Twin):  # of a class that is not strict
        twin = twin_of(prim, make_twin_class(facts, frozenset()))
    return trace_rules(facts, twin)


def _ignored_by(cls: type) -> frozenset[str]:
    return getattr(cls, "_ignored", frozenset[str]())


def _in_short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


# --- examples -------------------------------------------------------------------------


def check_examples_at_definition(cls: Any) -> bool:
    """Check a new class's examples; False where the class is not ready yet."""
    try:
        instances = _examples(cls)
    except Exception as error:
        if _is_not_ready(cls, error):
            return False
        if isinstance(error, StrictHijaxError):
            raise
        raise _failing_examples(cls, error) from error
    traced = [_traced(cls._facts, prim) for prim in instances]
    raise_traced(traced, cls._ignored)
    unchecked = (error for each in traced for _, error in each.unchecked)
    return not any(isinstance(error, NameError) for error in unchecked)


def _is_not_ready(cls: Any, error: Exception) -> bool:
    """Whether an exception says that the class, or its module, is not yet complete.

    A rule may need a name that its module defines below, or a module that is still
    being imported; a decorator such as `dataclass` may add `__init__` later.
    """
    if isinstance(error, NotInitializedError | TypeError):
        complete = "__init__" in vars(cls)
        ours = isinstance(error, StrictHijaxError)
        return not complete and (isinstance(error, NotInitializedError) or not ours)
    if isinstance(error, StrictHijaxError):
        return False
    return isinstance(error, NameError | AttributeError | ImportError)


def check_examples_at_first_use(cls: Any) -> None:
    """The same, once the class was constructed; it is not tried a third time."""
    cls._examples_pending = False
    with contextlib.suppress(NameError):  # constructed before the names below it
        check(cls)


def _examples(cls: Any) -> list[Any]:
    """The instances that a class's `examples` gives, made outside of any trace."""
    method = getattr(cls, "examples", None)
    static = inspect.getattr_static(cls, "examples", None)
    if method is None or not isinstance(static, classmethod | staticmethod):
        raise _no_examples(cls, method is not None).error()
    with _jax.clean_context():
        found = method()
        if not isinstance(found, Iterable) or isinstance(found, _jax.HiPrim):
            raise _wrong_example(cls, found, "returns no list of instances").error()
        instances = list(found)
    if "examples" not in vars(cls):  # inherited: it may be about the base alone
        return [prim for prim in instances if isinstance(prim, cls)]
    for prim in instances:
        if not isinstance(prim, cls):
            if type(prim).__qualname__ == cls.__qualname__:
                raise NameError(f"{cls.__qualname__} still names the class before it")
            raise _wrong_example(cls, prim, "gives something else").error()
    return instances


def _failing_examples(cls: Any, error: Exception) -> StrictHijaxError:
    name = qualified_name(cls)
    finding = Finding(
        code="SH121",
        subject=name,
        headline=f"`{name}` has an `examples` that raises {type(error).__name__}.",
        path="examples",
        location=location_of(cls.examples, "def examples"),
        facts=(_in_short(error),),
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
