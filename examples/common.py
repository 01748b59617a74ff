"""What several examples need: a batch axis in front, and a type to add up in."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp


def at_front(
    axis_data: Any, args: Sequence[jax.Array], dims: Sequence[int | None]
) -> tuple[Sequence[jax.Array], int | None]:
    """`args` with their mapped axis first, and where it is now: 0, or None.

    For batch rules, which are given all three. An argument without a mapped axis is
    repeated. JAX calls a batch rule inside of `vmap` even where no argument has one:
    then there is nothing to do.
    """
    if all(dim is None for dim in dims):
        return args, None
    pairs = zip(args, dims, strict=True)
    return [_front(axis_data.size, x, dim) for x, dim in pairs], 0


def _front(size: int, x: jax.Array, dim: int | None) -> jax.Array:
    if dim is None:
        return jnp.broadcast_to(x, (size, *x.shape))
    return jnp.moveaxis(x, dim, 0)


def widened(x: jax.Array) -> jax.Array:
    """`x` in at least float32: a sum of many bfloat16 terms loses most of them."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
