"""Hijax types as people write them, with annotations and without."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.hijax import HiType, ShapedArray, register_hitype

from strict_hijax import CheckReport, StrictHiType, check


@dataclass(frozen=True)
class Box:
    content: jax.Array


@dataclass(frozen=True)
class BoxType(StrictHiType):
    shape: tuple[int, ...]

    def lo_ty(self) -> list[ShapedArray]:
        return [ShapedArray(self.shape, jnp.dtype("float32"))]

    def lower_val(self, box: Box) -> list[jax.Array]:
        return [box.content]

    def raise_val(self, content: jax.Array) -> Box:
        return Box(content)

    def to_tangent_aval(self) -> ShapedArray:
        return ShapedArray(self.shape, jnp.dtype("float32"))

    def str_short(self, *args: Any, **kwargs: Any) -> str:
        return f"box{list(self.shape)}"


class Unannotated(StrictHiType, supports=("jit", "vmap"), ignore=("SH721",)):
    def __init__(self, shape):
        self.shape = shape

    def __eq__(self, other):
        return isinstance(other, Unannotated) and self.shape == other.shape

    def __hash__(self):
        return hash(self.shape)

    def lo_ty(self):
        return [ShapedArray(self.shape, jnp.dtype("float32"))]

    def lower_val(self, box):
        return [box.content]

    def raise_val(self, *parts):
        return Box(*parts)

    def inc_rank(self, size, spec):
        return Unannotated((size, *self.shape))

    def dec_rank(self, size, spec):
        return Unannotated(self.shape[1:])


class Vector(StrictHiType, abstract=True):
    def to_tangent_aval(self):
        return self

    def vspace_zero(self):
        return Box(jnp.zeros(3))

    def vspace_add(self, x, y):
        return Box(x.content + y.content)


def box_type(box: Box) -> HiType:
    return BoxType(box.content.shape)


register_hitype(Box, box_type)


def use(box: Box) -> CheckReport:
    check(BoxType((3,)))
    return check(BoxType((3,)), box, specs=[0])
