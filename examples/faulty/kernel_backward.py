"""The log of the partition function of a large vocabulary, block by block, in Pallas.

The forward is a kernel that never holds all logits. For the backward the author lets
JAX differentiate the kernel, until a kernel for it is written. JAX cannot
differentiate a kernel that asks for its place in the grid, and says so by a bare
assertion, when a training job takes its first gradient.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from strict_hijax import checked_custom_vjp

EXPECTED_CODE = "SH424"
STOCK = "grad"

BLOCK = 16
S = jax.ShapeDtypeStruct


def kernel(x_ref, w_ref, largest_ref, total_ref):
    @pl.when(pl.program_id(0) == 0)
    def start():
        largest_ref[...] = jnp.full_like(largest_ref, -jnp.inf)
        total_ref[...] = jnp.zeros_like(total_ref)

    logits = x_ref[...] @ w_ref[...]
    largest = jnp.maximum(largest_ref[...], jnp.max(logits, axis=1))
    block_total = jnp.sum(jnp.exp(logits - largest[:, None]), axis=1)
    rescaled = total_ref[...] * jnp.exp(largest_ref[...] - largest)
    total_ref[...] = rescaled + block_total
    largest_ref[...] = largest


def run_kernel(x, w):
    (rows, features), words = x.shape, w.shape[1]
    row = pl.BlockSpec((rows,), lambda block: (0,))
    largest, total = pl.pallas_call(
        kernel,
        grid=(words // BLOCK,),
        in_specs=[
            pl.BlockSpec((rows, features), lambda block: (0, 0)),
            pl.BlockSpec((features, BLOCK), lambda block: (0, block)),
        ],
        out_specs=[row, row],
        out_shape=[S((rows,), x.dtype), S((rows,), x.dtype)],
        interpret=True,
    )(x, w)
    return largest + jnp.log(total)


@checked_custom_vjp(example_args=(S((8, 4), jnp.float32), S((4, 32), jnp.float32)))
def log_partition(x, w):
    """Features (rows, d) and a vocabulary (d, words) to (rows,)."""
    return run_kernel(x, w)


def log_partition_fwd(x, w):
    return log_partition(x, w), (x, w)


def log_partition_bwd(residuals, out_ct):
    return jax.vjp(run_kernel, *residuals)[1](out_ct)


log_partition.defvjp(log_partition_fwd, log_partition_bwd)


def inputs():
    x = jnp.linspace(-1.0, 1.0, 8).reshape(2, 4)
    return x, jnp.linspace(-1.0, 1.0, 128).reshape(4, 32)


def loss(x, w):
    return jnp.sum(log_partition(x, w))


def reference(x, w):
    return jnp.sum(jax.nn.logsumexp(x @ w, axis=1))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss, argnums=(0, 1))(*inputs()))
