"""Mistakes that a type checker can see: an error on each marked line, and no other."""

import jax.numpy as jnp
from jax import Array

from strict_hijax import StrictHiPrim, StrictHiType, checked_custom_vjp


class NumberForSupports(StrictHiPrim, supports=3):  # error
    pass


class NumbersForSupports(StrictHiPrim, supports=(1, 2)):  # error
    pass


class WordForAbstract(StrictHiPrim, abstract="yes"):  # error
    pass


class NumberForIgnore(StrictHiPrim, ignore=316):  # error
    pass


class NumberForUses(StrictHiType, supports=3):  # error
    pass


class WordForAbstractType(StrictHiType, abstract="yes"):  # error
    pass


@checked_custom_vjp
def double(x: Array) -> Array:
    return x + x


@checked_custom_vjp(nondiff_argnums=(0,))
def triple(n: int, x: Array) -> Array:
    return n * x


wrong: str = double(jnp.ones(3))  # error
wrong_too: str = triple(3, jnp.ones(3))  # error
double.defvjp(3, lambda _, g: (g,))  # error
double.defvjp(lambda x: (x, None))  # error
checked_custom_vjp(3)  # error
