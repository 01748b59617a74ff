"""What `dce` and `remat` give: fault 28, and what must be accepted."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import StrictHiPrim, check
from strict_hijax._jax import DCE_TAKES_LIVE_INPUTS, REMAT_RETURNS, HiPrim
from tests.primitives import AVAL, Fault, X, both, found_in, init, sine, unary

OTHER = jax.typeof(jnp.ones(4))


class Two(StrictHiPrim, supports=()):
    """Twice each of its inputs; a reduced one has fewer."""

    def __init__(self, *avals: Any) -> None:
        self.in_avals = self.out_aval = avals
        self.params = {}
        super().__init__()

    def expand(self, *xs: Any) -> Any:
        return tuple(2 * x for x in xs)


def reduced(give: Any) -> dict[str, Any]:
    """A primitive of two inputs and outputs, and this for its `dce`."""
    return {
        "__init__": init((AVAL, AVAL), (AVAL, AVAL)),
        "expand": lambda self, x, y: (2 * x, 2 * y),
        "vjp_fwd": None,
        "vjp_bwd": None,
        "dce": lambda self, used_outs, *live_ins: give(self, used_outs),
        "keywords": {"supports": ()},
    }


DCE = [
    Fault(
        "flags alone",
        reduced(lambda self, used: (True, True)),
        "SH340",
        "dce",
        ValueError,
        None,
        ("a tuple of 2 in place of three things", "return True, True, self"),
    ),
    Fault(
        "nothing",
        reduced(lambda self, used: None),
        "SH340",
        "dce",
        ValueError,
        None,
        ("returns None in place of three things",),
    ),
    Fault(
        "a class for the primitive",
        reduced(lambda self, used: (True, True, Two)),
        "SH340",
        "dce",
        ValueError,
        "new primitive",
        ("an instance of a HiPrim, or None",),
    ),
    Fault(
        "a used output is removed",
        reduced(lambda self, used: (False, False, None)),
        "SH341",
        "dce",
        ValueError,
        "used_outs[0]",
        ("removes the equation although an output is used", "got:      None"),
    ),
    Fault(
        "a used output is not produced",
        reduced(lambda self, used: ((True, False), (False, True), Two(AVAL))),
        "SH341",
        "dce",
        ValueError,
        "produced_outs[0]",
        ("does not produce an output that is used",),
    ),
    Fault(
        "too few flags",
        reduced(lambda self, used: ((True,), True, self)),
        "SH342",
        "dce",
        ValueError,
        "used_ins",
        ("for the inputs", "got:      a tuple of 1"),
    ),
    Fault(
        "an array of flags",
        reduced(lambda self, used: (True, np.array([True, True]), self)),
        "SH342",
        "dce",
        ValueError,
        "produced_outs",
        ("for the outputs",),
    ),
    Fault(
        "itself with fewer inputs",
        reduced(lambda self, used: ((True, False), True, self)),
        "SH343",
        "dce",
        TypeError,
        "in_avals",
        (
            "expected: (float32[3]), those that `used_ins` keeps",
            "got:      (float32[3], float32[3])",
        ),
    ),
    Fault(
        "another type",
        reduced(lambda self, used: ((True, False), (True, False), Two(OTHER))),
        "SH343",
        "dce",
        TypeError,
        "in_avals",
        ("got:      (float32[4])",),
    ),
    Fault(
        "more outputs than it says",
        reduced(lambda self, used: (True, (True, False), Two(AVAL, AVAL))),
        "SH343",
        "dce",
        TypeError,
        "out_aval",
        ("those that `produced_outs` keeps",),
    ),
]
each_dce = pytest.mark.parametrize("fault", DCE, ids=[f.name for f in DCE])


def dead_code_removed(prim: Any, used: Any = (True, False)) -> Any:
    from jax._src.interpreters.partial_eval import dce_jaxpr

    jaxpr = jax.make_jaxpr(prim)(X, X).jaxpr
    return dce_jaxpr(jaxpr, list(used), instantiate=False)


def findings_of(error: Any) -> Any:
    findings = getattr(error, "findings", ())
    return findings[0].error() if len(findings) > 1 else error


@each_dce
def test_dce_where_jax_calls_the_rule(fault: Fault) -> None:
    prim = sine(**fault.body)()
    fault.check_error(findings_of(found_in(lambda: dead_code_removed(prim))))


@each_dce
def test_dce_at_check_and_at_import(fault: Fault) -> None:
    prim = sine(**fault.body)()
    found = findings_of(found_in(lambda: check(prim)))
    assert (found.code, found.rule) == (fault.code, "dce")
    found = findings_of(found_in(lambda: sine(**fault.body, examples=True)))
    assert (found.code, found.rule) == (fault.code, "dce")


def test_dce_that_is_right() -> None:
    def rule(self: Any, used: Any, *live: Any) -> Any:
        if not any(used):
            return False, False, None
        kept = [aval for aval, u in zip(self.in_avals, used, strict=True) if u]
        return used, used, Two(*kept)

    prim = sine(**(reduced(None) | {"dce": rule}))()
    check(prim)
    jaxpr, used = dead_code_removed(prim)
    assert used == [True, False]
    assert [len(eqn.invars) for eqn in jaxpr.eqns] == [1]
    assert dead_code_removed(prim, (False, False))[0].eqns == []


def test_dce_of_jax_itself() -> None:
    assert len(dead_code_removed(Two(AVAL, AVAL))[0].eqns) == 1
    assert dead_code_removed(Two(AVAL, AVAL), (False, False))[0].eqns == []


@pytest.mark.skipif(not DCE_TAKES_LIVE_INPUTS, reason="jax 0.12 keeps the equation")
def test_dce_that_removes_an_equation_with_effects() -> None:
    """JAX keeps an equation with effects whatever `dce` says."""
    from jax._src.callback import IOEffect

    body = reduced(lambda self, used: (False, False, None))
    prim = sine(**body, effects=frozenset({IOEffect()}))()
    assert len(dead_code_removed(prim)[0].eqns) == 1


# --- remat ----------------------------------------------------------------------------


def redone(*result: Any) -> Any:
    """What this version of JAX wants: an output, residuals if any, and how to redo."""
    return result if "res" in REMAT_RETURNS else (result[0], *result[2:])


def again(rem: Any) -> Any:
    return rem if "res" in REMAT_RETURNS else (lambda *args: rem((), *args))


def remat(give: Any) -> dict[str, Any]:
    return {"remat": lambda self, trace, x: give(self, x)}


REMAT = [
    Fault(
        "the output alone",
        remat(lambda self, x: self(x)),
        "SH345",
        "remat",
        ValueError,
        None,
        (f"expected: ({', '.join(REMAT_RETURNS)})", "got:      float32[3]"),
    ),
    Fault(
        "nothing",
        remat(lambda self, x: None),
        "SH345",
        "remat",
        ValueError,
        None,
        ("returns None",),
    ),
    Fault(
        "one thing too many",
        remat(lambda self, x: (self(x), None, None, self)),
        "SH345",
        "remat",
        ValueError,
        None,
        ("a tuple of 4",),
    ),
    Fault(
        "a value in place of a function",
        remat(lambda self, x: redone(self(x), (), x)),
        "SH346",
        "remat",
        TypeError,
        "rem",
        ("float32[3], which cannot be called",),
    ),
    Fault(
        "a function of too few arguments",
        remat(lambda self, x: redone(self(x), (), lambda: self(x))),
        "SH346",
        "remat",
        TypeError,
        "rem",
        ("a function of 0 arguments, which is given",),
    ),
    Fault(
        "another output",
        remat(lambda self, x: redone(jnp.sum(x), (), again(lambda res, x: self(x)))),
        "SH302",
        "remat",
        TypeError,
        "out",
        ("expected: float32[3]", "got:      float32[]"),
    ),
    Fault(
        "another structure",
        remat(lambda self, x: redone((self(x),), (), again(lambda res, x: self(x)))),
        "SH301",
        "remat",
        ValueError,
        "out",
        ("a tuple of 1",),
    ),
    Fault(
        "another output the second time",
        remat(lambda self, x: redone(self(x), (), again(lambda res, x: x[:2]))),
        "SH302",
        "remat",
        TypeError,
        "out",
        ("got:      float32[2]", "or that of its `rem`"),
    ),
    Fault(
        "another dtype the second time",
        remat(
            lambda self, x: redone(
                self(x), (), again(lambda res, x: self(x).astype(jnp.float16))
            )
        ),
        "SH302",
        "remat",
        TypeError,
        "out",
        ("got:      float16[3]",),
    ),
]
each_remat = pytest.mark.parametrize("fault", REMAT, ids=[f.name for f in REMAT])


@pytest.fixture
def new_remat() -> Any:
    """The `jax.checkpoint` that calls `remat` rules."""
    jax.config.update("jax_remat3", True)
    yield
    jax.config.update("jax_remat3", False)


@each_remat
@pytest.mark.usefixtures("new_remat")
def test_remat_where_jax_calls_the_rule(fault: Fault) -> None:
    prim = sine(**fault.body)()
    gradient = jax.grad(lambda x: jax.checkpoint(prim)(x).sum())
    fault.check_error(found_in(lambda: jax.make_jaxpr(gradient)(X)))


@each_remat
def test_remat_at_check_and_at_import(fault: Fault) -> None:
    prim = sine(**fault.body)()
    fault.check_error(found_in(lambda: check(prim)))
    fault.check_error(found_in(lambda: sine(**fault.body, examples=True)))


@pytest.mark.usefixtures("new_remat")
def test_remat_that_is_right() -> None:
    def rule(self: Any, trace: Any, x: Any) -> Any:
        return redone(self(x), (), again(lambda res, x: self(x)))

    def run(cls: Any) -> Any:
        return jax.grad(lambda x: jax.checkpoint(cls())(x).sum())(X)

    both(lambda base: unary(base, remat=rule), run)
    check(unary(StrictHiPrim, remat=rule)())


def test_remat_of_jax_itself_is_not_looked_at() -> None:
    assert unary(StrictHiPrim).remat is HiPrim.remat
    check(unary(StrictHiPrim)())
