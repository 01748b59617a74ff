"""When a function's rules are checked ahead of JAX: at import, or at a first call.

Each combination of types, static arguments and configuration is examined once; what is
found is raised, and what is fine is remembered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import tree_util

from strict_hijax import _jax
from strict_hijax._effects import EffectPolicy
from strict_hijax._errors import (
    Finding,
    StrictHijaxError,
    raise_findings,
    untraceable_error,
    without_ignored,
)
from strict_hijax._report import describe_all

from .asked import says_of_static
from .call_keys import Remembered, call_key, code_key, count_check, may_check
from .declared_types import Source, unfit_types
from .eager import Depth, Examination, examine
from .exceptions import (
    backend_findings,
    forget_frames,
    is_fault,
    is_put_off,
    untraceable_finding,
)
from .forward_results import OutputTypes
from .progress import any_in_progress, in_progress, known_call
from .rules import FunctionRules, Inputs, positional_count


@dataclasses.dataclass(frozen=True, slots=True)
class _Examined:
    """What is remembered of a call: how far it was examined, and what was ignored."""

    depth: Depth
    outputs: OutputTypes | None
    ignored: frozenset[str]


type Examine = Callable[[FunctionRules, Inputs, EffectPolicy, Depth], Examination]
"""Traces the rules of a function on the types of one call."""


class Checker:
    """Checks the rules of one function ahead of JAX, and remembers what it checked."""

    def __init__(
        self,
        rules: FunctionRules,
        policy: EffectPolicy,
        ignored: frozenset[str],
        eager: bool,
        examine: Examine = examine,
    ):
        self.rules = rules
        self._policy = policy
        self._ignored = ignored
        self._eager = eager
        self._examine = examine
        self._code = code_key(rules)
        self._count = positional_count(rules.fun)
        self._examined: Remembered[_Examined] = Remembered()

    # --- at import --------------------------------------------------------------------

    def check_at_import(
        self, inputs: Inputs, axes: Mapping[str, int], source: Source
    ) -> Examination:
        """Check for declared types; `source` is how the user gave them."""
        args = inputs.arguments(inputs.avals)
        raise_findings(_static_arrays(self.rules, args), self._ignored)
        with _jax.clean_context(), _jax.extended_axes(dict(axes)):
            with in_progress(self._code):
                seen = self._examine(self.rules, inputs, self._policy, Depth.FULL)
            key = call_key(inputs)
        seen.findings += backend_findings(self.rules, seen.backends)
        self._raise(seen, inputs, source)
        if seen.stopped is None:
            self._remember(key, Depth.FULL, seen)
        return seen

    # --- at a call --------------------------------------------------------------------

    def before_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Check a call of types that were not seen yet; raise what is found.

        Returns:
          What the call gives, where it is known because fwd is being traced; or None.
        """
        rules = self.rules
        if kwargs or len(args) < self._count:
            try:
                args = _jax.resolve_kwargs(rules.fun, args, kwargs)
            except TypeError:
                return None  # JAX says it better
        if rules.nondiff_argnums:
            raise_findings(_static_arrays(rules, args), self._ignored)
        if not self._eager:
            return None
        inputs = Inputs.of(args, rules.nondiff_argnums)
        if inputs is None:
            return None
        key = call_key(inputs)
        known = self._examined.get(key)
        if known is not None and known.depth is Depth.FULL and not known.ignored:
            return None
        if self._code in any_in_progress():
            call = known_call()
            return None if call is None else call.result(rules, inputs, args)
        depth = Depth.FULL
        if any(map(_jax.is_differentiated, tree_util.tree_leaves(args))):
            depth = Depth.CALLED
        if known is not None and known.depth >= depth and _still_ignored(known):
            return None
        if not may_check(self._code):
            return None
        with in_progress(self._code):
            seen = self._examine(rules, inputs, self._policy, depth)
        self._raise(seen, inputs, None)
        self._remember(key, depth, seen)
        return None

    def known_outputs(self, inputs: Inputs) -> OutputTypes | None:
        """What the function returns for these inputs, traced if it may be."""
        key = call_key(inputs)
        known = self._examined.get(key)
        if known is not None:
            return known.outputs
        if not self._eager or not may_check(self._code):
            return None
        with in_progress(self._code):
            seen = self._examine(self.rules, inputs, self._policy, Depth.PRIMAL)
        seen.findings.clear()  # found when the primal itself is called
        self._remember(key, Depth.PRIMAL, seen)
        return seen.outputs

    # --- outcomes ---------------------------------------------------------------------

    def _remember(self, key: Any, depth: Depth, seen: Examination) -> None:
        if seen.stopped is not None:
            forget_frames(seen.stopped[1])
        codes = frozenset(finding.code for finding in seen.findings)
        self._examined.put(key, _Examined(depth, seen.outputs, codes))
        count_check(self._code)

    def _raise(self, seen: Examination, inputs: Inputs, source: Source | None) -> None:
        """Raise what is found; `source` is given at import, and by `check`."""
        if seen.stopped is None:
            raise_findings(seen.findings, self._ignored)
            return
        role, error = seen.stopped
        if self._is_about_another(error) and role != "primal":
            seen.stopped = None
            raise error
        finding = self._finding(role, error, inputs, source)
        if finding is None:
            raise_findings(seen.findings, self._ignored)
            return
        if seen.findings or not without_ignored([finding], self._ignored):
            seen.findings.append(finding)
            raise_findings(seen.findings, self._ignored)
            return
        seen.stopped = None
        if role == "primal":
            raise finding.error() from None
        raise untraceable_error(finding, error)

    def _is_about_another(self, error: Exception) -> bool:
        """Whether it is our error about a checked function that the rule calls."""
        if not isinstance(error, StrictHijaxError):
            return False
        return error.subject != self.rules.subject

    def _finding(
        self, role: str, error: Exception, inputs: Inputs, source: Source | None
    ) -> Finding | None:
        if source is None:
            ours = isinstance(error, StrictHijaxError)
            if role == "primal" or self.rules.symbolic_zeros:
                return None
            if not ours and not is_fault(error):
                return None
        elif is_put_off(error):
            return None
        elif role == "primal":
            got = ", ".join(describe_all(inputs.avals))
            return unfit_types(self.rules, source, got, error)
        return untraceable_finding(self.rules, role, inputs, error)


def _still_ignored(known: _Examined) -> bool:
    """Whether all that was found and ignored is ignored here as well."""
    if not known.ignored:
        return True
    probes = [Finding(code=code, subject="", headline="") for code in known.ignored]
    return not without_ignored(probes)


def _static_arrays(rules: FunctionRules, args: Sequence[Any]) -> list[Finding]:
    """Arrays in positions that are declared static; NumPy's are constants, and fine."""
    if rules.takes_static_arrays:
        return []
    return [
        _static_array(rules, args, index, leaf)
        for index in rules.nondiff_argnums
        if index < len(args)
        for leaf in tree_util.tree_leaves(args[index])
        if isinstance(leaf, jax.Array)
    ]


class _StaticTracer(Finding):
    """A tracer in a static position: what JAX raises for it, too."""

    def error(self) -> StrictHijaxError:
        return untraceable_error(self, jax.errors.UnexpectedTracerError(""))


def _static_array(
    rules: FunctionRules, args: Sequence[Any], index: int, leaf: Any
) -> Finding:
    name = rules.argument_names(len(args))[index]
    is_tracer = isinstance(leaf, _jax.Tracer)
    return rules.finding(
        "SH422",
        None,
        f"is given an array for `{name}`, which `nondiff_argnums` declares to be "
        "static. It fails under jit, vmap or scan, where the array is a tracer.",
        kind=_StaticTracer if is_tracer else Finding,
        path=name,
        location=rules.location("primal"),
        expected=f"a value for `{name}` that is known before tracing, and no array",
        got=("a tracer of type " if is_tracer else "") + describe_all([leaf.aval])[0],
        jax_says=says_of_static(rules, leaf) if is_tracer else None,
        remedies=(
            f"pass `{name}` as an ordinary argument: drop {index} from nondiff_argnums",
            f"return None for `{name}` from bwd, in its place among the cotangents",
            f"keep `{name}` in the residuals where bwd needs it",
        ),
    )
