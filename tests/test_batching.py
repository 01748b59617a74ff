"""What `batch` gives: fault 27, and what must be accepted."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import StrictHijaxError, check, ignore
from strict_hijax._jax import HiPrim
from tests.primitives import (
    AVAL,
    Fault,
    X,
    both,
    found_in,
    init,
    raised_by,
    sine,
    stock_raises,
    unary,
)

XS = jnp.arange(6.0).reshape(2, 3)
PAIR = {"a": AVAL, "b": jax.typeof(1.0)}


def batch(give: Any) -> dict[str, Any]:
    """A `batch` that gives this, from its one argument and its dimension."""
    return {"batch": lambda self, axis, args, dims: give(args[0], dims[0])}


def pair_batch(give: Any) -> dict[str, Any]:
    """The same for an output of two arrays."""
    return batch(give) | {
        "__init__": init((AVAL,), PAIR),
        "expand": lambda self, x: {"a": x, "b": jnp.sum(x)},
        "vjp_fwd": None,
        "vjp_bwd": None,
        "keywords": {"supports": ("vmap",)},
    }


def sums(x: Any, d: Any) -> Any:
    return {"a": x, "b": jnp.sum(x, axis=1 - d)}


FAULTS = [
    Fault(
        "the outputs alone",
        batch(lambda x, d: jnp.sin(x)),
        "SH330",
        "batch",
        ValueError,
        None,
        ("in place of a pair", "return outs, out_dims"),
    ),
    Fault(
        "three things",
        batch(lambda x, d: (x, d, None)),
        "SH330",
        "batch",
        ValueError,
        None,
        ("a tuple of 3 in place of a pair",),
    ),
    Fault(
        "nothing",
        batch(lambda x, d: None),
        "SH330",
        "batch",
        ValueError,
        None,
        ("returns None in place of a pair",),
    ),
    Fault(
        "outputs in a tuple",
        batch(lambda x, d: ((x,), d)),
        "SH301",
        "batch",
        ValueError,
        "out",
        ("expected: a single value", "a tuple of 1"),
    ),
    Fault(
        "a missing output",
        pair_batch(lambda x, d: ({"a": x}, {"a": d, "b": 0})),
        "SH301",
        "batch",
        ValueError,
        "out",
        ("a dict with keys 'a', 'b'",),
    ),
    Fault(
        "one dimension for two outputs",
        pair_batch(lambda x, d: (sums(x, d), 0)),
        "SH331",
        "batch",
        ValueError,
        "out_dims",
        ("a dict with keys 'a', 'b'", "jax.tree.map(lambda _: 0, outs)"),
    ),
    Fault(
        "None for two outputs",
        pair_batch(lambda x, d: (sums(x, d), None)),
        "SH331",
        "batch",
        ValueError,
        "out_dims",
        ("got:      None",),
    ),
    Fault(
        "a list of dimensions",
        pair_batch(lambda x, d: (sums(x, d), [d, 0])),
        "SH331",
        "batch",
        ValueError,
        "out_dims",
        ("a list of 2",),
    ),
    Fault(
        "a dimension in a tuple",
        batch(lambda x, d: (x, (d,))),
        # Before 0.12.1 JAX takes it for the dimension, which it then cannot use.
        "SH332" if jax.__version_info__ < (0, 12, 1) else "SH331",
        "batch",
        Exception,
        "out_dims",
        ("a tuple of 1",),
    ),
    Fault(
        "a NumPy integer",
        batch(lambda x, d: (x, np.int64(d))),
        "SH332",
        "batch",
        TypeError,
        "out_dims",
        ("expected: an int, or None",),
    ),
    Fault(
        "True",
        pair_batch(lambda x, d: (sums(x, d), {"a": d, "b": False})),
        "SH332",
        "batch",
        TypeError,
        "out_dims['b']",
        ("the Python bool False",),
    ),
    Fault(
        "an axis after the last",
        batch(lambda x, d: (x, 2)),
        "SH333",
        "batch",
        IndexError,
        "out_dims",
        ("names axis 2", "2 axes", "expected: 0 to 1, or None"),
    ),
    Fault(
        "a negative axis",
        batch(lambda x, d: (jnp.moveaxis(x, d, -1), -1)),
        "SH333",
        "batch",
        IndexError,
        "out_dims",
        ("names axis -1", "return outs, 1"),
    ),
    Fault(
        "axis 1 of scalars",
        pair_batch(lambda x, d: (sums(x, d), {"a": d, "b": 1})),
        "SH333",
        "batch",
        IndexError,
        "out_dims['b']",
        ("expected: 0 or None",),
    ),
    Fault(
        "the wrong axis",
        batch(lambda x, d: (jnp.moveaxis(x, d, 0)[:, :1] * x, 1 - d)),
        "SH334",
        "batch",
        TypeError,
        "outs",
        ("that has another type without its mapped axis",),
    ),
    Fault(
        "one example only",
        batch(lambda x, d: (x[:1], 0) if d == 0 else (x[:, :1], 1)),
        "SH334",
        "batch",
        TypeError,
        "outs",
        ("got:      float32[1,3]",),
    ),
    Fault(
        "another dtype",
        batch(lambda x, d: (x.astype(jnp.bfloat16), d)),
        "SH334",
        "batch",
        TypeError,
        "outs",
        ("out.astype(jnp.float32)",),
    ),
    Fault(
        "a mean over the examples",
        pair_batch(lambda x, d: (sums(x, d) | {"b": jnp.mean(x)}, {"a": d, "b": 0})),
        "SH334",
        "batch",
        TypeError,
        "outs['b']",
        ("got:      float32[]", "return out, None"),
    ),
    Fault(
        "said to be unmapped",
        batch(lambda x, d: (jnp.sin(x), None)),
        "SH335",
        "batch",
        TypeError,
        "outs",
        ("that it says is not mapped", "return out, 0   # or the dimension that"),
    ),
    Fault(
        "said to be unmapped, one of two",
        pair_batch(lambda x, d: (sums(x, d), {"a": d, "b": None})),
        "SH335",
        "batch",
        TypeError,
        "outs['b']",
        ("return out, 0",),
    ),
    Fault(
        "said to be unmapped, of another shape",
        batch(lambda x, d: (jnp.sum(x), None)),
        "SH335",
        "batch",
        TypeError,
        "outs",
        ("expected: float32[3], not mapped", "got:      float32[]"),
    ),
]


def mapped(prim: Any) -> Any:
    return jax.vmap(prim)(XS)


# 0.12.1 takes dimensions in other containers, and one for several outputs.
FAULTS = [f for f in FAULTS if f.code != "SH331" or stock_raises(f, mapped)]

each_fault = pytest.mark.parametrize("fault", FAULTS, ids=[f.name for f in FAULTS])


@each_fault
def test_fault_where_jax_calls_the_rule(fault: Fault) -> None:
    prim = sine(**fault.body)()
    fault.check_error(found_in(lambda: jax.vmap(prim)(XS)))
    fault.check_error(found_in(lambda: jax.jit(jax.vmap(prim)).trace(XS)))


@each_fault
def test_fault_at_check_and_at_import(fault: Fault) -> None:
    prim = sine(**fault.body)()
    fault.check_error(found_in(lambda: check(prim)))
    fault.check_error(found_in(lambda: sine(**fault.body, examples=True)))


@each_fault
def test_fault_that_is_ignored_is_left_to_jax(fault: Fault) -> None:
    prim = sine(**fault.body)()
    with ignore(fault.code):
        error = raised_by(lambda: jax.make_jaxpr(jax.vmap(prim))(XS))
    assert not isinstance(error, StrictHijaxError)


def test_fault_only_at_the_last_axis_is_found_by_check() -> None:
    """The rule is right for the axis that most people try."""
    body = batch(lambda x, d: (jnp.sin(x), 0))
    prim = sine(**body)()
    jax.vmap(prim)(XS)
    error = found_in(lambda: jax.vmap(prim, in_axes=1)(XS.T))
    assert (error.code, error.path) == ("SH334", "outs")
    assert found_in(lambda: check(prim)).code == "SH334"


# --- what must be accepted ------------------------------------------------------------


def right(self: Any, axis_data: Any, args: Any, dims: Any) -> Any:
    return jnp.sin(args[0]), dims[0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_any_axis(axis: int) -> None:
    xs = jnp.moveaxis(XS, 0, axis)
    both(
        lambda base: unary(base, batch=right),
        lambda cls: jax.vmap(cls(), in_axes=axis)(xs),
    )


def test_nested_in_scan_and_in_a_gradient() -> None:
    def run(cls: Any) -> Any:
        nested = jax.vmap(jax.vmap(cls()))(jnp.stack([XS, 2 * XS]))
        scanned = jax.lax.scan(lambda c, x: (c, jax.vmap(cls())(x)), 0.0, XS[None])[1]
        gradient = jax.grad(lambda xs: jax.vmap(cls())(xs).sum())(XS)
        return nested, scanned, gradient

    def make(base: Any) -> Any:
        # JAX maps the forward rule as it is traced, so `batch` sees what it binds.
        return unary(base, batch=right)

    both(make, run)


def test_outputs_that_are_not_mapped() -> None:
    def make(base: Any) -> Any:
        return unary(
            base,
            __init__=init((AVAL,), PAIR),
            expand=lambda self, x: {"a": jnp.sin(x), "b": jnp.float32(2.0)},
            vjp_bwd=lambda self, x, g, a: a.accum(g["a"] * jnp.cos(x)),
            batch=lambda self, axis, args, dims: (
                {"a": jnp.sin(args[0]), "b": jnp.float32(2.0)},
                {"a": dims[0], "b": None},
            ),
        )

    both(make, lambda cls: jax.vmap(cls())(XS))
    check(make(sine().__mro__[1])())


def test_with_a_name_and_a_size_alone() -> None:
    def run(cls: Any) -> Any:
        named = jax.vmap(cls(), axis_name="i")(XS)
        unmapped = jax.vmap(lambda x: cls()(X) * x, axis_size=2)(jnp.ones(2))
        return named, unmapped

    both(lambda base: unary(base, batch=right), run)


def test_a_batch_that_can_only_map_one_input_is_no_fault_at_check() -> None:
    def batch(self: Any, axis_data: Any, args: Any, dims: Any) -> Any:
        assert dims == (0, None)
        return args[0] * args[1], 0

    product = sine(
        "Product",
        __init__=init((AVAL, AVAL)),
        expand=lambda self, x, w: x * w,
        vjp_fwd=None,
        vjp_bwd=None,
        batch=batch,
        keywords={"supports": ("vmap",)},
    )
    error = found_in(lambda: check(product()))  # all inputs mapped is a usual call
    assert error.code == "SH320"

    def decline(self: Any, axis_data: Any, args: Any, dims: Any) -> Any:
        if dims != (0, None):
            raise NotImplementedError("only x may be mapped")
        return args[0] * args[1], 0

    product.batch = decline
    check(product())
    assert jax.vmap(product(), in_axes=(0, None))(XS, X).shape == (2, 3)


@pytest.mark.skipif(
    not hasattr(HiPrim, "batch_dim_rule"), reason="this jax has no `batch_dim_rule`"
)
@pytest.mark.parametrize(
    ("dims", "code"),
    [((0,), "SH332"), ([0], "SH332"), (2, "SH333"), (-1, "SH333"), (0.0, "SH332")],
)
def test_batch_dim_rule(dims: Any, code: str) -> None:
    body = {"batch_dim_rule": lambda self, axis_data, in_dims: dims}
    prim = sine(**body)()
    error = found_in(lambda: jax.vmap(prim)(XS))
    assert (error.code, error.rule) == (code, "batch_dim_rule")
    assert found_in(lambda: check(prim)).code == code
