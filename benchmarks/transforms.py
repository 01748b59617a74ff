"""What is done with each program: the ways in which JAX calls its rules."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

type Fun = Callable[..., Any]
type Args = tuple[Any, ...]

LENGTH = 3  # of the scan and of the batch


def loss_of(fun: Fun) -> Fun:
    """`fun` with its floating-point outputs summed to one number."""

    def loss(*args):
        leaves = jax.tree.leaves(fun(*args))
        return sum(
            jnp.sum(leaf.astype(jnp.float32)) for leaf in leaves if is_floating(leaf)
        )

    return loss


def is_floating(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def differentiable(specs: Args) -> tuple[int, ...]:
    """The positions of the arguments that have only floating-point leaves."""
    return tuple(
        i for i, arg in enumerate(specs) if all(map(is_floating, jax.tree.leaves(arg)))
    )


def forward(fun: Fun, specs: Args) -> tuple[Fun, Args]:
    return fun, specs


def gradient(fun: Fun, specs: Args) -> tuple[Fun, Args]:
    return jax.grad(loss_of(fun), differentiable(specs)), specs


def value_and_gradient(fun: Fun, specs: Args) -> tuple[Fun, Args]:
    return jax.value_and_grad(loss_of(fun), differentiable(specs)), specs


def vmap_of_gradient(fun: Fun, specs: Args) -> tuple[Fun, Args]:
    return jax.vmap(gradient(fun, specs)[0]), stacked(specs)


def gradient_of_scan(fun: Fun, specs: Args) -> tuple[Fun, Args]:
    loss = loss_of(fun)

    def scanned(*xs):
        def step(carry, x):
            return carry + (1 + carry) * loss(*x), None

        return jax.lax.scan(step, jnp.float32(0), xs)[0]

    return jax.grad(scanned, differentiable(specs)), stacked(specs)


def gradient_of_checkpoint(fun: Fun, specs: Args) -> tuple[Fun, Args]:
    return jax.grad(jax.checkpoint(loss_of(fun)), differentiable(specs)), specs


def jvp(fun: Fun, specs: Args) -> tuple[Fun, Args]:
    varying = differentiable(specs)

    def pushed(*args):
        def partial_fun(*primals):
            full = list(args)
            for i, primal in zip(varying, primals, strict=True):
                full[i] = primal
            return fun(*full)

        primals = tuple(args[i] for i in varying)
        return jax.jvp(partial_fun, primals, primals)

    return pushed, specs


def stacked(specs: Args) -> Args:
    """`specs` with a leading axis on every leaf."""
    return jax.tree.map(
        lambda s: jax.ShapeDtypeStruct((LENGTH, *s.shape), s.dtype), specs
    )


TRANSFORMS: dict[str, Callable[[Fun, Args], tuple[Fun, Args]]] = {
    "forward": forward,
    "grad": gradient,
    "value_and_grad": value_and_gradient,
    "vmap of grad": vmap_of_gradient,
    "grad of scan": gradient_of_scan,
    "grad of checkpoint": gradient_of_checkpoint,
    "jvp": jvp,
}
