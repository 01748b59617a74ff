"""What is wrong with what a jvp rule returns: fault 33, and effects, 34.

Each mistake is tried at every stage: at import, with declared types; at a first call
that is forward-only; and where JAX calls the rule, with eager checks off.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from strict_hijax import (
    EffectError,
    RuleTypeError,
    RuleValueError,
    StrictHijaxError,
    UntraceableRuleError,
    UsageError,
    check,
    checked_custom_jvp,
    ignore,
)
from tests.custom_vjp_cases import error_of

X, Y = jnp.ones(3), jnp.full(3, 2.0)
PARAMS = {"b": jnp.ones(3), "w": jnp.ones((2, 3))}


class Case(NamedTuple):
    """A function with one mistake; its arguments, and what the error must name."""

    code: str
    ours: type[Exception]
    stock: type[Exception]
    fun: Callable[..., Any]
    jvp: Callable[..., Any]
    args: tuple[Any, ...]
    names: tuple[str, ...]


def double(x):
    return 2.0 * x


def pair(x):
    return x, 2.0 * x


def product(x, y):
    return x * y


def apply(params, x):
    return {"out": params["w"] @ x + params["b"][:2], "sum": params["b"].sum()}


def whole(x):
    return x.astype(int), x


CASES: dict[str, Case] = {}


def case(code, fun, args, *names, ours=RuleTypeError, stock=TypeError):
    def decorate(jvp):
        CASES[jvp.__name__] = Case(code, ours, stock, fun, jvp, args, names)
        return jvp

    return decorate


@case("SH432", double, (X,), "float32[3]")
def the_output_alone(primals, tangents):
    return double(*primals)


@case("SH432", double, (X,), "a tuple of 3")
def three_of_them(primals, tangents):
    return double(*primals), tangents[0], None


@case("SH432", product, (X, Y), "a dict of 2")
def a_dict(primals, tangents):
    return {"out": product(*primals), "tangent": tangents[0]}


@case("SH433", pair, (X,), "a tuple of 2", "a list of 2")
def a_list_for_a_tuple(primals, tangents):
    return list(pair(*primals)), [tangents[0], 2.0 * tangents[0]]


@case("SH433", double, (X,), "a single value", "output")
def one_more_container(primals, tangents):
    return (double(*primals),), (2.0 * tangents[0],)


@case("SH433", apply, (PARAMS, X), "'out', 'total'")
def another_key(primals, tangents):
    out = apply(*primals)
    other = {"out": out["out"], "total": out["sum"]}
    return other, jax.tree.map(jnp.zeros_like, other)


@case("SH434", double, (X,), "bfloat16[3]", "float32[3]")
def an_output_of_another_dtype(primals, tangents):
    out = double(*primals).astype(jnp.bfloat16)
    return out, tangents[0].astype(jnp.bfloat16)


@case("SH434", product, (X, Y), "float32[]", "float32[3]")
def an_output_of_another_shape(primals, tangents):
    return product(*primals).sum(), tangents[0].sum()


@case("SH434", pair, (X,), "output[1]", "int32[3]")
def one_output_of_another_dtype(primals, tangents):
    out = pair(*primals)
    return (out[0], out[1].astype(int)), (tangents[0], np.zeros(3, jax.float0))


@case("SH435", double, (X,), "None is no zero here")
def none_for_a_zero(primals, tangents):
    return double(*primals), None


@case("SH435", pair, (X,), "tangent[1]")
def none_for_one_of_two(primals, tangents):
    return pair(*primals), (tangents[0], None)


@case("SH435", double, (X,), "a tuple of 1")
def a_tuple_of_tangents(primals, tangents):
    return double(*primals), tangents


@case("SH436", double, (X,), "bfloat16[3]", "tangent_out.astype(jnp.float32)")
def a_tangent_of_another_dtype(primals, tangents):
    return double(*primals), tangents[0].astype(jnp.bfloat16)


@case("SH436", apply, (PARAMS, X), "tangent['out']", "float32[3]")
def a_tangent_of_another_shape(primals, tangents):
    out = apply(*primals)
    return out, {"out": tangents[1], "sum": tangents[0]["b"].sum()}


@case("SH436", whole, (X,), "float0[3]", "tangent[0]")
def a_float_tangent_of_an_integer(primals, tangents):
    return whole(*primals), (tangents[0], tangents[0])


@case("SH437", double, (X,), "the string 'x_dot'")
def a_string(primals, tangents):
    return double(*primals), "x_dot"


@case("SH437", double, (X,), "object")
def an_object(primals, tangents):
    return double(*primals), object()


@case("SH437", pair, (X,), "tangent[1]", "function")
def a_function(primals, tangents):
    return pair(*primals), (tangents[0], double)


each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def expect(case: Case, action: Callable[[], Any]) -> StrictHijaxError:
    error = error_of(
        action,
        case.code,
        case.ours,
        case.stock,
        f"jvp rule `{case.jvp.__name__}`",
        subject=case.fun.__name__,
    )
    for name in case.names:
        assert name in str(error)
    assert error.rule == "jvp"
    assert error.hint
    return error


@each_case
def test_at_import(case):
    checked = checked_custom_jvp(case.fun, example_args=case.args)
    expect(case, lambda: checked.defjvp(case.jvp))


@each_case
def test_at_a_first_call(case):
    checked = checked_custom_jvp(case.fun)
    checked.defjvp(case.jvp)
    expect(case, lambda: checked(*case.args))
    expect(case, lambda: jax.jit(checked)(*case.args))


def differentiate(function, args, transform=lambda f: f):
    def run(*args):
        return jax.jvp(function, args, jax.tree.map(jnp.ones_like, args))

    return transform(run)(*args)


@each_case
def test_where_jax_calls_the_rule(case):
    checked = checked_custom_jvp(case.fun, eager=False)
    checked.defjvp(case.jvp)
    checked(*case.args)  # no types are known but those that are returned
    if case.code in ("SH433", "SH434"):
        checked = checked_custom_jvp(case.fun)
        checked.defjvp(case.jvp)
    expect(case, lambda: differentiate(checked, case.args))
    expect(case, lambda: differentiate(checked, case.args, jax.jit))


@each_case
@pytest.mark.parametrize("flag", [False, True])
def test_what_jax_says_is_in_the_message(case, flag):
    before = jax.config.jax_custom_jvp3
    jax.config.update("jax_custom_jvp3", flag)
    try:
        stock = jax.custom_jvp(case.fun)
        stock.defjvp(case.jvp)
        try:  # under jit, where JAX sees the primal, too
            differentiate(jax.jit(stock), case.args)
        except TypeError as error:
            says = str(error)
        else:
            pytest.fail("stock JAX is silent")
        checked = checked_custom_jvp(case.fun)
        checked.defjvp(case.jvp)
        error = expect(case, lambda: checked(*case.args))
    finally:
        jax.config.update("jax_custom_jvp3", before)
    if case.code == "SH432":  # it prints the value
        says = says.partition(", but got")[0]
    if case.code == "SH437":  # and the address of an object
        says = "is not a valid JAX type"
    for line in says.splitlines():
        assert line.strip() in str(error), says


@each_case
def test_check_finds_it_in_plain_functions(case):
    stock = jax.custom_jvp(case.fun)
    stock.defjvp(case.jvp)
    expect(case, lambda: check(stock, *case.args))


@each_case
def test_ignored(case):
    checked = checked_custom_jvp(case.fun, ignore=(case.code,))
    checked.defjvp(case.jvp)
    checked(*case.args)
    other = checked_custom_jvp(case.fun)
    other.defjvp(case.jvp)
    with ignore(case.code):
        other(*case.args)


# --- linearity ------------------------------------------------------------------------


def affine(primals, tangents):
    return double(*primals), 2.0 * tangents[0] + 1.0


def with_a_primal(primals, tangents):
    return double(*primals), 2.0 * tangents[0] + primals[0]


def constant(primals, tangents):
    return double(*primals), jnp.full(3, 2.0)


def squared(primals, tangents):
    return double(*primals), 2.0 * tangents[0] ** 2


def clipped(primals, tangents):
    return double(*primals), jnp.clip(2.0 * tangents[0], -1.0, 1.0)


def called_with_the_tangent(primals, tangents):
    return wave(*primals), wave(*tangents)


def wave(x):
    return jnp.sin(x)


def normalised(primals, tangents):
    return double(*primals), tangents[0] / jnp.linalg.norm(tangents[0])


def softmax(primals, tangents):
    return double(*primals), jax.nn.softmax(tangents[0])


def sorted_tangent(primals, tangents):
    return double(*primals), jnp.sort(tangents[0])


def noisy(primals, tangents):
    noise = jax.random.normal(jax.random.key(0), X.shape)
    return double(*primals), 2.0 * tangents[0] + noise


def in_both_branches(primals, tangents):
    (x,), (t,) = primals, tangents
    return double(x), lax.cond(x[0] > 0, lambda t: t + x, lambda t: t - x, t)


def beside(primals, tangents):
    out = jnp.concatenate([double(*primals), tangents[0]])[: X.size]
    return out.reshape(X.shape), 2.0 * tangents[0]


def zero_times(primals, tangents):
    return double(*primals) + 0 * tangents[0], 2.0 * tangents[0]


def swapped(primals, tangents):
    return 2.0 * tangents[0], double(*primals)


def mixed(primals, tangents):
    return double(primals[0] + tangents[0]), 2.0 * tangents[0]


def squared_output(primals, tangents):
    return tangents[0] ** 2, 2.0 * tangents[0]


NOT_LINEAR = {
    "SH440": (
        squared,
        clipped,
        called_with_the_tangent,
        normalised,
        softmax,
        sorted_tangent,
    ),
    "SH441": (affine, with_a_primal, constant, noisy, in_both_branches),
    "SH442": (swapped, mixed, squared_output, beside, zero_times),
}


# What stock JAX raises in reverse mode, or where it is silent, ValueError.
STOCK = {"SH440": NotImplementedError, "SH441": ValueError, "SH442": ValueError}


@pytest.mark.parametrize(
    ("code", "rule"), [(c, r) for c, rules in NOT_LINEAR.items() for r in rules]
)
def test_a_rule_that_is_not_linear(code, rule):
    fun = wave if rule is called_with_the_tangent else double

    def checked(**options):
        made = checked_custom_jvp(fun, **options)
        made.defjvp(rule)
        return made

    for action in (
        lambda: checked(example_args=(X,)),
        lambda: checked()(X),
        lambda: jax.jvp(checked(), (X,), (X,)),
        lambda: jax.grad(lambda x: checked()(x).sum())(X),
        lambda: jax.jit(jax.grad(lambda x: checked()(x).sum()))(X),
        lambda: check(checked(eager=False), X),
    ):
        error = error_of(
            action,
            code,
            StrictHijaxError,
            STOCK[code],
            rule.__name__,
            subject=fun.__name__,
        )
        assert error.rule == "jvp"
        assert error.location.filename == __file__
        where = wave if fun is wave else rule  # the line of what is not linear
        first = where.__code__.co_firstlineno
        assert first <= error.location.line <= first + 2
    assert checked(ignore=code)(X).shape == (3,)
    assert checked(eager=False)(X).shape == (3,)
    jax.jvp(checked(eager=False), (X,), (X,))


def test_of_two_tangents_the_wrong_one_is_named():
    checked = checked_custom_jvp(pair)

    @checked.defjvp
    def rule(primals, tangents):
        (dot,) = tangents
        return pair(*primals), (dot, dot * dot)

    error = error_of(lambda: checked(X), "SH440", StrictHijaxError, NotImplementedError)
    assert error.path == "tangent[1]"
    assert "`mul` at " in str(error)


def test_a_function_of_defjvps_that_is_not_linear_is_located():
    checked = checked_custom_jvp(product)

    def of_x(x_dot, ans, x, y):
        return x_dot * y + 1.0

    checked.defjvps(of_x, None)
    error = error_of(lambda: checked(X, Y), "SH441", RuleValueError, ValueError)
    assert error.location.line == of_x.__code__.co_firstlineno + 1


# --- effects --------------------------------------------------------------------------


def printing(primals, tangents):
    jax.debug.print("{}", primals[0])
    return double(*primals), 2.0 * tangents[0]


def calling_back(primals, tangents):
    jax.experimental.io_callback(lambda x: None, None, primals[0], ordered=True)
    return double(*primals), 2.0 * tangents[0]


def in_a_scan(primals, tangents):
    def step(carry, x):
        jax.debug.print("{}", x)
        return carry, x

    _, out = jax.lax.scan(step, 0.0, primals[0])
    return 2.0 * out, 2.0 * tangents[0]


@pytest.mark.parametrize(
    ("rule", "effects", "code", "primitive"),
    [
        (printing, "pure", "SH503", "debug_print"),
        (in_a_scan, "pure", "SH503", "debug_print"),
        (calling_back, "pure", "SH503", "io_callback"),
        (calling_back, "remat", "SH502", "io_callback"),
    ],
)
def test_an_effect_that_the_policy_does_not_allow(rule, effects, code, primitive):
    checked = checked_custom_jvp(double, effects=effects)
    checked.defjvp(rule)
    for action in (lambda: checked(X), lambda: jax.jit(checked)(X)):
        error = error_of(action, code, EffectError, NotImplementedError)
        assert error.rule == "jvp"
        assert error.location.filename == __file__
        assert primitive.partition("_")[0] in str(error)


@pytest.mark.parametrize("rule", [printing, in_a_scan, calling_back])
def test_effects_that_jax_allows_are_accepted(rule):
    checked = checked_custom_jvp(double)
    checked.defjvp(rule)
    assert checked(X).shape == (3,)


# --- exceptions -----------------------------------------------------------------------


def unpacks_too_much(primals, tangents):
    x, _ = primals
    return double(x), tangents[0]


def wrong_attribute(primals, tangents):
    return double(*primals), jnp.transposed(tangents[0])


def wrong_shapes(primals, tangents):
    return double(*primals), tangents[0] @ jnp.ones((2, 2))


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (unpacks_too_much, ValueError),
        (wrong_attribute, AttributeError),
        (wrong_shapes, TypeError),
    ],
)
def test_a_rule_that_cannot_be_traced(rule, kind):
    declared = checked_custom_jvp(double, example_args=(X,))
    error = error_of(
        lambda: declared.defjvp(rule),
        "SH424",
        UntraceableRuleError,
        kind,
        rule.__name__,
    )
    assert error.rule == "jvp"
    checked = checked_custom_jvp(double)
    checked.defjvp(rule)
    np.testing.assert_array_equal(checked(X), double(X))
    with pytest.raises(kind) as caught:  # where JAX runs it, it raises as it is
        jax.jvp(checked, (X,), (X,))
    assert not isinstance(caught.value, StrictHijaxError)


def needs_values(primals, tangents):
    if primals[0].sum() > 0:
        return double(*primals), 2.0 * tangents[0]
    return double(*primals), tangents[0]


def declines(primals, tangents):
    raise NotImplementedError("not differentiable")


def refuses(primals, tangents):
    if primals[0].ndim == 1:
        raise ValueError("of matrices alone")
    return double(*primals), 2.0 * tangents[0]


@pytest.mark.parametrize("rule", [needs_values, declines, refuses])
def test_a_rule_that_declines_or_needs_values_is_accepted(rule):
    checked = checked_custom_jvp(double)
    checked.defjvp(rule)
    np.testing.assert_array_equal(checked(X), 2.0 * X)


def test_a_rule_that_needs_values_works_where_jax_gives_them():
    checked = checked_custom_jvp(double)
    checked.defjvp(needs_values)
    np.testing.assert_array_equal(jax.jvp(checked, (X,), (X,))[1], 2.0 * X)


def test_each_combination_of_types_is_checked_once():
    calls = []

    def rule(primals, tangents):
        calls.append(1)
        return double(*primals), 2.0 * tangents[0]

    checked = checked_custom_jvp(double)
    checked.defjvp(rule)
    for size in range(1, 30):
        checked(jnp.ones(size))
        checked(jnp.ones(size))
    assert len(calls) == 29


def test_a_rule_that_calls_itself_on_other_types_ends():
    def rule(primals, tangents):
        (x,), (x_dot,) = primals, tangents
        larger = jnp.concatenate([x, x])
        return checked(larger)[: x.shape[0]], 2.0 * x_dot

    checked = checked_custom_jvp(double)
    checked.defjvp(rule)
    assert checked(X).shape == (3,)
    assert jax.jvp(checked, (X,), (X,))[1].shape == (3,)


@pytest.mark.parametrize("name", ["eager", "environment"])
def test_eager_false_calls_no_rule(name, monkeypatch):
    def rule(primals, tangents):
        pytest.fail("the rule is called")

    options = {"eager": False} if name == "eager" else {}
    if name == "environment":
        monkeypatch.setenv("STRICT_HIJAX_EAGER", "0")
    checked = checked_custom_jvp(double, **options)
    checked.defjvp(rule)
    checked(X)
    jax.jit(checked)(X)


def test_a_rule_is_traced_once_for_equal_types():
    calls = []

    def rule(primals, tangents):
        calls.append(1)
        return double(*primals), 2.0 * tangents[0]

    checked = checked_custom_jvp(functools.partial(product, 2.0))
    checked.defjvp(rule)
    for _ in range(3):
        checked(X)
    assert len(calls) == 1


def test_what_to_write_for_a_tangent_of_another_dtype_is_code():
    checked = checked_custom_jvp(double, example_args=(X,))
    rule = lambda p, t: (double(*p), t[0].astype(jnp.bfloat16))  # noqa: E731
    error = error_of(lambda: checked.defjvp(rule), "SH436", RuleTypeError, TypeError)
    assert eval(error.hint, {"tangent_out": X, "jnp": jnp}).dtype == X.dtype


@pytest.mark.parametrize(
    ("tangent", "hints"), [(lambda t: t.sum(), 2), (lambda t: jnp.outer(t, t), 1)]
)
def test_what_to_write_for_a_tangent_of_another_shape(tangent, hints):
    checked = checked_custom_jvp(double, example_args=(X,))
    rule = lambda p, t: (double(*p), tangent(t[0]))  # noqa: E731
    error = error_of(lambda: checked.defjvp(rule), "SH436", RuleTypeError, TypeError)
    assert len(error.hint.splitlines()) == hints
    assert error.hint.startswith("look for a sum or a transpose")


@pytest.mark.parametrize("value", ["no", "false", "2"])
def test_an_unknown_value_of_the_variable_is_refused(value, monkeypatch):
    monkeypatch.setenv("STRICT_HIJAX_EAGER", value)
    with pytest.raises(UsageError, match=r"SH427 .*neither yes nor no"):
        checked_custom_jvp(double)
    checked_custom_jvp(double, eager=True)
