"""Parts 2 and 3: the classifier of `examples.digits`, and its program."""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from examples import digits
from examples.plain import plain_module
from strict_hijax import StrictHiPrim

from . import programs, text

LEAST_ACCURACY = 0.95


def run_training() -> list[str]:
    """Train with strict primitives, and return what is not as claimed."""
    print(text.heading("2. A classifier of handwritten digits, with strict primitives"))
    names = ", ".join(sorted({type(p).__name__ for p in primitives_of(digits)}))
    print(f"\n  strict primitives in its loss: {names}\n")
    history = digits.train(report=print_epoch)
    return training_claims(history)


def print_epoch(epoch: digits.Epoch) -> None:
    accuracy = f"accuracy on held-out images {epoch.accuracy:6.2%}"
    print(f"  epoch {epoch.number:2}   loss {epoch.loss:.4f}   {accuracy}")


def training_claims(history: list[digits.Epoch]) -> list[str]:
    """What the history of a training run does not bear out."""
    first, last = history[0], history[-1]
    claims = []
    if not last.loss < first.loss:
        claims.append(f"the loss went from {first.loss:.4f} to {last.loss:.4f}")
    if not last.accuracy >= LEAST_ACCURACY:
        claims.append(f"accuracy {last.accuracy:.2%}, not {LEAST_ACCURACY:.0%}")
    return claims


def run_comparison() -> list[str]:
    """Compare the training step with its plain twin, and return what differs."""
    print(text.heading("3. Its training step, beside the same lines with plain HiPrim"))
    twin = plain_module(digits.__name__)
    comparisons = programs.compare(traced_step(digits), traced_step(twin))
    print(f"\n{programs.rows(comparisons)}")
    return [*twin_claims(digits, twin), *programs.broken_claims(comparisons)]


def traced_step(module: ModuleType) -> Any:
    """The training step of a module, traced without what the other twin has traced."""
    jax.clear_caches()
    return jax.jit(module.step, donate_argnums=0).trace(
        module.initial_state(), batch_of(module)
    )


def batch_of(module: ModuleType) -> Any:
    """The types of one batch."""
    return module.Data(
        jax.ShapeDtypeStruct((module.BATCH, module.WIDTHS[0]), jnp.float32),
        jax.ShapeDtypeStruct((module.BATCH,), jnp.int32),
    )


def primitives_of(module: ModuleType) -> list[Any]:
    """The hijax primitives in a module's loss, in the order of their use."""
    params = module.initial_state().params
    jaxpr = jax.make_jaxpr(module.loss)(params, batch_of(module))
    found = (eqn.params.get("_prim") for eqn in jaxpr.eqns)
    return [primitive for primitive in found if primitive is not None]


def twin_claims(strict: ModuleType, plain: ModuleType) -> list[str]:
    """That one twin has strict primitives, and the other the same ones plain."""
    strict_ones, plain_ones = primitives_of(strict), primitives_of(plain)
    claims = []
    if not any(isinstance(primitive, StrictHiPrim) for primitive in strict_ones):
        claims.append("the strict loss has no strict primitive")
    if any(isinstance(primitive, StrictHiPrim) for primitive in plain_ones):
        claims.append("the plain loss has strict primitives")
    names = [[type(p).__name__ for p in ones] for ones in (strict_ones, plain_ones)]
    if names[0] != names[1]:
        claims.append("the twins do not have the same primitives")
    return claims
