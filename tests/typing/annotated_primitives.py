# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false
# mypy: disallow-untyped-defs, disallow-incomplete-defs
"""Primitives of a code base that annotates everything.

What pyright does not know here is what JAX itself leaves without annotation.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.hijax import GradAccum, ShapedArray, vjp_from_jvp

from strict_hijax import StrictHiPrim


class Sin(StrictHiPrim, supports=("grad", "vmap")):
    def __init__(self, aval: ShapedArray) -> None:
        self.in_avals = (aval,)
        self.out_aval = aval
        self.params = {}
        super().__init__()

    def expand(self, x: Array) -> Array:
        return jnp.sin(x)

    def vjp_fwd(self, nzs_in: tuple[bool, ...], x: Array) -> tuple[Array, Array]:
        return self(x), jnp.cos(x)

    def vjp_bwd(self, res: Array, g: Array, acc: GradAccum) -> None:
        acc.accum(res * g)

    def batch(
        self, axis_data: Any, args: Sequence[Array], dims: Sequence[int | None]
    ) -> tuple[Array, int | None]:
        (x,), (d,) = args, dims
        return self(x), d

    @classmethod
    def examples(cls) -> Iterator[Self]:
        yield cls(ShapedArray((3,), jnp.dtype("float32")))


class SinOfValues(StrictHiPrim):
    order: ClassVar[int] = 1

    def expand(self, x: Array) -> Array:
        return jnp.sin(x)

    def vjp_fwd(self, nzs_in: tuple[bool, ...], x: Array) -> tuple[Array, Array]:
        return self(x), jnp.cos(x)

    def vjp_bwd_retval(self, res: Array, g: Array) -> tuple[Array]:
        return (res * g,)

    @classmethod
    def examples(cls) -> list["SinOfValues"]:
        return [cls()]


class SinFromJvp(StrictHiPrim, supports=("grad", "jvp")):
    def expand(self, x: Array) -> Array:
        return jnp.sin(x)

    def jvp(self, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (t,) = primals, tangents
        return self(x), t * jnp.cos(x)

    vjp_fwd, vjp_bwd_retval = vjp_from_jvp


class WithResidual[Residual](StrictHiPrim, abstract=True):
    def vjp_bwd_retval(self, res: Residual, g: Array) -> tuple[Array, ...]:
        raise NotImplementedError


class Double(WithResidual[None]):
    def expand(self, x: Array) -> Array:
        return x + x

    def vjp_fwd(self, nzs_in: tuple[bool, ...], x: Array) -> tuple[Array, None]:
        return self(x), None

    def vjp_bwd_retval(self, res: None, g: Array) -> tuple[Array, ...]:
        return (g + g,)


class Kernel(StrictHiPrim, abstract=True, ignore=("SH316",)):
    """A keyword of the author's own beside ours."""

    backend: ClassVar[str] = "any"

    def __init_subclass__(cls, *, backend: str = "any", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.backend = backend


class Copy(Kernel, backend="gpu", supports=()):
    def expand(self, x: Array) -> Array:
        return x


def use(x: Array) -> Array:
    y: Array = SinOfValues()(x)
    z: Array = jax.vmap(Sin(ShapedArray(x.shape, x.dtype)))(y)
    return z
