"""The checked twin of a primitive: what JAX holds in place of the user's instance.

`StrictHiPrim.__call__` binds a twin. Its class derives from the user's and has, for
each rule that the user wrote, a method which calls that rule *on the user's
instance* and holds the result to its contract. So what JAX calls is checked, once; a
rule that the user calls as a helper (`self.expand(part)`, `super().vjp_bwd(...)`) is
not, since it runs on the instance. Rules that JAX derives or that are its own run on
the twin, and what they call is checked in turn. JAX recognises rules by identity
(`type(prim).vjp_bwd is HiPrim.vjp_bwd`): those are inherited, never replaced.

A twin shares its instance's `__dict__`, is equal to it, and looks like it in jaxprs.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
from typing import Any

from jax import tree_util

from . import _jax
from ._accumulators import Watches
from ._definition import ClassFacts
from ._errors import Finding, raise_findings, without_ignored
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


class Twin:
    """Marks the class of a twin, and keeps its making out of `__init_subclass__`."""

    __slots__ = ()
    _original: Any
    _announced: list[bool] | None  # by the last call of `lin`: which outputs vary

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass  # a twin is no subclass that the user's bases should hear of


def twin_of(prim: Any, twin_class: type) -> Any:
    """The twin of an instance."""
    twin: Any = _new(twin_class)
    _set(twin, "__dict__", prim.__dict__)
    _set(twin, "_original", prim)
    _set(twin, "_announced", None)
    return twin


def make_twin_class(facts: ClassFacts, ignored: frozenset[str]) -> type:
    """The class of the twins of a class's instances."""
    body: dict[str, Any] = {
        "__slots__": ("_announced", "_original"),
        "__module__": facts.cls.__module__,
        "__qualname__": facts.cls.__qualname__,
        "__doc__": facts.cls.__doc__,
        "__eq__": _equal,
        "__hash__": _hash,
        "__getattr__": _getattr,
        "__reduce_ex__": _reduce,
    }
    for name, value in facts.rules.items():
        if derived_half(value) is None:
            method = _MAKERS[RULES[name].contract](facts, ignored, name)
            method.__name__ = name
            method.__qualname__ = f"{facts.cls.__qualname__}.{name}"
            method.__wrapped__ = getattr(facts.cls, name)
            body[name] = method
    metaclass: Any = type(facts.cls)
    # Not the user's metaclass's own `__new__`: it should not hear of twins either.
    make = abc.ABCMeta if issubclass(metaclass, abc.ABCMeta) else type
    return make.__new__(metaclass, facts.cls.__name__, (Twin, facts.cls), body)


def checked(prim: Any) -> Any:
    """The twin of a strict instance; anything else as it is."""
    if isinstance(prim, Twin) or not hasattr(type(prim), "_twin_class"):
        return prim
    return strict_twin(prim)


def strict_twin(prim: Any) -> Any:
    """The twin of an instance of a strict class, whose twins' class is made once."""
    cls = type(prim)
    if cls._twin_class is None:
        cls._twin_class = make_twin_class(cls._facts, cls._ignored)
    return twin_of(prim, cls._twin_class)


def _equal(self: Any, other: Any) -> Any:
    return self._original == getattr(other, "_original", other)


def _hash(self: Any) -> int:
    return hash(self._original)


def _getattr(self: Any, name: str) -> Any:
    return getattr(self._original, name)  # what the user's class keeps in slots


def _reduce(self: Any, protocol: Any) -> Any:
    return _itself, (self._original,)


def _itself(prim: Any) -> Any:
    return prim


# --- one maker for each kind of rule --------------------------------------------------

_Findings = Callable[[ClassFacts, Any, str, Any], list[Finding]]


def _expand(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def expand(self: Any, /, *args: Any) -> Any:
        original, equations = self._original, _jax.equations_so_far()
        out = original.expand(*args)
        if not output_fits(original, out):
            raise_findings(output_findings(facts, original, name, out), ignored)
        if found := effects_since(facts, original, name, equations):
            raise_findings(found, ignored)
        return out

    return expand


def _returning(findings: _Findings) -> Callable[..., Any]:
    def maker(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
        def rule(self: Any, /, *args: Any) -> Any:
            original, equations = self._original, _jax.equations_so_far()
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

    def lin(self: Any, /, nzs_in: Any, *args: Any) -> Any:
        result = rule(self, nzs_in, *args)
        flags = flags_announced_by_lin(self._original, nzs_in, args, result)
        _set(self, "_announced", flags)
        return result

    return lin


def _linear(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    rule = _returning(tangents_findings)(facts, ignored, name)

    def linearized(self: Any, /, *args: Any) -> Any:
        tangents = rule(self, *args)
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if _jax.is_jaxs_linearization(caller):
            found = announced_findings(facts, self, self._announced, tangents)
            raise_findings(found, ignored)
        return tangents

    return linearized


def _accumulating(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def lets_pass(aval: Any, cotangent: Any) -> bool:
        found = cotangent_finding(facts, name, "", aval, cotangent, None)
        return found is None or not without_ignored([found], ignored)

    def vjp_bwd(self: Any, /, *args: Any) -> Any:
        original = self._original
        n = len(original.in_avals)
        leading, accums = args[: len(args) - n], args[len(args) - n :]
        watches = Watches(lets_pass)
        watched = tree_util.tree_map(watches.stand_in, accums)
        equations = _jax.equations_so_far()
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
    def batch(self: Any, axis_data: Any, args: Any, dims: Any) -> Any:
        original = self._original
        result = getattr(original, name)(axis_data, args, dims)
        found = batch_findings(facts, original, name, result, axis_data, dims)
        raise_findings(found, ignored)
        return result

    return batch


def _reduced(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def dce(self: Any, used_outs: Any, /, *live_ins: Any) -> Any:
        original = self._original
        result = getattr(original, name)(used_outs, *live_ins)
        found = dce_findings(facts, original, name, result, used_outs)
        raise_findings(found, ignored)
        if not isinstance(result, tuple | list) or len(result) != 3:
            return result  # where the fault is ignored
        used_ins, produced_outs, prim = result
        return used_ins, produced_outs, self if prim is original else checked(prim)

    return dce


def _rematerialized(facts: ClassFacts, ignored: frozenset[str], name: str) -> Any:
    def remat(self: Any, /, *args: Any) -> Any:
        original = self._original
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
