"""The list of programs: small ones of every shape, whole models, and the examples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from examples import registry
from examples.plain import plain_twin

from . import functions, model, primitives, transformed
from .kit import STRICT, Kit

type Fun = Callable[..., Any]

NO_JVP = frozenset({"jvp"})
NO_JVP_NOR_REMAT = frozenset({"jvp", "grad of checkpoint"})


@dataclass(frozen=True)
class Program:
    """A program that can be built strict and plain.

    `refused` names the transforms that stock JAX itself refuses for it: no rule for
    forward mode, which the default `jax.checkpoint` needs as well for a primitive.
    """

    name: str
    build: Callable[[Kit], Fun]
    specs: tuple[Any, ...]
    refused: frozenset[str] = frozenset()


def _spec(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


X = _spec(8, 16)
DENSE = ({"w": _spec(8, 16), "b": _spec(8)}, _spec(16))
DEEP = ([_spec(32, 32)] * 12, _spec(8, 32))

PRIMITIVES = (
    Program("primitive: elementwise", primitives.elementwise, (X,)),
    Program("primitive: accumulators", primitives.accumulating, (X, X)),
    Program("primitive: two inputs", primitives.hypotenuse, (X, X), NO_JVP_NOR_REMAT),
    Program("primitive: pytrees", primitives.pytrees, DENSE, NO_JVP_NOR_REMAT),
    Program("primitive: unused out", primitives.unused_output, (X,), NO_JVP_NOR_REMAT),
    Program("primitive: static parameter", primitives.static_param, (X,)),
    Program("primitive: from lin", primitives.from_linearization, (X,)),
    Program("primitive: linear", primitives.linear, (X,)),
    Program(
        "primitive: integer input",
        primitives.integer_input,
        (X, _spec(8, 16, dtype=jnp.int32)),
        NO_JVP_NOR_REMAT,
    ),
    Program("primitive: chain of four", primitives.chain, (X,)),
    Program("primitive: linearized", transformed.linearized, (X,)),
    Program("primitive: transposed", transformed.transposed, (X,)),
    Program("primitive: reduced by dce", transformed.reduced, (X,)),
)

FUNCTIONS = (
    Program("function: elementwise", functions.elementwise, (X,), NO_JVP),
    Program("function: two inputs", functions.two_inputs, (X, X), NO_JVP),
    Program("function: pytrees", functions.pytrees, DENSE, NO_JVP),
    Program("function: static argument", functions.static_argument, (X,), NO_JVP),
    Program(
        "function: integer input",
        functions.integer_input,
        (X, _spec(4, dtype=jnp.int32)),
        NO_JVP,
    ),
    Program("function: symbolic zeros", functions.symbolic_zeros, (X,), NO_JVP),
    Program("function: optimize_remat", functions.optimized_remat, (X,), NO_JVP),
    Program("function: logs", functions.with_logs, (X,), NO_JVP),
    Program("function: declared types", functions.declared_types, (X,), NO_JVP),
    Program("function: existing", functions.existing, (X,), NO_JVP),
    Program(
        "function: bfloat16",
        functions.bfloat16,
        (_spec(8, 16, dtype=jnp.bfloat16),),
        NO_JVP,
    ),
    Program("function: network", functions.deep, DEEP, NO_JVP),
)

if hasattr(jax.custom_vjp, "defvjp_with_accums"):  # jax 0.12
    FUNCTIONS += (
        Program("function: accumulators", functions.with_accumulators, (X, X), NO_JVP),
    )

MODEL_OF_PRIMITIVES = Program(
    "12 layers of primitives", model.of_primitives, model.specs(), NO_JVP_NOR_REMAT
)
MODEL_OF_FUNCTIONS = Program(
    "12 layers of functions", model.of_functions, model.specs(), NO_JVP
)
MODELS = (MODEL_OF_PRIMITIVES, MODEL_OF_FUNCTIONS)


def of_example(example: registry.Example) -> Program:
    """An example; its plain twin is its module executed on stock JAX."""

    def build(kit: Kit) -> Fun:
        return example.function if kit is STRICT else plain_twin(example.function)

    tagged = {registry.JVP: "jvp", registry.CHECKPOINT: "grad of checkpoint"}
    refused = {name for tag, name in tagged.items() if tag not in example.tags}
    name = f"example: {example.name}"
    return Program(name, build, example.specs, frozenset(refused))


EXAMPLES = tuple(map(of_example, registry.ALL))


def programs() -> tuple[Program, ...]:
    """Every program."""
    return (*PRIMITIVES, *FUNCTIONS, *MODELS, *EXAMPLES)


def values(specs: Any, seed: int = 0) -> Any:
    """Arrays of the given types: floats around 1, small integers."""
    random = np.random.default_rng(seed)

    def draw(spec: Any) -> Any:
        if jnp.issubdtype(spec.dtype, jnp.integer):
            return jnp.asarray(random.integers(0, 3, spec.shape), spec.dtype)
        return jnp.asarray(random.uniform(0.1, 0.5, spec.shape), spec.dtype)

    return jax.tree.map(draw, specs)
