"""log(1 - exp(-x)) without cancellation near zero, with a `jvp` rule.

The author knows `jax.custom_jvp`, where a forward rule is enough and JAX transposes
it for reverse mode. A hijax primitive has to ask for that, with
`vjp_fwd, vjp_bwd_retval = vjp_from_jvp`, and this one does not.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH102"
STOCK = "grad"


class Log1mExp(StrictHiPrim, supports=("grad", "jvp")):
    """log(1 - exp(-x)) for positive x."""

    def __init__(self, x):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {}
        super().__init__()

    def expand(self, x):
        small = x < 0.6931472
        near = jnp.log(-jnp.expm1(-jnp.where(small, x, 1.0)))
        far = jnp.log1p(-jnp.exp(-jnp.where(small, 1.0, x)))
        return jnp.where(small, near, far)

    def jvp(self, primals, tangents):
        (x,), (x_dot,) = primals, tangents
        return self(x), x_dot / jnp.expm1(x)

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((3,), jnp.dtype("float32")))


def log1mexp(x):
    return Log1mExp(jax.typeof(x))(x)


def inputs():
    return (jnp.array([0.01, 0.5, 4.0]),)


def loss(x):
    return jnp.sum(log1mexp(x))


def reference(x):
    return jnp.sum(jnp.log1p(-jnp.exp(-x)))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
