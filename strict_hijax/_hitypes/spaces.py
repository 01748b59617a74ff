"""Types with one axis more or less, and types of tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from strict_hijax import _jax, _jax_traces
from strict_hijax._raised import in_short
from strict_hijax._types import (
    describe,
    describe_pair,
    describe_value,
    same_type,
    type_of,
)

from .record import TypeChecked, described

_SIZES = (1, 2, 5)


def check_ranks(checked: TypeChecked, ty: Any, specs: Sequence[Any]) -> None:
    has = checked.facts.methods
    if "dec_rank" not in has or "inc_rank" not in has:
        return
    for given in specs:
        for size in _SIZES:
            if not _check_rank(checked, ty, size, given, None):
                return
    if "leading_axis_spec" not in has:
        if not specs:
            checked.unchecked.append("dec_rank, inc_rank: give specs=[...] to try")
        return
    with checked.running("leading_axis_spec"):
        spec = ty.leading_axis_spec()
        for size in _SIZES:
            if not _check_rank(checked, ty, size, spec, _leading):
                return


def _leading(raised: Any) -> Any:
    """How JAX takes the leading axis off again: by the spec of what has it."""
    return raised.leading_axis_spec()


def _check_rank(
    checked: TypeChecked,
    ty: Any,
    size: int,
    spec: Any,
    spec_of: Callable[[Any], Any] | None,
) -> bool:
    """Whether `dec_rank` gives back what `inc_rank` was given, as in scan and vmap."""
    more: Any = None
    with checked.running("inc_rank"):
        more = ty.inc_rank(size, spec)
    if more is None:
        return False
    if not _is_type(more):
        _no_type(checked, "inc_rank", more)
        return False
    with checked.running("dec_rank"):
        again = more.dec_rank(size, spec_of(more) if spec_of else spec)
        if _is_type(again) and same_type(ty, again):
            if size == _SIZES[-1]:
                checked.report("inc_rank", [ty], [more])
                checked.report("dec_rank", [more], [again])
            return True
        expected, got = (
            describe_pair(ty, again)
            if _is_type(again)
            else (describe(ty), describe_value(again))
        )
        checked.find(
            "SH721",
            "dec_rank",
            "has a `dec_rank` that does not undo its `inc_rank`.",
            facts=(
                f"the type: {describe(ty)}",
                f"with {describe_spec(spec)} and size {size}: {describe(more)}",
            ),
            expected=f"{expected}, again",
            got=got,
            remedies=(
                "mend `dec_rank`: take out the axis that `inc_rank` adds",
                "mend `inc_rank`: add the axis at which `dec_rank` takes it out",
            ),
        )
    return False


def describe_spec(spec: Any) -> str:
    text = repr(spec)
    return f"spec {text}" if len(text) <= 60 else f"a {type(spec).__name__}"


# --- tangents -------------------------------------------------------------------------


def check_tangents(checked: TypeChecked, ty: Any) -> None:
    tangent = _related(checked, ty, "to_tangent_aval")
    if tangent is None:
        return
    if not _is_same(checked, tangent, "to_tangent_aval", tangent, "tangents"):
        return
    spaces = [tangent]
    cotangent = _related(checked, ty, "to_ct_aval")
    if cotangent is not None:
        _is_same(checked, tangent, "to_ct_aval", cotangent, "cotangents")
        if not same_type(tangent, cotangent):
            spaces.append(cotangent)
    for space in spaces:
        if isinstance(space, _jax.HiType):
            _check_vspace(checked, space)


def _related(checked: TypeChecked, ty: Any, method: str) -> Any | None:
    """The tangent or cotangent type, or None where there is none to go on with."""
    with checked.running(method):
        given = getattr(ty, method)()
        if not _is_type(given):
            _no_type(checked, method, given)
            return None
        checked.report(method, [ty], [given])
        return given
    return None


def _is_type(given: object) -> bool:
    return isinstance(given, _jax.AbstractValue)


def _no_type(checked: TypeChecked, method: str, given: Any) -> None:
    checked.find(
        "SH722",
        method,
        f"has {'an' if method[0] in 'aeio' else 'a'} `{method}` that gives "
        f"{described(given)}, which is no type.",
        expected="a type: a ShapedArray or a hijax type",
        got=described(given),
        remedies=(
            'return ShapedArray(self.shape, jnp.dtype("float32"))',
            "return self",
        ),
    )


def _is_same(
    checked: TypeChecked, tangent: Any, method: str, expected: Any, what: str
) -> bool:
    """JAX differentiates what is differentiated: a tangent's own type is asked for."""
    with checked.running(method):
        got = getattr(tangent, method)()
        if _is_type(got) and same_type(expected, got):
            return True
        pair = describe_pair(expected, got) if _is_type(got) else None
        checked.find(
            "SH723",
            method,
            f"has tangents, {describe(tangent)}, to which `{method}` gives other "
            f"{what} than to the type.",
            facts=(f"the type: {describe(checked.ty)}",),
            expected=f"{pair[0] if pair else describe(expected)}, as of the type",
            got=f"{pair[1] if pair else described(got)}, as of its tangents",
            remedies=(
                f"mend `{method}`: the type and its tangents must agree",
                "mend `to_tangent_aval`: its tangents may be a type of their own",
            ),
        )
        return False
    return True


def _check_vspace(checked: TypeChecked, space: Any) -> None:
    with checked.running("vspace_zero"):
        zero = _types_made(space, lambda: space.vspace_zero(), [])
        _check_member(checked, space, "vspace_zero", zero)
    with checked.running("vspace_add"):
        total = _sum(checked, space)
        _check_member(checked, space, "vspace_add", total)


def _sum(checked: TypeChecked, space: Any) -> Any:
    """What `vspace_add` gives: of tracers as under jit, or of values as eagerly."""
    try:
        return _types_made(space, space.vspace_add, [space, space])
    except NotImplementedError:
        raise
    except Exception as error:
        lo_types = list(space.lo_ty())
        count = len(lo_types)

        def add(*lowered: Any) -> Any:
            x, y = lowered[:count], lowered[count:]
            return space.vspace_add(space.raise_val(*x), space.raise_val(*y))

        total = _types_made(space, add, [*lo_types, *lo_types])
        checked.unchecked.append(f"vspace_add under jit: {in_short(error)}")
        return total


def _types_made(space: Any, make: Callable[..., Any], in_avals: list[Any]) -> Any:
    """What a function makes of values of some types, its type, and its wrong parts."""
    made: list[Any] = []

    def run(*args: Any) -> list[Any]:
        value = make(*args)
        made.extend((value, type_of(value), _wrong_parts(space, value)))
        return []

    _jax_traces.trace_to_jaxpr(run, in_avals, "vspace")
    return made


def _wrong_parts(space: Any, value: Any) -> tuple[str, str] | None:
    """What a value should be lowered to, and is; `typeof` need not look at that."""
    if isinstance(value, _jax.Tracer):
        return None
    try:
        expected, parts = list(space.lo_ty()), list(space.lower_val(value))
    except Exception:  # there are no such methods, or it is no value of theirs
        return None
    got = list(map(type_of, parts))
    if len(got) == len(expected) and all(
        aval is not None and same_type(lo, aval)
        for lo, aval in zip(expected, got, strict=True)
    ):
        return None
    return ", ".join(map(describe, expected)), ", ".join(map(describe_value, parts))


def _check_member(checked: TypeChecked, space: Any, method: str, made: Any) -> None:
    value, got, wrong = made
    fits = got is not None and same_type(space, got)
    if fits and wrong is None:
        checked.report(method, [] if method == "vspace_zero" else [space] * 2, [got])
        return
    expected, found = describe(space), describe_value(value)
    if fits and wrong is not None:
        expected, found = wrong
    elif got is not None:
        expected, found = describe_pair(space, got)
    checked.find(
        "SH724",
        method,
        f"has tangents whose `{method}` gives a value of another type."
        if space is not checked.ty
        else f"has a `{method}` that gives a value of another type.",
        facts=(f"the type of the tangents: {describe(space)}",),
        expected=expected,
        got=found,
        remedies=(f"mend `{method}`: it must give a value of this type",),
    )
