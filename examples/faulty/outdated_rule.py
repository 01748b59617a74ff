"""A leaky ReLU that works under vmap, written for jax 0.11.

Its author states where the mapped axis of the output is, in `batch_dim_rule`, and JAX
0.11 derives the rest. JAX 0.12 asks for `batch`, and no longer looks at the older
rule, so that an upgrade takes vmap away without a word.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH113"
STOCK = "grad of vmap"
WRONG_SINCE = (0, 12)


class LeakyReLU(StrictHiPrim, supports=("grad", "vmap")):
    """x where it is positive, and slope * x elsewhere."""

    def __init__(self, x, slope):
        self.in_avals = (x,)
        self.out_aval = x
        self.params = {"slope": slope}
        super().__init__()

    def expand(self, x):
        return jnp.where(x > 0, x, self.slope * x)

    def vjp_fwd(self, nzs_in, x):
        return self(x), x > 0

    def vjp_bwd_retval(self, positive, out_ct):
        return (jnp.where(positive, out_ct, self.slope * out_ct),)

    def batch_dim_rule(self, axis_data, dims):
        (dim,) = dims
        return dim

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((3,), jnp.dtype("float32")), 0.1)


def leaky_relu(x, slope=0.1):
    return LeakyReLU(jax.typeof(x), slope)(x)


def inputs():
    return (jnp.array([[-2.0, 0.5, 1.0], [3.0, -1.0, 0.25]]),)


def loss(x):
    return jnp.sum(leaky_relu(x))


def reference(x):
    return jnp.sum(jnp.where(x > 0, x, 0.1 * x))


def mapped_loss(x):
    return jnp.sum(jax.vmap(leaky_relu)(x))


COMPANY = {"grad of vmap": jax.grad(mapped_loss)}


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
    print("mapped", jax.grad(mapped_loss)(*inputs()))
