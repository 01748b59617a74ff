"""When a function's rules are checked ahead of JAX: at import, or at a first call.

At a call they are checked when it has returned: what the function returns is known
then, and its own code is not run a second time. Each combination of types, static
arguments and configuration is examined once; what is found is raised, and what is fine
is remembered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax, _jax_traces
from strict_hijax._effects import EffectPolicy, Recorded, effect_findings
from strict_hijax._errors import Finding, StrictHijaxError, untraceable_error
from strict_hijax._ignoring import raise_findings, without_ignored
from strict_hijax._raised import declines, is_raised_by_jax
from strict_hijax._report import describe_all

from .call_keys import Remembered, call_key, code_key, may_check, spending
from .declared_types import Source, unfit_types
from .eager import Depth, Examination, examine
from .exceptions import (
    backend_findings,
    forget_frames,
    is_unbound_axis,
    lacks_a_name,
    untraceable_finding,
)
from .outputs import OutputTypes
from .progress import any_in_progress, in_progress, known_call
from .rules import FunctionRules, Inputs, positional_count
from .static_arrays import static_array_findings


@dataclasses.dataclass(frozen=True, slots=True)
class _Examined:
    """What is remembered of a call: how far it was examined, and what was ignored."""

    depth: Depth
    outputs: OutputTypes | None
    ignored: frozenset[str]


type Examine = Callable[..., Examination]
"""Traces the rules of a function on the types of one call; see `eager.examine`."""


@dataclasses.dataclass(slots=True)
class Call:
    """A call under way that is to be checked when it has returned.

    Attributes:
      known: what it returns, where a trace of ours repeats a call that was made.
      count: how many equations were recorded before it.
    """

    inputs: Inputs
    key: Any
    depth: Depth
    known: Any = None
    count: int = 0


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
        self._put_off: tuple[Inputs, Mapping[str, int], Source] | None = None

    # --- at import --------------------------------------------------------------------

    def check_at_import(
        self, inputs: Inputs, axes: Mapping[str, int], source: Source
    ) -> Examination:
        """Check for declared types; `source` is how the user gave them."""
        args = inputs.arguments(inputs.avals)
        static = list(static_array_findings(self.rules, args))
        if not self.rules.takes_static_arrays:
            raise_findings(static, self._ignored)
        with _jax_traces.clean_context(), _jax_traces.extended_axes(dict(axes)):
            seen = self._run(inputs, Depth.FULL)
            key = call_key(inputs)
        seen.advice += static
        seen.findings += backend_findings(self.rules, seen.backends)
        was_put_off, self._put_off = self._put_off is not None, None
        may_wait = source != "check" and not was_put_off
        if may_wait and seen.stopped and lacks_a_name(seen.stopped[1]):
            self._put_off = inputs, axes, source
            forget_frames(seen.stopped[1])
            return seen
        self._raise_at_import(seen, inputs, source)
        if seen.stopped is None:
            self._remember(key, Depth.FULL, seen)
        return seen

    def _run(
        self, inputs: Inputs, depth: Depth, outputs: OutputTypes | None = None
    ) -> Examination:
        with in_progress(self._code), spending(self._code):
            return self._examine(self.rules, inputs, self._policy, depth, outputs)

    # --- at a call --------------------------------------------------------------------

    def before_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Call | None:
        """What is to be done about a call when it has returned; None for nothing."""
        rules = self.rules
        if kwargs or len(args) < self._count:
            try:
                args = _jax.resolve_kwargs(rules.fun, args, kwargs)
            except TypeError:
                return None  # JAX says it better
        if rules.nondiff_argnums and not rules.takes_static_arrays:
            raise_findings(static_array_findings(rules, args), self._ignored)
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
            repeated = known_call()
            values = repeated and repeated.result(rules, inputs, args)
            return Call(inputs, key, Depth.PRIMAL, values)
        depth = Depth.FULL
        if any(map(_jax_traces.is_differentiated, tree_util.tree_leaves(args))):
            depth = Depth.CALLED
        if self._known(key, depth) is not None:
            return None
        return Call(inputs, key, depth, count=_jax_traces.equations_so_far())

    def after_call(self, call: Call, result: Any) -> None:
        """Check the rules for the types of a call that has returned this."""
        if self._put_off is not None:
            self.check_at_import(*self._put_off)
        outputs = OutputTypes.of(result)
        if outputs is None:
            return  # JAX says it where it differentiates the function
        if call.depth is Depth.PRIMAL:
            self._examined.add(call.key, _Examined(call.depth, outputs, frozenset()))
            return
        effectful = _jax_traces.effectful_equations_since(call.count)
        found = effect_findings(self.rules, "primal", Recorded(effectful), self._policy)
        raise_findings(found, self._ignored)
        known = self._known(call.key, call.depth)
        if known is not None:  # JAX has called a rule meanwhile
            known = dataclasses.replace(known, outputs=outputs)
            self._examined.put(call.key, known)
        elif may_check(self._code):
            seen = self._run(call.inputs, call.depth, outputs)
            self._raise_at_call(seen)
            self._remember(call.key, call.depth, seen)

    def after_failure(self, call: Call, error: Exception) -> None:
        """Raise what is wrong with rules that JAX was running when it raised."""
        if call.depth is not Depth.PRIMAL and is_raised_by_jax(error):
            seen = self._run(call.inputs, Depth.CALLED)
            raise_findings(seen.findings, self._ignored)

    def known_outputs(self, inputs: Inputs) -> OutputTypes | None:
        """What the function returns for these inputs, traced if it may be."""
        key = call_key(inputs)
        known = self._examined.get(key)
        if known is not None:
            return known.outputs
        return self._look(key, inputs, Depth.PRIMAL)

    def before_rule(self, inputs: Inputs) -> OutputTypes | None:
        """What the function returns; what can be traced of a rule is, before JAX's run.

        A rule may note what it is given, so the run that counts is to be the last.
        """
        key = call_key(inputs)
        known = self._known(key, Depth.CALLED)
        if known is not None:
            return known.outputs
        if self._code in any_in_progress() or not may_check(self._code):
            return self.known_outputs(inputs)
        return self._look(key, inputs, Depth.CALLED)

    def _look(self, key: Any, inputs: Inputs, depth: Depth) -> OutputTypes | None:
        if not self._eager:
            return None
        seen = self._run(inputs, depth)
        raise_findings(seen.findings, self._ignored)
        self._remember(key, depth, seen)
        return seen.outputs

    def _known(self, key: Any, depth: Depth) -> _Examined | None:
        """What is known of a call that was examined as far as that."""
        known = self._examined.get(key)
        if known is None or known.depth < depth or not _still_ignored(known):
            return None
        return known

    def differs_in_a_trace(self, inputs: Inputs, role: str) -> bool:
        """Whether a rule gives another output than the function where both are traced.

        A structure may depend on which values are concrete: the two are comparable only
        where the same are.
        """
        seen = self._run(inputs, Depth.FULL)
        return any(finding.rule == role for finding in seen.findings)

    # --- outcomes ---------------------------------------------------------------------

    def _remember(self, key: Any, depth: Depth, seen: Examination) -> None:
        if seen.stopped is not None:
            forget_frames(seen.stopped[1])
        codes = frozenset(finding.code for finding in seen.findings)
        self._examined.put(key, _Examined(depth, seen.outputs, codes))

    def _raise_at_call(self, seen: Examination) -> None:
        """Raise wrong results. What a rule raises waits for JAX to call it.

        It may need a mesh, values, or a name that is not there yet, or be for types of
        which this program never takes a gradient.
        """
        raise_findings(seen.findings, self._ignored)
        if seen.stopped is not None and isinstance(seen.stopped[1], StrictHijaxError):
            error, seen.stopped = seen.stopped[1], None
            raise error

    def _raise_at_import(
        self, seen: Examination, inputs: Inputs, source: Source
    ) -> None:
        """Raise what is found, and what a rule raises; `source` as for the check."""
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
        self, role: str, error: Exception, inputs: Inputs, source: Source
    ) -> Finding | None:
        if declines(error) or is_unbound_axis(error):
            return None
        if role == "primal":
            got = ", ".join(describe_all(inputs.avals))
            return unfit_types(self.rules, source, got, error)
        return untraceable_finding(self.rules, role, inputs, error)


def _still_ignored(known: _Examined) -> bool:
    """Whether all that was found and ignored is ignored here as well."""
    if not known.ignored:
        return True
    probes = [Finding(code=code, subject="", headline="") for code in known.ignored]
    return not without_ignored(probes)
