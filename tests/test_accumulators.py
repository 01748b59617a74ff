"""What `vjp_bwd` does with its accumulators: fault 22."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import check
from tests.primitives import AVAL, Fault, X, found_in, gradient, init, sine, total

PARAMS = {"w": AVAL, "b": (AVAL, AVAL)}
ARRAYS = {"w": X, "b": (X, X)}
TREE: dict[str, Any] = {
    "__init__": init((PARAMS, AVAL), AVAL),
    "expand": lambda self, params, x: params["w"] * x + params["b"][0],
    "vjp_fwd": lambda self, nz, params, x: (self(params, x), (params, x)),
}


def accumulates(*cotangents: Any) -> dict[str, Any]:
    """A backward that gives the input each of these, made of the cotangent."""

    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        for make in cotangents:
            x_acc.accum(make(g))

    return {"vjp_bwd": vjp_bwd}


def tree(give: Callable[[Any, Any, Any], None]) -> dict[str, Any]:
    """A backward for a pytree and an array: `give(g, params_acc, x_acc)`."""
    return TREE | {"vjp_bwd": lambda self, res, g, p_acc, x_acc: give(g, p_acc, x_acc)}


def fault(
    name: str,
    body: dict[str, Any],
    code: str,
    path: str,
    *says: str,
    stock: type[Exception] = ValueError,
    args: tuple[Any, ...] = (X,),
) -> Any:
    made = Fault(name, body, code, "vjp_bwd", stock, path, says, args)
    return pytest.param(made, id=name)


def give_all_but(left_out: str) -> Callable[[Any, Any, Any], None]:
    def give(g: Any, params_acc: Any, x_acc: Any) -> None:
        accums = {
            "w": params_acc["w"],
            "b0": params_acc["b"][0],
            "b1": params_acc["b"][1],
            "x": x_acc,
        }
        for name, accum in accums.items():
            if name != left_out:
                accum.accum(g)

    return give


def give_wrong_w(make: Any) -> Callable[[Any, Any, Any], None]:
    def give(g: Any, params_acc: Any, x_acc: Any) -> None:
        jax.tree.map(lambda accum: accum.accum(g), (params_acc["b"], x_acc))
        params_acc["w"].accum(make(g))

    return give


VALUES = [
    fault(
        "nothing",
        accumulates(),
        "SH311",
        "x",
        "its gradient is silently zero",
        "x_acc.accum(x_ct)",
        "x_acc.accum(None)   # zero on purpose",
    ),
    fault(
        "a shape",
        accumulates(lambda g: g[:2]),
        "SH315",
        "x",
        "Expected cotangent type float32[3] but got float32[2]",
        "the shape must be (3,)",
    ),
    fault("a sum", accumulates(jnp.sum), "SH315", "x", "got float32[]"),
    fault(
        "a scalar",
        accumulates(lambda g: 0.0),
        "SH315",
        "x",
        "got float32[]",
    ),
    fault(
        "a dtype",
        accumulates(lambda g: g.astype("bfloat16")),
        "SH316",
        "x",
        "expected float32[3], got bfloat16[3]",
    ),
    fault("an integer", accumulates(lambda g: g.astype("int32")), "SH316", "x"),
    fault("complex", accumulates(lambda g: g * 1j), "SH316", "x", "complex64[3]"),
    fault(
        "a right one and a wrong one",
        accumulates(lambda g: g, lambda g: g.astype("float16")),
        "SH316",
        "x",
        "float16[3]",
    ),
    fault(
        "a string",
        accumulates(lambda g: "zero"),
        "SH312",
        "x",
        "is not a valid JAX type",
        stock=TypeError,
    ),
    fault(
        "a tuple",
        accumulates(lambda g: (g,)),
        "SH312",
        "x",
        "a tuple of 1",
        stock=TypeError,
    ),
    fault(
        "a list",
        accumulates(lambda g: [g]),
        "SH312",
        "x",
        "a list of 1",
        stock=TypeError,
    ),
]

TREES = [
    fault(
        "a leaf left out",
        tree(give_all_but("w")),
        "SH311",
        "params['w']",
        "p_acc['w'].accum(params_ct)",
        args=(ARRAYS, X),
    ),
    fault(
        "a leaf deep inside left out",
        tree(give_all_but("b1")),
        "SH311",
        "params['b'][1]",
        "p_acc['b'][1].accum",
        args=(ARRAYS, X),
    ),
    fault(
        "a leaf of another shape",
        tree(give_wrong_w(lambda g: g[None])),
        "SH315",
        "params['w']",
        "got float32[1,3]",
        args=(ARRAYS, X),
    ),
    fault(
        "a leaf of another dtype",
        tree(give_wrong_w(lambda g: g.astype("float16"))),
        "SH316",
        "params['w']",
        "got float16[3]",
        args=(ARRAYS, X),
    ),
    fault(
        "a leaf that is no value",
        tree(give_wrong_w(lambda g: {})),
        "SH312",
        "params['w']",
        "an empty dict",
        stock=TypeError,
        args=(ARRAYS, X),
    ),
]

FAULTS = VALUES + TREES


def gradient_into_refs(prim: Any, *args: Any) -> Any:
    """The gradient by `with_refs`: added to what the Refs hold, which is zero."""
    refs = jax.tree.map(lambda x: jax.new_ref(jnp.zeros_like(x)), args)
    out, vjp = jax.vjp(prim, *args)
    vjp.with_refs(*refs)(jax.tree.map(jnp.ones_like, out))
    return jax.tree.map(lambda ref: ref[...], refs[0])


@pytest.mark.parametrize("fault", FAULTS)
class TestAccumulators:
    def test_at_import(self, fault: Fault) -> None:
        fault.check_error(found_in(lambda: sine(examples=True, **fault.body)))

    def test_in_an_eager_gradient_and_no_sooner(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        jax.jit(prim)(*fault.args)
        args = range(len(fault.args))
        differentiate = jax.grad(lambda *args: total(prim(*args)), argnums=tuple(args))
        fault.check_error(found_in(lambda: differentiate(*fault.args)))

    def test_under_jit(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        compiled = jax.jit(lambda *args: gradient(prim, *args))
        fault.check_error(found_in(lambda: compiled(*fault.args)))

    def test_with_refs(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        fault.check_error(found_in(lambda: gradient_into_refs(prim, *fault.args)))

    def test_with_refs_under_jit(self, fault: Fault) -> None:
        compiled = jax.jit(lambda *a: gradient_into_refs(sine(**fault.body)(), *a))
        fault.check_error(found_in(lambda: compiled(*fault.args)))

    def test_in_a_check(self, fault: Fault) -> None:
        fault.check_error(found_in(lambda: check(sine(**fault.body)())))


# --- inputs that are Refs -------------------------------------------------------------


def ref_rules(give: Callable[[Any, Any, Any], None]) -> dict[str, Any]:
    """x + ref, and a Ref of the same type as first input."""
    return {
        "__init__": init((jax.typeof(jax.new_ref(X)), AVAL), AVAL),
        "expand": lambda self, ref, x: ref[...] * x,
        "vjp_fwd": lambda self, nz, ref, x: (self(ref, x), (ref[...], x)),
        "vjp_bwd": lambda self, res, g, r_acc, x_acc: give(g, r_acc, x_acc),
    }


def through_a_ref(prim: Any, x: Any) -> Any:
    def f(x: Any) -> Any:
        return prim(jax.new_ref(2 * x), x).sum()

    return jax.grad(f)(x)


def give_both(ref_ct: Any, x_ct: Any) -> Callable[[Any, Any, Any], None]:
    def give(g: Any, ref_acc: Any, x_acc: Any) -> None:
        ref_acc.accum(ref_ct(g))
        x_acc.accum(x_ct(g))

    return give


REFS = [
    fault(
        "nothing for the Ref",
        ref_rules(lambda g, ref_acc, x_acc: x_acc.accum(g)),
        "SH311",
        "ref",
    ),
    fault(
        "nothing for the array beside it",
        ref_rules(lambda g, ref_acc, x_acc: ref_acc.accum(g)),
        "SH311",
        "x",
    ),
    fault(
        "a shape for the Ref",
        ref_rules(give_both(lambda g: g[:2], lambda g: g)),
        "SH315",
        "ref",
        "got float32[2]",
    ),
    fault(
        "a dtype for the Ref",
        ref_rules(give_both(lambda g: g.astype("float16"), lambda g: g)),
        "SH316",
        "ref",
        "float16[3]",
    ),
]


@pytest.mark.parametrize("fault", REFS)
class TestRefInputs:
    def test_at_import(self, fault: Fault) -> None:
        fault.check_error(found_in(lambda: sine(examples=True, **fault.body)))

    def test_in_a_gradient(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        fault.check_error(found_in(lambda: through_a_ref(prim, X)))

    def test_under_jit(self, fault: Fault) -> None:
        compiled = jax.jit(lambda x: through_a_ref(sine(**fault.body)(), x))
        fault.check_error(found_in(lambda: compiled(X)))


def test_a_ref_input_that_is_given_its_cotangent_is_right() -> None:
    def give(g: Any, ref_acc: Any, x_acc: Any) -> None:
        ref_acc.accum(g)
        x_acc.accum(g)

    cls = sine(examples=True, **ref_rules(give))
    np.testing.assert_array_equal(through_a_ref(cls(), X), 3 * np.ones(3))


# --- where it is said -----------------------------------------------------------------


def test_a_wrong_cotangent_is_located_where_it_is_given() -> None:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        first = g[0]
        x_acc.accum(first)

    error = found_in(lambda: gradient(sine(vjp_bwd=vjp_bwd)(), X))
    assert error.location is not None
    assert error.location.filename == __file__
    assert error.location.line == vjp_bwd.__code__.co_firstlineno + 2


def test_an_untouched_accumulator_among_several_outputs_that_are_used() -> None:
    cls = sine(
        __init__=init((AVAL,), (AVAL, AVAL)),
        expand=lambda self, x: (x, 2 * x),
        vjp_bwd=lambda self, res, g, x_acc: None,
    )
    prim = cls()
    error = found_in(lambda: jax.grad(lambda x: total(prim(x)))(X))
    assert (error.code, error.path) == ("SH311", "x")


def test_an_accumulator_is_left_alone_where_an_output_is_unused() -> None:
    cls = sine(
        __init__=init((AVAL,), (AVAL, AVAL)),
        expand=lambda self, x: (x, 2 * x),
        vjp_bwd=lambda self, res, g, x_acc: None,
    )
    prim = cls()
    np.testing.assert_array_equal(jax.grad(lambda x: prim(x)[0].sum())(X), np.zeros(3))


def test_reading_the_type_of_an_accumulator_is_no_use_of_it() -> None:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        assert x_acc.aval.shape == (3,)

    error = found_in(lambda: gradient(sine(vjp_bwd=vjp_bwd)(), X))
    assert error.code == "SH311"


@pytest.mark.parametrize("differentiate", [gradient, gradient_into_refs])
def test_an_ignored_untouched_accumulator_is_zero(differentiate: Any) -> None:
    cls = sine(**accumulates(), keywords={"ignore": ("SH311",)}, examples=True)
    np.testing.assert_array_equal(differentiate(cls(), X), np.zeros(3))


def test_an_ignored_dtype_reaches_the_gradient() -> None:
    cls = sine(
        **accumulates(lambda g: g.astype("bfloat16")),
        keywords={"ignore": ("SH316",)},
        examples=True,
    )
    np.testing.assert_array_equal(gradient(cls(), X), np.ones(3))
