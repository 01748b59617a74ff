"""Types and structures: how they are compared, told apart in words, and located."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import tree_util

from . import _jax
from ._errors import StrictHijaxError


def type_of(value: Any) -> Any | None:
    """The JAX type of a value, or None where it has none (a string, an object)."""
    if isinstance(value, _jax.Tracer):
        return value.aval
    if type(value) is _jax.ArrayImpl and type(value.sharding) is _jax.OneDevice:
        return value.aval  # what `typeof` says of it, five times as fast
    try:
        return _jax.typeof(value)
    except StrictHijaxError:  # its type is at fault, and says so
        raise
    except (TypeError, ValueError):
        return None


def no_type_says(value: Any) -> str:
    """What JAX says of a value that has no type."""
    try:
        _jax.typeof(value)
    except (TypeError, ValueError) as error:
        return str(error).partition("\n")[0][:200]
    return ""


def types_are(leaves: Sequence[Any], declared: Sequence[Any]) -> bool:
    """Whether values have the declared types, one by one; there are as many."""
    return all(map(_has_type, leaves, declared))


def _has_type(value: Any, wanted: Any) -> bool:
    aval = type_of(value)
    return aval is wanted or (aval is not None and same_type(aval, wanted))


def same_type(a: Any, b: Any) -> bool:
    """Whether two types match as JAX matches them; dtypes always count.

    Weak types are ignored and shardings respected (`jax._src.core.typematch`). A type
    whose `__eq__` raises matches only itself.
    """
    if a is b:
        return True
    unpickled = _jax.as_before_pickling
    try:
        return bool(_jax.typematch(a, b) or _jax.typematch(unpickled(a), unpickled(b)))
    except Exception:  # a hijax type may compare in any way it likes
        return type(a) is type(b)


def inner_type(aval: Any) -> Any:
    """What a Ref refers to; any other type as it is."""
    return aval.inner_aval if isinstance(aval, _jax.AbstractRef) else aval


def cotangent_type(aval: Any) -> Any | None:
    """The type that a cotangent for an input of this type must have.

    None where the type does not say (a hijax type without tangents).
    """
    try:
        return inner_type(aval).to_ct_aval()
    except (NotImplementedError, AttributeError, TypeError):
        return None


def tangent_type(aval: Any) -> Any | None:
    """The type that a tangent for a value of this type must have.

    None where the type does not say.
    """
    try:
        return aval.to_tangent_aval()
    except (NotImplementedError, AttributeError, TypeError):
        return None


def has_no_tangent(ct_aval: Any | None) -> bool:
    """Whether a cotangent type is float0: of integers, booleans and keys."""
    return getattr(ct_aval, "dtype", None) == jax.dtypes.float0


def lowered_types(aval: Any) -> list[Any]:
    """The types that a hijax type is made of; any other type alone."""
    return list(aval.lo_ty()) if aval.is_high else [aval]


def raised(aval: Any, values: Iterator[Any]) -> Any:
    """A value of a type, made of the next values of what it is lowered to."""
    if not aval.is_high:
        return next(values)
    return aval.raise_val(*(next(values) for _ in aval.lo_ty()))


def lowered_value(value: Any) -> list[Any]:
    """What a hijax value is made of; any other value alone."""
    aval: Any = type_of(value)
    return list(aval.lower_val(value)) if aval.is_high else [value]


def is_zero(value: Any) -> bool:
    """Whether a value is one of JAX's symbolic zeros."""
    return isinstance(value, _jax.Zero | _jax.SymbolicZero)


def describe(aval: Any) -> str:
    """A type in JAX's own short form, such as `bfloat16[128,64]`."""
    short = getattr(aval, "str_short", None)
    if short is None:
        return str(aval)
    try:
        return str(short())
    except Exception:  # a hijax type may print in any way it likes
        return type(aval).__name__


def describe_pair(expected: Any, got: Any) -> tuple[str, str]:
    """Two types in words that differ, even where their short forms are the same."""
    short = describe(expected), describe(got)
    if short[0] != short[1]:
        return short
    spelled = [
        f"{describe(aval)} {_details(aval)}".rstrip() for aval in (expected, got)
    ]
    if spelled[0] != spelled[1]:
        return spelled[0], spelled[1]
    return f"{short[0]} ({expected!r})", f"{short[1]} ({got!r})"


def _details(aval: Any) -> str:
    """What the short form leaves out: weak type, sharding, varying axes, memory."""
    names = ("sharding", "vma", "mat", "memory_space", "weak_type")
    found = ((name, getattr(aval, name, None)) for name in names)
    return " ".join(f"{name}={value}" for name, value in found if value)


def describe_value(value: Any) -> str:
    """A value in a few words, without printing it whole."""
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if is_zero(value):
        return f"a {type(value).__name__} of type {describe(value.aval)}"
    if isinstance(value, dict | list | tuple) and not hasattr(value, "_fields"):
        kind = type(value).__name__
        return f"{_a(kind)} of {len(value)}" if value else f"an empty {kind}"
    if isinstance(value, bool | int | float | complex) and not isinstance(
        value, np.generic
    ):
        return f"the Python {type(value).__name__} {value!r}"
    aval = type_of(value)
    if aval is not None:
        return describe(aval)
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the function {value.__qualname__}"
    return _a(type(value).__name__)


def _a(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def wrong_logs(logs: dict[Any, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong in a dict of logs: the path of an entry, and what is there."""
    for key, value in logs.items():
        wrong = [x for x in tree_util.tree_leaves(value) if type_of(x) is None]
        if not isinstance(key, str):
            yield f"logs[{key!r}]", f"a key of type {type(key).__name__}"
        elif wrong:
            yield f"logs[{key!r}]", describe_value(wrong[0])


class Mismatch(NamedTuple):
    """The first place at which a value's structure is not the expected one."""

    path: str
    expected: str
    got: str


def any_zero(tree: Any) -> bool:
    """Whether a symbolic zero is among the leaves."""
    return any(map(is_zero, tree_util.tree_leaves(tree, is_leaf=is_zero)))


def structure_mismatch(
    treedef: Any, value: Any, *, zeros: bool = False, path: str = ""
) -> Mismatch | None:
    """Where `value` first departs from `treedef`, or None where it fits.

    With `zeros`, None or a symbolic zero may stand in place of a leaf, but not of a
    subtree. Hijax values, which need be no pytrees, are leaves.
    """
    if treedef == LEAF:
        return _leaf_mismatch(value, zeros, path)
    kind, data = treedef.node_data()
    if kind is type(None):
        return None if value is None else Mismatch(path, "None", describe_value(value))
    if type(value) is not kind:
        return Mismatch(path, _describe_node(treedef), describe_value(value))
    keyed, children = _one_level(value), treedef.children()
    if len(keyed) != len(children) or not _same_data(data, value):
        return Mismatch(path, _describe_node(treedef), _describe_container(value))
    for (key, child), sub in zip(keyed, children, strict=True):
        inner = structure_mismatch(
            sub, child, zeros=zeros, path=path + _jax.keystr((key,))
        )
        if inner is not None:
            return inner
    return None


LEAF = tree_util.tree_structure(0)


def _leaf_mismatch(value: Any, zeros: bool, path: str) -> Mismatch | None:
    if zeros and (value is None or is_zero(value)):
        return None
    if value is None or _jax.tracing_registry.flatten(value)[1] != LEAF:
        return Mismatch(path, "a single value", describe_value(value))
    return None


def _same_data(data: Any, value: Any) -> bool:
    """Whether a container's own data, such as its keys, is what the structure has."""
    try:
        return bool(_jax.tracing_registry.flatten(value)[1].node_data()[1] == data)
    except Exception:  # a container's data may compare in any way it likes
        return True


def _one_level(value: Any) -> list[tuple[Any, Any]]:
    return list(_jax.flatten_one_level_with_keys(value)[0])


def _describe_node(treedef: Any) -> str:
    kind, data = treedef.node_data()
    if kind is dict:
        return f"a dict with keys {', '.join(map(repr, data))}"
    count = len(treedef.children())
    return f"{_a(kind.__name__)} of {count}"


def _describe_container(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict with keys {', '.join(map(repr, value))}"
    return describe_value(value)


def paths_of(treedef: Any, names: Sequence[str] | None = None) -> Iterator[str]:
    """Key paths of a structure's leaves; with `names` for the outermost entries."""
    try:
        dummy = tree_util.tree_unflatten(treedef, [object()] * treedef.num_leaves)
    except Exception:  # a container may refuse to hold anything but arrays
        yield from (f"leaf {i}" for i in range(treedef.num_leaves))
        return
    for keypath, _ in tree_util.tree_leaves_with_path(dummy):
        if names is None:
            yield _jax.keystr(keypath)
        else:
            index = getattr(keypath[0], "idx", 0)
            yield names[index] + _jax.keystr(keypath[1:])
