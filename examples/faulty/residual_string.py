"""An activation function chosen by name, saving only what its backward needs.

The name decides what the backward does, so the author saves it with the other
residuals. Residuals are values that JAX carries from the forward to the backward, and
a string is none; the name reaches the backward anyway, as a static argument.
"""

import jax
import jax.numpy as jnp

from strict_hijax import checked_custom_vjp

EXPECTED_CODE = "SH413"
STOCK = "grad"


@checked_custom_vjp(
    nondiff_argnums=(1,),
    example_args=(jax.ShapeDtypeStruct((4,), jnp.float32), "relu"),
)
def activate(x, kind):
    return jnp.tanh(x) if kind == "tanh" else jnp.maximum(x, 0)


def activate_fwd(x, kind):
    y = activate(x, kind)
    return y, (y, kind)


def activate_bwd(kind, residuals, out_ct):
    y, kind = residuals
    return (out_ct * (1 - y * y) if kind == "tanh" else jnp.where(y > 0, out_ct, 0),)


activate.defvjp(activate_fwd, activate_bwd)


def inputs():
    return (jnp.array([-1.0, 0.5, 2.0]),)


def loss(x):
    return jnp.sum(jnp.square(activate(x, "relu")))


def reference(x):
    return jnp.sum(jnp.square(jnp.maximum(x, 0)))


def use():
    print("loss", loss(*inputs()))
    print("gradient", jax.grad(loss)(*inputs()))
