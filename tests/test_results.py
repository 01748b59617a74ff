"""What `expand`, `vjp_fwd`, `lin` and `jvp` give: faults 19 and 20."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import jvp_from_lin, vjp_from_lin

from strict_hijax import MultipleFaultsError, RuleTypeError, RuleValueError, check
from tests.primitives import AVAL, Fault, X, found_in, gradient, init, sine

PAIR = {"a": AVAL, "b": (AVAL, AVAL)}


def pair(x: Any, dtype: Any = jnp.float32) -> Any:
    return {"a": x, "b": (x, x.astype(dtype))}


PAIR_RULES: dict[str, Any] = {
    "__init__": init((AVAL,), PAIR),
    "vjp_bwd": lambda self, x, g, x_acc: x_acc.accum(g["a"] + g["b"][0] + g["b"][1]),
}

EXPAND = [
    Fault(
        "a dtype",
        {"expand": lambda self, x: jnp.sin(x).astype(jnp.bfloat16)},
        "SH302",
        "expand",
        TypeError,
        "out",
        ("expected: float32[3]", "got:      bfloat16[3]", "self.out_aval"),
    ),
    Fault(
        "a shape",
        {"expand": lambda self, x: jnp.sin(x)[:, None]},
        "SH302",
        "expand",
        TypeError,
        "out",
        ("expected: float32[3]", "got:      float32[3,1]"),
    ),
    Fault(
        "a sum in place of the array",
        {"expand": lambda self, x: jnp.sum(x)},
        "SH302",
        "expand",
        TypeError,
        "out",
        ("got:      float32[]",),
    ),
    Fault(
        "a string",
        {"expand": lambda self, x: "sine"},
        "SH302",
        "expand",
        TypeError,
        "out",
        ("the string 'sine'",),
    ),
    Fault(
        "NumPy's own float64",
        {"expand": lambda self, x: np.ones(3)},
        "SH302",
        "expand",
        TypeError,
        "out",
        ("NumPy's float64[3]",),
    ),
    Fault(
        "a tuple for an array",
        {"expand": lambda self, x: (jnp.sin(x),)},
        "SH301",
        "expand",
        ValueError,
        "out",
        ("expected: a single value", "got:      a tuple of 1"),
    ),
    Fault(
        "None for an array",
        {"expand": lambda self, x: jnp.sin(x) if x.ndim > 1 else None},
        "SH301",
        "expand",
        ValueError,
        "out",
        ("got:      None",),
    ),
    Fault(
        "a missing key",
        PAIR_RULES | {"expand": lambda self, x: {"a": x}},
        "SH301",
        "expand",
        ValueError,
        "out",
        ("a dict with keys 'a', 'b'", "a dict with keys 'a'\n"),
    ),
    Fault(
        "a list deep inside",
        PAIR_RULES | {"expand": lambda self, x: {"a": x, "b": [x, x]}},
        "SH301",
        "expand",
        ValueError,
        "out['b']",
        ("expected: a tuple of 2", "got:      a list of 2"),
    ),
    Fault(
        "a dtype deep inside",
        PAIR_RULES | {"expand": lambda self, x: pair(x, jnp.float16)},
        "SH302",
        "expand",
        TypeError,
        "out['b'][1]",
        ("got:      float16[3]",),
    ),
]

FORWARD = [
    Fault(
        "a dtype",
        {"vjp_fwd": lambda self, nz, x: (self(x).astype(jnp.float16), x)},
        "SH302",
        "vjp_fwd",
        TypeError,
        "out",
        ("float16[3]", "return self(...), residuals"),
    ),
    Fault(
        "a shape",
        {"vjp_fwd": lambda self, nz, x: (self(x)[None], x)},
        "SH302",
        "vjp_fwd",
        TypeError,
        "out",
        ("float32[1,3]",),
    ),
    Fault(
        "a structure",
        {"vjp_fwd": lambda self, nz, x: ([self(x)], x)},
        "SH301",
        "vjp_fwd",
        ValueError,
        "out",
        ("got:      a list of 1",),
    ),
    Fault(
        "a leaf of a pair",
        PAIR_RULES
        | {
            "expand": lambda self, x: pair(x),
            "vjp_fwd": lambda self, nz, x: (pair(x, jnp.bfloat16), x),
        },
        "SH302",
        "vjp_fwd",
        TypeError,
        "out['b'][1]",
        ("bfloat16[3]",),
    ),
    Fault(
        "the output alone",
        {"vjp_fwd": lambda self, nz, x: self(x)},
        "SH305",
        "vjp_fwd",
        TypeError,
        None,
        ("only its output", "return out, None"),
    ),
    Fault(
        "a dict",
        {"vjp_fwd": lambda self, nz, x: {"out": self(x), "res": x}},
        "SH305",
        "vjp_fwd",
        TypeError,
        None,
        ("a dict of 2", "return out, residuals"),
    ),
    Fault(
        "five results",
        {"vjp_fwd": lambda self, nz, x: (self(x), x, True, None, None)},
        "SH305",
        "vjp_fwd",
        TypeError,
        None,
        ("a tuple of 5",),
    ),
    Fault(
        "a tuple of one",
        {"vjp_fwd": lambda self, nz, x: (self(x),)},
        "SH305",
        "vjp_fwd",
        TypeError,
        None,
        ("a tuple of 1",),
    ),
    Fault(
        "a string among the residuals",
        {"vjp_fwd": lambda self, nz, x: (self(x), {"x": x, "mode": "fast"})},
        "SH306",
        "vjp_fwd",
        TypeError,
        "res['mode']",
        ("the string 'fast'", "is not a valid JAX type", "self.params"),
    ),
    Fault(
        "a function among the residuals",
        {"vjp_fwd": lambda self, nz, x: (self(x), (x, jnp.cos))},
        "SH306",
        "vjp_fwd",
        TypeError,
        "res[1]",
        ("is not a valid JAX type",),
    ),
    Fault(
        "an object for residuals",
        {"vjp_fwd": lambda self, nz, x: (self(x), self)},
        "SH306",
        "vjp_fwd",
        TypeError,
        "res",
        ("a Sine",),
    ),
    Fault(
        "a number for nzs_out",
        {"vjp_fwd": lambda self, nz, x: (self(x), x, 1.0)},
        "SH307",
        "vjp_fwd",
        ValueError,
        "nzs_out",
        ("the Python float 1.0", "True"),
    ),
    Fault(
        "two flags for one output",
        {"vjp_fwd": lambda self, nz, x: (self(x), x, (True, True))},
        "SH307",
        "vjp_fwd",
        ValueError,
        "nzs_out",
        ("a tuple of 2",),
    ),
    Fault(
        "an array for nzs_out",
        {"vjp_fwd": lambda self, nz, x: (self(x), x, x > 0)},
        "SH307",
        "vjp_fwd",
        ValueError,
        "nzs_out",
        ("bool[3]",),
    ),
    Fault(
        "structured residuals without vjp_bwd",
        {
            "vjp_fwd": lambda self, nz, x: (self(x), None, True, {"x": x}),
            "vjp_bwd_retval": lambda self, res, g: (g,),
        },
        "SH308",
        "vjp_fwd",
        TypeError,
        "sres",
        ("requires overriding `vjp_bwd(res, sres, outgrad, *arg_accums)`",),
    ),
]


# Of flags, 0.11.2 asks for anything that has a truth value.
if jax.__version_info__ < (0, 12):
    FORWARD = [f for f in FORWARD if f.name[:8] not in ("a number", "an array")]


def names(faults: list[Fault]) -> list[str]:
    return [fault.name for fault in faults]


@pytest.mark.parametrize("fault", EXPAND, ids=names(EXPAND))
class TestExpand:
    def test_at_import(self, fault: Fault) -> None:
        fault.check_error(found_in(lambda: sine(examples=True, **fault.body)))

    def test_at_an_eager_call(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        fault.check_error(found_in(lambda: prim(*fault.args)))

    def test_under_jit(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        fault.check_error(found_in(lambda: jax.jit(prim)(*fault.args)))

    def test_in_a_check(self, fault: Fault) -> None:
        prim = sine(**fault.body)()
        fault.check_error(found_in(lambda: check(prim)))


@pytest.mark.parametrize("fault", FORWARD, ids=names(FORWARD))
class TestForwardRule:
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

    def test_in_a_scan(self, fault: Fault) -> None:
        prim = sine(**fault.body)()

        def step(carry: Any, _: Any) -> Any:
            return carry + gradient(prim, carry), None

        fault.check_error(found_in(lambda: jax.lax.scan(step, X, length=2)))


def test_the_rule_is_located() -> None:
    def expand(self: Any, x: Any) -> Any:
        return x.astype(jnp.int32)

    error = found_in(lambda: sine(expand=expand)()(X))
    assert error.location is not None
    assert error.location.filename == __file__
    assert error.location.line == expand.__code__.co_firstlineno


def test_several_faults_are_told_together() -> None:
    error = found_in(
        lambda: sine(
            examples=True,
            expand=lambda self, x: x.astype(jnp.int32),
            vjp_fwd=lambda self, nz, x: (self(x), "kept"),
        )
    )
    assert isinstance(error, MultipleFaultsError)
    assert [finding.code for finding in error.findings] == ["SH302", "SH306"]
    assert isinstance(error, TypeError)


def test_two_wrong_leaves_are_two_findings() -> None:
    error = found_in(
        lambda: sine(
            __init__=init((AVAL,), (AVAL, AVAL)),
            expand=lambda self, x: (x > 0, x.sum()),
        )()(X)
    )
    assert [finding.path for finding in error.findings] == ["out[0]", "out[1]"]


def test_the_primal_of_lin_is_checked() -> None:
    cls = sine(
        lin=lambda self, nz, x: (self(x).astype(jnp.float16), x),
        linearized=lambda self, res, t: t * jnp.cos(res),
    )
    error = found_in(lambda: jax.linearize(cls(), X))
    assert (error.code, error.rule, error.path) == ("SH302", "lin", "out")


def test_the_primal_of_lin_is_checked_where_jvp_is_derived_from_it() -> None:
    cls = sine(
        lin=lambda self, nz, x: (self(x)[0], x),
        linearized=lambda self, res, t: t * jnp.cos(res),
        jvp=jvp_from_lin,
    )
    error = found_in(lambda: jax.jvp(cls(), (X,), (X,)))
    assert (error.code, error.rule, error.got) == ("SH302", "lin", "float32[]")


def test_lin_without_residuals_is_said() -> None:
    cls = sine(
        lin=lambda self, nz, x: self(x), linearized=lambda self, res, t: jnp.cos(t)
    )
    error = found_in(lambda: jax.linearize(cls(), X))
    assert (error.code, error.rule) == ("SH305", "lin")
    assert isinstance(error, RuleTypeError)


def test_residuals_of_a_lin_from_which_the_backward_is_derived() -> None:
    forward, backward = vjp_from_lin
    rules = {
        "lin": lambda self, nz, x: (self(x), ("fast", x)),
        "linearized": lambda self, res, t: t * jnp.cos(res[1]),
    }
    cls = sine(**rules, vjp_fwd=forward, vjp_bwd_retval=backward)
    error = found_in(lambda: gradient(cls(), X))
    assert (error.code, error.rule, error.path) == ("SH306", "lin", "res[0]")
    jax.linearize(sine(**rules)(), X)[1](X)  # with no such backward, any object will do


@pytest.mark.parametrize(
    ("wrong", "code", "kind"),
    [
        (lambda x: x.astype(jnp.float16), "SH302", RuleTypeError),
        (lambda x: x[:2], "SH302", RuleTypeError),
        (lambda x: (x, x), "SH301", RuleValueError),
    ],
)
def test_the_primal_of_jvp_is_checked(wrong: Any, code: str, kind: Any) -> None:
    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        return wrong(self(*primals)), tangents[0]

    error = found_in(lambda: jax.jvp(sine(jvp=jvp)(), (X,), (X,)))
    assert (error.code, error.rule) == (code, "jvp")
    assert isinstance(error, kind)
    at_import = found_in(lambda: sine(jvp=jvp, examples=True))
    assert (at_import.code, at_import.rule) == (code, "jvp")


def test_types_that_differ_in_sharding_alone_are_told_apart() -> None:
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(8.0), jax.P("i"))
        replicated = jax.typeof(jax.device_put(jnp.arange(8.0), jax.P(None)))
        prim = sine(__init__=init((jax.typeof(x),), replicated))()
        error = found_in(lambda: prim(x))
    assert error.code == "SH302"
    assert (error.expected, error.got) == ("float32[8]", "float32[8@i]")


def test_ignored_codes_are_left_to_jax() -> None:
    cls = sine(
        expand=lambda self, x: jnp.sin(x).astype(jnp.bfloat16),
        keywords={"ignore": ("SH302",)},
        examples=True,
    )
    assert cls()(X).dtype == jnp.bfloat16
