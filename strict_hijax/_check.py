"""check: every rule that exists traced abstractly, and held to its contract."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from . import _jax
from ._checked import make_twin_class, twin_of
from ._definition import ClassFacts, qualified_name
from ._errors import Finding, raise_findings
from ._report import CheckReport
from ._tracing import Traced, subject_of, trace_rules
from ._transforms import facts_of_class, transforms_of

_jax.hide_from_tracebacks(__file__)


def check(target: Any, *args: Any, **kwargs: Any) -> CheckReport:
    """Trace every rule of a primitive or function and hold it to its contract.

    Nothing is computed: it is safe at import, initialises no backend and allocates no
    device memory.

    Args:
      target: an instance of a `HiPrim` (strict or not), a class with `examples`, or a
        function made by `checked_custom_vjp` or `jax.custom_vjp`.
      *args: for a function, its arguments: arrays or `jax.ShapeDtypeStruct`s.
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
    if isinstance(target, _jax.HiPrim):
        return check_instance(target)
    if isinstance(target, type) and issubclass(target, _jax.HiPrim):
        reports = [check_instance(prim) for prim in _examples(target)]
        facts = facts_of_class(target)
        return CheckReport(
            facts.subject, transforms=transforms_of(facts), examples=tuple(reports)
        )
    if callable(target) and not isinstance(target, type):
        from ._custom_derivatives import check_function

        return check_function(target, *args, **kwargs)
    raise Finding(
        code="SH122",
        subject="strict_hijax.check",
        headline="`strict_hijax.check` is given something that has no rules.",
        expected="a HiPrim instance, a HiPrim class with `examples`, or a custom_vjp "
        "function and its arguments",
        got=repr(target)[:80],
        remedies=("check(MyPrim)", "check(fun, *args)"),
    ).error()


def check_instance(prim: Any) -> CheckReport:
    """Check one instance; raise what is found."""
    facts = facts_of_class(type(prim))
    ignored = getattr(type(prim), "_ignored", frozenset[str]())
    traced = _traced(facts, ignored, prim)
    raise_findings(traced.findings, ignored)
    return CheckReport(
        subject_of(facts, prim),
        rules=tuple(traced.reports),
        residual_bytes=traced.residual_bytes,
        transforms=transforms_of(facts),
        unchecked=tuple(f"{rule}: {error}" for rule, error in traced.unchecked),
    )


def _traced(facts: ClassFacts, ignored: frozenset[str], prim: Any) -> Traced:
    twin = twin_of(prim, make_twin_class(facts, ignored))
    return trace_rules(facts, ignored, twin)


# --- examples -------------------------------------------------------------------------


def check_examples_at_definition(cls: Any) -> bool:
    """Check a new class's examples; False where the class is not ready yet.

    It is not where a rule needs a name that its module defines below (NameError), and
    where a decorator such as `dataclass` adds `__init__` later (TypeError).
    """
    try:
        instances = _examples(cls)
    except (NameError, TypeError, AttributeError):
        return False
    faults: dict[tuple[str, str | None], Finding] = {}
    ready = True
    for prim in instances:
        traced = _traced(cls._facts, cls._ignored, prim)
        ready &= not any(isinstance(e, NameError) for _, e in traced.unchecked)
        faults |= {(f.code, f.path): f for f in reversed(traced.findings)}
    raise_findings(faults.values(), cls._ignored)
    return ready


def check_examples_at_first_use(cls: Any) -> None:
    """The same, once the class was constructed; it is not tried a third time."""
    cls._examples_pending = False
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
    for prim in instances:
        if not isinstance(prim, cls):
            if type(prim).__qualname__ == cls.__qualname__:
                raise NameError(f"{cls.__qualname__} still names the class before it")
            raise _wrong_example(cls, prim, "gives something else").error()
    return instances


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
