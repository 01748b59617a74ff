"""The type that a jaxtyping annotation stands for, read without importing jaxtyping.

Of an annotation only its public attributes `dtypes` and `dim_str` are used. One that
covers several dtypes stands for the usual one, such as float32 of `Float`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from strict_hijax import _jax_traces

_USUAL = ("float32", "int32", "complex64", "uint32", "bool")
_NUMBERS: dict[Any, Any] = {float: 1.0, int: 1, bool: True, complex: 1j}


class Uncovered(Exception):
    """An annotation that names no type; the message goes on after the parameter.

    Attributes:
      missing: the axis that `dims` lacks, where that is the reason, with a size.
    """

    missing: tuple[str, Any] | None = None


def spec_of(annotation: Any, dims: Mapping[str, Any]) -> Any:
    """A value or spec of the type that an annotation stands for.

    Raises:
      Uncovered: it is no jaxtyping type, or `dims` lacks a name.
    """
    if annotation is None:
        raise Uncovered("has no annotation")
    if annotation in _NUMBERS:
        return _NUMBERS[annotation]
    if isinstance(getattr(annotation, "dim_str", None), str):
        return _array_spec(annotation, dims)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _first_of(args, dims)
    if origin is tuple and Ellipsis not in args:
        return tuple(spec_of(arg, dims) for arg in args)
    if origin is typing.Annotated:
        return spec_of(args[0], dims)
    if isinstance(annotation, type) and hasattr(annotation, "_fields"):
        hints = typing.get_type_hints(annotation)
        fields: tuple[str, ...] = annotation._fields  # pyright: ignore[reportAttributeAccessIssue]
        return annotation(*(spec_of(hints.get(name), dims) for name in fields))
    name = getattr(annotation, "__name__", repr(annotation))
    raise Uncovered(f"is annotated with {name}, which is no jaxtyping type")


def _first_of(members: tuple[Any, ...], dims: Mapping[str, Any]) -> Any:
    """The first member of a union that stands for an array."""
    for member in members:
        if hasattr(member, "dim_str"):
            return spec_of(member, dims)
    raise Uncovered("is annotated with a union of no jaxtyping types")


def _array_spec(annotation: Any, dims: Mapping[str, Any]) -> jax.ShapeDtypeStruct:
    shape: list[int] = []
    for token in annotation.dim_str.split():
        shape += _sizes(token, dims)
    return jax.ShapeDtypeStruct(tuple(shape), _dtype(annotation.dtypes))


def _dtype(dtypes: Any) -> Any:
    if not isinstance(dtypes, list | tuple):
        return np.dtype("float32")  # of any dtype
    names = [str(name) for name in dtypes]
    if "prng_key" in names:
        with _jax_traces.clean_context():
            return jax.eval_shape(jax.random.key, 0).dtype
    name = next((usual for usual in _USUAL if usual in names), names[0])
    try:
        return jax.numpy.dtype(name)
    except TypeError:
        raise Uncovered(f"has the dtype {name}, which JAX does not have") from None


# --- axes -----------------------------------------------------------------------------


def _sizes(token: str, dims: Mapping[str, Any]) -> tuple[int, ...]:
    """The sizes of one entry of a shape, such as `b`, `*batch`, `n=4` or `2*b`."""
    variadic = "*" in token[:2] and token.lstrip("#?")[:1] == "*"
    name = token.lstrip("#?*").rpartition("=")[2]
    if name == "..." or variadic:
        return _as_sizes(_lookup(name, dims, (1,)))
    if name.isdecimal():
        return (int(name),)
    if name.isidentifier():
        return _as_sizes(_lookup(name, dims))
    try:  # as jaxtyping does
        return (int(eval(name, {"__builtins__": {}}, _Sizes(dims))),)
    except Uncovered:
        raise
    except Exception:
        raise Uncovered(f"has the axis {token!r}, which cannot be computed") from None


class _Sizes(dict[str, Any]):
    """Sizes by name; one that is not there is told."""

    def __missing__(self, name: str) -> Any:
        return _lookup(name, self)


def _as_sizes(size: Any) -> tuple[int, ...]:
    return size if isinstance(size, tuple) else (size,)


def _lookup(name: str, dims: Mapping[str, Any], size: Any = 1) -> Any:
    if name in dims:
        return dims[name]
    uncovered = Uncovered(f"has the axis {name!r}, which `dims` does not have")
    uncovered.missing = name, size
    raise uncovered


def missing_axes(
    annotations: Iterable[Any], dims: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """All axes that annotations name and `dims` lacks, each with a size that it can be.

    An axis such as `*batch` has a tuple of sizes.
    """
    known = dict(dims)
    for annotation in annotations:
        while True:
            try:
                spec_of(annotation, known)
            except Uncovered as uncovered:
                if uncovered.missing is not None:
                    yield uncovered.missing
                    known |= [uncovered.missing]
                    continue
            break
