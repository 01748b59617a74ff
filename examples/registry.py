"""Every example as a function and the types of its arguments, for who tries them all.

for example in registry.ALL:
    strict, plain = example.function, plain_twin(example.function)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import digits
from .clip_gradient import clip_gradient
from .cross_entropy import cross_entropy
from .fixed_point import fixed_point
from .flash_attention import flash_attention
from .log1pexp import log1pexp
from .pallas_softmax import pallas_softmax
from .quantized_matmul import quantized_matmul
from .rms_norm import rms_norm
from .safe_norm import safe_norm

JVP = "jvp"
CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Example:
    """A function of arrays that is differentiated by custom rules.

    Attributes:
      name: for people, and for the names of tests.
      function: the strict function; `plain_twin(function)` is the plain one.
      specs: the type of each argument, a pytree of `jax.ShapeDtypeStruct`.
      tags: transforms that it takes beyond those that all take, which are jit, vmap,
        scan, and reverse mode, once and twice.
      range: where the floating-point arguments are drawn from.
    """

    name: str
    function: Callable[..., Any]
    specs: tuple[Any, ...]
    tags: frozenset[str] = frozenset()
    range: tuple[float, float] = (-2.0, 2.0)

    def arguments(self, seed: int = 0) -> tuple[Any, ...]:
        """Arrays of the types in `specs`; integers are small and not negative."""
        random = np.random.default_rng(seed)

        def draw(spec: jax.ShapeDtypeStruct) -> jax.Array:
            if jnp.issubdtype(spec.dtype, jnp.integer):
                return jnp.asarray(random.integers(0, 5, spec.shape), spec.dtype)
            return jnp.asarray(random.uniform(*self.range, spec.shape), spec.dtype)

        return jax.tree.map(draw, self.specs)


def kepler(mean_anomaly: jax.Array, eccentricity: jax.Array) -> jax.Array:
    """The eccentric anomaly E = M + e sin E of an orbit."""
    return fixed_point(
        kepler_step, (mean_anomaly, eccentricity), mean_anomaly, 1e-6, 200
    )


def kepler_step(params, anomaly):
    mean_anomaly, eccentricity = params
    return mean_anomaly + eccentricity * jnp.sin(anomaly)


def of(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


BF16, INT = jnp.bfloat16, jnp.int32
BOTH = frozenset({JVP, CHECKPOINT})

ALL = (
    Example("log1pexp", log1pexp, (of(4, 3),), BOTH),
    Example("log1pexp bfloat16", log1pexp, (of(4, 3, dtype=BF16),), BOTH),
    Example(
        "clip_gradient",
        partial(clip_gradient, max_norm=1.0),
        ({"weights": of(4, 3), "bias": of(4)},),
    ),
    Example(
        "clip_gradient bfloat16",
        partial(clip_gradient, max_norm=1.0),
        ([of(4, 3, dtype=BF16), of(4)],),
    ),
    Example(
        "fixed_point",
        kepler,
        (of(5), of(5)),
        frozenset({CHECKPOINT}),
        range=(0.1, 0.8),
    ),
    Example("rms_norm", rms_norm, (of(4, 8), of(8)), BOTH),
    Example("rms_norm bfloat16", rms_norm, (of(4, 8, dtype=BF16), of(8)), BOTH),
    Example(
        "flash_attention",
        partial(flash_attention, block=3),
        (of(2, 6, 2, 4), of(2, 7, 2, 4), of(2, 7, 2, 4)),
        frozenset({CHECKPOINT}),
    ),
    Example(
        "flash_attention causal bfloat16",
        partial(flash_attention, causal=True, block=3),
        (of(2, 6, 2, 4, dtype=BF16),) * 3,
        frozenset({CHECKPOINT}),
    ),
    Example("quantized_matmul", quantized_matmul, (of(4, 8), of(8, 3)), BOTH),
    Example(
        "quantized_matmul bfloat16",
        quantized_matmul,
        (of(4, 8, dtype=BF16), of(8, 3, dtype=BF16)),
        BOTH,
    ),
    Example("pallas_softmax", pallas_softmax, (of(3, 9, 5),), BOTH),
    Example("pallas_softmax bfloat16", pallas_softmax, (of(9, 5, dtype=BF16),), BOTH),
    Example("safe_norm", safe_norm, (of(4, 3),), BOTH),
    Example("cross_entropy", cross_entropy, (of(4, 10), of(4, dtype=INT)), BOTH),
    Example(
        "cross_entropy bfloat16",
        cross_entropy,
        (of(4, 10, dtype=BF16), of(4, dtype=INT)),
        BOTH,
    ),
    Example(
        "digits",
        digits.loss,
        (
            jax.eval_shape(lambda: digits.initial_state().params),
            digits.Data(of(8, 64), of(8, dtype=INT)),
        ),
    ),
)
