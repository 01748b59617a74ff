"""Small functions with custom reverse-mode rules, one factory for each shape."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from .kit import Kit

type Fun = Callable[..., Any]


def elementwise(kit: Kit) -> Fun:
    """One input; `fwd` calls the function itself."""

    @kit.custom_vjp
    def softplus(x):
        return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))

    def softplus_fwd(x):
        return softplus(x), x

    def softplus_bwd(x, ct):
        return (ct * jax.nn.sigmoid(x),)

    softplus.defvjp(softplus_fwd, softplus_bwd)
    return softplus


def two_inputs(kit: Kit) -> Fun:
    """Two inputs; `fwd` computes the output on its own."""

    @kit.custom_vjp
    def ratio(x, y):
        return x / (1 + y * y)

    def ratio_fwd(x, y):
        inverse = 1 / (1 + y * y)
        return x * inverse, (x, y, inverse)

    def ratio_bwd(res, ct):
        x, y, inverse = res
        return ct * inverse, -2 * ct * x * y * inverse**2

    ratio.defvjp(ratio_fwd, ratio_bwd)
    return ratio


def pytrees(kit: Kit) -> Fun:
    """A dict of parameters in, a pair out."""

    @kit.custom_vjp
    def dense(params, x):
        y = jnp.tanh(params["w"] @ x + params["b"])
        return y, jnp.sum(y)

    def dense_fwd(params, x):
        y, total = dense(params, x)
        return (y, total), (params["w"], x, y)

    def dense_bwd(res, cts):
        (w, x, y), (dy, dtotal) = res, cts
        dz = (dy + dtotal) * (1 - y * y)
        return {"w": jnp.outer(dz, x), "b": dz}, w.T @ dz

    dense.defvjp(dense_fwd, dense_bwd)
    return dense


def static_argument(kit: Kit) -> Fun:
    """A static argument, which `bwd` takes first."""

    @partial(kit.custom_vjp, nondiff_argnums=(1,))
    def power(x, exponent):
        return x**exponent

    def power_fwd(x, exponent):
        return power(x, exponent), x

    def power_bwd(exponent, x, ct):
        return (ct * exponent * x ** (exponent - 1),)

    power.defvjp(power_fwd, power_bwd)
    return lambda x: power(x, 3)


def integer_input(kit: Kit) -> Fun:
    """An integer input, whose cotangent is None."""

    @kit.custom_vjp
    def pick(table, index):
        return jnp.take(table, index, axis=0)

    def pick_fwd(table, index):
        return pick(table, index), (jnp.zeros_like(table), index)

    def pick_bwd(res, ct):
        zeros, index = res
        return zeros.at[index].add(ct), None

    pick.defvjp(pick_fwd, pick_bwd)
    return pick


def symbolic_zeros(kit: Kit) -> Fun:
    """Rules that are told which inputs are perturbed."""

    @kit.custom_vjp
    def product(x, y):
        return x * y

    def product_fwd(x, y):
        return product(x.value, y.value), (
            x.value if y.perturbed else None,
            y.value if x.perturbed else None,
        )

    def product_bwd(res, ct):
        x, y = res
        return (
            None if y is None else ct * y,
            None if x is None else ct * x,
        )

    product.defvjp(product_fwd, product_bwd, symbolic_zeros=True)
    return lambda x: product(x, 2 * jnp.ones_like(x))


def optimized_remat(kit: Kit) -> Fun:
    """A rule whose forward may be replaced by the primal under checkpoint."""

    @kit.custom_vjp
    def gaussian(x):
        return jnp.exp(-x * x)

    def gaussian_fwd(x):
        out = jnp.exp(-x * x)
        return out, (x, out)

    def gaussian_bwd(res, ct):
        x, out = res
        return (-2 * ct * x * out,)

    gaussian.defvjp(gaussian_fwd, gaussian_bwd, optimize_remat=True)
    return gaussian


def with_logs(kit: Kit) -> Fun:
    """A backward rule that logs."""

    @kit.custom_vjp
    def double(x):
        return 2 * x

    def double_fwd(x):
        return double(x), None

    def double_bwd(_, ct):
        return (2 * ct,), {"norm": jnp.sum(ct * ct)}

    double.defvjp_with_logs(double_fwd, double_bwd)
    return double


def with_accumulators(kit: Kit) -> Fun:
    """A backward rule that takes gradient accumulators (jax 0.12)."""

    @kit.custom_vjp
    def product(x, y):
        return x * y

    def product_fwd(x, y):
        return product(x, y), (x, y)

    def product_bwd(res, ct, x_acc, y_acc):
        x, y = res
        x_acc.accum(ct * y)
        y_acc.accum(ct * x)

    product.defvjp_with_accums(product_fwd, product_bwd)
    return product


def declared_types(kit: Kit) -> Fun:
    """Input types declared, so that the strict twin is checked when it is defined."""

    @kit.typed(jax.ShapeDtypeStruct((8, 16), jnp.float32))
    def normalize(x):
        return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)

    def normalize_fwd(x):
        inverse = 1 / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
        return x * inverse, (x, inverse)

    def normalize_bwd(res, ct):
        x, inverse = res
        along = jnp.mean(ct * x, axis=-1, keepdims=True) * inverse**2
        return ((ct - x * along) * inverse,)

    normalize.defvjp(normalize_fwd, normalize_bwd)
    return normalize


def existing(kit: Kit) -> Fun:
    """A function that has its rules already and is then wrapped."""

    @jax.custom_vjp
    def cube(x):
        return x * x * x

    def cube_fwd(x):
        return cube(x), x

    def cube_bwd(x, ct):
        return (3 * ct * x * x,)

    cube.defvjp(cube_fwd, cube_bwd)
    return cube if kit.custom_vjp is jax.custom_vjp else kit.custom_vjp(cube)


def bfloat16(kit: Kit) -> Fun:
    """Mixed precision: the rule computes in float32 and answers in bfloat16."""

    @kit.custom_vjp
    def square(x):
        return (x.astype(jnp.float32) ** 2).astype(x.dtype)

    def square_fwd(x):
        return square(x), x

    def square_bwd(x, ct):
        return ((2 * x.astype(jnp.float32) * ct.astype(jnp.float32)).astype(x.dtype),)

    square.defvjp(square_fwd, square_bwd)
    return square


def deep(kit: Kit, layers: int = 12) -> Fun:
    """A whole network that is one function, as a fused kernel would be."""

    @kit.custom_vjp
    def network(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return x

    def network_fwd(weights, x):
        activations = [x]
        for w in weights:
            activations.append(jnp.tanh(activations[-1] @ w))
        return activations[-1], (weights, activations)

    def network_bwd(res, ct):
        weights, activations = res
        cotangents = []
        for w, before, after in zip(
            reversed(weights), activations[-2::-1], activations[:0:-1], strict=True
        ):
            dz = ct * (1 - after * after)
            cotangents.append(before.T @ dz)
            ct = dz @ w.T
        return cotangents[::-1], ct

    network.defvjp(network_fwd, network_bwd)
    return network
