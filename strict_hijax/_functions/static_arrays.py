"""Arrays in positions that are declared static; NumPy's are constants, and fine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax import tree_util

from strict_hijax import _jax
from strict_hijax._errors import Finding, StrictHijaxError, untraceable_error
from strict_hijax._report import describe_all

from .asked import says_of_static
from .rules import FunctionRules


def static_array_findings(
    rules: FunctionRules, args: Sequence[Any]
) -> Iterator[Finding]:
    """A finding for each array among the static arguments of a call."""
    for index in rules.nondiff_argnums:
        for leaf in tree_util.tree_leaves(args[index] if index < len(args) else None):
            if isinstance(leaf, jax.Array):
                yield static_array(rules, index, leaf)


class _StaticTracer(Finding):
    """A tracer in a static position: what JAX raises for it, too."""

    def error(self) -> StrictHijaxError:
        return untraceable_error(self, jax.errors.UnexpectedTracerError(""))


def static_array(rules: FunctionRules, index: int, leaf: Any) -> Finding:
    """The finding about an array in a static position."""
    name = rules.argument_names(index + 1)[index]
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
            *rules.once_dynamic(name),
        ),
    )
