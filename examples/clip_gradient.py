"""An identity whose backward pass clips the gradient by its global norm.

Put around the parameters it clips before the optimiser sees anything; put around an
activation it stops an exploding backward pass in the middle of a network. What it is
given is a pytree, and the norm is that of all its leaves together.

Two decisions are in the rules. There is no tangent rule, on purpose: the tangent of
an identity would not be clipped, and the default `jax.checkpoint` takes gradients
from tangent rules where it finds one. Without one it refuses instead. And under `vmap`
each example has a norm of its own, as in a loop over the examples, even where they
share what is clipped: `batch_axes` says how many of the leading axes count examples.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.hijax import Zero

from strict_hijax import StrictHiPrim

from .common import widened


def clipped(cts: list[jax.Array], max_norm: float) -> list[jax.Array]:
    """`cts` scaled by one factor so that their norm together is at most `max_norm`."""
    square = sum(jnp.sum(jnp.square(widened(ct))) for ct in cts)
    # Clipped before the root, whose own derivative is infinite at zero.
    scale = max_norm * lax.rsqrt(jnp.maximum(square, max_norm**2))
    return [(ct * scale).astype(ct.dtype) for ct in cts]


class ClipGradient(StrictHiPrim, supports=("grad", "vmap")):
    """The identity on a pytree of types; its cotangents are scaled to `max_norm`."""

    def __init__(self, tree: Any, max_norm: float, batch_axes: int = 0):
        self.in_avals = (tree,)
        self.out_aval = tree
        self.params = {"max_norm": max_norm, "batch_axes": batch_axes}
        super().__init__()

    def expand(self, tree):
        return tree

    def vjp_fwd(self, nzs_in, tree):
        # A leaf of the output is perturbed where that of the input is.
        return self(tree), None, nzs_in[0]

    def vjp_bwd(self, residuals, cts, accumulators):
        accumulators, structure = jax.tree.flatten(accumulators)
        leaves = structure.flatten_up_to(cts)
        known = [i for i, ct in enumerate(leaves) if not isinstance(ct, Zero)]
        if not known:
            return
        clip = functools.partial(clipped, max_norm=self.max_norm)
        for _ in range(self.batch_axes):
            clip = jax.vmap(clip)
        for i, ct in zip(known, clip([leaves[i] for i in known]), strict=True):
            accumulators[i].accum(ct)

    def batch(self, axis_data, args, dims):
        def front(x, dim):
            if dim is None:
                return jnp.broadcast_to(x, (axis_data.size, *x.shape))
            return jnp.moveaxis(x, dim, 0)

        tree = jax.tree.map(front, *args, *dims)
        types = jax.tree.map(jax.typeof, tree)
        batched = ClipGradient(types, self.max_norm, self.batch_axes + 1)
        return batched(tree), jax.tree.map(lambda _: 0, tree)

    @classmethod
    def examples(cls):
        weights = jax.typeof(jax.ShapeDtypeStruct((4, 3), jnp.bfloat16))
        bias = jax.typeof(jax.ShapeDtypeStruct((4,), jnp.float32))
        yield cls({"weights": weights, "bias": bias}, max_norm=1.0)
        yield cls([weights], max_norm=0.5, batch_axes=1)


def clip_gradient[T](tree: T, max_norm: float) -> T:
    """`tree` as it is; in the backward pass its gradient has at most `max_norm`.

    Args:
      tree: a pytree of arrays. Integers among them are passed through.
      max_norm: a positive Python number, part of the program.
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm must be positive, got {max_norm}")
    tree = jax.tree.map(jnp.asarray, tree)
    return ClipGradient(jax.tree.map(jax.typeof, tree), float(max_norm))(tree)
