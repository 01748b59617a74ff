"""A hijax type that is right, for tests to spoil in one place."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax.experimental.hijax import MappingSpec, ShapedArray, register_hitype

from strict_hijax import StrictHiType


def array(shape: Any, dtype: str = "float32") -> Any:
    return ShapedArray(tuple(shape), jnp.dtype(dtype))


@dataclasses.dataclass(frozen=True)
class Quantized:
    """int8 integers and a scale: no pytree."""

    integers: Any
    scale: Any


@dataclasses.dataclass(frozen=True)
class Axis(MappingSpec):
    """An axis of the integers; the scale is shared along it or not."""

    of_integers: int


Q = Quantized(jnp.array([1, 2, 3], jnp.int8), jnp.float32(2.0))


def body(**methods: Any) -> dict[str, Any]:
    """The class body of a right type, with some methods replaced; None drops one."""
    right: dict[str, Any] = {
        "__annotations__": {"shape": "tuple[int, ...]"},
        "__module__": __name__,
        "lo_ty": lambda self: [array(self.shape, "int8"), array(())],
        "lower_val": lambda self, value: [value.integers, value.scale],
        "raise_val": lambda self, integers, scale: Quantized(integers, scale),
        "to_tangent_aval": lambda self: array(self.shape),
        "str_short": lambda self, *_, **__: f"quantized{list(self.shape)}",
    }
    return {k: v for k, v in (right | methods).items() if v is not None}


def make(base: Any = StrictHiType, *, decorate: Any = None, **methods: Any) -> Any:
    """A type of `Quantized` values, right but for the methods that are given."""
    decorate = decorate or dataclasses.dataclass(frozen=True)
    cls = decorate(type(base)("QuantizedType", (base,), body(**methods)))
    register_hitype(Quantized, lambda value: cls(value.integers.shape))
    return cls
