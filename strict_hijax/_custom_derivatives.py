"""What checked_custom_vjp and checked_custom_jvp share: when rules are checked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

from jax.errors import UnexpectedTracerError

from . import _jax
from ._ignoring import raise_findings

if TYPE_CHECKING:  # all of it loads with the first function that is checked
    from ._functions.families import Family
    from ._functions.first_calls import Checker
    from ._functions.options import Options
    from ._functions.rules import FunctionRules


class CheckOptions(TypedDict, total=False):
    """What a user says of the checks of a function; see `checked_custom_vjp`."""

    example_args: Sequence[Any] | None
    dims: Mapping[str, int] | None
    axes: Mapping[str, int] | None
    effects: str | Iterable[type]
    ignore: str | Iterable[str]
    eager: bool | None


class Unfinished:
    """Type checkers only: what `checked_custom_vjp(example_args=...)` still lacks."""


class CheckedFunction:
    """A function with rules that are checked: when defined, traced ahead, and called.

    It stands before JAX's class among the bases. `_stock` is the name of that class;
    `_family` says how the two kinds of functions differ.
    """

    _stock: ClassVar[str]

    # What is made of the rules: what JAX is handed, and the checks ahead of it.
    _handed: Callable[..., Any] | None = None
    _checker: Checker | None = None
    _made_for: bool | None = None
    _options: Options
    _is_defining: bool = False
    _accepted: tuple[FunctionRules, ...] = ()  # all that were defined without a fault
    _wrapped: Any = None  # the function of JAX's that it was made of, without rules

    if not TYPE_CHECKING:

        @_jax.user_boundary
        def __new__(cls, fun=None, *args, **kwargs):
            if fun is None and kwargs:
                from ._functions.options import refuse_unknown

                refuse_unknown(cls.__name__, kwargs)
                return functools.partial(cls, **kwargs)
            return object.__new__(cls)

        @_jax.user_boundary
        def __init__(self, fun=None, nondiff_argnums=(), nondiff_argnames=(), **kwargs):
            from ._functions import options as given
            from ._functions.nondiff import nondiff_findings

            tool = type(self).__name__
            given.refuse_unknown(tool, kwargs)
            given_function = fun
            existing = self._family.attributes_of(fun)
            if existing is not None:
                given.refuse_nondiff_of_existing(
                    tool, fun, nondiff_argnums, nondiff_argnames
                )
                fun, nondiff_argnums = existing["fun"], existing["nondiff_argnums"]
            given.refuse_uncallable(tool, fun)
            argnums = given.as_tuple(tool, nondiff_argnums, int)
            argnames = given.as_tuple(tool, nondiff_argnames, str)
            options = given.parse_options(fun, **kwargs)
            raise_findings(nondiff_findings(fun, argnums, argnames), options.ignored)
            super().__init__(fun, argnums, argnames)
            self._options = options
            if existing is not None:
                self.__dict__.update(existing)
                if self._all_rules():
                    self._defined()
                else:
                    self._wrapped = given_function

        @_jax.user_boundary
        def __call__(self, *args, **kwargs):
            if self._handed is None:  # a rule was set, or none is defined
                (self._defined if self._all_rules() else self._hand_over)()
            checker = self._checker
            call = checker.before_call(args, kwargs)
            if call is not None and call.known is not None:
                return call.known
            handed = self._handed
            if self._made_for is not None and self._made_for != self._run_by():
                handed = self._hand_over()
            try:
                result = handed(*args, **kwargs)
            except UnexpectedTracerError as error:
                from ._functions.closed_over import explain_tracer

                for rules in self._all_rules():
                    ignored = self._options.ignored
                    explain_tracer(rules, "primal", ignored, error)
                raise
            except Exception as error:
                if call is not None:
                    checker.after_failure(call, error)
                raise
            if call is not None:
                checker.after_call(call, result)
            return result

        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if not name.startswith("_"):  # a rule, or the function itself
                self._forget()

        @_jax.user_boundary
        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                if not name.startswith("def") or "fun" not in self.__dict__:
                    raise
                from ._functions.misused import no_method

                error = no_method(self._stock, self.__dict__["fun"], name)
                if error is None:
                    raise
            raise error

    @property
    def _family(self) -> Family:
        from ._functions.families import FAMILIES

        return FAMILIES[self._stock]

    def _all_rules(self) -> list[FunctionRules]:
        return self._family.rules_of(vars(self))

    def _function(self) -> tuple[Any, tuple[int, ...]]:
        return vars(self)["fun"], vars(self)["nondiff_argnums"]

    def _run_by(self) -> bool | None:
        """Which implementation JAX would choose now, where it is chosen beforehand."""
        return self._family.run_by() if _jax.CUSTOM_VJP_HAS_NEW else None

    def _define(self, define: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Define rules and check them once; JAX defines some forms by another."""
        if self._is_defining:
            define(*args, **kwargs)
            return
        self._is_defining = True
        try:
            define(*args, **kwargs)
        finally:
            del self._is_defining
        self._defined()

    def _defined(self) -> None:
        self._forget()
        options, family = self._options, self._family
        given = self._all_rules() or [family.without_rules(*self._function())]
        findings = [f for rules in given for f in family.defined(rules)]
        raise_findings(findings, options.ignored)
        self._hand_over()
        for rules in self._all_rules():
            inputs = options.declared.inputs(rules)
            if inputs is not None and options.is_eager and self._checker is not None:
                self._checker.check_at_import(
                    inputs, options.declared.axes, options.declared.source
                )
        self._accepted = (*self._accepted, *self._all_rules())

    def _hand_over(self) -> Callable[..., Any]:
        """Make what JAX is handed: a plain function of its own with wrapped rules."""
        from ._functions.custom_vjp import own_attributes
        from ._functions.first_calls import Checker

        options, family = self._options, self._family
        attributes, all_rules = own_attributes(self), self._all_rules()
        if not all_rules:
            from ._functions.misused import no_rules

            raise no_rules(family, self, self._wrapped).error()
        for rules in all_rules:
            checker = Checker(
                rules, options.policy, options.ignored, options.is_eager, family.examine
            )
            attributes |= family.wrapped(
                rules, options.policy, options.ignored, checker
            )
            self._checker = checker
        self._handed = family.handed(attributes)
        self._made_for = self._run_by()
        return self._handed

    def _forget(self) -> None:
        for name in ("_handed", "_checker", "_made_for"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        from ._functions.custom_vjp import own_attributes

        return own_attributes(self) | {"_options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        return copied
