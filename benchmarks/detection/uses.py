"""What is done with a program: a call of it, lowered, differentiated and mapped.

A use only traces. `stages.py` has which uses a program is put to, and in what order.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

NEWER = ("jax_remat3", "jax_custom_vjp3")


def total(outputs: Any) -> Any:
    """A real scalar that every inexact output has a share in."""
    found = [
        jnp.sum(jnp.real(x).astype("float32"))
        for x in jax.tree.leaves(outputs)
        if jnp.issubdtype(jnp.result_type(x), jnp.inexact)
    ]
    return sum(found, start=jnp.float32(0))


@dataclass(frozen=True)
class Call:
    """A callable, its arguments, and which of their leaves are differentiated."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    refs: tuple[bool, ...] = ()

    @property
    def leaves(self) -> list[Any]:
        return jax.tree.leaves(self.args)

    def inexact(self) -> list[int]:
        kinds = [jnp.issubdtype(np.asarray(x).dtype, jnp.inexact) for x in self.leaves]
        return [i for i, kind in enumerate(kinds) if kind]

    def on(self, moved: list[Any]) -> Any:
        """The call with these values for the inexact leaves."""
        found = list(self.leaves)
        for i, value in zip(self.inexact(), moved, strict=True):
            found[i] = value
        args = jax.tree.unflatten(jax.tree.structure(self.args), found)
        made = [
            jax.new_ref(jnp.asarray(arg)) if is_ref else arg
            for arg, is_ref in itertools.zip_longest(args, self.refs[: len(args)])
        ]
        return self.fun(*made)

    @property
    def values(self) -> list[Any]:
        return [self.leaves[i] for i in self.inexact()]


def forward(call: Call) -> object:
    return jax.jit(call.on).trace(call.values).lower()


def traced(fun: Callable[..., Any], *args: Any) -> object:
    return jax.make_jaxpr(fun)(*args)


def looked_up(call: Call) -> object:
    """An interpreter of jaxprs finds a primitive in its table, by its type."""
    table = {type(call.fun): "the rule"}
    eqns = jax.make_jaxpr(call.on)(call.values).jaxpr.eqns
    prims = [eqn.params["_prim"] for eqn in eqns if "_prim" in eqn.params]
    return [table[type(prim)] for prim in prims]


def gradient(call: Call) -> object:
    return traced(jax.grad(lambda moved: total(call.on(moved))), call.values)


_vjp: Any = jax.vjp  # whose result has more than it is annotated with


def into_refs(call: Call) -> object:
    """The gradient accumulated in Refs."""

    def run(moved: list[Any]) -> Any:
        out, vjp = _vjp(lambda *m: call.on(list(m)), *moved)
        refs = [jax.new_ref(jnp.zeros_like(x)) for x in moved]
        vjp.with_refs(*refs)(jax.tree.map(_ones_for, out))
        return [ref[...] for ref in refs]

    return traced(run, call.values)


def with_logs(call: Call) -> object:
    def run(moved: list[Any]) -> Any:
        out, vjp = _vjp(call.on, moved)
        return vjp.with_logs(jax.tree.map(_ones_for, out))

    return traced(run, call.values)


def _ones_for(x: Any) -> Any:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.ones_like(x)
    return np.zeros(x.shape, jax.dtypes.float0)


def forward_mode(call: Call) -> object:
    run = lambda moved: jax.jvp(call.on, (moved,), (moved,))  # noqa: E731
    return traced(run, call.values)


def linearized(call: Call) -> object:
    return traced(lambda m: jax.linearize(call.on, m)[1](m), call.values)


def mapped(call: Call) -> object:
    many = [np.stack([x, x, x, x, x]) for x in call.values]
    return traced(jax.vmap(call.on), many)


def transposed(call: Call) -> object:
    out = jax.eval_shape(call.on, call.values)
    back = jax.linear_transpose(call.on, call.values)
    return traced(back, jax.tree.map(lambda x: np.ones(x.shape, x.dtype), out))


def eliminated(call: Call) -> object:
    """The call with its result unused, and with some of it used."""

    def unused(moved: list[Any]) -> Any:
        call.on(moved)
        return moved

    def first(moved: list[Any]) -> Any:
        return jax.tree.leaves(call.on(moved))[0]

    for fun in (unused, first):
        jaxpr = jax.make_jaxpr(fun)(call.values).jaxpr
        dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))  # as grad of jit does
    return None


def checkpointed(call: Call) -> object:
    saved = jax.checkpoint(call.on)
    return traced(jax.grad(lambda moved: total(saved(moved))), call.values)


def checkpointed_anew(call: Call) -> object:
    """The same with JAX's newer implementations."""
    with contextlib.ExitStack() as stack:
        for name in NEWER:
            stack.enter_context(flag(name))
        return checkpointed(call)


@contextlib.contextmanager
def flag(name: str) -> Generator[None]:
    old = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, old)
