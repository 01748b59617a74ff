"""The checked copy of a primitive: what JAX holds in place of the user's instance.

`StrictHiPrim.__call__` binds a copy of the user's instance, of the same class. Its
`__dict__` holds what the instance's holds and, for each rule that the user wrote, a
method which calls that rule *on the user's instance* and holds the result to its
contract. So what JAX calls is checked, once; a rule that the user calls as a helper
(`self.expand(part)`, `super().vjp_bwd(...)`) is not, since it runs on the instance.
Rules that JAX derives or that are its own run on the copy, and what they call is
checked in turn. JAX recognises rules by what the class has
(`type(prim).vjp_bwd is HiPrim.vjp_bwd`), and that is left as the user wrote it.

A rule that is a property, or any other data descriptor, wins over what stands on an
instance: JAX calls what it gives, unchecked. `check` and `examples` hold it to its
contract all the same.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from jax import tree_util

from . import _jax, _jax_traces
from ._accumulators import Watches
from ._definition import ClassFacts, facts_of_instance, has_no_rule
from ._errors import Finding
from ._ignoring import raise_findings, without_ignored
from ._results.batching import batch_findings, dims_findings
from ._results.cotangents import (
    accumulator_findings,
    cotangent_finding,
    cotangents_and_logs_findings,
    cotangents_findings,
    logs_findings,
)
from ._results.dce import dce_findings
from ._results.effects import effects_since
from ._results.outputs import (
    flags_announced_by_lin,
    forward_findings,
    output_findings,
    output_fits,
)
from ._results.remat import remat_findings
from ._results.tangents import announced_findings, jvp_findings, tangents_findings
from ._rules import RULES, Contract, derived_half

_set = object.__setattr__
_new = object.__new__
_equations_so_far = _jax_traces.equations_so_far
_bound = types.MethodType

_ORIGINAL = "_strict_hijax_original"


class Checks(NamedTuple):
    """What the checked copies of a class's instances have in common.

    Attributes:
      rules: for each rule that the user wrote, what JAX calls in its place.
      linear: the same for `lin` and `linearized`, which are told apart from the others
        since they have something to share: a `Linearization`.
      slots: what the instances keep outside of their `__dict__`.
    """

    rules: tuple[tuple[str, Callable[..., Any]], ...]
    linear: tuple[tuple[str, Callable[..., Any]], ...]
    slots: tuple[str, ...]


class Linearization:
    """What `linearized` is held to besides its result: which outputs vary.

    Attributes:
      original: the user's instance.
      announced: a flag for each output, by the last call of `lin`.
    """

    __slots__ = ("announced", "original")

    def __init__(self, original: Any) -> None:
        self.original = original
        self.announced: list[bool] | None = None


def checks_of(facts: ClassFacts, ignored: frozenset[str]) -> Checks:
    """How the rules of a class are checked where JAX calls them."""
    rules = {
        name: _method(facts, ignored, name)
        for name, value in facts.rules.items()
        if derived_half(value) is None
    }
    linear = [(name, rules.pop(name)) for name in _LINEAR if name in rules]
    slots = (
        name
        for base in facts.cls.__mro__
        for name, value in vars(base).items()
        if inspect.ismemberdescriptor(value)
    )
    return Checks(tuple(rules.items()), tuple(linear), tuple(slots))


def _method(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    value = facts.rules[name]
    method = _MAKERS[RULES[name].contract](facts, ignored, name)
    method.__name__ = name
    method.__qualname__ = f"{facts.cls.__qualname__}.{name}"
    method.__wrapped__ = getattr(value, "__func__", value)
    return method


def checked_copy(prim: Any, checks: Checks) -> Any:
    """What JAX holds in place of an instance."""
    copy: Any = _new(type(prim))
    held = prim.__dict__.copy()
    for name, method in checks.rules:
        held[name] = _bound(method, prim)
    if checks.linear:
        shared = Linearization(prim)
        for name, method in checks.linear:
            held[name] = _bound(method, shared)
    held[_ORIGINAL] = prim
    _set(copy, "__dict__", held)
    for slot in checks.slots:
        if hasattr(prim, slot):
            _set(copy, slot, getattr(prim, slot))
    return copy


def is_checked(prim: Any) -> bool:
    """Whether this is what JAX holds, and no instance of the user's making."""
    return _ORIGINAL in prim.__dict__


def original_of(prim: Any) -> Any:
    """The user's instance, of what JAX holds in its place; any other as it is."""
    return vars(prim).get(_ORIGINAL, prim)


def rule_of(copy: Any, name: str) -> Any:
    """A rule of a checked copy, as it is held to its contract."""
    return vars(copy).get(name) or getattr(copy, name)


def checked(prim: Any) -> Any:
    """The checked copy of a strict instance; anything else as it is."""
    is_strict = hasattr(type(prim), "_checks_of_rules")
    return strict_copy(prim) if is_strict and not is_checked(prim) else prim


def strict_copy(prim: Any) -> Any:
    """The checked copy of an instance of a strict class."""
    cls = type(prim)
    checks = cls._checks or cls._checks_of_rules()
    if not has_no_rule(prim.__dict__):
        facts = facts_of_instance(cls._facts, prim)
        if facts is not cls._facts:
            checks = checks_of(facts, cls._ignored)
    return checked_copy(prim, checks)


# --- one maker for each kind of rule --------------------------------------------------

_Findings = Callable[[ClassFacts, Any, str, Any], list[Finding]]


def _expand(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def expand(original: Any, /, *args: Any) -> Any:
        equations = _equations_so_far()
        out = original.expand(*args)
        if not output_fits(original, out):
            raise_findings(output_findings(facts, original, name, out), ignored)
        if _equations_so_far() != equations:  # else it runs eagerly
            found = effects_since(facts, original, name, equations)
            raise_findings(found, ignored)
        return out

    return expand


def _returning(findings: _Findings) -> Callable[..., Any]:
    def maker(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
        def rule(original: Any, /, *args: Any) -> Any:
            equations = _jax_traces.equations_so_far()
            result = getattr(original, name)(*args)
            if found := [
                *findings(facts, original, name, result),
                *effects_since(facts, original, name, equations),
            ]:
                raise_findings(found, ignored)
            return result

        return rule

    return maker


def _forward(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    rule = _returning(forward_findings)(facts, ignored, name)
    if name != "lin":
        return rule

    def lin(shared: Linearization, /, nzs_in: Any, *args: Any) -> Any:
        result = rule(shared.original, nzs_in, *args)
        flags = flags_announced_by_lin(shared.original, nzs_in, args, result)
        shared.announced = flags
        return result

    return lin


def _linear(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    rule = _returning(tangents_findings)(facts, ignored, name)

    def linearized(shared: Linearization, /, *args: Any) -> Any:
        prim = shared.original
        tangents = rule(prim, *args)
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if _jax.is_jaxs_linearization(caller):
            found = announced_findings(facts, prim, shared.announced, tangents)
            raise_findings(found, ignored)
        return tangents

    return linearized


def _accumulating(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def lets_pass(aval: Any, cotangent: Any) -> bool:
        found = cotangent_finding(facts, name, "", aval, cotangent, None)
        return found is None or not without_ignored([found], ignored)

    def vjp_bwd(original: Any, /, *args: Any) -> Any:
        n = len(original.in_avals)
        leading, accums = args[: len(args) - n], args[len(args) - n :]
        watches = Watches(lets_pass)
        watched = tree_util.tree_map(watches.stand_in, accums)
        equations = _jax_traces.equations_so_far()
        result = getattr(original, name)(*leading, *watched)
        returned = logs_findings(facts, name, result)
        given = accumulator_findings(facts, original, name, watches, leading[-1])
        if any(finding.code == "SH309" for finding in returned):  # what else to expect
            given = [finding for finding in given if finding.code != "SH311"]
        effects = effects_since(facts, original, name, equations)
        raise_findings([*returned, *given, *effects], ignored)
        return result

    return vjp_bwd


def _batched(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def batch(original: Any, axis_data: Any, args: Any, dims: Any) -> Any:
        result = getattr(original, name)(axis_data, args, dims)
        found = batch_findings(facts, original, name, result, axis_data.size)
        raise_findings(found, ignored)
        return result

    return batch


def _reduced(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def dce(original: Any, used_outs: Any, /, *live_ins: Any) -> Any:
        result = getattr(original, name)(used_outs, *live_ins)
        found = dce_findings(facts, original, name, result, used_outs)
        raise_findings(found, ignored)
        if not isinstance(result, tuple | list) or len(result) != 3:
            return result  # where the fault is ignored
        used_ins, produced_outs, prim = result
        return used_ins, produced_outs, checked(prim)

    return dce


def _rematerialized(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def remat(original: Any, /, *args: Any) -> Any:
        result = getattr(original, name)(*args)
        raise_findings(remat_findings(facts, original, name, result), ignored)
        if not isinstance(result, tuple | list) or not callable(result[-1]):
            return result  # where the fault is ignored
        *before, rem = result

        def checked_rem(*args: Any) -> Any:
            out = rem(*args)
            raise_findings(output_findings(facts, original, name, out), ignored)
            return out

        return (*before, checked_rem)

    return remat


_LINEAR = ("lin", "linearized")

_MAKERS: dict[Contract, Callable[..., Any]] = {
    "output": _expand,
    "forward": _forward,
    "accumulated": _accumulating,
    "cotangents": _returning(cotangents_findings),
    "cotangents and logs": _returning(cotangents_and_logs_findings),
    "output and tangents": _returning(jvp_findings),
    "tangents": _linear,
    "batched": _batched,
    "batched dims": _returning(dims_findings),
    "reduced": _reduced,
    "rematerialized": _rematerialized,
}
