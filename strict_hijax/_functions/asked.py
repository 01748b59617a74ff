"""What the installed JAX does with a result: it is given the result, and may refuse it.

A plain function is made whose rules return the result in question, and differentiated
in a trace that is thrown away. So JAX decides what is accepted, of any version and
configuration, and what it raises is quoted. It is asked only where something is off.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax import tree_util
from jax.extend.core import jaxpr_as_fun

from strict_hijax import _jax, _jax_traces
from strict_hijax._errors import Finding
from strict_hijax._jax_functions import make_custom_jvp, make_custom_vjp
from strict_hijax._types import describe_value, has_no_tangent, type_of

from .outputs import OutputTypes
from .rules import FunctionRules, Inputs, innermost

if TYPE_CHECKING:
    from .custom_jvp import JvpRules

WRONG_THOUGH_TAKEN = frozenset({"SH417", "SH420", "SH421"})
"""What JAX takes and is wrong all the same: a cotangent of another dtype, logs that
cannot be used, and nothing given to any argument."""


class Answer(NamedTuple):
    """What JAX does with a result.

    Attributes:
      known: whether it could be asked.
      error: what it raises, with its sentence; None where it takes the result.
    """

    known: bool
    error: TypeError | ValueError | None


_UNKNOWN = Answer(False, None)
_LONGEST = 2000  # a sentence of JAX may hold a whole pytree, or a whole array


def borne_out(
    rules: FunctionRules, role: str, result: Any, found: list[Finding], answer: Answer
) -> list[Finding]:
    """The findings about a result that JAX bears out, one of them with its sentence.

    What it takes is dropped, but for what is wrong all the same. What it refuses is
    reported, if by no finding of ours then in its own words.
    """
    if not answer.known:
        return found
    if answer.error is None:
        return [f for f in found if f.code in WRONG_THOUGH_TAKEN]
    if not found:
        found = [_refused(rules, role, result)]
    about = (i for i, f in enumerate(found) if f.code not in WRONG_THOUGH_TAKEN)
    index = next(about, 0)
    quoted = found[index]._replace(
        jax_says=str(answer.error),
        stock=type(answer.error),
    )
    return [*found[:index], quoted, *found[index + 1 :]]


def _refused(rules: FunctionRules, role: str, result: Any) -> Finding:
    return rules.finding(
        "SH438",
        role,
        "returns what JAX does not take.",
        got=describe_value(result),
        remedies=("return what the sentence of JAX asks for",),
    )


def _sentence(error: Exception) -> str:
    """What JAX says, without the notes that it adds."""
    says = str(error).partition("\n---")[0].strip()
    return says if len(says) <= _LONGEST else f"{says[:_LONGEST]}…"


# --- results --------------------------------------------------------------------------


def ask_fwd(rules: FunctionRules, result: Any, primal: OutputTypes | None) -> Answer:
    """Give JAX a result of `fwd`; `primal` may be unknown."""
    outputs = _outputs(result, primal)
    rules = dataclasses.replace(rules, nondiff_argnums=())

    def differentiate(fwd: Callable[..., Any]) -> None:
        plain = _custom_vjp(rules, lambda *_: _values(outputs), fwd, rules.bwd)
        _use(plain, list, [_NUMBER], lambda f, leaves: jax.vjp(f, *leaves))

    return _answer(differentiate, result, lambda *_: (_values(outputs), None))


def ask_bwd(
    rules: FunctionRules, result: Any, inputs: Inputs, given: Sequence[Any] = ()
) -> Answer:
    """Give JAX a result of `bwd`, and to accumulators what is `given` to them."""
    argnums = rules.nondiff_argnums
    inputs = dataclasses.replace(inputs, statics=tuple((i, None) for i in argnums))

    def differentiate(bwd: Callable[..., Any]) -> None:
        def fwd(*_: Any) -> Any:
            return _number(), None

        plain = _custom_vjp(rules, lambda *_: _number(), fwd, bwd)
        pull = lambda f, leaves: jax.vjp(f, *leaves)[1]([np.float32(1)])  # noqa: E731
        _use(plain, inputs.arguments, inputs.avals, pull)

    def giving(*args: Any) -> Any:
        accums = tree_util.tree_leaves(args[len(argnums) + 2 :])
        for accum, ct in zip(accums, given, strict=False):
            None if ct is None else accum.accum(ct)
        return result

    def right(*_: Any) -> Any:
        cotangents = None if rules.with_accums else (None,) * inputs.count
        return (cotangents, None) if rules.with_logs else cotangents

    return _answer(differentiate, result, right, giving)


def ask_jvp(rules: JvpRules, result: Any, primal: OutputTypes | None) -> Answer:
    """Give JAX a result of a jvp rule; `primal` may be unknown."""
    outputs = _outputs(result, primal)
    rules = dataclasses.replace(rules, nondiff_argnums=())

    def differentiate(jvp: Callable[..., Any]) -> None:
        plain = _custom_jvp(rules, lambda *_: _values(outputs), jvp)
        _use(plain, list, [_NUMBER], lambda f, leaves: jax.jvp(f, leaves, leaves))

    def right(*_: Any) -> Any:
        tangents = (aval.to_tangent_aval() for aval in outputs.avals)
        values = [
            _jax.zeros_of_float0(aval) if has_no_tangent(aval) else _known([aval])[0]
            for aval in tangents
        ]
        return _values(outputs), tree_util.tree_unflatten(outputs.treedef, values)

    return _answer(differentiate, result, right)


def _answer(
    differentiate: Callable[[Callable[..., Any]], None],
    result: Any,
    right: Callable[..., Any],
    giving: Callable[..., Any] | None = None,
) -> Answer:
    """What JAX does with a result, if it takes one in its place that is right."""
    leaves = tree_util.tree_leaves(result, is_leaf=_is_iterator)
    if any(map(_is_iterator, leaves)):
        return _UNKNOWN  # it would be used up
    if any(isinstance(type_of(leaf), _jax.AbstractRef) for leaf in leaves):
        return _UNKNOWN  # Refs are told apart by identity
    rule = giving or (lambda *_: result)
    error = _raised(lambda: differentiate(rule))
    if error is None:
        return Answer(True, None)
    if not isinstance(error, TypeError | ValueError):
        return _UNKNOWN
    if _raised(lambda: differentiate(right)) is not None:
        return _UNKNOWN
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return Answer(True, kind(_sentence(error)))  # the error itself holds tracers


def _is_iterator(value: Any) -> bool:
    return isinstance(value, Iterator)


# --- calls ----------------------------------------------------------------------------


def says_without_rules(rules: FunctionRules) -> str | None:
    """What JAX says where a function is called before its rules are defined."""
    plain = _of_number(dataclasses.replace(rules, nondiff_argnums=()))
    return _said(lambda: _use(plain, list, [_NUMBER]))


def says_of_static(rules: FunctionRules, tracer: Any) -> str | None:
    """What JAX says of a tracer in a `nondiff_argnums` position."""
    plain = _of_number(dataclasses.replace(rules, nondiff_argnums=(0,)))
    return _said(lambda: _use(plain, lambda leaves: [tracer, *leaves], [_NUMBER]))


def says_of_symbolic_zero(rules: JvpRules) -> str | None:
    """What JAX says of a SymbolicZero from a rule that was not defined for them."""
    zero = _jax.SymbolicZero(_NUMBER.to_tangent_aval())
    rules = dataclasses.replace(rules, nondiff_argnums=())
    plain = _custom_jvp(rules, lambda *_: _number(), lambda *_: (_number(), zero))
    return _said(
        lambda: _use(plain, list, [_NUMBER], lambda f, x: jax.linearize(f, *x))
    )


def _of_number(rules: Any) -> Any:
    if hasattr(rules, "jvp"):
        return _custom_jvp(rules, lambda *_: _number(), rules.jvp)
    return _custom_vjp(rules, lambda *_: _number(), rules.fwd, rules.bwd)


def says_of_no_pair(rules: JvpRules, got: str) -> str | None:
    """What JAX says of a jvp rule that returns what is `got` in words."""
    error = ask_jvp(rules, _Words(got), None).error
    return None if error is None else str(error)


class _Words:
    def __init__(self, words: str):
        self._words = words

    def __repr__(self) -> str:
        return self._words


def _said(use: Callable[[], None]) -> str | None:
    error = _raised(use)
    return None if error is None else _sentence(error)


# --- plain functions ------------------------------------------------------------------

_NUMBER = _jax.typeof(np.float32(0))


def _known(avals: Sequence[Any]) -> list[Any]:
    return _jax_traces.values_of_known_call([], tuple(avals), lambda: None)


def _number() -> Any:
    return _known([_NUMBER])[0]


def _values(outputs: OutputTypes) -> Any:
    return tree_util.tree_unflatten(outputs.treedef, _known(outputs.avals))


def _outputs(result: Any, primal: OutputTypes | None) -> OutputTypes:
    """The types of a function's output: if unknown, those that its rule returns."""
    if primal is None and isinstance(result, tuple | list) and result:
        primal = OutputTypes.of(result[0])
    return primal or OutputTypes(tree_util.tree_structure(0), (_NUMBER,))


def _named(stub: Any, like: Any) -> Any:
    """A function that bears a rule's name and place, and takes any arguments."""
    if stub is None or stub is like:
        return stub
    signature = inspect.signature(stub)
    functools.update_wrapper(stub, like)
    stub.__name__ = _jax.fun_name(like, type(like).__name__)
    stub.__signature__, stub.__wrapped__ = signature, innermost(like)
    return stub


def _custom_vjp(rules: FunctionRules, fun: Any, fwd: Any, bwd: Any) -> Any:
    return make_custom_vjp(
        {
            "fun": _named(fun, rules.fun),
            "nondiff_argnums": rules.nondiff_argnums,
            "fwd": _named(fwd, rules.fwd),
            "bwd": _named(bwd, rules.bwd),
            "symbolic_zeros": rules.symbolic_zeros,
            "optimize_remat": False,
            "with_logs": rules.with_logs,
            "with_accums": rules.with_accums,
            "generic_batching": rules.generic_batching,
        }
    )


def _custom_jvp(rules: JvpRules, fun: Any, jvp: Any) -> Any:
    return make_custom_jvp(
        {
            "fun": _named(fun, rules.fun),
            "nondiff_argnums": rules.nondiff_argnums,
            "jvp": _named(jvp, rules.jvp),
            "symbolic_zeros": rules.symbolic_zeros,
        }
    )


def _use(
    plain: Any,
    arguments: Callable[[Sequence[Any]], list[Any]],
    avals: Sequence[Any],
    differentiate: Callable[[Any, list[Any]], Any] | None = None,
) -> None:
    """Call a plain function in a trace of its own, and differentiate the result."""

    def call(*leaves: Any) -> list[Any]:
        return tree_util.tree_leaves(plain(*arguments(leaves)))

    jaxpr = _jax_traces.trace_to_jaxpr(call, avals, "")
    if differentiate is None:
        return

    def use(*leaves: Any) -> list[Any]:
        differentiate(jaxpr_as_fun(jaxpr), list(leaves))
        return []

    _jax_traces.trace_to_jaxpr(use, avals, "")


def _raised(use: Callable[[], None]) -> Exception | None:
    try:
        use()
    except Exception as error:
        return error
    return None
