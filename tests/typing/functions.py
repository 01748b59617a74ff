"""Functions with a custom backward as most people write them: without annotations."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct
from jaxtyping import Array, Float

from strict_hijax import check, checked_custom_vjp


@checked_custom_vjp
def scale(x, factor):
    return x * factor


def scale_fwd(x, factor):
    return scale(x, factor), (x, factor)


def scale_bwd(res, g):
    x, factor = res
    return g * factor, jnp.sum(g * x)


scale.defvjp(scale_fwd, scale_bwd)


@checked_custom_vjp(example_args=(ShapeDtypeStruct((3,), jnp.float32),))
def double(x):
    return x + x


double.defvjp(lambda x: (double(x), None), lambda _, g: (g + g,))


@checked_custom_vjp(dims={"b": 8, "d": 128})
def normalise(x: Float[Array, "b d"], w: Float[Array, "d"]) -> Float[Array, "b d"]:
    return x * w


normalise.defvjp(lambda x, w: (x * w, (x, w)), lambda res, g: (g * res[1], g.sum(0)))


@checked_custom_vjp(nondiff_argnums=(1,), effects="pure", ignore=("SH411",))
def power(x, n):
    return x**n


power.defvjp(
    lambda x, n: (power(x, n), x),
    lambda n, x, g: (n * x ** (n - 1) * g,),
    symbolic_zeros=False,
    optimize_remat=True,
)


@partial(checked_custom_vjp, nondiff_argnames=("n",), eager=False)
def root(x, n):
    return x ** (1 / n)


@jax.custom_vjp
def foreign(x):
    return x


own = checked_custom_vjp(foreign)


@checked_custom_vjp
def logged(x):
    return x


logged.defvjp_with_logs(lambda x: (x, None), lambda _, g: ((g,), {"norm": g.sum()}))


class Layer:
    def __init__(self, width):
        self.width = width
        self.apply = checked_custom_vjp(self._apply)
        self.apply.defvjp(self._fwd, self._bwd)

    def _apply(self, x):
        return x * self.width

    def _fwd(self, x):
        return self._apply(x), None

    def _bwd(self, res, g):
        return (g * self.width,)


def use(x):
    check(scale, x, 2.0)
    check(double, ShapeDtypeStruct((3,), jnp.float32))
    isinstance(scale, jax.custom_vjp)
    y = jax.vmap(jax.grad(scale), in_axes=(0, None))(x, 2.0)
    return jax.jit(double)(y) + own(y) + power(y, 3) + root(y, 2) + Layer(3).apply(y)
