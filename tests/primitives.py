"""Primitives for the tests: a small one with some of its rules replaced."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import HiPrim

from strict_hijax import StrictHijaxError, StrictHiPrim

X = jnp.arange(1.0, 4.0)
AVAL = jax.typeof(X)


def init(in_avals: Any, out_aval: Any = None, **params: Any) -> Callable[..., None]:
    """An `__init__` that declares these types, whatever it is called with."""

    def __init__(self: Any) -> None:
        self.in_avals = in_avals
        self.out_aval = in_avals[0] if out_aval is None else out_aval
        self.params = params
        base = StrictHiPrim if isinstance(self, StrictHiPrim) else HiPrim
        base.__init__(self)

    return __init__


def expand(self: Any, x: Any) -> Any:
    return jnp.sin(x)


def vjp_fwd(self: Any, nzs_in: Any, x: Any) -> Any:
    return self(x), x


def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
    x_acc.accum(g * jnp.cos(x))


def sine(name: str = "Sine", bases: Any = (StrictHiPrim,), **body: Any) -> Any:
    """A class for the sine with these rules in place of its own; None leaves one out.

    `keywords=` holds class keywords, `examples=True` adds one example.
    """
    keywords = body.pop("keywords", {})
    rules = {
        "__module__": "mylib",
        "__init__": init((AVAL,)),
        "expand": expand,
        "vjp_fwd": vjp_fwd,
        "vjp_bwd": vjp_bwd,
    }
    if body.keys() & {"vjp_bwd_retval", "vjp_bwd_retval_logs"}:
        del rules["vjp_bwd"]
    if body.get("examples") is True:
        body["examples"] = classmethod(lambda cls: [cls()])
    members = {k: v for k, v in (rules | body).items() if v is not None}
    return types.new_class(name, bases, keywords, lambda ns: ns.update(members))


# --- the same with HiPrim -------------------------------------------------------------

type Make = Callable[[Any], Any]


def both(make: Make, run: Callable[[Any], Any]) -> Any:
    """What a strict class gives, once it is seen to be what the plain one gives."""
    strict, plain = run(make(StrictHiPrim)), run(make(HiPrim))
    jax.tree.map(np.testing.assert_array_equal, strict, plain)
    return strict


def unary(base: Any, **body: Any) -> Any:
    """The sine, derived from this class, with some rules replaced."""
    rules = {
        "__init__": init((AVAL,)),
        "expand": lambda self, x: jnp.sin(x),
        "vjp_fwd": lambda self, nz, x: (self(x), x),
    }
    if not body.keys() & {"vjp_bwd_retval", "vjp_bwd_retval_logs"}:
        rules["vjp_bwd"] = lambda self, x, g, a: a.accum(g * jnp.cos(x))
    return type(base)("Sine", (base,), rules | body)


def binary(base: Any, **body: Any) -> Any:
    """The product of two arrays, derived from this class, without a backward."""
    rules = {
        "__init__": init((AVAL, AVAL)),
        "expand": lambda self, x, y: x * y,
        "vjp_fwd": lambda self, nz, x, y: (self(x, y), (x, y)),
    }
    return type(base)("Product", (base,), rules | body)


# --- what stock takes -----------------------------------------------------------------


def stock_raises(fault: Fault, run: Callable[[Any], Any]) -> Exception | None:
    """What stock raises for these rules; None where it takes them."""
    body = fault.body | {"keywords": {}}
    return raised_by(lambda: run(sine(bases=(HiPrim,), **body)()))


def words_of(error: Exception) -> str:
    """The first line of what stock says, which ours has to repeat."""
    return str(error).partition("\n")[0]


# --- faults ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Fault:
    """One wrong rule, and what is said of it wherever it is found."""

    name: str
    body: dict[str, Any]
    code: str
    rule: str
    stock: type[Exception]
    path: str | None = None
    says: tuple[str, ...] = ()
    args: tuple[Any, ...] = (X,)

    def check_error(self, error: StrictHijaxError) -> None:
        """Every attribute and every part of the message that a user relies on."""
        assert error.code == self.code
        assert error.subject == "mylib.Sine"
        assert error.rule == self.rule
        assert error.path == self.path
        assert isinstance(error, self.stock)
        message = str(error)
        assert message.startswith(f"{self.code} `mylib.Sine` ")
        for part in (f"`{self.rule}`", self.path or "", *self.says):
            assert part in message
        assert f"explain {self.code}" in message
        assert error.hint


def total(outputs: Any) -> Any:
    """The sum of all elements of some outputs, so that there is a gradient."""
    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(outputs))


def gradient(prim: Any, *args: Any) -> Any:
    """The gradient of the sum of what a primitive gives, for its first argument."""
    return jax.grad(lambda *args: total(prim(*args)), allow_int=True)(*args)


def found_in(find: Callable[[], Any]) -> StrictHijaxError:
    """The error that a piece of code raises."""
    with pytest.raises(StrictHijaxError) as caught:
        find()
    return caught.value


def raised_by(run: Callable[[], Any]) -> Exception | None:
    """What a piece of code raises, if it raises anything."""
    try:
        run()
    except Exception as error:
        return error
    return None
