"""A function and its reverse-mode rules as data, with the words to speak of them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding, Location, location_of
from strict_hijax._signatures import Arity, arity_of_function
from strict_hijax._types import type_of


@dataclasses.dataclass(frozen=True, slots=True)
class FunctionRules:
    """One function with its rules, as the user wrote them.

    `rem` is the rematerialization rule of `defremat`, which also has a `fwd` and a
    `bwd` of its own.
    """

    fun: Any
    nondiff_argnums: tuple[int, ...] = ()
    fwd: Any = None
    bwd: Any = None
    rem: Any = None
    symbolic_zeros: bool = False
    with_logs: bool = False
    with_accums: bool = False
    generic_batching: bool = False
    has_rem: bool = False

    @property
    def name(self) -> str:
        """The function's own name, without its module."""
        return _jax.fun_name(self.fun, type(self.fun).__name__)

    @property
    def called(self) -> str:
        """What to write for the function in a line of code."""
        return self.name if self.name.isidentifier() else "f"

    @property
    def subject(self) -> str:
        """Module and qualified name of the function."""
        return qualified_name(self.fun)

    @property
    def callables(self) -> tuple[Any, ...]:
        """The function and all its rules, None for each that it does not have."""
        return self.fun, self.fwd, self.bwd, self.rem

    @property
    def way_in(self) -> str:
        """What becomes of the derivative of a value that is made an argument."""
        return "bwd gives it a cotangent"

    @property
    def takes_static_arrays(self) -> bool:
        """Whether JAX lets an array stand in a `nondiff_argnums` position."""
        return False

    def once_dynamic(self, name: str) -> tuple[str, ...]:
        """What to write for a static argument that is made an ordinary one."""
        return (
            f"return None for `{name}` from bwd, in its place among the cotangents",
            f"keep `{name}` in the residuals where bwd needs it",
        )

    def rule_name(self, role: str) -> str:
        """The name of the rule that plays a role: `fwd`, `bwd`, `rem` or `primal`."""
        rule = self.rule(role)
        return _jax.fun_name(rule, type(rule).__name__)

    def rule(self, role: str) -> Any:
        """The rule that plays a role."""
        return self.fun if role == "primal" else getattr(self, role)

    def finding(
        self,
        code: str,
        role: str | None,
        sentence: str,
        *,
        kind: type[Finding] = Finding,
        **more: Any,
    ) -> Finding:
        """A finding about this function, or about the rule that plays a role in it."""
        whole = f"`{self.subject}`"
        if role is not None and role != "primal":
            whole += f": {role} rule `{self.rule_name(role)}`"
        if role is not None:
            more.setdefault("location", self.location(role))
        return kind(
            code=code,
            subject=self.subject,
            rule=role,
            headline=f"{whole} {sentence}",
            **more,
        )

    def holder(self, role: str) -> str:
        """How a finding about a role speaks of what has that role."""
        return "its primal" if role == "primal" else "it"

    def location(self, role: str) -> Location | None:
        """Where a rule is written."""
        function = innermost(self.rule(role))
        text = f"def {self.rule_name(role)}"
        return location_of(function, text if "lambda" not in text else "lambda")

    def argument_names(self, count: int) -> tuple[str, ...]:
        """How the user calls the function's first `count` positional arguments."""
        return positional_names(self.fun, count)

    def dynamic_names(self, count: int) -> tuple[str, ...]:
        """The same for the `count` arguments that are not static."""
        names = self.argument_names(count + len(self.nondiff_argnums))
        return tuple(n for i, n in enumerate(names) if i not in self.nondiff_argnums)

    def bwd_parameters(self, names: Sequence[str]) -> str:
        """The parameters that `bwd` is given, in the user's own names."""
        static = [n for i, n in enumerate(names) if i in self.nondiff_argnums]
        dynamic = [n for i, n in enumerate(names) if i not in self.nondiff_argnums]
        accums = [f"{name}_acc" for name in dynamic] if self.with_accums else []
        return ", ".join([*static, "res", "ct", *accums])


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def qualified_name(function: Any) -> str:
    """Module and qualified name of a function, a partial or another callable."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    if name is None:
        function = type(function)
        name = function.__qualname__
    module = getattr(function, "__module__", None)
    return name if module in (None, "__main__", "builtins") else f"{module}.{name}"


def innermost(rule: Any) -> Any:
    """The Python function that a partial, jitted or decorated rule ends in."""
    for _ in range(32):  # a chain can be a circle
        if isinstance(rule, functools.partial):
            rule = rule.func
        elif isinstance(rule, types.MethodType | staticmethod | classmethod):
            rule = rule.__func__
        elif hasattr(rule, "__wrapped__"):
            rule = rule.__wrapped__
        else:
            break
    return rule


def positional_names(function: Any, count: int) -> tuple[str, ...]:
    """Names for `count` positional arguments, from the signature that JAX binds to."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return tuple(f"args[{i}]" for i in range(count))
    names = [p.name for p in parameters if p.kind in _POSITIONAL]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    names += [f"{rest}[{i}]" for i in range(count - len(names))]
    return tuple(names[:count])


def positional_count(function: Any) -> int:
    """How many arguments JAX gives a function, where it completes them by defaults."""
    if isinstance(function, functools.partial):  # JAX does not look into these
        return 0
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return 0
    return sum(p.kind in _POSITIONAL for p in parameters)


def visible_arity(function: Any) -> Arity | None:
    """How many arguments a function takes, if its code is what its signature says."""
    if any(hasattr(function, name) for name in ("__wrapped__", "__signature__")):
        return None
    return arity_of_function(function)


@dataclasses.dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of one call: structure and types of those that are not static."""

    treedef: Any
    avals: tuple[Any, ...]
    statics: tuple[tuple[int, Any], ...] = ()

    @classmethod
    def of(cls, args: Sequence[Any], nondiff_argnums: Sequence[int]) -> Inputs | None:
        """The inputs of a call, or None where an argument has no JAX type."""
        dynamic = tuple(a for i, a in enumerate(args) if i not in nondiff_argnums)
        leaves, treedef = tree_util.tree_flatten(dynamic)
        avals = tuple(map(type_of, leaves))
        if None in avals:
            return None
        statics = tuple((i, args[i]) for i in nondiff_argnums if i < len(args))
        return cls(treedef, avals, statics)

    @property
    def count(self) -> int:
        """How many arguments are not static."""
        return len(self.treedef.children())

    def are(self, other: Inputs) -> bool:
        """Whether these are the same types, and the very same static arguments."""
        return (
            self.treedef == other.treedef
            and self.avals == other.avals
            and len(self.statics) == len(other.statics)
            and all(map(_is_same_static, self.statics, other.statics))
        )

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments in their places, with these leaves for those not static."""
        args = list(tree_util.tree_unflatten(self.treedef, leaves))
        for index, value in self.statics:
            args.insert(index, value)
        return args

    @property
    def static_values(self) -> list[Any]:
        """The static arguments, in the order in which `bwd` takes them."""
        return [value for _, value in self.statics]


def _is_same_static(a: tuple[int, Any], b: tuple[int, Any]) -> bool:
    return a[0] == b[0] and a[1] is b[1]
