"""checked_custom_vjp: `jax.custom_vjp` whose rules are checked before they train."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

import jax
from jax.errors import UnexpectedTracerError

from . import _jax
from ._effects import EffectPolicy, parse_policy
from ._errors import Finding, parse_codes, raise_findings
from ._functions.check import check_function as check_function
from ._functions.closed_over import explain_tracer
from ._functions.custom_vjp import (
    attributes_of,
    no_rules_finding,
    own_attributes,
    rules_of,
)
from ._functions.declared_types import DeclaredTypes
from ._functions.definition import definition_findings, nondiff_findings
from ._functions.first_calls import Checker
from ._functions.rules import FunctionRules, qualified_name
from ._functions.wrapped_rules import RuleWrapper

EAGER_VARIABLE = "STRICT_HIJAX_EAGER"
_OPTIONS = ("example_args", "dims", "axes", "effects", "ignore", "eager")
_STOCK_OPTIONS = ("nondiff_argnums", "nondiff_argnames")


class Unfinished:
    """Type checkers only: what `checked_custom_vjp(example_args=...)` still lacks."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Options:
    """What was said about the checks of one function."""

    declared: DeclaredTypes
    policy: EffectPolicy
    ignored: frozenset[str]
    eager: bool | None

    @property
    def is_eager(self) -> bool:
        if self.eager is not None:
            return self.eager
        return os.environ.get(EAGER_VARIABLE, "1") != "0"


class checked_custom_vjp[ReturnValue](jax.custom_vjp[ReturnValue]):
    """A drop-in for `jax.custom_vjp` whose rules are checked when they are defined.

    Signatures are checked at `defvjp`. With `example_args`, or `dims` and jaxtyping
    annotations, fwd and bwd are traced at `defvjp` as well, so that a wrong cotangent
    fails the import. Without, they are traced at the first call with new types,
    forward-only calls included: each rule may then be called once more than JAX calls
    it, for each combination of types, and not at all with `eager=False`. Whenever JAX
    calls a rule its result is held to the contract of `jax.custom_vjp.defvjp`.
    Nothing is left of it in the compiled program.

    Args:
      fun: the function, or an existing `jax.custom_vjp`, whose rules are then taken
        and checked at once. Without it, the result is a decorator.
      nondiff_argnums, nondiff_argnames: as in `jax.custom_vjp`.
      example_args: all positional arguments of one call: arrays or
        `jax.ShapeDtypeStruct`s of any shape and dtype, and static values.
      dims: sizes of the axes that the annotations name, such as {"b": 8, "d": 128}.
      axes: axis names, with sizes, to have in scope when rules are traced at `defvjp`.
      effects: what side effects primal, fwd and bwd may have: "jax" (what JAX allows
        in custom derivatives), "remat" (also under `jax.checkpoint`), "pure" (none), or
        an iterable of effect types.
      ignore: codes of checks to leave out, such as ("SH417",) or, of one, "SH417".
      eager: False leaves only the checks where JAX calls a rule; also for the process,
        with STRICT_HIJAX_EAGER=0 in the environment.

    Raises:
      SignatureError, DefinitionError: at `defvjp`, for rules that JAX cannot call.
      RuleTypeError, RuleValueError, UntraceableRuleError, EffectError: for rules that
        break their contract.
      UsageError: an argument of `checked_custom_vjp` itself cannot be used.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from strict_hijax import checked_custom_vjp
      >>> @checked_custom_vjp(example_args=(jax.ShapeDtypeStruct((3,), jnp.float32),))
      ... def square(x):
      ...     return x * x
      >>> square.defvjp(lambda x: (square(x), x), lambda x, ct: (2 * x * ct,))
      >>> print(jax.grad(lambda x: square(x).sum())(jnp.arange(3.0)))
      [0. 2. 4.]
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            fun: Callable[..., ReturnValue],
            nondiff_argnums: Sequence[int] = (),
            nondiff_argnames: Sequence[str] = (),
            *,
            example_args: Sequence[Any] | None = None,
            dims: Mapping[str, int] | None = None,
            axes: Mapping[str, int] | None = None,
            effects: str | Iterable[type] = "jax",
            ignore: str | Iterable[str] = (),
            eager: bool | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: checked_custom_vjp[Unfinished],
            *,
            nondiff_argnums: Sequence[int] = (),
            nondiff_argnames: Sequence[str] = (),
            example_args: Sequence[Any] | None = None,
            dims: Mapping[str, int] | None = None,
            axes: Mapping[str, int] | None = None,
            effects: str | Iterable[type] = "jax",
            ignore: str | Iterable[str] = (),
            eager: bool | None = None,
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        @overload
        def __call__[R](
            self: checked_custom_vjp[Unfinished], fun: Callable[..., R], /
        ) -> checked_custom_vjp[R]: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> ReturnValue: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    else:

        @_jax.user_boundary
        def __new__(cls, fun=None, *args, **kwargs):
            if fun is None and kwargs:
                _refuse_unknown(kwargs)
                return functools.partial(cls, **kwargs)
            return object.__new__(cls)

        @_jax.user_boundary
        def __init__(self, fun=None, nondiff_argnums=(), nondiff_argnames=(), **kwargs):
            _refuse_unknown(kwargs)
            existing = attributes_of(fun)
            if existing is not None:
                _refuse_nondiff_of_existing(fun, nondiff_argnums, nondiff_argnames)
                fun, nondiff_argnums = existing["fun"], existing["nondiff_argnums"]
            _refuse_uncallable(fun)
            argnums = _as_tuple(nondiff_argnums, int)
            argnames = _as_tuple(nondiff_argnames, str)
            options = _parse_options(fun, **kwargs)
            raise_findings(nondiff_findings(fun, argnums, argnames), options.ignored)
            super().__init__(fun, argnums, argnames)
            self._options = options
            if existing is not None:
                self.__dict__.update(existing)
                if _all_rules(self):
                    self._defined()

        @_jax.user_boundary
        def __call__(self, *args, **kwargs):
            if self._handed is None:
                self._hand_over()
            known = self._checker.before_call(args, kwargs)
            if known is not None:
                return known
            handed = self._handed
            if self._made_for is not None and self._made_for != _run_by():
                handed = self._hand_over()
            try:
                return handed(*args, **kwargs)
            except UnexpectedTracerError as error:
                for rules in _all_rules(self):
                    ignored = self._options.ignored
                    explain_tracer(rules, "primal", ignored, error)
                raise

    # What is made of the rules: what JAX is handed, and the checks ahead of it.
    _handed: Callable[..., Any] | None = None
    _checker: Checker | None = None
    _made_for: bool | None = None
    _options: _Options
    _is_defining: bool = False
    _accepted: tuple[FunctionRules, ...] = ()  # all that were defined without a fault

    @_jax.user_boundary
    def defvjp(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., tuple[Any, ...]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define the rules and check them; arguments as of `jax.custom_vjp.defvjp`."""
        self._define(super().defvjp, fwd, bwd, *args, **kwargs)

    @_jax.user_boundary
    def defvjp_with_logs(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., tuple[tuple[Any, ...], dict[str, Any] | None]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define a bwd that logs; as `jax.custom_vjp.defvjp_with_logs`, and checked."""
        self._define(super().defvjp_with_logs, fwd, bwd, *args, **kwargs)

    @_jax.user_boundary
    def defvjp_with_accums(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define a bwd that takes accumulators, and check the rules."""
        self._define(super().defvjp_with_accums, fwd, bwd, *args, **kwargs)

    @_jax.user_boundary
    def defremat(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        rem: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., tuple[Any, ...]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define rematerialization rules; as `jax.custom_vjp.defremat`, and checked."""
        self._define(super().defremat, fwd, rem, bwd, *args, **kwargs)

    @_jax.user_boundary
    def defremat_with_logs(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        rem: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., tuple[tuple[Any, ...], dict[str, Any] | None]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define rematerialization rules that log, and check them."""
        self._define(super().defremat_with_logs, fwd, rem, bwd, *args, **kwargs)

    def _define(self, define: Callable[..., None], *args: Any, **kwargs: Any) -> None:
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
        options = self._options
        given = _all_rules(self) or [FunctionRules(self.fun, self.nondiff_argnums)]
        findings = [f for rules in given for f in definition_findings(rules)]
        raise_findings(findings, options.ignored)
        self._hand_over()
        for rules in _all_rules(self):
            inputs = options.declared.inputs(rules)
            if inputs is not None and options.is_eager and self._checker is not None:
                self._checker.check_at_import(
                    inputs, options.declared.axes, options.declared.source
                )
        self._accepted = (*self._accepted, *_all_rules(self))

    def _hand_over(self) -> Callable[..., Any]:
        """Make what JAX is handed: a plain `jax.custom_vjp` with wrapped rules."""
        options, attributes = self._options, own_attributes(self)
        all_rules = _all_rules(self)
        if not all_rules:
            raise no_rules_finding(self.fun, self.nondiff_argnums).error()
        for rules in all_rules:
            checker = Checker(rules, options.policy, options.ignored, options.is_eager)
            wrapper = RuleWrapper(
                rules, options.policy, options.ignored, checker.known_outputs
            )
            if rules.rem is None:
                attributes |= {"fwd": wrapper.fwd(), "bwd": wrapper.bwd()}
            else:
                wrapped = (wrapper.fwd(), wrapper.rem(), wrapper.bwd())
                attributes["remat_rules"] = (*wrapped, rules.with_logs)
            self._checker = checker
        self._handed = _jax.make_custom_vjp(attributes)
        self._made_for = _run_by()
        return self._handed

    def _forget(self) -> None:
        for name in ("_handed", "_checker", "_made_for"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        return own_attributes(self) | {"_options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        return copied


for _name in ("defvjp_with_accums", "defremat", "defremat_with_logs"):
    if not hasattr(_jax.CustomVJP, _name):  # 0.11.2
        delattr(checked_custom_vjp, _name)


def _run_by() -> bool | None:
    """Which implementation `jax.custom_vjp(...)` would choose now, where it chooses."""
    return _jax.custom_vjp3_enabled() if _jax.CUSTOM_VJP_HAS_NEW else None


def _all_rules(function: Any) -> list[FunctionRules]:
    return rules_of(vars(function))


# --- arguments of checked_custom_vjp --------------------------------------------------


def _parse_options(
    fun: Any,
    *,
    example_args: Any = None,
    dims: Any = None,
    axes: Any = None,
    effects: Any = "jax",
    ignore: Any = (),
    eager: bool | None = None,
) -> _Options:
    return _Options(
        DeclaredTypes.parse(fun, example_args, dims, axes),
        parse_policy(effects, qualified_name(fun)),
        parse_codes(ignore, "ignore"),
        eager,
    )


def _usage(path: str, sentence: str, **more: Any) -> Finding:
    return Finding(
        code="SH427",
        subject="strict_hijax.checked_custom_vjp",
        headline=f"`strict_hijax.checked_custom_vjp` {sentence}",
        path=path,
        **more,
    )


def _refuse_unknown(kwargs: Mapping[str, Any]) -> None:
    known = (*_STOCK_OPTIONS, *_OPTIONS)
    for name in kwargs:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            did_you_mean = f"; did you mean `{near[0]}`?" if near else "."
            raise _usage(
                name,
                f"takes no argument `{name}`{did_you_mean}",
                expected=", ".join(known),
                got=name,
                remedies=(f"{near[0]}=...",) if near else (),
            ).error()


def _refuse_uncallable(fun: Any) -> None:
    if not callable(fun):
        kind = type(fun).__name__
        raise _usage(
            "fun",
            f"is given `fun` of type {kind}, which is no function.",
            expected="a function, or a jax.custom_vjp",
            got=repr(fun)[:60],
            remedies=(
                "@checked_custom_vjp",
                "@checked_custom_vjp(example_args=(...,))",
            ),
        ).error()


def _refuse_nondiff_of_existing(fun: Any, argnums: Any, argnames: Any) -> None:
    if argnums or argnames:
        raise _usage(
            "nondiff_argnums",
            "is given `nondiff_argnums` for a function that has rules for its own.",
            expected=f"nondiff_argnums={tuple(fun.nondiff_argnums)}, as it has",
            got=repr(argnums or argnames),
            remedies=("checked_custom_vjp(f)   # nothing else is needed",),
        ).error()


def _as_tuple(value: Any, kind: type) -> tuple[Any, ...]:
    """A tuple of what may be one value, as users write `nondiff_argnums=1`."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        name = "nondiff_argnums" if kind is int else "nondiff_argnames"
        raise _usage(
            name,
            f"needs `{name}` as a tuple, even if it is one.",
            expected=f"a tuple of {kind.__name__}",
            got=repr(value)[:60],
            remedies=(f"{name}=({value!r},)",),
        ).error()
    return tuple(value)
