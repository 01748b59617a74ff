"""Programs that call the rules of transformations: linearized, transposed, reduced."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from . import primitives
from .kit import Kit

type Fun = Callable[..., Any]


def linearized(kit: Kit) -> Fun:
    """`lin`, and `linearized` on what it keeps."""
    tanh = primitives.from_linearization(kit)

    def tangent(x):
        return jax.linearize(tanh, x)[1](jnp.sin(x))

    return tangent


def transposed(kit: Kit) -> Fun:
    """`transpose`, on its own and behind another operation."""
    scale = primitives.linear(kit)

    def cotangent(x):
        (ct,) = jax.linear_transpose(lambda t: scale(3 * scale(t)), x)(jnp.sin(x))
        return ct

    return cotangent


def reduced(kit: Kit) -> Fun:
    """`dce`: of two outputs only one is used, in a jitted function."""

    class SinCos(kit.prim, **kit.promise("grad", "jvp", "vmap")):
        def __init__(self, x: Any, *, outs: tuple[bool, bool] = (True, True)) -> None:
            self.in_avals = (x,)
            self.out_aval = tuple(x for wanted in outs if wanted)
            self.params = {"outs": outs}
            super().__init__()

        def expand(self, x):
            funs = (jnp.sin, jnp.cos)
            return tuple(f(x) for f, o in zip(funs, self.outs, strict=True) if o)

        def jvp(self, primals, tangents):
            (x,), (t,) = primals, tangents
            slopes = (jnp.cos(x), -jnp.sin(x))
            tangents = (s * t for s, o in zip(slopes, self.outs, strict=True) if o)
            return self(x), tuple(tangents)

        vjp_fwd, vjp_bwd_retval = primitives.vjp_from_jvp

        def batch(self, axis_data, args, dims):
            (x,), (dim,) = args, dims
            x = primitives.at_front(axis_data.size, x, dim)
            out = SinCos(jax.typeof(x), outs=self.outs)(x)
            return out, tuple(0 for _ in out)

        def dce(self, used_outs, *live_ins):
            if not any(used_outs):
                return False, False, None
            used = iter(used_outs)
            outs = tuple(o and next(used) for o in self.outs)
            return True, used_outs, SinCos(self.in_avals[0], outs=outs)

    def sine(x):
        return jax.jit(lambda x: SinCos(jax.typeof(x))(x)[0])(x)

    return sine


def rematerialized(kit: Kit) -> Fun:
    """`remat`, which `jax.checkpoint` calls under `jax_remat3`."""
    after = 3 if "live_ins" in kit.prim.dce.__code__.co_varnames else 2

    class Square(kit.prim, **kit.promise("grad")):
        def __init__(self, x: Any) -> None:
            self.in_avals = (x,)
            self.out_aval = x
            self.params = {}
            super().__init__()

        def expand(self, x):
            return x * x

        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        def vjp_bwd_retval(self, x, ct):
            return (2 * x * ct,)

        def remat(self, trace, x):
            if after == 3:
                return self(x), (), lambda res, x: self(x)
            return self(x), lambda x: self(x)

    def square(x):
        return Square(jax.typeof(x))(x)

    return square
