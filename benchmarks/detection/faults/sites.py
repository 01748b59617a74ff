"""Where in a result something can be changed, and to what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.detection.trees import Leaf, Tree, leaves

DTYPES = ("float32", "bfloat16", "float16", "complex64", "int32", "bool")
SHAPES = ((), (3,), (2, 3), (1, 3), (4, 1), (2, 2, 2))

NO_VALUES = ("'label'", "object()", "jnp.sin", "slice(3)", "np.dtype('float32')")
"""What JAX has no type for."""


def other_dtypes(leaf: Leaf) -> list[str]:
    """Dtypes that differ from that of a leaf."""
    return [dtype for dtype in DTYPES if dtype != leaf.dtype]


def other_shapes(leaf: Leaf) -> list[tuple[int, ...]]:
    """Shapes that differ from that of a leaf."""
    return [shape for shape in SHAPES if shape != leaf.shape]


def other_types(leaf: Leaf) -> Iterator[str]:
    """Arguments of `fit` for another dtype, or another shape."""
    for dtype in other_dtypes(leaf):
        yield f"{leaf.shape}, '{dtype}'"
    for shape in other_shapes(leaf):
        yield f"{shape}, '{leaf.dtype}'"


def other_structures(tree: Tree, name: str) -> Iterator[str]:
    """Expressions for what `name` holds in another structure than this."""
    yield f"({name},)"
    yield f"{{'out': {name}}}"
    if isinstance(tree, tuple):
        yield f"list({name})"
        yield f"(*{name}, None)"
        yield f"{name}[:1]" if len(tree) > 1 else "()"
        yield f"{name}[0]"
    if isinstance(tree, dict):
        first = next(iter(tree))
        yield f"tuple({name}.values())"
        yield f"{{**{name}, 'more': {name}['{first}']}}"
        yield f"{{k: v for k, v in {name}.items() if k != '{first}'}}"
        yield f"{{k + '_': v for k, v in {name}.items()}}"
    if leaves(tree) and not isinstance(tree, Leaf):
        yield f"jax.tree.leaves({name})[0]"


def too_many_flags(tree: Tree) -> str:
    """One flag more than the outermost container has children; a leaf has none."""
    children = 1 if isinstance(tree, Leaf) or tree is None else len(tree)
    return f"(True,) * {children + 1}"


def not_linear(dot: str, leaf: Leaf) -> Iterator[str]:
    """What is made of a tangent, and is not linear in it."""
    size = f"jnp.sqrt(jnp.sum(jnp.abs({dot}) ** 2))"
    yield f"{dot} * {dot}"
    yield f"jnp.sin({dot})"
    if not leaf.dtype.startswith("complex"):  # JAX takes its parts apart
        yield f"jnp.exp({dot}) - 1"
        yield f"2 * {dot} ** 2"
    yield f"jnp.tanh(3 * {dot})"
    yield f"{dot} / {size}"
    yield f"{dot} / ({size} + 1e-3)"
    yield f"{dot} / jnp.maximum({size}, 1e-3)"
    yield f"jnp.exp({dot}) / jnp.sum(jnp.exp({dot}))"
    if leaf.shape and leaf.shape[-1] > 1:
        yield f"jnp.sort({dot})"
        yield f"jax.nn.softmax({dot})"


def not_zero_at_zero(dot: str, leaf: Leaf, primal: str) -> Iterator[str]:
    """A tangent with a constant that is added; `primal` is real, or empty."""
    yield f"{dot} + 1"
    noise = f"jax.random.normal(jax.random.key(0), {dot}.shape)"
    yield f"{dot} + {noise}.astype({dot}.dtype)"
    if primal:
        more = f"fit({primal}, {leaf.shape}, '{leaf.dtype}')"
        chosen = f"jnp.sum({primal}) > 0"
        either = f"lambda t: t + {more}, lambda t: t - {more}"
        yield f"jax.lax.cond({chosen}, {either}, {dot})"
        yield f"jnp.where({chosen}, {dot} + {more}, {dot} - {more} ** 2)"


def with_a_tangent(dot: str) -> Iterator[str]:
    """What is made of an output `x` and its tangent, and often is `x` again."""
    yield f"x + {dot}"
    yield f"x + 0 * {dot}"
    yield f"jnp.where(True, x, {dot})"
    yield f"jnp.stack([x, {dot}])[0]"
    yield f"jnp.concatenate([x.ravel(), {dot}.ravel()])[:x.size].reshape(x.shape)"
    yield f"jax.jit(lambda x, t: x + 0 * t)(x, {dot})"
    yield f"jax.lax.cond(jnp.sum(x.real) > 0, lambda t: x, lambda t: x + 0 * t, {dot})"


def real_primal(floats: Iterable[int], leaves: Sequence[Leaf]) -> str:
    """The name of an input with a tangent that is real; empty if there is none."""
    real = (i for i in floats if not leaves[i].dtype.startswith("complex"))
    return next((f"x_{i}" for i in real), "")
