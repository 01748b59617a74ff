"""Functions whose rules are being run or traced: calls of these are not checked.

Rules call their own function, and may do so with types that change each time.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Generator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax, _jax_traces

from .call_keys import CodeKey
from .forward_results import OutputTypes
from .rules import FunctionRules, Inputs

_in_progress: contextvars.ContextVar[frozenset[CodeKey]] = contextvars.ContextVar(
    "strict_hijax_in_progress", default=frozenset()
)


@contextlib.contextmanager
def in_progress(code: CodeKey) -> Generator[None]:
    """Run a rule: within, calls of functions of this code are not checked."""
    token = _in_progress.set(_in_progress.get() | {code})
    try:
        yield
    finally:
        _in_progress.reset(token)


def any_in_progress() -> frozenset[CodeKey]:
    """What is being run or traced in this thread or task."""
    return _in_progress.get()


@dataclasses.dataclass(slots=True)
class KnownCall:
    """A call whose result is known, and which is not made again where it is repeated.

    Most rules call their own function, and what that returns is known by then: from the
    user's own call of it, or from a trace. So its code is not run for us.

    Attributes:
      jaxpr: traces the call, for who asks what it does.
      was_made: whether the rule did make the call.
    """

    rules: FunctionRules
    inputs: Inputs
    outputs: OutputTypes
    jaxpr: Callable[[], Any]
    trace: Any = None
    configuration: Any = dataclasses.field(default_factory=_jax.configuration_key)
    was_made: bool = False

    def result(self, rules: FunctionRules, inputs: Inputs, args: Sequence[Any]) -> Any:
        """What a call gives in the trace of a rule, or None if it is another call.

        In a jit or scan within the rule nothing is known: JAX keeps what it traces
        there.
        """
        if rules is not self.rules or _jax_traces.active_trace() is not self.trace:
            return None
        if not self._is_plain() or not inputs.are(self.inputs):
            return None
        if _jax.configuration_key() != self.configuration:
            return None
        self.was_made = True
        dynamic = [a for i, a in enumerate(args) if i not in rules.nondiff_argnums]
        leaves = tree_util.tree_leaves(dynamic)
        values = _jax_traces.values_of_known_call(
            leaves, self.outputs.avals, self.jaxpr
        )
        return tree_util.tree_unflatten(self.outputs.treedef, values)

    def _is_plain(self) -> bool:
        avals = (*self.inputs.avals, *self.outputs.avals)
        return bool(self.outputs.avals) and all(
            type(aval) is _jax.ShapedArray for aval in avals
        )


_known_call: contextvars.ContextVar[KnownCall | None] = contextvars.ContextVar(
    "strict_hijax_known_call", default=None
)


@contextlib.contextmanager
def knowing(call: KnownCall | None) -> Generator[None]:
    """Within, and in the trace that is active now, a call is known."""
    if call is not None:
        call.trace = _jax_traces.active_trace()
    token = _known_call.set(call)
    try:
        yield
    finally:
        _known_call.reset(token)
        if call is not None:
            call.trace = None


def known_call() -> KnownCall | None:
    """The call that is known here."""
    return _known_call.get()
