"""What `vjp_bwd_retval` returns, and the logs of a backward: faults 21, 23 and 24."""

import collections
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import SymbolicZero

from strict_hijax import MultipleFaultsError, check, ignore
from tests.primitives import (
    AVAL,
    Fault,
    X,
    found_in,
    gradient,
    init,
    sine,
    stock_raises,
    words_of,
)

PARAMS = {"w": AVAL, "b": (AVAL, AVAL)}
ARRAYS = {"w": X, "b": (X, X)}
TREE: dict[str, Any] = {
    "__init__": init((PARAMS, AVAL), AVAL),
    "expand": lambda self, params, x: params["w"] * x + params["b"][0],
    "vjp_fwd": lambda self, nz, params, x: (self(params, x), (params, x)),
}


def returns(make: Callable[[Any], Any], **body: Any) -> dict[str, Any]:
    """Rules with a backward that returns this, made of the cotangent."""
    return {**body, "vjp_bwd_retval": lambda self, res, g: make(g)}


def fault(
    name: str,
    body: dict[str, Any],
    code: str,
    path: str | None,
    *says: str,
    stock: type[Exception] = Exception,
    args: tuple[Any, ...] = (X,),
) -> Any:
    made = Fault(name, body, code, "vjp_bwd_retval", stock, path, says, args)
    return pytest.param(made, id=name)


def tree_fault(name: str, make: Any, code: str, path: str, *says: str) -> Any:
    return fault(name, returns(make, **TREE), code, path, *says, args=(ARRAYS, X))


NO_TUPLE = [
    fault(
        "an array",
        returns(lambda g: g),
        "SH313",
        None,
        "float32[3]",
    ),
    fault("a list", returns(lambda g: [g]), "SH313", None, "a list of 1"),
    fault("a dict", returns(lambda g: {"x": g}), "SH313", None, "a dict of 1"),
    fault(
        "a namedtuple",
        returns(lambda g: collections.namedtuple("Cotangents", "x")(g)),
        "SH313",
        None,
        "a Cotangents in place of a tuple",
    ),
    fault(
        "too many",
        returns(lambda g: (g, None)),
        "SH313",
        None,
        "2 cotangents for 1",
    ),
    fault("none at all", returns(lambda g: ()), "SH313", None, "return (x_ct,)"),
    fault(
        "too few",
        returns(lambda g: (g,), **TREE),
        "SH313",
        None,
        "1 cotangents for 2",
        "params, x",
        args=(ARRAYS, X),
    ),
]

STRUCTURE = [
    fault("a tuple for an array", returns(lambda g: ((g,),)), "SH314", "x", "a tuple"),
    fault(
        "a dict for an array", returns(lambda g: ({"x": g},)), "SH314", "x", "a dict"
    ),
    tree_fault(
        "None for a container", lambda g: (None, g), "SH314", "params", "not for a cont"
    ),
    tree_fault(
        "a missing key", lambda g: ({"w": g}, g), "SH314", "params", "keys 'b', 'w'"
    ),
    tree_fault(
        "a list for a tuple inside",
        lambda g: ({"w": g, "b": [g, g]}, g),
        "SH314",
        "params['b']",
        "expected: a tuple of 2",
    ),
    tree_fault(
        "one for a container inside",
        lambda g: ({"w": g, "b": g}, g),
        "SH314",
        "params['b']",
        "got:      float32[3]",
    ),
]

SHAPE = [
    fault(
        "summed by mistake",
        returns(lambda g: (g.sum(),)),
        "SH315",
        "x",
        "Expected cotangent type float32[3] but got float32[]",
        "jnp.broadcast_to(x_ct, (3,))",
    ),
    fault(
        "not summed",
        returns(lambda g: (jnp.stack([g, g]),)),
        "SH315",
        "x",
        "got float32[2,3]",
        "x_ct.sum(axis=(0,))",
    ),
    fault("a Python scalar", returns(lambda g: (1.0,)), "SH315", "x", "float32[]"),
    tree_fault(
        "inside a tree",
        lambda g: ({"w": g, "b": (g, g[:2])}, g),
        "SH315",
        "params['b'][1]",
        "got float32[2]",
    ),
]

DTYPE = [
    fault("bfloat16", returns(lambda g: (g.astype("bfloat16"),)), "SH316", "x", "scan"),
    fault(
        "an integer", returns(lambda g: (g.astype("int32"),)), "SH316", "x", "int32[3]"
    ),
    fault("complex", returns(lambda g: (g * 1j,)), "SH316", "x", "complex64[3]"),
    fault(
        "float0",
        returns(lambda g: (np.zeros(3, jax.dtypes.float0),)),
        "SH316",
        "x",
        "None   # for a cotangent of zero",
    ),
    tree_fault(
        "inside a tree",
        lambda g: ({"w": g.astype("float16"), "b": (g, g)}, g),
        "SH316",
        "params['w']",
        "expected float32[3], got float16[3]",
        "params_ct['w'].astype(jnp.float32)",
        'ignore=("SH316",)',
    ),
    fault(
        "a float32 for a bfloat16 input",
        returns(
            lambda g: (jnp.ones(3),),
            __init__=init((jax.typeof(X.astype("bfloat16")),)),
        ),
        "SH316",
        "x",
        "bfloat16[3]",
        args=(X.astype("bfloat16"),),
    ),
    fault(
        "a weak scalar for a bfloat16",
        returns(
            lambda g: (1.0,),
            __init__=init((jax.typeof(jnp.bfloat16(1)),)),
        ),
        "SH316",
        "x",
        "bfloat16[]",
        args=(jnp.bfloat16(1),),
    ),
]

NO_VALUE = [
    fault(
        "a string",
        returns(lambda g: ("zero",)),
        "SH312",
        "x",
        "is not a valid JAX type",
        stock=TypeError,
    ),
    fault(
        "a function",
        returns(lambda g: (jnp.cos,)),
        "SH312",
        "x",
        "float32[3]",
        stock=TypeError,
    ),
    fault(
        "the symbolic zero of custom_vjp",
        returns(lambda g: (SymbolicZero(AVAL),)),
        "SH312",
        "x",
        "or None for zero",
        stock=TypeError,
    ),
]


def stock(fault: Fault) -> Exception | None:
    """What stock raises in a gradient; None where it takes the result."""
    return stock_raises(fault, lambda prim: gradient(prim, *fault.args))


# Which of these shapes a JAX takes is its own affair: 0.12.1 takes most.
SHAPES = NO_TUPLE + STRUCTURE
FAULTS = (
    [param for param in SHAPES if stock(*param.values) is not None]
    + SHAPE
    + DTYPE
    + NO_VALUE
)


@pytest.mark.parametrize("fault", SHAPES)
def test_what_jax_takes_is_taken_and_what_it_refuses_has_its_words(
    fault: Fault,
) -> None:
    refusal = stock(fault)
    if refusal is None:
        gradient(sine(examples=True, **fault.body)(), *fault.args)
        return
    error = found_in(lambda: gradient(sine(**fault.body)(), *fault.args))
    if isinstance(refusal, ValueError):  # and not of a leaf that has no type
        assert isinstance(error, ValueError)
        assert words_of(refusal) in str(error)


@pytest.mark.parametrize("fault", FAULTS)
class TestReturnedCotangents:
    def test_at_import(self, fault: Fault) -> None:
        fault.check_error(found_in(lambda: sine(examples=True, **fault.body)))

    def test_in_an_eager_gradient_and_no_sooner(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        jax.jit(prim)(*fault.args)
        fault.check_error(found_in(lambda: gradient(prim, *fault.args)))

    def test_under_jit(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        compiled = jax.jit(lambda *args: gradient(prim, *args))
        fault.check_error(found_in(lambda: compiled(*fault.args)))

    def test_in_a_check(self, fault: Fault) -> None:
        fault.check_error(found_in(lambda: check(sine(**fault.body)())))


@pytest.mark.parametrize("fault", SHAPE + DTYPE)
def test_cotangents_are_not_checked_where_jax_does_not_either(fault: Fault) -> None:
    prim = sine(**fault.body)()
    jax.config.update("jax_disable_bwd_checks", True)
    try:
        gradient(prim, *fault.args)
    finally:
        jax.config.update("jax_disable_bwd_checks", False)


def test_a_generator_is_not_a_tuple_of_cotangents() -> None:
    error = found_in(lambda: gradient(sine(**returns(lambda g: iter([g])))(), X))
    assert (error.code, error.rule) == ("SH313", "vjp_bwd_retval")
    assert "return (x_ct,)" in error.hint


def test_one_cotangent_alone_is_not_taken_for_every_input() -> None:
    body = {
        "__init__": init((AVAL, AVAL)),
        "expand": lambda self, x, y: x * y,
        "vjp_fwd": lambda self, nz, x, y: (self(x, y), (x, y)),
    }
    error = found_in(lambda: sine(examples=True, **returns(lambda g: g, **body)))
    assert (error.code, error.got) == ("SH313", "float32[3]")
    assert "x, y" in str(error.expected)


def test_one_cotangent_for_a_container_is_advice() -> None:
    body = returns(lambda g: ({"w": g, "b": g}, g), **TREE)
    refusal = stock_raises(
        Fault("", body, "", "", Exception), lambda prim: gradient(prim, ARRAYS, X)
    )
    if refusal is not None:
        pytest.skip("this jax does not copy it")
    prim = sine(examples=True, **body)()
    (advice,) = check(prim).advice
    assert advice.startswith("SH901 `mylib.Sine` has a `vjp_bwd_retval`")
    assert "params" in advice
    right = returns(lambda g: ({"w": g, "b": (g, None)}, g), **TREE)
    assert check(sine(**right)()).advice == ()


# --- types that no dtype and shape tell apart -----------------------------------------


def test_a_python_scalar_under_x64_is_a_wrong_dtype() -> None:
    with jax.enable_x64(True):
        aval = jax.typeof(jnp.float32(1))
        prim = sine(__init__=init((aval,)), vjp_bwd_retval=lambda s, r, g: (1.0,))()
        error = found_in(lambda: gradient(prim, jnp.float32(1)))
    assert (error.code, error.path) == ("SH316", "x")
    assert (error.expected, error.got) == ("float32[]", "float64[]")


def test_a_float64_for_a_float32_under_x64_is_a_wrong_dtype() -> None:
    with jax.enable_x64(True):
        x = jnp.arange(3, dtype=jnp.float32)
        body = returns(lambda g: (jnp.ones(3),), __init__=init((jax.typeof(x),)))
        error = found_in(lambda: sine(examples=True, **body))
    assert (error.code, error.got) == ("SH316", "float64[3]")


def test_types_that_differ_in_sharding_alone_are_told_apart() -> None:
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0), jax.P("i"))
        body = returns(
            lambda g: (jax.sharding.reshard(g, jax.P(None)),),
            __init__=init((jax.typeof(x),)),
        )
        error = found_in(lambda: gradient(sine(**body)(), x))
    assert (error.code, error.path) == ("SH317", "x")
    assert (error.expected, error.got) == ("float32[8@i]", "float32[8]")


def test_two_wrong_cotangents_are_two_findings() -> None:
    body = returns(lambda g: ({"w": g[0], "b": (g, 1j * g)}, g[:2]), **TREE)
    error = found_in(lambda: gradient(sine(**body)(), ARRAYS, X))
    assert isinstance(error, MultipleFaultsError)
    assert isinstance(error, ValueError)
    found = {(finding.code, finding.path) for finding in error.findings}
    assert found == {
        ("SH315", "params['w']"),
        ("SH316", "params['b'][1]"),
        ("SH315", "x"),
    }


# --- logs ---------------------------------------------------------------------------


def logging(make: Callable[[Any], Any]) -> dict[str, Any]:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> Any:
        x_acc.accum(g)
        return make(g)

    return {"vjp_bwd": vjp_bwd}


def log_fault(name: str, make: Any, code: str, path: str | None, *says: str) -> Any:
    made = Fault(name, logging(make), code, "vjp_bwd", TypeError, path, says)
    return pytest.param(made, id=name)


class Logs(dict):  # type: ignore[type-arg]
    pass


NOT_LOGS = [
    log_fault(
        "the cotangent",
        lambda g: g,
        "SH309",
        None,
        "Sine.vjp_bwd should return None or a dict of backward-pass log entries",
        "x_acc.accum(x_ct)",
        "def vjp_bwd_retval(self, res, g)",
    ),
    log_fault("a tuple of it", lambda g: (g,), "SH309", None, "a tuple of 1"),
    log_fault("a pair", lambda g: (g, {}), "SH309", None, "got tuple"),
    log_fault("a list", lambda g: [g], "SH309", None, "a list of 1"),
    log_fault("a number", lambda g: 0.0, "SH309", None, "the Python float 0.0"),
    log_fault("a subclass of dict", lambda g: Logs(n=g), "SH309", None, "got Logs"),
    log_fault(
        "a defaultdict",
        lambda g: collections.defaultdict(list, n=g),
        "SH309",
        None,
        "got defaultdict",
    ),
    log_fault(
        "a number as key", lambda g: {0: g}, "SH310", "logs[0]", "logs a key of type"
    ),
    log_fault(
        "a tuple as key", lambda g: {(): g}, "SH310", "logs[()]", "logs a key of type"
    ),
    log_fault(
        "a string as value", lambda g: {"n": "big"}, "SH310", "logs['n']", "'big'"
    ),
    log_fault(
        "an object inside a value",
        lambda g: {"n": [g, object()]},
        "SH310",
        "logs['n']",
        "an object",
    ),
]


@pytest.mark.parametrize("fault", NOT_LOGS)
class TestLogs:
    def test_at_import(self, fault: Fault) -> None:
        fault.check_error(found_in(lambda: sine(examples=True, **fault.body)))

    def test_in_an_eager_gradient_and_no_sooner(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        jax.jit(prim)(X)
        fault.check_error(found_in(lambda: gradient(prim, X)))

    def test_under_jit(self, fault: Fault) -> None:
        compiled = jax.jit(lambda x: gradient(sine(**fault.body)(), x))
        fault.check_error(found_in(lambda: compiled(X)))


def returns_logs(make: Callable[[Any], Any]) -> dict[str, Any]:
    return {"vjp_bwd_retval_logs": lambda self, res, g: make(g)}


@pytest.mark.parametrize(
    ("make", "code", "path", "kind"),
    [
        (lambda g: g, "SH313", None, ValueError),
        (lambda g: (g,), "SH313", None, ValueError),
        (lambda g: ((g.astype("bfloat16"),), None), "SH316", "x", ValueError),
        (lambda g: ((g[:2],), {}), "SH315", "x", ValueError),
        (lambda g: ((g,), [g]), "SH309", "logs", TypeError),
        (lambda g: ((g,), {0: g}), "SH310", "logs[0]", TypeError),
    ],
)
def test_the_pair_of_cotangents_and_logs(
    make: Any, code: str, path: str | None, kind: Any
) -> None:
    for find in (
        lambda: sine(examples=True, **returns_logs(make)),
        lambda: gradient(sine(**returns_logs(make))(), X),
        lambda: jax.jit(lambda x: gradient(sine(**returns_logs(make))(), x))(X),
    ):
        error = found_in(find)
        assert (error.code, error.path) == (code, path)
        assert error.rule == "vjp_bwd_retval_logs"
        assert isinstance(error, kind)
        assert error.hint


# --- ignoring -----------------------------------------------------------------------


def half(g: Any) -> Any:
    return (g.astype("bfloat16"),)


def test_an_ignored_dtype_reaches_the_gradient() -> None:
    cls = sine(**returns(half), keywords={"ignore": ("SH316",)}, examples=True)
    np.testing.assert_array_equal(gradient(cls(), X), np.ones(3))


def test_a_code_ignored_in_a_block_counts_inside_alone() -> None:
    prim = sine(**returns(half))()
    with ignore("SH316"):
        np.testing.assert_array_equal(gradient(prim, X), np.ones(3))
    assert found_in(lambda: gradient(prim, X)).code == "SH316"


def test_a_code_ignored_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRICT_HIJAX_IGNORE", "SH316")
    np.testing.assert_array_equal(gradient(sine(**returns(half))(), X), np.ones(3))


def test_ignoring_is_inherited() -> None:
    base = sine(**returns(lambda g: (g,)), keywords={"ignore": ("SH316",)})
    cls = sine(bases=(base,), **returns(half))
    np.testing.assert_array_equal(gradient(cls(), X), np.ones(3))
