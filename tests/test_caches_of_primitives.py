"""Constants that a user's rules cache, where the rules are traced ahead of JAX."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import check
from tests.primitives import X, gradient, sine, vjp_bwd, vjp_fwd


def cached_table() -> Any:
    @functools.lru_cache
    def table(n: int) -> Any:
        return jnp.arange(1.0, n + 1)

    return table


def kept_in_a_dict() -> Any:
    kept: dict[int, Any] = {}

    def table(n: int) -> Any:
        if n not in kept:
            kept[n] = jnp.arange(1.0, n + 1)
        return kept[n]

    return table


CACHES = pytest.mark.parametrize(
    "cache", [cached_table, kept_in_a_dict], ids=["lru_cache", "dict"]
)


def rules_with(table: Any, where: str) -> dict[str, Any]:
    """The rules of `x * table`, one of which asks a cache for the table."""
    constant = jnp.arange(1.0, 4.0)

    def of(rule: str) -> Any:
        return table(3) if rule == where else constant

    return {
        "expand": lambda self, x: x * of("expand"),
        "vjp_fwd": lambda self, nz, x: (self(x), of("vjp_fwd")),
        "vjp_bwd": lambda self, r, g, a: a.accum(g * of("vjp_bwd") * r / constant),
        "jvp": lambda self, p, t: (self(*p), t[0] * of("jvp")),
        "batch": lambda self, data, args, dims: (
            jax.vmap(lambda x: x * of("batch"), dims[0])(args[0]),
            0,
        ),
    }


@CACHES
@pytest.mark.parametrize("where", ["expand", "vjp_fwd", "vjp_bwd", "jvp", "batch"])
@pytest.mark.parametrize("examples", [None, True])
def test_a_constant_that_a_rule_caches(cache, where, examples):
    prim = sine(**rules_with(cache(), where), examples=examples)()
    table = np.arange(1.0, 4.0)
    np.testing.assert_allclose(prim(X), X * table)
    np.testing.assert_allclose(gradient(prim, X), table)
    np.testing.assert_allclose(jax.jvp(prim, (X,), (X,))[1], X * table)
    pair = jnp.stack([X, X])
    np.testing.assert_allclose(jax.vmap(prim)(pair), pair * table)


@CACHES
def test_a_constant_cached_while_check_traces(cache):
    prim = sine(**rules_with(cache(), "expand"))()
    check(prim)
    np.testing.assert_allclose(jax.jit(prim)(X), X * np.arange(1.0, 4.0))


def test_an_attribute_of_the_instance_that_is_filled_once():
    def expand(self: Any, x: Any) -> Any:
        if not hasattr(self, "_table"):
            self._table = jnp.arange(1.0, 4.0)
        return x * self._table

    prim = sine(expand=expand, vjp_fwd=vjp_fwd, vjp_bwd=vjp_bwd)()
    check(prim)
    np.testing.assert_allclose(prim(X), X * np.arange(1.0, 4.0))
