"""Softmax cross-entropy with integer labels, in float32 for logits of any type.

For a large vocabulary the logits are the largest array of a model. JAX alone keeps
their exponentials for the backward pass in float32; this rule keeps the logits
themselves, in their own type, and computes the rest again.

An integer input has no cotangent: the rule says None for the labels. The loss has
another type than the logits, so its cotangent comes in float32 and goes out in the
type of the logits.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray, instantiate_zeros

from strict_hijax import StrictHiPrim

from .common import at_front, widened


def is_label(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """True at the label of each row; a comparison, where a gather would be slow."""
    return labels[..., None] == jnp.arange(logits.shape[-1])


def losses(logits: jax.Array, labels: jax.Array) -> jax.Array:
    logits = widened(logits)
    chosen = jnp.where(is_label(logits, labels), logits, 0)
    return jax.nn.logsumexp(logits, axis=-1) - jnp.sum(chosen, axis=-1)


def derivative(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """That of each loss with respect to its logits: softmax minus one-hot."""
    return jax.nn.softmax(widened(logits)) - is_label(logits, labels)


class CrossEntropy(
    StrictHiPrim,
    supports=("grad", "jvp", "vmap", "remat"),
    ignore=("SH906",),  # under checkpoint JAX takes `jvp`: it is of the same gradient
):
    """-log softmax(logits)[label], for logits of shape (..., classes)."""

    def __init__(self, logits: ShapedArray, labels: ShapedArray):
        self.in_avals = (logits, labels)
        # Traced, not written by hand: sharding and varying mesh axes come along.
        self.out_aval = jax.typeof(jax.eval_shape(losses, logits, labels))
        self.params = {}
        super().__init__()

    def expand(self, logits, labels):
        return losses(logits, labels)

    def vjp_fwd(self, nzs_in, logits, labels):
        return self(logits, labels), (logits, labels)

    def vjp_bwd_retval(self, residuals, ct):
        logits, labels = residuals
        ct = instantiate_zeros(ct)[..., None] * derivative(logits, labels)
        return ct.astype(logits.dtype), None

    def jvp(self, primals, tangents):
        # Only the logits have tangents, so theirs is known where this is called.
        (logits, labels), (logits_dot, _) = primals, tangents
        out_dot = derivative(logits, labels) * widened(logits_dot)
        return self(logits, labels), jnp.sum(out_dot, axis=-1)

    def batch(self, axis_data, args, dims):
        args, dim = at_front(axis_data, args, dims)
        return CrossEntropy(*map(jax.typeof, args))(*args), dim

    @classmethod
    def examples(cls):
        for dtype in (jnp.float32, jnp.bfloat16):
            logits = jax.typeof(jax.ShapeDtypeStruct((4, 10), dtype))
            yield cls(logits, jax.typeof(jax.ShapeDtypeStruct((4,), jnp.int32)))


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The cross-entropy of each row of logits with its label, in nats.

    Args:
      logits: floating point, of shape (..., classes).
      labels: integers from 0 to classes - 1, of shape (...).

    Returns:
      One loss for each label, in float32 (in float64 for float64 logits).
    """
    args = jnp.asarray(logits), jnp.asarray(labels)
    return CrossEntropy(*map(jax.typeof, args))(*args)
