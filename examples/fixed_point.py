"""A fixed point that is differentiated implicitly, not through its iterations.

At a solution x = step(params, x) the implicit function theorem gives the gradient
from the solution alone: no iterate is kept, and a `while_loop`, which JAX cannot
differentiate in reverse, may look for it. The backward pass solves

    adjoint = ct + adjoint @ d step / d x

which is a fixed point as well, so it calls the same function. Nothing is closed over:
what the adjoint equation depends on goes in as its parameters, and a gradient of a
gradient is one more implicit solve.

Newton's method is the case step(params, x) = x - f(params, x) / f'(params, x); there
the derivative of the step vanishes at the solution and the adjoint takes one step.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from strict_hijax import checked_custom_vjp


@partial(checked_custom_vjp, nondiff_argnums=(0, 3, 4))
def fixed_point[P, X](
    step: Callable[[P, X], X],
    params: P,
    start: X,
    tolerance: float = 1e-6,
    max_steps: int = 1000,
) -> X:
    """Iterate x = step(params, x) from `start` until it stands still.

    Args:
      step: a function of two pytrees, a contraction in the second one. What it
        closes over is constant: anything to differentiate belongs into `params`.
      params: any pytree. The gradient with respect to it is the implicit one.
      start: a pytree of floating-point arrays. Its gradient is zero: the solution
        does not depend on where the search for it began.
      tolerance: the largest change, relative to 1 + |x|, that counts as standing still.
      max_steps: when to give up and return what there is.
    """

    def moving(state):
        count, previous, x = state
        still = jax.tree.map(
            lambda old, new: jnp.all(
                jnp.abs(new - old) <= tolerance * (1 + jnp.abs(new))
            ),
            previous,
            x,
        )
        return (count < max_steps) & ~jax.tree.reduce(jnp.logical_and, still)

    def advance(state):
        count, _, x = state
        return count + 1, x, step(params, x)

    return lax.while_loop(moving, advance, (1, start, step(params, start)))[2]


@dataclasses.dataclass(frozen=True)
class AdjointStep:
    """The step of the adjoint equation; equal for equal steps, so JAX can reuse it."""

    step: Callable[..., Any]

    def __call__(self, params, adjoint):
        (primal_params, solution, ct) = params
        _, vjp = jax.vjp(partial(self.step, primal_params), solution)
        (along,) = vjp(adjoint)
        return jax.tree.map(jnp.add, ct, along)


def fixed_point_fwd(step, params, start, tolerance, max_steps):
    solution = fixed_point(step, params, start, tolerance, max_steps)
    return solution, (params, solution)


def fixed_point_bwd(step, tolerance, max_steps, residuals, ct):
    params, solution = residuals
    adjoint = fixed_point(
        AdjointStep(step), (params, solution, ct), ct, tolerance, max_steps
    )
    _, vjp = jax.vjp(lambda params: step(params, solution), params)
    (params_ct,) = vjp(adjoint)
    return params_ct, jax.tree.map(jnp.zeros_like, solution)


fixed_point.defvjp(fixed_point_fwd, fixed_point_bwd)
