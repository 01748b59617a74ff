"""Attention a block of keys at a time, which never holds all the scores.

For n queries and keys plain attention keeps an n by n array for the backward pass.
Here the forward pass goes over blocks of keys with a running maximum and sum, and
keeps one number for each query, the log of its sum of exponentials. From that the
backward pass computes each block of probabilities again.

That number is an output of the function, with a cotangent of its own, and not just a
residual. So the forward rule is a call of the function itself, a gradient of a
gradient goes through this rule again, and results over different sets of keys can be
merged, as ring attention does.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from strict_hijax import checked_custom_vjp

from .common import widened

HIDDEN = -1e30  # not -inf: the difference of two is nan


def scores(q, keys, first, length, causal):
    """Scaled products with one block of keys, of which the first is number `first`."""
    products = jnp.matmul(q, keys.T, preferred_element_type=widened(q).dtype)
    number = first + jnp.arange(keys.shape[0])
    visible = number < length
    if causal:
        visible = visible & (number <= jnp.arange(q.shape[0])[:, None])
    return jnp.where(visible, products / q.shape[-1] ** 0.5, HIDDEN)


def in_blocks(x, block):
    """The rows of `x` in blocks, the last one filled up, and the first row of each."""
    count = -(-x.shape[0] // block)
    filled = jnp.pad(x, ((0, count * block - x.shape[0]), (0, 0)))
    return filled.reshape(count, block, -1)


def first_rows(blocks):
    return jnp.arange(blocks.shape[0]) * blocks.shape[1]


@partial(
    checked_custom_vjp,
    nondiff_argnums=(3, 4),
    dims={"queries": 6, "keys": 8, "features": 4, "values": 3},
)
def attend(
    q: Float[Array, "queries features"],
    k: Float[Array, "keys features"],
    v: Float[Array, "keys values"],
    causal: bool = False,
    block: int = 128,
) -> tuple[Float[Array, "queries values"], Float[Array, "queries"]]:
    """Attention of one head, and the log of the sum of exponentials of each query."""

    def visit(carry, block_of):
        largest, total, out = carry
        first, keys, values = block_of
        s = scores(q, keys, first, k.shape[0], causal)
        new_largest = jnp.maximum(largest, jnp.max(s, axis=-1))
        p = jnp.exp(s - new_largest[:, None])
        shrink = jnp.exp(largest - new_largest)
        total = total * shrink + jnp.sum(p, axis=-1)
        out = out * shrink[:, None] + p @ widened(values)
        return (new_largest, total, out), None

    keys, values = in_blocks(k, block), in_blocks(v, block)
    wide = widened(q).dtype
    start = (
        jnp.full(q.shape[0], HIDDEN, wide),
        jnp.zeros(q.shape[0], wide),
        jnp.zeros((q.shape[0], v.shape[1]), wide),
    )
    (largest, total, out), _ = lax.scan(visit, start, (first_rows(keys), keys, values))
    return (out / total[:, None]).astype(v.dtype), largest + jnp.log(total)


def attend_fwd(q, k, v, causal, block):
    out, log_total = attend(q, k, v, causal, block)
    return (out, log_total), (q, k, v, out, log_total)


def attend_bwd(causal, block, residuals, cts):
    q, k, v, out, log_total = residuals
    out_ct, log_total_ct = widened(cts[0]), cts[1]
    wide_q = widened(q)
    # What every probability of a query loses, since they add up to one.
    shared = jnp.sum(out_ct * widened(out), axis=-1) - log_total_ct

    def visit(q_ct, block_of):
        first, keys, values = block_of
        p = jnp.exp(scores(q, keys, first, k.shape[0], causal) - log_total[:, None])
        s_ct = p * (out_ct @ widened(values).T - shared[:, None])
        s_ct = s_ct / q.shape[-1] ** 0.5
        return q_ct + s_ct @ widened(keys), (s_ct.T @ wide_q, p.T @ out_ct)

    keys, values = in_blocks(k, block), in_blocks(v, block)
    blocks = (first_rows(keys), keys, values)
    q_ct, in_block_cts = lax.scan(visit, jnp.zeros_like(wide_q), blocks)
    k_ct, v_ct = (ct.reshape(-1, ct.shape[-1])[: k.shape[0]] for ct in in_block_cts)
    return q_ct.astype(q.dtype), k_ct.astype(k.dtype), v_ct.astype(v.dtype)


attend.defvjp(attend_fwd, attend_bwd)


def flash_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, causal: bool = False, block: int = 128
) -> jax.Array:
    """softmax(q @ k.T / sqrt(features)) @ v for each head.

    Args:
      q: queries, of shape (batch, queries, heads, features).
      k: keys, of shape (batch, keys, heads, features).
      v: values, of shape (batch, keys, heads, values).
      causal: whether a query sees only the keys up to its own place.
      block: how many keys to look at together.
    """
    one_head = lambda q, k, v: attend(q, k, v, causal, block)[0]  # noqa: E731
    heads = jax.vmap(one_head, in_axes=1, out_axes=1)
    return jax.vmap(heads)(q, k, v)
