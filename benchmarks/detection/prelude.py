"""What generated programs have in scope, besides JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct as S
from jax.custom_derivatives import SymbolicZero
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback
from jax.experimental.hijax import AbstractRef, GradAccum, Zero
from jax.extend.core import Primitive

from strict_hijax._jax import Effect

FLOAT0 = jax.dtypes.float0


def fit(x: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """`x` in another shape and dtype, summed and broadcast; its own transpose."""
    x = jnp.asarray(x)
    if x.shape != shape:
        x = jnp.broadcast_to(x.sum(dtype=x.dtype), shape)
    if jnp.iscomplexobj(x) and not jnp.issubdtype(dtype, jnp.complexfloating):
        x = x.real
    return x.astype(dtype)


def dense(x: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """A cotangent or tangent as an array, where it may be a symbolic zero."""
    if isinstance(x, Zero | SymbolicZero) or x is None:
        return jnp.zeros(shape, dtype)
    return x


def no_tangent(shape: tuple[int, ...]) -> Any:
    """The tangent of an integer output."""
    return np.zeros(shape, FLOAT0)


def typed(shape: tuple[int, ...], dtype: str) -> Any:
    """The JAX type of an array."""
    return jax.typeof(S(shape, dtype))


def ref_to(aval: Any) -> Any:
    """The JAX type of a Ref."""
    return AbstractRef(aval)


def ones(shape: tuple[int, ...], dtype: str) -> Any:
    """An array that no device holds."""
    return np.ones(shape, jnp.dtype(dtype))


def wants(accum: Any) -> bool:
    """Whether what `transpose` is given for an input is an accumulator."""
    return isinstance(accum, GradAccum)


def values_of(primals: Any) -> Any:
    """The values of what fwd is given with `symbolic_zeros`."""
    return jax.tree.map(
        lambda p: p.value, primals, is_leaf=lambda p: hasattr(p, "value")
    )


class LibraryEffect(Effect):
    """An effect of some library, which JAX knows nothing of."""

    __str__ = lambda self: "Library"  # noqa: E731


def at(tree: Any, place: int, change: Callable[[Any], Any]) -> Any:
    """A tree with one leaf changed."""
    leaves, treedef = jax.tree.flatten(tree)
    leaves[place] = change(leaves[place])
    return jax.tree.unflatten(treedef, leaves)


communicate_p = Primitive("communicate")
communicate_p.def_impl(lambda x: x)
communicate_p.def_effectful_abstract_eval(lambda x: (x, {LibraryEffect()}))


# --- effects, and what they can stand in ----------------------------------------------


def communicate(x: Any) -> Any:
    """Not allowed in custom derivatives: nothing is registered for it."""
    return communicate_p.bind(x)


def tap(x: Any) -> Any:
    """Not allowed in custom derivatives."""
    record = lambda context, out, x: None  # noqa: E731
    return buffer_callback(record, S(x.shape, x.dtype), has_side_effect=True)(x)


def log(x: Any) -> Any:
    """Not allowed under checkpoint; on 0.11.2 not in custom derivatives, either."""
    return io_callback(lambda x: x, S(x.shape, x.dtype), x)


def show(x: Any) -> Any:
    """Allowed everywhere but where nothing is."""
    jax.debug.print("{}", x)
    return x


def directly(body: Any, x: Any) -> Any:
    return body(x)


def in_scan(body: Any, x: Any) -> Any:
    return jax.lax.scan(lambda c, _: (body(c), None), x, None, length=2)[0]


def in_cond(body: Any, x: Any) -> Any:
    return jax.lax.cond(jnp.sum(jnp.abs(x)) > 0, body, lambda x: x, x)


def in_while(body: Any, x: Any) -> Any:
    step = lambda state: (state[0] + 1, body(state[1]))  # noqa: E731
    return jax.lax.while_loop(lambda state: state[0] < 2, step, (0, x))[1]


def in_jit(body: Any, x: Any) -> Any:
    return jax.jit(lambda x: jax.jit(body)(x))(x)


def in_custom_jvp(body: Any, x: Any) -> Any:
    inner = jax.custom_jvp(body)
    inner.defjvp(lambda primals, tangents: (inner(*primals), tangents[0]))
    return inner(x)


def in_checkpoint(body: Any, x: Any) -> Any:
    return jax.checkpoint(body)(x)
