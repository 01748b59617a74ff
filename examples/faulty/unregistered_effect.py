"""A tap that records the largest activation of a layer while it trains.

The author records it with `buffer_callback`, the fastest of the callbacks, and marks
it as having a side effect, so that it is not optimised away. JAX does not allow that
effect in custom derivatives. It only says so when the layer is wrapped in
`jax.checkpoint`, as every layer is once the model no longer fits.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.buffer_callback import buffer_callback

from strict_hijax import checked_custom_vjp

EXPECTED_CODE = "SH501"
STOCK = "grad of checkpoint"

largest_seen = []


def record(context, out, x):
    largest_seen.append(float(np.max(np.asarray(x))))
    np.asarray(out)[...] = np.asarray(x)


@checked_custom_vjp(example_args=(jax.ShapeDtypeStruct((4,), jnp.float32),))
def tap(x):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return buffer_callback(record, out, has_side_effect=True)(x)


def tap_fwd(x):
    return tap(x), None


def tap_bwd(residuals, out_ct):
    return (out_ct,)


tap.defvjp(tap_fwd, tap_bwd)


def inputs():
    return (jnp.array([-1.0, 0.5, 2.0]),)


def loss(x):
    return jnp.sum(jnp.square(tap(jnp.tanh(x))))


def reference(x):
    return jnp.sum(jnp.square(jnp.tanh(x)))


COMPANY = {"grad of checkpoint": jax.grad(jax.checkpoint(loss))}


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
    print("with checkpoint", jax.grad(jax.checkpoint(loss))(*inputs()))
