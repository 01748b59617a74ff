"""The installed JAX decides what a function's rules may return.

Each result is given to stock JAX as well: what that takes is accepted, and what it
refuses is reported, with its own words.
"""

import collections
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import SymbolicZero

from strict_hijax import StrictHijaxError, _jax, checked_custom_jvp, checked_custom_vjp
from strict_hijax._functions import asked, backward_results
from strict_hijax._functions.rules import FunctionRules, Inputs

X = jnp.ones(3)
One = collections.namedtuple("One", "a")
Two = collections.namedtuple("Two", "a b")

BWD = {
    "a pair": lambda ct: ((ct, None),),
    "a list of cotangents": lambda ct: [(ct, None)],
    "a named tuple": lambda ct: One((ct, None)),
    "too many": lambda ct: (ct, ct),
    "a list of too many": lambda ct: [ct, ct],
    "one for the whole argument": lambda ct: (ct,),
    "a list for a tuple": lambda ct: ([ct, None],),
    "a named tuple for a tuple": lambda ct: (Two(ct, None),),
    "a container for an array": lambda ct: (((ct,), None),),
    "a SymbolicZero": lambda ct: ((SymbolicZero(jax.typeof(ct)), None),),
    "a Zero": lambda ct: ((_jax.Zero(jax.typeof(ct)), None),),
    "a string for an integer": lambda ct: ((ct, "none"),),
    "an integer for an integer": lambda ct: ((ct, 1),),
    "another shape": lambda ct: ((ct[:2], None),),
    "a key": lambda ct: ((jax.random.key(0), None),),
    "a string": lambda ct: (("ct", None),),
}
FWD = {
    "a pair": lambda x: (x * 2.0, x),
    "a list": lambda x: [x * 2.0, x],
    "a named tuple": lambda x: Two(x * 2.0, x),
    "the output alone": lambda x: x * 2.0,
    "three": lambda x: (x, x, x),
    "a weak residual": lambda x: (x * 2.0, (1, 2.0, True)),
    "a NumPy residual": lambda x: (x * 2.0, np.ones(3)),
    "another structure": lambda x: ((x * 2.0,), x),
    "another dtype": lambda x: (x.astype(jnp.bfloat16), x),
    "a string as residual": lambda x: (x * 2.0, "x"),
    "a string as output": lambda x: ("x", x),
}
JVP = {
    "a pair": lambda x, t: (x * 2.0, t * 2.0),
    "a list": lambda x, t: [x * 2.0, t * 2.0],
    "a named tuple": lambda x, t: Two(x * 2.0, t * 2.0),
    "the output alone": lambda x, t: x * 2.0,
    "None": lambda x, t: (x * 2.0, None),
    "a SymbolicZero": lambda x, t: (x * 2.0, SymbolicZero(jax.typeof(t))),
    "a Zero": lambda x, t: (x * 2.0, _jax.Zero(jax.typeof(t))),
    "another structure": lambda x, t: ((x,), (t,)),
    "another shape": lambda x, t: (x * 2.0, t[:2]),
    "another dtype": lambda x, t: (x * 2.0, t.astype(jnp.bfloat16)),
    "a string": lambda x, t: (x * 2.0, "t"),
}


@pytest.fixture(params=[False, True], ids=["classic", "hijax"], autouse=True)
def implementation(request):
    for name in ("jax_custom_vjp3", "jax_custom_jvp3"):
        jax.config.update(name, request.param)
    yield
    for name in ("jax_custom_vjp3", "jax_custom_jvp3"):
        jax.config.update(name, False)


def raised(action: Any) -> Exception | None:
    try:
        action()
    except Exception as error:
        return error
    return None


def agree(ours: Exception | None, stock: Exception | None) -> None:
    if stock is None:
        assert ours is None, str(ours)
        return
    assert isinstance(ours, StrictHijaxError), stock
    assert isinstance(ours, type(stock))
    says = str(stock).partition("\n---")[0].partition("<function")[0]
    assert says.partition("JitTracer")[0].partition("Traced")[0][:300] in str(ours)


@pytest.mark.parametrize("name", BWD)
def test_what_bwd_may_return(name):
    def define(make, **given):
        function = make(lambda x: x[0] * 2.0, **given)
        function.defvjp(lambda x: (x[0] * 2.0, None), lambda res, ct: BWD[name](ct))
        return function

    stock = define(jax.custom_vjp)
    grad = jax.grad(lambda y: stock((y, 3)).sum())
    checked = lambda: define(checked_custom_vjp, example_args=((X, 3),))  # noqa: E731
    agree(raised(checked), raised(lambda: jax.jit(grad)(X)))


@pytest.mark.parametrize("name", FWD)
def test_what_fwd_may_return(name):
    def define(make, **given):
        function = make(lambda x: x * 2.0, **given)
        function.defvjp(FWD[name], lambda res, ct: (ct * 2.0,))
        return function

    stock = define(jax.custom_vjp)
    grad = jax.grad(lambda x: jax.jit(stock)(x).sum())
    checked = lambda: define(checked_custom_vjp, example_args=(X,))  # noqa: E731
    agree(raised(checked), raised(lambda: grad(X)))


@pytest.mark.parametrize("name", JVP)
def test_what_a_jvp_rule_may_return(name):
    def define(make, **given):
        function = make(lambda x: x * 2.0, **given)
        function.defjvp(lambda primals, tangents: JVP[name](*primals, *tangents))
        return function

    stock = define(jax.custom_jvp)
    jvp = lambda: jax.jvp(jax.jit(stock), (X,), (X,))  # noqa: E731
    grad = lambda: jax.grad(lambda x: jax.jit(stock)(x).sum())(X)  # noqa: E731
    checked = lambda: define(checked_custom_jvp, example_args=(X,))  # noqa: E731
    agree(raised(checked), raised(jvp) or raised(grad))


# --- how it is asked ------------------------------------------------------------------


def bwd_rules(**more: Any) -> FunctionRules:
    return FunctionRules(jnp.sin, fwd=lambda x: (x, x), bwd=lambda r, c: c, **more)


def test_asking_records_nothing():
    inputs = Inputs.of((X,), ())
    assert inputs is not None
    answers = []

    def ask(x):
        answers.append(asked.ask_bwd(bwd_rules(), (x, x), inputs))
        answers.append(asked.ask_bwd(bwd_rules(), (x,), inputs))
        answers.append(asked.ask_fwd(bwd_rules(), (x,), None))
        return x

    with jax.check_tracer_leaks():
        assert jax.make_jaxpr(ask)(X).eqns == []
    assert [answer.known for answer in answers] == [True] * 3
    assert [answer.error is None for answer in answers] == [False, True, False]


def test_a_right_result_is_not_asked_about(monkeypatch):
    def no(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(asked, "make_custom_vjp", no)
    monkeypatch.setattr(asked, "make_custom_jvp", no)
    f = checked_custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (x * 2.0, x), lambda res, ct: (ct * 2.0,))
    jax.grad(lambda x: f(x).sum())(X)
    g = checked_custom_jvp(lambda x: x * 2.0)
    g.defjvp(lambda primals, tangents: (primals[0] * 2.0, tangents[0] * 2.0))
    jax.grad(lambda x: g(x).sum())(X)


def test_what_cannot_be_asked_is_not_known():
    of_ref = Inputs(jax.tree.structure((0,)), (jax.typeof(jax.new_ref(X)),))
    of_array = Inputs.of((X,), ())
    assert of_array is not None
    generator = (x for x in [X])
    assert not asked.ask_bwd(bwd_rules(), (X, X), of_ref).known
    assert not asked.ask_bwd(bwd_rules(), generator, of_array).known
    assert next(generator) is X


def test_a_contract_that_is_new_is_told_in_the_words_of_jax(monkeypatch):
    def refuse(*_: Any) -> asked.Answer:
        return asked.Answer(True, ValueError("a widget must be given"))

    monkeypatch.setattr(backward_results, "ask_bwd", refuse)
    f = checked_custom_vjp(lambda x, y: x * 2.0)
    f.defvjp(lambda x, y: (x * 2.0, None), lambda res, ct: (ct * 2.0, None))
    with pytest.raises(ValueError, match=r"SH438 (.|\n)*a widget must be given"):
        f(X, (X, X))


def test_what_jax_takes_is_dropped_but_for_what_is_wrong_all_the_same():
    rules = bwd_rules()
    found = [rules.finding(code, "bwd", "is odd.") for code in ("SH414", "SH417")]
    taken = asked.Answer(True, None)
    assert asked.borne_out(rules, "bwd", (X,), found, taken) == found[1:]
    unknown = asked.Answer(False, None)
    assert asked.borne_out(rules, "bwd", (X,), found, unknown) == found
