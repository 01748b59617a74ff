"""The rules as they are handed to JAX: held to their contracts whenever it calls them.

What bwd must return depends on the inputs of the call, which JAX does not give it. The
wrapped fwd sends their types along with the residuals, as static data of a pytree node:
no value is added, so that the compiled program stays the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jax import tree_util
from jax.errors import UnexpectedTracerError

from strict_hijax import _jax, _jax_traces
from strict_hijax._accumulators import Watches
from strict_hijax._effects import EffectPolicy, Recorded, effect_findings
from strict_hijax._errors import Finding, untraceable_error
from strict_hijax._ignoring import raise_findings, without_ignored
from strict_hijax._types import any_zero

from .backward_results import backward_findings
from .call_keys import CodeKey, code_key
from .closed_over import explain_tracer, unusable_findings
from .cotangents import cotangent_finding
from .exceptions import is_about_float0, untraceable_finding
from .forward_results import OutputTypes, forward_findings
from .progress import in_progress
from .rules import FunctionRules, Inputs


class Primal(Protocol):
    """Tells what the function returns, which its rules are held to."""

    def known_outputs(self, inputs: Inputs) -> OutputTypes | None:
        """The types of what it returns for these inputs, if that is known."""
        ...

    def before_rule(self, inputs: Inputs) -> OutputTypes | None:
        """The same, and checks ahead of JAX's run of a rule."""
        ...

    def differs_in_a_trace(self, inputs: Inputs, role: str) -> bool:
        """Whether a rule gives another output where both are traced."""
        ...


_STRUCTURE = ("SH411", "SH433")
"""Codes of an output of another structure than the function's."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Context:
    """The types of the inputs of a call, and whether all of them are perturbed.

    All are equal, so that no two structures of residuals differ by them.
    """

    inputs: Inputs
    all_perturbed: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Context)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return ""


@tree_util.register_pytree_node_class
class Residuals:
    """The residuals of one call, with the types of its inputs beside them."""

    __slots__ = ("context", "value")

    def __init__(self, value: Any, context: _Context):
        self.value = value
        self.context = context

    def tree_flatten(self) -> tuple[tuple[Any], _Context]:
        return (self.value,), self.context

    @classmethod
    def tree_unflatten(cls, context: _Context, children: Sequence[Any]) -> Residuals:
        return cls(children[0], context)


def named_like(rule: Any) -> Callable[[Any], Any]:
    """A decorator that makes a wrapper look to JAX like the rule inside of it."""

    def decorate(wrapper: Any) -> Any:
        functools.update_wrapper(wrapper, rule)
        wrapper.__name__ = _jax.fun_name(rule, type(rule).__name__)
        with contextlib.suppress(ValueError, TypeError):
            # JAX reads it at each call, and would unwrap and build it each time.
            wrapper.__signature__ = inspect.signature(rule)
        return wrapper

    return decorate


@dataclasses.dataclass(frozen=True, slots=True)
class RuleWrapper:
    """Makes the rules that JAX is handed from those that the user wrote."""

    rules: FunctionRules
    policy: EffectPolicy
    ignored: frozenset[str]
    primal: Primal

    def fwd(self) -> Any:
        """The wrapped forward rule."""
        rules, code = self.rules, code_key(self.rules)

        @named_like(rules.fwd)
        def fwd(*args: Any) -> Any:
            result = self.run("fwd", code, args)
            return self._checked(result, "fwd", args)

        return fwd

    def rem(self) -> Any:
        """The wrapped rematerialization rule."""
        rules, code = self.rules, code_key(self.rules)

        @named_like(rules.rem)
        def rem(residuals: Any, *args: Any) -> Any:
            if isinstance(residuals, Residuals):
                residuals = residuals.value
            result = self.run("rem", code, (residuals, *args))
            return self._checked(result, "rem", args)

        return rem

    def bwd(self) -> Any:
        """The wrapped backward rule."""
        rules, code = self.rules, code_key(self.rules)
        static = len(rules.nondiff_argnums)

        @named_like(rules.bwd)
        def bwd(*args: Any) -> Any:
            residuals = args[static]
            if not isinstance(residuals, Residuals):
                return self.run("bwd", code, args)
            context, cts = residuals.context, args[static + 1]
            before = (*args[:static], residuals.value, cts)
            accums, watches = args[static + 2 :], None
            if rules.with_accums:
                watches = Watches(self._lets_pass)
                accums = tree_util.tree_map(watches.stand_in, accums)
            result = self.run("bwd", code, (*before, *accums), context.inputs)
            may_skip = (
                not context.all_perturbed
                or any_zero(cts)
                or (watches is not None and None in list(watches))
            )
            findings = backward_findings(
                rules, result, context.inputs, watches, may_skip=may_skip
            )
            raise_findings(findings, self.ignored)
            return result

        return bwd

    def run(
        self,
        role: str,
        code: CodeKey,
        args: Sequence[Any],
        inputs: Inputs | None = None,
    ) -> Any:
        """Call a rule, and look at what it closes over and at its effects."""
        rule = self.rules.rule(role)
        count = _jax_traces.equations_so_far()
        try:
            with in_progress(code):
                result = rule(*args)
        except (UnexpectedTracerError, TypeError) as error:
            explain_tracer(self.rules, role, self.ignored, error, args)
            if inputs is not None and is_about_float0(error):
                finding = untraceable_finding(self.rules, role, inputs, error)
                if without_ignored([finding], self.ignored):
                    raise untraceable_error(finding, error) from error
            raise
        raise_findings(unusable_findings(self.rules, role, args), self.ignored)
        if effectful := _jax_traces.effectful_equations_since(count):
            found = effect_findings(
                self.rules,
                role,
                Recorded(effectful, _jax_traces.knows_the_line()),
                self.policy,
            )
            raise_findings(found, self.ignored)
        return result

    def _checked(self, result: Any, role: str, args: Sequence[Any]) -> Any:
        values, perturbed = _values(args, self.rules)
        inputs = Inputs.of(values, self.rules.nondiff_argnums)
        primal = None if inputs is None else self.primal.known_outputs(inputs)
        found = forward_findings(self.rules, result, primal, args, role)
        self.raise_certain(found, inputs, role)
        if inputs is None or not isinstance(result, list | tuple) or len(result) != 2:
            return result
        inputs = dataclasses.replace(inputs, statics=())
        return result[0], Residuals(result[1], _Context(inputs, perturbed))

    def raise_certain(
        self, found: Sequence[Finding], inputs: Inputs | None, role: str
    ) -> None:
        """Raise what is found, a structure only if it is wrong in a trace, too."""
        doubted = {finding.code for finding in found} & {*_STRUCTURE}
        if doubted and inputs and not self.primal.differs_in_a_trace(inputs, role):
            found = [finding for finding in found if finding.code not in doubted]
        raise_findings(found, self.ignored)

    def _lets_pass(self, aval: Any, cotangent: Any) -> bool:
        finding = cotangent_finding(self.rules, "x", aval, cotangent)
        return finding is None or not without_ignored([finding], self.ignored)


def _values(args: Sequence[Any], rules: FunctionRules) -> tuple[list[Any], bool]:
    """The arguments without the records of `symbolic_zeros`; if all are perturbed."""
    if not rules.symbolic_zeros:
        return list(args), True
    flags: list[bool] = []

    def value(leaf: Any) -> Any:
        if not isinstance(leaf, _jax.CustomVJPPrimal):
            return leaf
        flags.append(bool(leaf.perturbed))
        return leaf.value

    dynamic = {i for i in range(len(args)) if i not in rules.nondiff_argnums}
    values = [
        tree_util.tree_map(value, arg) if i in dynamic else arg
        for i, arg in enumerate(args)
    ]
    return values, all(flags)
