"""The shapes in which a result can be given, and what somebody means by each.

A shape is a function of the right result. It is `meant` as a value: the right one, zero
where None stands for a part, a copy for each leaf where one array stands for several;
or as nothing, where no value could be called right.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import tree_util

from .layouts import Other


class Given(NamedTuple):
    """A name, the function, and what is meant, as a function of the right value."""

    name: str
    give: Callable[[Any], Any]
    meant: Callable[[Any], Any] | None


def same(tree: Any) -> Any:
    return tree


def zeros(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def copies(tree: Any) -> Any:
    """The first leaf in place of each."""
    first, *_ = tree_util.tree_leaves(tree)
    return jax.tree.map(lambda _: first, tree)


def parts(tree: Any) -> list[Any]:
    """The children of a container."""
    return tree_util.tree_leaves(tree, is_leaf=lambda x: x is not tree)


def first(tree: Any) -> Any:
    return parts(tree)[0]


def as_dict(tree: Any) -> Any:
    return dict(zip("bw", parts(tree), strict=True))


def too_few(tree: Any) -> Any:
    """The same kind of container, one part short; a tuple where it cannot be."""
    if type(tree) is dict:
        return dict(list(tree.items())[:-1])
    return (list if type(tree) is list else tuple)(parts(tree)[:-1])


def too_many(tree: Any) -> Any:
    if type(tree) is dict:
        return tree | {"z": first(tree)}
    return (list if type(tree) is list else tuple)([*parts(tree), first(tree)])


def deep(kind: type) -> Callable[[Any], Any]:
    """All containers made into tuples, or into lists."""

    def convert(tree: Any) -> Any:
        if tree_util.all_leaves([tree]):
            return tree
        return kind(map(convert, parts(tree)))

    return convert


OF_A_CONTAINER = (
    Given("as it is", same, same),
    Given("a tuple", lambda tree: tuple(parts(tree)), same),
    Given("a list", parts, same),
    Given("a namedtuple", lambda tree: Other(*parts(tree)), same),
    Given("a dict", as_dict, same),
    Given("None", lambda tree: None, None),
    Given("one for all", first, None),
    Given("a part too few", too_few, None),
    Given("a part too many", too_many, None),
)
OF_COTANGENTS = tuple(
    row._replace(meant={"None": zeros, "one for all": copies}.get(row.name, row.meant))
    for row in OF_A_CONTAINER
)
OF_FLAGS = tuple(  # all are the same, so that one may stand for all
    row._replace(meant={"one for all": same}.get(row.name, row.meant))
    for row in OF_A_CONTAINER
)
OF_ALL_COTANGENTS = (  # the tuple of them
    *OF_A_CONTAINER,
    Given("a generator", lambda tree: (part for part in tree), None),
)
OF_AN_ARRAY = (
    Given("a tuple of it", lambda x: (x,), None),
    Given("a list of it", lambda x: [x], None),
    Given("a dict of it", lambda x: {"x": x}, None),
    Given("None", lambda x: None, None),
    Given("a string", lambda x: "x", None),
    Given("another dtype", lambda x: x.astype(jnp.bfloat16), None),
    Given("another shape", lambda x: x[:1], None),
)
OF_A_COTANGENT = tuple(
    row._replace(meant=zeros) if row.name == "None" else row for row in OF_AN_ARRAY
)
OF_A_NESTED_TREE = (
    Given("as it is", same, same),
    Given("all tuples", deep(tuple), same),
    Given("all lists", deep(list), same),
    Given("a list within", lambda t: {"p": list(t["p"]), "q": t["q"]}, same),
    Given("None within", lambda t: {"p": None, "q": t["q"]}, None),
    Given("one within", lambda t: {"p": t["p"], "q": t["q"][0]}, None),
    Given("too few within", lambda t: {"p": t["p"][:1], "q": t["q"]}, None),
    Given("another key", lambda t: {"p": t["p"], "r": t["q"]}, None),
)
OF_NESTED_COTANGENTS = tuple(
    row._replace(
        meant={
            "None within": lambda t: {"p": zeros(t["p"]), "q": t["q"]},
            "one within": lambda t: {"p": t["p"], "q": copies(t["q"])},
        }.get(row.name, row.meant)
    )
    for row in OF_A_NESTED_TREE
)
OF_NESTED_FLAGS = tuple(
    row._replace(meant=same if row.name == "one within" else row.meant)
    for row in OF_A_NESTED_TREE
)
OF_A_PAIR = (
    Given("a list", list, same),
    Given("a namedtuple", lambda pair: Other(*pair), same),
    Given("a dict", as_dict, None),
    Given("the first alone", lambda pair: pair[0], None),
    Given("the first in a tuple", lambda pair: pair[:1], None),
    Given("swapped", lambda pair: pair[::-1], None),
    Given("None", lambda pair: None, None),
)
