"""The length of a vector, with a derivative that is 0 where the vector is.

Left to itself, JAX divides 0 by 0 there, and the gradient is nan: one pair of atoms in
the same place, or one row of padding, and the whole model is lost. `jnp.where` after
the fact does not help, since 0 times nan is nan.

The rule gives the subgradient 0. It is linear in the tangent, which is checked: a small
number that is added to the length in place of the `where` must not be added to the
tangent.
"""

import jax
import jax.numpy as jnp

from strict_hijax import checked_custom_jvp

S = jax.ShapeDtypeStruct


@checked_custom_jvp(example_args=(S((4, 3), jnp.float32),))
def safe_norm(x: jax.Array) -> jax.Array:
    """The Euclidean length of each row of an array: `(..., n) -> (...)`."""
    return jnp.sqrt((x * x).sum(-1))


@safe_norm.defjvp
def safe_norm_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    norm = safe_norm(x)
    is_zero = norm == 0
    along = (x * x_dot).sum(-1)
    return norm, jnp.where(is_zero, 0.0, along / jnp.where(is_zero, 1.0, norm))
