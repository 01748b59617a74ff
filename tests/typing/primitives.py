"""Primitives as most people write them: without annotations."""

import dataclasses
from abc import abstractmethod

import jax
import jax.numpy as jnp
from jax.experimental.hijax import (
    ShapedArray,
    jvp_from_lin,
    linearize_from_jvp,
    vjp_from_jvp,
    vjp_from_lin,
)

from strict_hijax import StrictHiPrim, check, transforms


class Elementwise(StrictHiPrim, abstract=True):
    def __init__(self, aval):
        self.in_avals = (aval,)
        self.out_aval = aval
        self.params = {}
        super().__init__()

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((3,), jnp.dtype("float32")))


class Sin(Elementwise, supports=("grad", "vmap")):
    def expand(self, x):
        return jnp.sin(x)

    def vjp_fwd(self, nzs_in, x):
        return self(x), jnp.cos(x)

    def vjp_bwd(self, res, g, acc):
        acc.accum(res * g)

    def batch(self, axis_data, args, dims):
        (x,), (d,) = args, dims
        return Sin(jax.typeof(x))(x), d


class SinOfValues(Elementwise):
    def expand(self, x):
        return jnp.sin(x)

    def vjp_fwd(self, nzs_in, x):
        return self(x), jnp.cos(x)

    def vjp_bwd_retval(self, res, g):
        return (res * g,)


class SinWithLogs(SinOfValues, ignore=("SH316",)):
    def vjp_bwd_retval_logs(self, res, g):
        return (res * g,), {"norm": jnp.sum(g)}


class SinFromJvp(Elementwise, supports=("grad", "jvp", "linearize")):
    def expand(self, x):
        return jnp.sin(x)

    def jvp(self, primals, tangents):
        (x,), (t,) = primals, tangents
        return self(x), t * jnp.cos(x)

    lin, linearized = linearize_from_jvp
    vjp_fwd, vjp_bwd_retval = vjp_from_jvp


class SinFromLin(Elementwise, supports={"grad", "jvp", "linearize"}):
    def expand(self, x):
        return jnp.sin(x)

    def lin(self, nzs_in, x):
        return self(x), jnp.cos(x)

    def linearized(self, res, t):
        return res * t

    jvp = jvp_from_lin
    vjp_fwd, vjp_bwd_retval = vjp_from_lin


class Multiply(StrictHiPrim, supports=["grad"]):
    """Two inputs under names of their own, the second of them optional."""

    def __init__(self, a, b):
        self.in_avals = (a, b)
        self.out_aval = a
        self.params = {}
        super().__init__()

    def expand(self, a, b):
        return a * b

    def vjp_fwd(self, nzs_in, a, b):
        return self(a, b), (a, b)

    def vjp_bwd(self, res, g, a_acc, b_acc):
        a, b = res
        a_acc.accum(g * b)
        b_acc.accum(g * a)


class Sum(StrictHiPrim):
    """Any number of inputs."""

    def __init__(self, *avals):
        self.in_avals = avals
        self.out_aval = avals[0]
        self.params = {}
        super().__init__()

    def expand(self, *xs):
        return sum(xs)

    def vjp_fwd(self, nzs_in, *xs):
        return self(*xs), None

    def vjp_bwd(self, res, g, *accs):
        for acc in accs:
            acc.accum(g)


class Lookup(Elementwise, supports=()):
    def expand(self, x):
        return x


class Scaled(Elementwise, abstract=True):
    @abstractmethod
    def factor(self): ...

    def expand(self, x):
        return self.factor() * x


class LinearRules:
    """Rules from a class that is no primitive."""

    def vjp_fwd(self, nzs_in, x):
        return x, None

    def vjp_bwd_retval(self, res, g):
        return (g,)


class Identity(LinearRules, Elementwise):
    def expand(self, x):
        return x


@dataclasses.dataclass(frozen=True, eq=False)
class Power(StrictHiPrim, supports=()):
    aval: ShapedArray
    n: int

    def __post_init__(self):
        object.__setattr__(self, "in_avals", (self.aval,))
        object.__setattr__(self, "out_aval", self.aval)
        object.__setattr__(self, "params", {})
        super().__init__()

    def expand(self, x):
        return x**self.n


def use(x):
    y = Sin(jax.typeof(x))(x)
    check(Sin)
    check(Sin(jax.typeof(x)))
    transforms(Sin)
    return jax.grad(lambda x: Multiply(jax.typeof(x), jax.typeof(y))(x, y))(x)
