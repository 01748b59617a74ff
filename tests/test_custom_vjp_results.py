"""What is wrong with what a function's rules return: faults 30, 31 and 32.

Each mistake is tried at every stage: at import, with declared types; at a first call
that is forward-only; and where JAX calls the rule, with eager checks off.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import ShapeDtypeStruct as S

import strict_hijax
from strict_hijax import (
    ClosedOverTracerError,
    RuleTypeError,
    RuleValueError,
    StrictHijaxError,
    UntraceableRuleError,
    checked_custom_vjp,
)
from tests.custom_vjp_cases import error_of

HAS_ACCUMS = hasattr(jax.custom_vjp, "defvjp_with_accums")
needs_accums = pytest.mark.skipif(not HAS_ACCUMS, reason="jax 0.12 has accumulators")


class Pair(NamedTuple):
    a: Any
    b: Any


class Case(NamedTuple):
    """A function with one mistake; its arguments, and what the error must name."""

    code: str
    ours: type[Exception]
    stock: type[Exception]
    fun: Callable[..., Any]
    fwd: Callable[..., Any]
    bwd: Callable[..., Any]
    args: tuple[Any, ...]
    names: tuple[str, ...]
    form: str = "defvjp"
    options: dict[str, Any] = {}


X, Y, B16 = jnp.ones((3,)), jnp.full((3,), 2.0), jnp.ones((2, 3), jnp.bfloat16)
PARAMS = {"b": jnp.ones((3,)), "w": jnp.ones((2, 3))}


def double(x):
    return x * 2.0


def double_fwd(x):
    return x * 2.0, None


def double_bwd(res, ct):
    return (ct * 2.0,)


def moments(x):
    return x.sum(), (x * x).sum()


def moments_bwd(x, cts):
    return (cts[0] + 2 * x * cts[1],)


def product(x, y):
    return x * y


def product_fwd(x, y):
    return x * y, (x, y)


def product_bwd(res, ct):
    return ct * res[1], ct * res[0]


def dense(params, x):
    return params["w"] @ x


def dense_fwd(params, x):
    return params["w"] @ x, (params, x)


def dense_bwd(res, ct):
    params, x = res
    return {"b": jnp.zeros_like(params["b"]), "w": jnp.outer(ct, x)}, ct @ params["w"]


def fwd_case(code, fun, fwd, bwd, args, *names, ours=RuleTypeError, stock=TypeError):
    return Case(code, ours, stock, fun, fwd, bwd, args, ("fwd", *names))


def bwd_case(code, fun, fwd, bwd, args, *names, stock=TypeError, **more):
    ours = RuleTypeError if stock is TypeError else RuleValueError
    return Case(code, ours, stock, fun, fwd, bwd, args, ("bwd", *names), **more)


CASES = {
    # --- fwd: a pair ---
    "output alone": fwd_case(
        "SH410", double, lambda x: x * 2.0, double_bwd, (X,), "a pair"
    ),
    "three values": fwd_case(
        "SH410", double, lambda x: (x, None, None), double_bwd, (X,), "a tuple of 3"
    ),
    "a dict": fwd_case(
        "SH410", double, lambda x: {"out": x}, double_bwd, (X,), "a dict of 1"
    ),
    # --- fwd: structure of the output ---
    "pair for an array": fwd_case(
        "SH411", double, lambda x: ((x, x), None), double_bwd, (X,), "a tuple of 2"
    ),
    "pair without residuals": fwd_case(
        "SH411", moments, lambda x: moments(x), moments_bwd, (X,), "itself returns"
    ),
    "list for a tuple": fwd_case(
        "SH411", moments, lambda x: (list(moments(x)), x), moments_bwd, (X,), "output"
    ),
    "other keys": fwd_case(
        "SH411",
        lambda x: {"mean": x},
        lambda x: ({"avg": x}, None),
        lambda res, ct: (ct["mean"],),
        (X,),
        "mean",
    ),
    "row sums beside the output": fwd_case(
        "SH411",
        lambda x: x * 2,
        lambda x: ((x * 2, x.sum()), None),
        double_bwd,
        (X,),
        "output",
    ),
    # --- fwd: types of the output ---
    "float32 for bfloat16": fwd_case(
        "SH412",
        double,
        lambda x: (x.astype(jnp.float32) * 2, None),
        double_bwd,
        (B16,),
        "bfloat16[2,3]",
        "float32[2,3]",
    ),
    "another shape": fwd_case(
        "SH412", double, lambda x: (x[None], None), double_bwd, (X,), "float32[1,3]"
    ),
    "one output of two": fwd_case(
        "SH412",
        moments,
        lambda x: ((x.sum(), x * x), x),
        moments_bwd,
        (X,),
        "output[1]",
    ),
    # --- fwd: residuals ---
    "a string": fwd_case(
        "SH413", double, lambda x: (x * 2.0, "relu"), double_bwd, (X,), "'relu'"
    ),
    "a function": fwd_case(
        "SH413",
        double,
        lambda x: (x * 2.0, {"act": jnp.sin}),
        double_bwd,
        (X,),
        "residuals['act']",
    ),
    "an object": fwd_case(
        "SH413",
        double,
        lambda x: (x * 2.0, [x, object()]),
        double_bwd,
        (X,),
        "residuals[1]",
    ),
    # --- bwd: a tuple of the right length ---
    "an array": bwd_case(
        "SH414",
        double,
        double_fwd,
        lambda r, ct: ct * 2,
        (X,),
        "a tuple",
        "return (x_ct,)",
    ),
    "too few": bwd_case(
        "SH414", product, product_fwd, lambda r, ct: (ct,), (X, Y), "x", "y"
    ),
    "too many": bwd_case(
        "SH414", double, double_fwd, lambda r, ct: (ct, ct), (X,), "2 cotangents"
    ),
    "a dict of cotangents": bwd_case(
        "SH414", double, double_fwd, lambda r, ct: {"x": ct}, (X,), "a dict of 1"
    ),
    "a generator of cotangents": bwd_case(
        "SH414", double, double_fwd, lambda r, ct: (c for c in [ct]), (X,), "generator"
    ),
    "a named tuple": bwd_case(
        "SH414", product, product_fwd, lambda r, ct: Pair(ct, ct), (X, Y), "Pair"
    ),
    "one for the static argument": bwd_case(
        "SH414",
        lambda x, n: x**n,
        lambda x, n: (x**n, x),
        lambda n, x, ct: (ct * x, None),
        (X, 2),
        "nondiff argument",
        options={"nondiff_argnums": (1,)},
    ),
    # --- bwd: structure ---
    "a missing key": bwd_case(
        "SH415",
        dense,
        dense_fwd,
        lambda r, ct: ({"w": jnp.outer(ct, r[1])}, ct @ r[0]["w"]),
        (PARAMS, X),
        "params",
    ),
    "a tuple for a dict": bwd_case(
        "SH415",
        dense,
        dense_fwd,
        lambda r, ct: ((r[0]["b"], r[0]["w"]), ct @ r[0]["w"]),
        (PARAMS, X),
        "params",
        "a dict with keys 'b', 'w'",
    ),
    "a container for an array": bwd_case(
        "SH415", double, double_fwd, lambda r, ct: ((ct,),), (X,), "x"
    ),
    "one for a pair of sizes": bwd_case(
        "SH415",
        lambda x, sizes: x.reshape(sizes[0], sizes[1]),
        lambda x, sizes: (x.reshape(3, 1), None),
        lambda r, ct: (ct.reshape(3), (None,)),
        (X, (3, 1)),
        "sizes",
        "stands for all of it",
        options={"eager": False},
    ),
    # --- bwd: shape ---
    "not reduced over a broadcast axis": bwd_case(
        "SH416",
        lambda x, b: x + b,
        lambda x, b: (x + b, None),
        lambda r, ct: (ct, ct),
        (jnp.ones((2, 3)), X),
        "b",
        "float32[3]",
        "float32[2,3]",
        stock=ValueError,
    ),
    "a scalar for an array": bwd_case(
        "SH416",
        double,
        double_fwd,
        lambda r, ct: (ct.sum(),),
        (X,),
        "x",
        stock=ValueError,
    ),
    "transposed": bwd_case(
        "SH416",
        dense,
        dense_fwd,
        lambda r, ct: ({"b": None, "w": jnp.outer(r[1], ct)}, ct @ r[0]["w"]),
        (PARAMS, X),
        "params['w']",
        stock=ValueError,
    ),
    # --- bwd: dtype ---
    "float32 cotangent": bwd_case(
        "SH417",
        double,
        double_fwd,
        lambda r, ct: (ct.astype(jnp.float32) * 2,),
        (B16,),
        "x",
        "bfloat16[2,3]",
        "scan",
        stock=ValueError,
    ),
    "float16 cotangent": bwd_case(
        "SH417",
        product,
        product_fwd,
        lambda r, ct: (ct, ct.astype(jnp.float16)),
        (X, Y),
        "y",
        stock=ValueError,
    ),
    "integer cotangent": bwd_case(
        "SH417",
        double,
        double_fwd,
        lambda r, ct: (jnp.zeros(3, jnp.int32),),
        (X,),
        "int32[3]",
        stock=ValueError,
    ),
    "complex cotangent": bwd_case(
        "SH417",
        double,
        double_fwd,
        lambda r, ct: (ct * 1j,),
        (X,),
        "complex64[3]",
        stock=ValueError,
    ),
    "a Python float for bfloat16": bwd_case(
        "SH417",
        double,
        double_fwd,
        lambda r, ct: (1.0,),
        (jnp.bfloat16(1),),
        "bfloat16[]",
        stock=ValueError,
    ),
    # --- bwd: no JAX value ---
    "a string cotangent": bwd_case(
        "SH419", double, double_fwd, lambda r, ct: ("zero",), (X,), "x", "'zero'"
    ),
    "a function cotangent": bwd_case(
        "SH419", double, double_fwd, lambda r, ct: (jnp.zeros_like,), (X,), "x"
    ),
    "an object cotangent": bwd_case(
        "SH419", product, product_fwd, lambda r, ct: (ct, object()), (X, Y), "y"
    ),
    # --- logs ---
    "no pair": bwd_case(
        "SH420",
        double,
        double_fwd,
        lambda r, ct: (ct,),
        (X,),
        "logs",
        form="defvjp_with_logs",
    ),
    "logs that are a list": bwd_case(
        "SH420",
        double,
        double_fwd,
        lambda r, ct: ((ct,), [ct]),
        (X,),
        "a list of 1",
        form="defvjp_with_logs",
    ),
    "a key that is no string": bwd_case(
        "SH420",
        double,
        double_fwd,
        lambda r, ct: ((ct,), {1: ct}),
        (X,),
        "logs[1]",
        form="defvjp_with_logs",
    ),
    "wrong cotangents beside logs": bwd_case(
        "SH416",
        double,
        double_fwd,
        lambda r, ct: ((ct.sum(),), {"ct": ct}),
        (X,),
        "x",
        form="defvjp_with_logs",
        stock=ValueError,
    ),
    # --- nothing at all ---
    "a dtype that is never that object": bwd_case(
        "SH421",
        product,
        product_fwd,
        lambda r, ct: tuple(c if c.dtype is jnp.float32 else None for c in (ct, ct)),
        (X, Y),
        "x",
        "y",
        "silently zero",
        stock=ValueError,
    ),
    "a forgotten branch": bwd_case(
        "SH421",
        double,
        double_fwd,
        lambda r, ct: ({"float64": ct}.get(str(ct.dtype)),),
        (X,),
        "x",
        stock=ValueError,
    ),
    "an empty tree map": bwd_case(
        "SH421",
        dense,
        dense_fwd,
        lambda r, ct: (dict.fromkeys(r[0]), r[0].get("x")),
        (PARAMS, X),
        "params['w']",
        "x",
        stock=ValueError,
    ),
}

ACCUMULATING = {
    "untouched": bwd_case(
        "SH421",
        product,
        product_fwd,
        lambda r, ct, x_acc, y_acc: None,
        (X, Y),
        "x",
        "y",
        stock=ValueError,
    ),
    "a wrong shape": bwd_case(
        "SH416",
        product,
        product_fwd,
        lambda r, ct, x_acc, y_acc: x_acc.accum(ct.sum()),
        (X, Y),
        "x",
        stock=ValueError,
    ),
    "a wrong dtype": bwd_case(
        "SH417",
        product,
        product_fwd,
        lambda r, ct, x_acc, y_acc: y_acc.accum(ct.astype(jnp.float16)),
        (X, Y),
        "y",
        stock=ValueError,
    ),
    "no JAX value": bwd_case(
        "SH419",
        product,
        product_fwd,
        lambda r, ct, x_acc, y_acc: y_acc.accum("ct"),
        (X, Y),
        "y",
    ),
    "returned cotangents": bwd_case(
        "SH420",
        product,
        product_fwd,
        lambda r, ct, x_acc, y_acc: list(product_bwd(r, ct)),
        (X, Y),
        "a list of 2",
    ),
    "a pytree": bwd_case(
        "SH417",
        dense,
        dense_fwd,
        lambda r, ct, acc, x_acc: acc["w"].accum(r[0]["w"].astype(jnp.bfloat16)),
        (PARAMS, X),
        "params['w']",
        stock=ValueError,
    ),
}

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_accumulating = pytest.mark.parametrize(
    "case",
    [case._replace(form="defvjp_with_accums") for case in ACCUMULATING.values()],
    ids=ACCUMULATING,
)


def define(case: Case, **options: Any) -> Any:
    checked = checked_custom_vjp(case.fun, **case.options, **options)
    getattr(checked, case.form)(case.fwd, case.bwd)
    return checked


def expect(case: Case, action: Callable[[], Any]) -> StrictHijaxError:
    subject = case.fun.__qualname__.rpartition(".")[2]
    return error_of(
        action, case.code, case.ours, case.stock, *case.names, subject=subject
    )


def specs(args: tuple[Any, ...]) -> tuple[Any, ...]:
    spec = lambda x: S(x.shape, x.dtype) if isinstance(x, jax.Array) else x  # noqa: E731
    return jax.tree.map(spec, args)


def loss(checked: Any, args: tuple[Any, ...]) -> Any:
    def total(*dynamic: Any) -> Any:
        out = checked(*dynamic, *args[len(dynamic) :])
        return sum(jnp.sum(leaf.astype(jnp.float32)) for leaf in jax.tree.leaves(out))

    static = (i for i, x in enumerate(args) if isinstance(x, int | tuple))
    count = next(static, len(args))
    return jax.grad(total, argnums=tuple(range(count)))(*args[:count])


def at_import(case: Case) -> None:
    if case.options.get("eager") is False:
        pytest.skip("sizes in a pytree cannot be traced")
    error = expect(case, lambda: define(case, example_args=specs(case.args)))
    assert error.rule == case.names[0]
    assert error.location.filename == __file__


def at_first_call(case: Case, call: Callable[[Any], Any]) -> None:
    if case.options.get("eager") is False:
        pytest.skip("sizes in a pytree cannot be traced")
    checked = define(case)
    expect(case, lambda: call(checked))
    expect(case, lambda: call(checked))  # and again: a fault is not forgotten


def where_jax_calls_it(case: Case) -> None:
    checked = define(case._replace(options={**case.options, "eager": False}))
    checked(*case.args)  # the function itself is right
    error = expect(case, lambda: loss(checked, case.args))
    assert error.rule == case.names[0]


@each_case
def test_at_import(case):
    at_import(case)


@each_case
def test_at_a_first_call_forward_only(case):
    at_first_call(case, lambda f: f(*case.args))


@each_case
def test_under_jit_forward_only(case):
    def call(f):
        dynamic = [x for x in case.args if not isinstance(x, int | tuple)]
        return jax.jit(lambda *xs: f(*xs, *case.args[len(xs) :]))(*dynamic)

    at_first_call(case, call)


@each_case
def test_where_jax_calls_the_rule(case):
    if case.code in ("SH411", "SH412"):
        pytest.skip("the output of the function is not known: see the next test")
    where_jax_calls_it(case)


@each_case
def test_in_a_gradient(case):
    expect(case, lambda: loss(define(case), case.args))


@needs_accums
@each_accumulating
def test_accumulators_at_import(case):
    at_import(case)


@needs_accums
@each_accumulating
def test_accumulators_at_a_first_call(case):
    at_first_call(case, lambda f: f(*case.args))


@needs_accums
@each_accumulating
def test_accumulators_where_jax_calls_the_rule(case):
    where_jax_calls_it(case)


@pytest.mark.skipif(not HAS_ACCUMS, reason="jax 0.12 has rematerialization rules")
@pytest.mark.parametrize(
    ("fwd", "rem", "bwd", "code"),
    [
        (lambda x: x, lambda res, x: (x, x), double_bwd, "SH410"),
        (lambda x: (x * 2.0, x), lambda res, x: (x[None], x), double_bwd, "SH412"),
        (lambda x: (x * 2.0, x), lambda res, x: (x, "x"), double_bwd, "SH413"),
        (double_fwd, lambda res, x: (x, x), lambda res, ct: (ct.sum(),), "SH416"),
        (double_fwd, lambda x: (x, x), double_bwd, "SH403"),
    ],
)
def test_rematerialization_rules(fwd, rem, bwd, code):
    checked = checked_custom_vjp(double, example_args=(S((3,), jnp.float32),))
    with pytest.raises(StrictHijaxError, match=f"{code} .*double") as raised:
        checked.defremat(fwd, rem, bwd)
    assert raised.value.code == code


# --- what JAX says stays --------------------------------------------------------------


def without_addresses(error):
    """The first sentence of an error, without the notes of JAX that follow it."""
    text = re.sub(r"<function .*? at 0x\w+>", "<function>", str(error))
    return text.partition("\n---")[0]


@pytest.mark.parametrize("name", ["an array", "too few", "a scalar for an array"])
@pytest.mark.parametrize("hijax", [False, True], ids=["classic", "hijax"])
def test_the_message_has_jaxs_sentence(name, hijax):
    case = CASES[name]
    jax.config.update("jax_custom_vjp3", hijax)
    try:
        plain = jax.custom_vjp(case.fun)
        plain.defvjp(case.fwd, case.bwd)
        with pytest.raises((TypeError, ValueError)) as stock:
            loss(jax.jit(plain), case.args)
        checked = define(case, eager=False)
        with pytest.raises(type(stock.value)) as ours:
            loss(jax.jit(checked), case.args)
    finally:
        jax.config.update("jax_custom_vjp3", False)
    assert isinstance(ours.value, StrictHijaxError)
    assert without_addresses(stock.value) in without_addresses(ours.value)


@pytest.mark.parametrize(
    "name",
    ["output alone", "pair for an array", "another shape", "float32 for bfloat16"],
)
def test_the_message_has_jaxs_sentence_about_fwd(name):
    case = CASES[name]
    plain = jax.custom_vjp(case.fun)
    plain.defvjp(case.fwd, case.bwd)
    with pytest.raises(case.stock) as stock:
        loss(jax.jit(plain), case.args)
    with pytest.raises(case.stock) as ours:
        loss(define(case), case.args)
    sentence = str(stock.value).partition("but instead of a pair")[0]
    assert sentence in str(ours.value)


# --- weak types, Refs, integers -------------------------------------------------------


def test_a_weak_python_scalar_under_x64():
    with jax.enable_x64(True):
        checked = checked_custom_vjp(lambda x: x * 3.0)
        checked.defvjp(lambda x: (x * 3.0, None), lambda res, ct: (1.0,))
        error_of(
            lambda: checked(jnp.float32(1)),
            "SH417",
            RuleValueError,
            ValueError,
            "float32[]",
            "float64[]",
        )


def test_the_cotangent_of_a_ref_is_that_of_what_it_holds():
    def read(ref):
        return ref[...] * 1.0

    checked = checked_custom_vjp(read)
    checked.defvjp(
        lambda ref: (ref[...] * 1.0, None), lambda res, ct: (ct.astype(jnp.bfloat16),)
    )

    @jax.jit
    def use(x):
        return checked(jax.new_ref(x))

    error_of(lambda: use(X), "SH417", RuleValueError, ValueError, "ref", "float32[3]")


def test_one_that_is_not_differentiated_is_not_asked_for_a_cotangent():
    checked = checked_custom_vjp(lambda table, i: table[i])
    checked.defvjp(
        lambda table, i: (table[i], (table, i)),
        lambda res, ct: (jnp.zeros_like(res[0]).at[res[1]].add(ct), None),
    )
    assert jax.grad(checked)(X, 1)[1] == 1


# --- several faults -------------------------------------------------------------------


def test_faults_of_one_rule_are_in_one_exception():
    checked = checked_custom_vjp(product, example_args=(X, Y))
    with pytest.raises(ValueError, match="2 faults in") as raised:
        checked.defvjp(product_fwd, lambda r, ct: (ct.sum(), ct.astype(jnp.float16)))
    assert [(f.code, f.path) for f in raised.value.findings] == [
        ("SH416", "x"),
        ("SH417", "y"),
    ]


# --- rules that cannot be traced ------------------------------------------------------


def asks_for_missing_name(res, ct):
    return (ct * undefined_name,)


def adds_wrong_shapes(res, ct):
    return (ct + jnp.ones(7),)


def reads_missing_attribute(res, ct):
    return (res.nothing * ct,)


def indexes_too_far(res, ct):
    return ((ct, ct)[2],)


FAILING = [
    (adds_wrong_shapes, (TypeError, ValueError)),
    (reads_missing_attribute, AttributeError),
    (indexes_too_far, IndexError),
]


@pytest.mark.parametrize(("bwd", "stock"), FAILING)
def test_a_bwd_that_cannot_work(bwd, stock):
    def at_import():
        checked_custom_vjp(double, example_args=(X,)).defvjp(double_fwd, bwd)

    with pytest.raises(UntraceableRuleError, match=r"SH424 .*double") as raised:
        at_import()
    error = raised.value
    assert isinstance(error, stock)
    assert error.rule == "bwd"
    assert bwd.__name__ in str(error)
    assert type(error.__cause__).__name__ in str(error)


@pytest.mark.parametrize(("bwd", "stock"), FAILING)
def test_what_a_bwd_raises_waits_for_a_gradient_where_no_types_are_given(bwd, stock):
    checked = checked_custom_vjp(double)
    checked.defvjp(double_fwd, bwd)
    np.testing.assert_array_equal(checked(X), double(X))
    np.testing.assert_array_equal(jax.jit(checked)(X), double(X))
    with pytest.raises(stock) as raised:
        jax.grad(lambda x: checked(x).sum())(X)
    assert not isinstance(raised.value, StrictHijaxError)


def test_a_missing_name_is_only_a_fault_at_the_first_call():
    checked = checked_custom_vjp(double, example_args=(X,))
    checked.defvjp(double_fwd, asks_for_missing_name)
    error_of(
        lambda: checked(X), "SH424", UntraceableRuleError, NameError, "undefined_name"
    )


# --- tracers that are closed over -----------------------------------------------------


def scaled_by(s, where):
    """A function whose rules close over `s`, in fwd or in bwd."""
    checked = checked_custom_vjp(lambda x: x * 2.0)

    def fwd(x):
        return x * 2.0, (x * s if where == "fwd" else x)

    def bwd(x, ct):
        return (ct * s if where == "bwd" else ct,)

    checked.defvjp(fwd, bwd)
    return checked


@pytest.mark.parametrize("where", ["fwd", "bwd"])
@pytest.mark.parametrize(
    "use",
    [
        lambda f, x, s: f(x * s).sum(),
        lambda f, x, s: jax.jit(lambda x: f(x).sum())(x * s),
        lambda f, x, s: jax.vmap(f)(x * s).sum(),
    ],
    ids=["grad", "grad of jit", "grad of vmap"],
)
def test_a_tracer_of_an_outer_gradient(where, use):
    error = error_of(
        lambda: jax.grad(lambda s: use(scaled_by(s, where), X, s))(2.0),
        "SH423",
        ClosedOverTracerError,
        jax.errors.UnexpectedTracerError,
        where,
        "s",
    )
    assert error.path == "s"
    assert isinstance(error, TypeError)


def test_a_tracer_of_a_vmap_around_which_is_a_gradient():
    def total(x):
        return jax.vmap(lambda s: scaled_by(s, "bwd")(x).sum())(jnp.ones(2)).sum()

    error_of(
        lambda: jax.grad(total)(X),
        "SH423",
        ClosedOverTracerError,
        jax.errors.UnexpectedTracerError,
        "bwd",
        "s",
    )


@pytest.mark.parametrize("where", ["fwd", "bwd"])
def test_closing_over_a_tracer_is_no_error_in_itself(where):
    grad = lambda s: jax.grad(lambda x: scaled_by(s, where)(x).sum())(X)  # noqa: E731
    expected = np.full(3, 2.0 if where == "bwd" else 1.0)
    assert (jax.jit(grad)(2.0) == expected).all()
    assert (jax.vmap(grad)(jnp.full(2, 2.0)) == expected).all()
    jax.jit(lambda s: scaled_by(s, where)(X))(2.0)


# --- None on purpose ------------------------------------------------------------------


def stops(res, ct):
    return None, None


def stops_anything(res, ct):
    return (None,) * len(res)


def declines_some(res, ct):
    return ct * res[1], None


@pytest.mark.parametrize("bwd", [stops, stops_anything, declines_some])
@pytest.mark.parametrize("form", ["import", "call", "grad"])
def test_none_on_purpose(bwd, form):
    options = {"example_args": (X, Y)} if form == "import" else {}
    checked = checked_custom_vjp(product, **options)
    checked.defvjp(product_fwd, bwd)
    checked(X, Y)
    jax.grad(lambda x, y: checked(x, y).sum(), argnums=(0, 1))(X, Y)


def test_none_where_no_input_is_differentiable():
    checked = checked_custom_vjp(lambda i: i + 1)
    checked.defvjp(lambda i: (i + 1, [i]), lambda res, ct: tuple(None for _ in res))
    assert checked(3) == 4


@needs_accums
def test_an_accumulator_given_an_explicit_zero():
    checked = checked_custom_vjp(double, example_args=(X,))
    checked.defvjp_with_accums(double_fwd, lambda r, ct, acc: acc.accum(None))
    assert (jax.grad(lambda x: checked(x).sum())(X) == 0).all()


# --- what to write --------------------------------------------------------------------


def test_the_lines_to_write_are_code():
    def fun(p):
        return p["w"] * 2

    def bwd(res, ct):
        return ({"w": ct.astype(jnp.float32)},)

    p = {"w": jnp.ones(3, jnp.bfloat16)}
    checked = checked_custom_vjp(fun)
    checked.defvjp(lambda p: (p["w"] * 2, None), bwd)
    with pytest.raises(StrictHijaxError, match="SH417") as caught:
        checked(p)
    cast, ignoring = caught.value.hint.splitlines()
    scope = {"p_ct": {"w": jnp.ones(3)}, "jnp": jnp, "fun": fun}
    assert eval(cast, scope).dtype == jnp.bfloat16
    assert ignoring.startswith('@checked_custom_vjp(..., ignore=("SH417",))   #')
    whole = ignoring.replace("..., ", "")  # of what else is given there
    exec(f"{whole}\ndef g(p): return fun(p)", scope | vars(strict_hijax))

    checked = checked_custom_vjp(fun)
    checked.defvjp(lambda p: (p["w"] * 2.0 + jnp.ones(3), None), bwd)
    with pytest.raises(StrictHijaxError, match="SH412") as caught:
        checked(p)
    assert "return out.astype(jnp.bfloat16), res" in caught.value.hint
