"""What an operation is made from: stock JAX, or strict_hijax in its place."""

from typing import Any, NamedTuple

import jax
from jax.experimental.hijax import HiPrim

from strict_hijax import StrictHiPrim, checked_custom_jvp, checked_custom_vjp


class Base(NamedTuple):
    """A base class for primitives, and decorators for functions."""

    prim: Any
    custom_vjp: Any
    custom_jvp: Any


BASES = {
    "stock": Base(HiPrim, jax.custom_vjp, jax.custom_jvp),
    "strict": Base(StrictHiPrim, checked_custom_vjp, checked_custom_jvp),
}
