"""Types of inputs and outputs as data: leaves, and tuples, dicts and None of them."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Leaf:
    """An array of one type, or a Ref to one."""

    shape: tuple[int, ...]
    dtype: str
    ref: bool = False

    @property
    def is_float(self) -> bool:
        """Whether it has a tangent."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def type(self) -> str:
        """Source text of its JAX type."""
        call = f"typed({self.shape}, '{self.dtype}')"
        return f"ref_to({call})" if self.ref else call

    @property
    def spec(self) -> str:
        """Source text of a spec of it."""
        return f"S({self.shape}, '{self.dtype}')"

    @property
    def value(self) -> str:
        """Source text of a value of its type."""
        return f"ones({self.shape}, '{self.dtype}')"


type Tree = Leaf | tuple[Tree, ...] | dict[str, Tree] | None


def leaves(tree: Tree) -> list[Leaf]:
    """The leaves in JAX's order; keys of dicts are generated in order."""
    return [leaf for _, leaf in places(tree)]


def places(tree: Tree, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Each leaf, with the source text that reads it out of its tree."""
    if isinstance(tree, Leaf):
        yield path, tree
    elif isinstance(tree, tuple):
        for index, child in enumerate(tree):
            yield from places(child, f"{path}[{index}]")
    elif isinstance(tree, dict):
        for key, child in tree.items():
            yield from places(child, f"{path}['{key}']")


def written(tree: Tree, items: Iterator[str]) -> str:
    """Source text of the tree, with these items for its leaves."""
    if isinstance(tree, Leaf):
        return next(items)
    if isinstance(tree, tuple):
        children = [written(child, items) for child in tree]
        return f"({', '.join(children)}{',' * (len(children) == 1)})"
    if isinstance(tree, dict):
        pairs = [f"'{key}': {written(child, items)}" for key, child in tree.items()]
        return "{" + ", ".join(pairs) + "}"
    return "None"


def numbered(tree: Tree, prefix: str, start: int = 0) -> str:
    """The tree of `prefix` with the number of each leaf."""
    return written(tree, (f"{prefix}_{i}" for i in itertools.count(start)))


def types(tree: Tree) -> str:
    return written(tree, (leaf.type for leaf in leaves(tree)))


def specs(tree: Tree) -> str:
    return written(tree, (leaf.spec for leaf in leaves(tree)))


def values(tree: Tree) -> str:
    return written(tree, (leaf.value for leaf in leaves(tree)))
