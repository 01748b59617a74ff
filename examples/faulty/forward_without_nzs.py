"""The squared distances from each point to each centre, as in k-means or a kernel.

The author moved a `jax.custom_vjp` function to a primitive. A forward rule of
`custom_vjp` takes the arguments of the function; `vjp_fwd` of a primitive takes
`nzs_in` before them, which says which inputs are differentiated.
"""

import jax
import jax.numpy as jnp
from jax.experimental.hijax import ShapedArray

from strict_hijax import StrictHiPrim

EXPECTED_CODE = "SH110"
STOCK = "grad"


class SquaredDistances(StrictHiPrim):
    """Points (n, d) and centres (k, d) to distances (n, k)."""

    def __init__(self, points, centres):
        self.in_avals = (points, centres)
        self.out_aval = points.update(shape=(points.shape[0], centres.shape[0]))
        self.params = {}
        super().__init__()

    def expand(self, points, centres):
        return jnp.sum(jnp.square(points[:, None] - centres[None]), axis=-1)

    def vjp_fwd(self, points, centres):
        return self(points, centres), (points, centres)

    def vjp_bwd_retval(self, residuals, out_ct):
        points, centres = residuals
        points_ct = points * jnp.sum(out_ct, axis=1)[:, None] - out_ct @ centres
        centres_ct = centres * jnp.sum(out_ct, axis=0)[:, None] - out_ct.T @ points
        return 2 * points_ct, 2 * centres_ct

    @classmethod
    def examples(cls):
        points = ShapedArray((5, 2), jnp.dtype("float32"))
        yield cls(points, points.update(shape=(3, 2)))


def squared_distances(points, centres):
    return SquaredDistances(jax.typeof(points), jax.typeof(centres))(points, centres)


def inputs():
    points = jnp.array([[0.0, 1.0], [2.0, -1.0], [1.0, 1.0]])
    return points, jnp.array([[0.5, 0.5], [2.0, 0.0]])


def loss(points, centres):
    return jnp.mean(jnp.min(squared_distances(points, centres), axis=1))


def reference(points, centres):
    distances = jnp.sum(jnp.square(points[:, None] - centres[None]), axis=-1)
    return jnp.mean(jnp.min(distances, axis=1))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss, argnums=(0, 1))(*inputs()))
