"""Types and structures: how they are compared, described and located."""

import collections
import dataclasses
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import SymbolicZero

from strict_hijax import _jax, _types
from tests.primitives import AVAL, X

Point = collections.namedtuple("Point", "x y")


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any = None


class Odd(_jax.AbstractValue):
    """A type that may neither be compared nor printed."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("may not be compared")

    def __hash__(self) -> int:
        return 0

    def normalize(self) -> Any:
        return self

    def str_short(
        self, short_dtypes: bool = False, mesh_axis_types: Any = False
    ) -> str:
        raise RuntimeError("may not be printed")


# --- comparison -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [X, np.ones(3), 1, 1.0, True, 1j, jax.random.key(0), jax.new_ref(X)]
)
def test_type_of_is_what_jax_says(value: Any) -> None:
    assert _types.type_of(value) == jax.typeof(value)


@pytest.mark.parametrize("value", ["x", object(), None, [1], {}, jnp.sin])
def test_type_of_no_value(value: Any) -> None:
    assert _types.type_of(value) is None
    assert "is not a valid JAX type" in _types.no_type_says(value)


def test_weak_types_are_ignored_and_dtypes_are_not() -> None:
    assert _types.same_type(jax.typeof(1.0), jax.typeof(jnp.float32(1)))
    assert not _types.same_type(jax.typeof(1.0), jax.typeof(jnp.bfloat16(1)))
    assert not _types.same_type(jax.typeof(1), jax.typeof(1.0))


def test_an_unpickled_type_is_the_type_that_it_was():
    unpickled = pickle.loads(pickle.dumps(AVAL))
    again = pickle.loads(pickle.dumps(AVAL))
    assert _types.same_type(unpickled, AVAL)
    assert _types.same_type(AVAL, unpickled)
    assert _types.same_type(unpickled, again)
    for other in (jnp.ones(4), jnp.ones(3, "int32"), jnp.ones((1, 3))):
        assert not _types.same_type(unpickled, jax.typeof(other))


def test_a_type_that_may_not_be_compared_matches_its_kind() -> None:
    assert _types.same_type(Odd(), Odd())
    assert not _types.same_type(Odd(), AVAL)


def test_the_cotangent_type() -> None:
    assert _types.cotangent_type(AVAL) == AVAL
    assert _types.cotangent_type(jax.typeof(jax.new_ref(X))) == AVAL
    for value in (1, True, jax.random.key(0)):
        assert _types.has_no_tangent(_types.cotangent_type(jax.typeof(value)))
    assert _types.cotangent_type(Odd()) is None
    assert not _types.has_no_tangent(None)


# --- in words -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None"),
        ("abc", "the string 'abc'"),
        ("x" * 99, f"the string {'x' * 40!r}"),
        ([], "an empty list"),
        ([1, 2], "a list of 2"),
        ((1,), "a tuple of 1"),
        ({"a": 1}, "a dict of 1"),
        (collections.OrderedDict(a=1), "an OrderedDict of 1"),
        (1.5, "the Python float 1.5"),
        (True, "the Python bool True"),
        (X, "float32[3]"),
        (np.float32(1), "float32[]"),
        (_jax.Zero(AVAL), "a Zero of type float32[3]"),
        (SymbolicZero(AVAL), "a SymbolicZero of type float32[3]"),
        (len, "the function len"),
        (object(), "an object"),
        (Point(1, 2), "a Point"),
        (iter([]), "a list_iterator"),
    ],
)
def test_values_in_words(value: Any, words: str) -> None:
    assert _types.describe_value(value) == words


def test_types_in_words() -> None:
    assert _types.describe(AVAL) == "float32[3]"
    assert _types.describe(Odd()) == "Odd"


def test_two_types_that_look_the_same_are_told_apart() -> None:
    weak, strong = jax.typeof(1.0), jax.typeof(jnp.float32(1))
    expected, got = _types.describe_pair(strong, weak)
    assert expected != got
    assert "weak_type" in got
    assert _types.describe_pair(AVAL, strong) == ("float32[3]", "float32[]")


# --- structures -----------------------------------------------------------------------


def mismatch(expected: Any, value: Any, **options: Any) -> Any:
    treedef = jax.tree.structure(expected)
    found = _types.structure_mismatch(treedef, value, path="p", **options)
    return None if found is None else (found.path, found.expected, found.got)


@pytest.mark.parametrize(
    "tree", [1, (1, 2), [], {"a": (1, None)}, Point(1, [2]), Layer(1, {"b": 2}), None]
)
def test_a_structure_fits_itself(tree: Any) -> None:
    assert mismatch(tree, tree) is None


@pytest.mark.parametrize(
    ("expected", "value", "found"),
    [
        (1, (1,), ("p", "a single value", "a tuple of 1")),
        (1, None, ("p", "a single value", "None")),
        ((1, 2), [1, 2], ("p", "a tuple of 2", "a list of 2")),
        ((1, 2), (1,), ("p", "a tuple of 2", "a tuple of 1")),
        (None, X, ("p", "None", "float32[3]")),
        ({"a": 1}, {"b": 1}, ("p", "a dict with keys 'a'", "a dict with keys 'b'")),
        (
            {"a": (1, 2)},
            {"a": (1, [2])},
            ("p['a'][1]", "a single value", "a list of 1"),
        ),
        (Point(1, 2), (1, 2), ("p", "a Point of 2", "a tuple of 2")),
        (Point(1, (2,)), Point(1, 2), ("p.y", "a tuple of 1", "the Python int 2")),
        (Layer(1, 2), {"weight": 1}, ("p", "a Layer of 2", "a dict of 1")),
        (Layer(1, (2,)), Layer(1, [2]), ("p.bias", "a tuple of 1", "a list of 1")),
        (collections.OrderedDict(a=1), {"a": 1}, None),
    ],
)
def test_the_first_place_that_departs(expected: Any, value: Any, found: Any) -> None:
    if found is None:
        found = ("p", "an OrderedDict of 1", "a dict of 1")
    assert mismatch(expected, value) == found


@pytest.mark.parametrize("zero", [None, _jax.Zero(AVAL), SymbolicZero(AVAL)])
def test_zeros_stand_for_a_leaf_and_not_for_a_container(zero: Any) -> None:
    assert mismatch({"a": 1}, {"a": zero}, zeros=True) is None
    assert mismatch({"a": (1,)}, {"a": zero}, zeros=True)[0] == "p['a']"
    assert mismatch({"a": 1}, {"a": None}) is not None


def test_paths_of_a_structure() -> None:
    tree = ({"w": 1, "b": (2, None)}, Point(3, [4]))
    treedef = jax.tree.structure(tree)
    assert list(_types.paths_of(treedef)) == [
        "[0]['b'][0]",
        "[0]['w']",
        "[1].x",
        "[1].y[0]",
    ]
    named = list(_types.paths_of(treedef, ("params", "x")))
    assert named == ["params['b'][0]", "params['w']", "x.x", "x.y[0]"]
