"""Where in a result something can be changed, and to what."""

from __future__ import annotations

from collections.abc import Iterator

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
