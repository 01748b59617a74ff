"""What `transpose` gives to its accumulators: fault 26, and what must be accepted."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from strict_hijax import check
from strict_hijax._jax import NullAccum, RefAccum, ValAccum
from tests.primitives import AVAL, Fault, X, both, found_in, init, sine, unary

MATRIX = jax.typeof(jnp.ones((2, 3)))


def double(transpose: Any, **more: Any) -> dict[str, Any]:
    """A primitive that doubles its input, and this for its transpose."""
    return {
        "expand": lambda self, x: 2 * x,
        "vjp_fwd": None,
        "vjp_bwd": None,
        "transpose": transpose,
        "keywords": {"supports": ("transpose",)},
        **more,
    }


def giving(give: Any) -> dict[str, Any]:
    return double(lambda self, ct, x_acc: x_acc.accum(give(ct)))


def returns_early(self: Any, ct: Any, x_acc: Any) -> Any:
    return 2 * ct if ct.ndim == 1 else x_acc.accum(2 * ct)


def gives_nothing(self: Any, ct: Any, x_acc: Any) -> None:
    2 * ct


def gives_nothing_for_vectors(self: Any, ct: Any, x_acc: Any) -> None:
    if ct.ndim != 1:
        x_acc.accum(2 * ct)


FAULTS = [
    Fault(
        "the cotangent is returned",
        double(returns_early),
        "SH309",
        "transpose",
        TypeError,
        None,
        ("Sine.transpose should return None or a dict", "x_acc.accum(x_ct)"),
    ),
    Fault(
        "a tuple is returned",
        double(lambda self, ct, x_acc: (2 * ct,) if ct.ndim == 1 else None),
        "SH309",
        "transpose",
        TypeError,
        None,
        ("a tuple of 1",),
    ),
    Fault(
        "a log that is no JAX value",
        double(lambda self, ct, x_acc: x_acc.accum(2 * ct) or {"norm": "big"}),
        "SH310",
        "transpose",
        TypeError,
        "logs['norm']",
        ("the string 'big'",),
    ),
    Fault(
        "nothing is given",
        double(gives_nothing),
        "SH311",
        "transpose",
        ValueError,
        "x",
        ("its gradient is silently zero", "x_acc.accum(x_ct)"),
    ),
    Fault(
        "nothing is given on one branch",
        double(gives_nothing_for_vectors),
        "SH311",
        "transpose",
        ValueError,
        "x",
        ("x_acc.accum(None)   # zero on purpose",),
    ),
    Fault(
        "nothing is given in any of two",
        double(
            lambda self, ct, a, b: None,
            __init__=init((AVAL, AVAL)),
            expand=lambda self, x, y: x + y,
        ),
        "SH311",
        "transpose",
        ValueError,
        "x",
        ("gives nothing to the accumulator of `x`",),
        (X, X),
    ),
    Fault(
        "a string",
        giving(lambda ct: "twice"),
        "SH312",
        "transpose",
        TypeError,
        "x",
        ("the string 'twice'",),
    ),
    Fault(
        "another shape",
        giving(lambda ct: jnp.sum(2 * ct)),
        "SH315",
        "transpose",
        ValueError,
        "x",
        ("expected float32[3], got float32[]",),
    ),
    Fault(
        "another dtype",
        giving(lambda ct: (2 * ct).astype(jnp.bfloat16)),
        "SH316",
        "transpose",
        ValueError,
        "x",
        ("got bfloat16[3]",),
    ),
]
each_fault = pytest.mark.parametrize("fault", FAULTS, ids=[f.name for f in FAULTS])


def check_error(fault: Fault, error: Any) -> None:
    """Where several accumulators are wrong, the first finding is looked at."""
    if hasattr(error, "findings") and len(error.findings) > 1:
        assert {finding.code for finding in error.findings} == {fault.code}
        error = error.findings[0].error()
    fault.check_error(error)


@each_fault
def test_fault_where_jax_calls_the_rule(fault: Fault) -> None:
    prim = sine(**fault.body)()
    transposed = jax.linear_transpose(prim, *fault.args)
    check_error(fault, found_in(lambda: transposed(X)))
    check_error(fault, found_in(lambda: jax.make_jaxpr(transposed)(X)))


@each_fault
def test_fault_at_check_and_at_import(fault: Fault) -> None:
    prim = sine(**fault.body)()
    check_error(fault, found_in(lambda: check(prim)))
    check_error(fault, found_in(lambda: sine(**fault.body, examples=True)))


# --- what must be accepted ------------------------------------------------------------


def transposed_of(base: Any, transpose: Any, **body: Any) -> Any:
    return unary(base, transpose=transpose, **body)


def test_accumulators_of_all_kinds() -> None:
    seen: list[type] = []

    def transpose(self: Any, ct: Any, x_acc: Any) -> None:
        seen.append(type(x_acc))
        x_acc.accum(2 * ct)

    def run(cls: Any) -> Any:
        plain = jax.linear_transpose(lambda x: cls()(x), X)(X)
        twice = jax.linear_transpose(lambda x: cls()(x) + cls()(3 * x), X)(X)
        nested = jax.linear_transpose(jax.jit(lambda x: cls()(x)), X)(X)
        return plain, twice, nested

    both(lambda base: transposed_of(base, transpose, expand=lambda self, x: 2 * x), run)
    assert all(issubclass(kind, ValAccum | RefAccum) for kind in seen)


@pytest.mark.parametrize("linear_in", [0, 1])
def test_linear_in_one_input_only(linear_in: int) -> None:
    """The other one is a value; its accumulator is never there to be given anything."""

    def transpose(self: Any, ct: Any, x: Any, w: Any) -> None:
        if isinstance(x, ValAccum | RefAccum):
            x.accum(ct * w)
        else:
            w.accum(ct * x)

    def only_one(self: Any, ct: Any, *args: Any) -> None:
        acc, value = (args[linear_in], args[1 - linear_in])
        acc.accum(ct * value)

    for rule in (transpose, only_one):

        def make(base: Any, rule: Any = rule) -> Any:
            return type(base)(
                "Product",
                (base,),
                {
                    "__init__": init((AVAL, AVAL)),
                    "expand": lambda self, x, w: x * w,
                    "transpose": rule,
                    "vjp_fwd": lambda self, nz, *args: (self(*args), args),
                    "vjp_bwd_retval": lambda self, res, g: (g * res[1], g * res[0]),
                },
            )

        def run(cls: Any) -> Any:
            def of_one(t: Any) -> Any:
                return cls()(*((t, X) if linear_in == 0 else (X, t)))

            return jax.linear_transpose(of_one, X)(X)

        both(make, run)
        check(make(sine().__mro__[1])())


def test_an_input_that_is_not_linear_may_be_of_any_type() -> None:
    def transpose(self: Any, ct: Any, x_acc: Any, index: Any, scale: Any) -> None:
        x_acc.accum(jnp.zeros((2, 3)).at[index].set(ct * scale))

    gather = sine(
        "Row",
        __init__=init((MATRIX, jax.typeof(jnp.int32(0)), AVAL), AVAL),
        expand=lambda self, x, index, scale: x[index] * scale,
        vjp_fwd=None,
        vjp_bwd=None,
        transpose=transpose,
        keywords={"supports": ("transpose",)},
    )
    assert check(gather()).unchecked == ()
    row = jax.linear_transpose(lambda x: gather()(x, jnp.int32(1), X), jnp.ones((2, 3)))
    assert row(X)[0].tolist() == [[0.0, 0.0, 0.0], (X * X).tolist()]


def test_an_explicit_zero_and_a_zero_cotangent() -> None:
    def transpose(self: Any, ct: Any, x_acc: Any) -> None:
        x_acc.accum(None)

    body = double(transpose)
    prim = sine(**body)()
    check(prim)
    assert jax.linear_transpose(prim, X)(X)[0].tolist() == [0.0, 0.0, 0.0]


def test_an_accumulator_that_wants_nothing() -> None:
    assert not issubclass(NullAccum, ValAccum | RefAccum)

    def transpose(self: Any, ct: Any, x_acc: Any, n: Any) -> None:
        x_acc.accum(2 * ct)

    prim = sine(
        "Twice",
        __init__=init((AVAL, jax.typeof(jnp.int32(0)))),
        expand=lambda self, x, n: 2 * x,
        vjp_fwd=None,
        vjp_bwd=None,
        transpose=transpose,
        keywords={"supports": ("transpose",)},
    )()
    check(prim)
    assert jax.linear_transpose(lambda x: prim(x, jnp.int32(3)), X)(X)[0].tolist() == [
        2.0,
        4.0,
        6.0,
    ]


def test_logs_are_accepted() -> None:
    body = double(lambda self, ct, x_acc: x_acc.accum(2 * ct) or {"norm": ct[0]})
    check(sine(**body)())


@pytest.mark.parametrize(
    "transpose",
    [
        lambda self, ct, acc: acc.acc(ct),
        lambda self, ct, acc: acc.accum(),
        lambda self, ct, acc: acc.accum(ct @ jnp.ones((4, 4))),
    ],
)
def test_what_the_only_possible_call_raises_is_a_fault(transpose: Any) -> None:
    error = found_in(lambda: check(sine(**double(transpose))()))
    assert (error.code, error.rule) == ("SH320", "transpose")
