"""The square root of 1 + x**2, written so that large x do not overflow.

The author derives the reverse rules from the forward one, as the documentation
shows, but assigns the pair `vjp_from_jvp` to `vjp_fwd` alone, so that there is no
backward rule and the forward rule is a pair of two.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray, vjp_from_jvp

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH104"
STOCK = "grad"


class Hypotenuse(StrictHiPrim):
    """sqrt(1 + x**2)."""

    def __init__(self, x):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {}
        super().__init__()

    def expand(self, x):
        larger = jnp.maximum(jnp.abs(x), 1.0)
        smaller = jnp.minimum(jnp.abs(x), 1.0)
        return larger * jnp.sqrt(1.0 + jnp.square(smaller / larger))

    def jvp(self, primals, tangents):
        (x,), (x_dot,) = primals, tangents
        y = self(x)
        return y, x_dot * (x / y)

    vjp_fwd = vjp_from_jvp

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((3,), jnp.dtype("float32")))


def hypotenuse(x):
    return Hypotenuse(jax.typeof(x))(x)


def inputs():
    return (jnp.array([-2.0, 0.0, 3e30]),)


def loss(x):
    return jnp.sum(hypotenuse(x) / (1.0 + jnp.abs(x)))


def reference(x):
    return jnp.sum(jnp.hypot(1.0, x) / (1.0 + jnp.abs(x)))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
