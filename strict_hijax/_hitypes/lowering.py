"""Values of a type lowered to arrays and raised again, against `lo_ty`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from strict_hijax import _jax, _jax_traces
from strict_hijax._report import describe_all
from strict_hijax._signatures import Arity, arity_of
from strict_hijax._types import (
    describe,
    describe_pair,
    describe_value,
    no_type_says,
    same_type,
    type_of,
)

from .record import Stop, TypeChecked, described


def check_lo_ty(checked: TypeChecked, ty: Any) -> list[Any] | None:
    with checked.running("lo_ty"):
        given = ty.lo_ty()
        if not isinstance(given, list | tuple):
            wrong, got = True, described(given)
        else:
            bad = [(i, t) for i, t in enumerate(given) if not _is_lo_type(t)]
            wrong = bool(bad)
            got = f"{described(bad[0][1])} at [{bad[0][0]}]" if bad else ""
        if wrong:
            checked.find(
                "SH711",
                "lo_ty",
                "has a `lo_ty` that gives no list of types of arrays.",
                expected="a list of types, such as ShapedArray",
                got=got,
                remedies=('return [ShapedArray(self.shape, jnp.dtype("float32"))]',),
            )
            raise Stop
        checked.report("lo_ty", (), given)
        return list(given)
    return None


def _is_lo_type(ty: Any) -> bool:
    return isinstance(ty, _jax.AbstractValue) and not isinstance(ty, _jax.HiType)


def check_abstract_round_trip(
    checked: TypeChecked, ty: Any, lo_types: list[Any]
) -> None:
    def round_trip(*lowered: Any) -> list[Any]:
        value = _raise(checked, ty, lowered)
        with checked.running("lower_val"):
            _lower(checked, ty, value, lo_types)
        return []  # a Ref among them cannot be returned

    _jax_traces.trace_to_jaxpr(round_trip, lo_types, "raise_val")
    if not checked.findings:
        checked.report("lower_val", [ty], lo_types)
        checked.report("raise_val", lo_types, [ty])


def _raise(checked: TypeChecked, ty: Any, lowered: Sequence[Any]) -> Any:
    """The value that `raise_val` makes, which must be one of the type."""
    arity = arity_of(checked.facts.methods.get("raise_val"))
    if arity is not None and not arity.takes(len(lowered)):
        s = "" if len(lowered) == 1 else "s"
        checked.find(
            "SH712",
            "raise_val",
            f"has a `raise_val` that takes {arity}, where `lo_ty` gives "
            f"{len(lowered)} type{s}.",
            expected=f"{len(lowered)} value{s}: {', '.join(describe_all(ty.lo_ty()))}",
            got=f"raise_val{arity.written}",
            facts=(f"the type: {describe(ty)}", _ONE_BY_ONE),
            remedies=("def raise_val(self, *lo_vals): ...",),
        )
        raise Stop
    value = ty.raise_val(*lowered)
    got = type_of(value)
    if got is None:
        kind = type(value).__name__
        checked.find(
            "SH713",
            "raise_val",
            f"has a `raise_val` that gives {describe_value(value)}, which is no value "
            "that JAX knows.",
            expected=f"a value of type {describe(ty)}",
            got=describe_value(value),
            jax_says=no_type_says(value) or None,
            remedies=("return ...   # at the end of raise_val",)
            if value is None
            else (f"register_hitype({kind}, lambda value: {type(ty).__name__}(...))",),
        )
        raise Stop
    if not same_type(ty, got):
        expected, found = describe_pair(ty, got)
        checked.find(
            "SH713",
            "raise_val",
            "has a `raise_val` that gives a value of another type.",
            expected=expected,
            got=found,
            facts=(f"the type: {describe(ty)}", *_one_by_one(arity)),
            remedies=(
                "mend `raise_val`: what it makes must have this type again",
                "mend the function that `register_hitype` was given: it made this type",
            ),
        )
        raise Stop
    return value


_ONE_BY_ONE = "The values are passed one by one, raise_val(*values), and not as a list."


def _one_by_one(arity: Arity | None) -> tuple[str, ...]:
    """A word on how values are passed, where `raise_val` may have taken one for all."""
    return () if arity is None or arity.most != 1 else (_ONE_BY_ONE,)


def _lower(
    checked: TypeChecked, ty: Any, value: Any, lo_types: list[Any] | None
) -> Sequence[Any]:
    """The values that `lower_val` gives, which must be of the types of `lo_ty`."""
    lowered = ty.lower_val(value)
    if not isinstance(lowered, list | tuple):
        checked.find(
            "SH712",
            "lower_val",
            f"has a `lower_val` that gives {describe_value(lowered)} and no list.",
            expected=f"a list of {_count(lo_types)}",
            got=describe_value(lowered),
            remedies=("return [value.x, value.y]   # a list, also for one",),
        )
        raise Stop
    if lo_types is None:
        return lowered
    if len(lowered) != len(lo_types):
        checked.find(
            "SH712",
            "lower_val",
            f"has a `lower_val` that gives {_of(lowered, 'value')} and a `lo_ty` that "
            f"gives {_of(lo_types, 'type')}.",
            expected=f"one value for each type: {', '.join(describe_all(lo_types))}",
            got=", ".join(map(describe_value, lowered)) or "nothing",
            remedies=(
                "mend `lower_val`: one value for each type of `lo_ty`",
                "mend `lo_ty`: one type for each value of `lower_val`",
            ),
        )
        raise Stop
    for index, (part, wanted) in enumerate(zip(lowered, lo_types, strict=True)):
        aval = type_of(part)
        if aval is None or not same_type(aval, wanted):
            expected, got = describe(wanted), describe_value(part)
            if aval is not None:
                expected, got = describe_pair(wanted, aval)
            checked.find(
                "SH712",
                "lower_val",
                f"has a `lower_val` whose [{index}] is not what `lo_ty` says.",
                path=f"[{index}]",
                expected=expected,
                got=got,
                remedies=(
                    f"mend `lower_val`: [{index}] must be {expected}",
                    f"mend `lo_ty`: [{index}] is {got}",
                ),
            )
            raise Stop
    return lowered


def _of(items: Sequence[Any], noun: str) -> str:
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"


def _count(lo_types: list[Any] | None) -> str:
    if lo_types is None:
        return "arrays"
    return f"{len(lo_types)}: {', '.join(describe_all(lo_types))}"


def check_value(
    checked: TypeChecked, ty: Any, value: Any, lo_types: list[Any] | None
) -> None:
    got = type_of(value)
    kind = type(value).__name__
    unknown = got is None and type(value).__module__ != "builtins"
    if got is None or not same_type(ty, got):
        checked.find(
            "SH716",
            "lower_val",
            f"is checked with a value of a class that JAX does not know, {kind}."
            if unknown
            else "is checked with a value of another type.",
            location=checked.facts.location,
            expected=describe(ty),
            got=describe_value(value),
            jax_says=(no_type_says(value) or None) if got is None else None,
            remedies=("check(jax.typeof(value), value)",)
            if not unknown
            else (f"register_hitype({kind}, lambda value: {type(ty).__name__}(...))",),
        )
        raise Stop
    lowered = _lower(checked, ty, value, lo_types)
    if lo_types is None:
        return
    again = _lower(checked, ty, _raise(checked, ty, lowered), lo_types)
    for index, (before, after) in enumerate(zip(lowered, again, strict=True)):
        bits = _bits(before), _bits(after)
        if None in bits:
            checked.unchecked.append(f"value at [{index}]: it is not concrete here")
        elif bits[0] != bits[1]:
            checked.find(
                "SH714",
                "raise_val",
                f"has values that change when lowered and raised: at [{index}].",
                path=f"[{index}]",
                expected=f"{_shown(before)}, as `lower_val` gave",
                got=f"{_shown(after)}, after `raise_val` and `lower_val`",
                remedies=(
                    "mend `raise_val`: it must keep what it is given",
                    "mend `lower_val`: it must not compute",
                ),
            )
            raise Stop
    checked.report("lower_val", [ty], lo_types)
    checked.report("raise_val", lo_types, [ty])


def _bits(value: Any) -> bytes | None:
    """The bytes of a concrete array, or None."""
    if isinstance(value, _jax.Tracer | _jax.Ref):
        return None
    try:
        if _is_key(value):
            value = jax.random.key_data(value)
        return np.asarray(value).tobytes()
    except Exception:  # one that is not wholly on this host, or was donated
        return None


def _is_key(value: Any) -> bool:
    dtype: Any = getattr(value, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def _shown(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
