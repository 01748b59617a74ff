"""log(sum(exp(logits))) over the classes, for a cross entropy.

The class declares one number a row. Its `expand` keeps the axis that it reduces, so
it returns a column instead. Subtracting the labels' logits, a row, then broadcasts.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH302"
STOCK = "silent"


class LogSumExp(StrictHiPrim):
    """Logits (batch, classes) to (batch,)."""

    def __init__(self, logits):
        self.in_avals = (logits,)
        self.out_aval = logits.update(shape=logits.shape[:-1])
        self.params = {}
        super().__init__()

    def expand(self, logits):
        largest = jnp.max(logits, axis=-1, keepdims=True)
        total = jnp.sum(jnp.exp(logits - largest), axis=-1, keepdims=True)
        return largest + jnp.log(total)

    def vjp_fwd(self, nzs_in, logits):
        return self(logits), jax.nn.softmax(logits)

    def vjp_bwd_retval(self, softmax, out_ct):
        return (out_ct[:, None] * softmax,)

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((4, 10), jnp.dtype("float32")))


def log_sum_exp(logits):
    return LogSumExp(jax.typeof(logits))(logits)


def inputs():
    return (jnp.array([[2.0, 0.0, -1.0], [0.5, 3.0, 1.0]]),)


def loss(logits):
    return jnp.mean(jnp.square(log_sum_exp(logits) - logits[:, 0]))


def reference(logits):
    return jnp.mean(jnp.square(jax.nn.logsumexp(logits, axis=-1) - logits[:, 0]))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
