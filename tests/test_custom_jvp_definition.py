"""What is wrong with a jvp rule as it is defined: faults 29 and 33."""

import functools

import jax
import jax.numpy as jnp
import pytest

from strict_hijax import (
    DefinitionError,
    NoRulesError,
    RuleTypeError,
    SignatureError,
    UsageError,
    checked_custom_jvp,
)
from strict_hijax._types import describe_value
from tests.custom_vjp_cases import error_of


def product(x, y):
    return x * y


def product_jvp(primals, tangents):
    (x, y), (x_dot, y_dot) = primals, tangents
    return x * y, x_dot * y + x * y_dot


def power(x, n):
    return x**n


def power_jvp(n, primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return x**n, n * x ** (n - 1) * x_dot


def define(fun, jvp, **options):
    checked = checked_custom_jvp(fun, **options)
    assert checked.defjvp(jvp) is jvp
    return checked


def define_parts(fun, *parts, **options):
    checked = checked_custom_jvp(fun, **options)
    checked.defjvps(*parts)
    return checked


def test_right_rules_are_accepted():
    checked = define(product, product_jvp)
    assert isinstance(checked, jax.custom_jvp)
    assert jax.grad(checked)(2.0, 3.0) == 3.0
    checked = define(power, power_jvp, nondiff_argnums=(1,))
    assert jax.grad(checked)(2.0, 3) == 12.0
    assert jax.grad(define(power, power_jvp, nondiff_argnames=("n",)))(2.0, 3) == 12.0


def test_right_parts_are_accepted():
    checked = define_parts(
        product, lambda t, ans, x, y: t * y, lambda t, ans, x, y: x * t
    )
    assert jax.grad(checked, argnums=(0, 1))(2.0, 3.0) == (3.0, 2.0)
    checked = define_parts(product, lambda t, ans, x, y: t * y, None)
    assert jax.grad(checked, argnums=(0, 1))(2.0, 3.0) == (3.0, 0.0)


def test_of_defjvps_that_are_all_none_jax_makes_no_zeros():
    checked = define_parts(product, None, None)
    if jax.config.jax_custom_jvp3:
        assert jax.grad(checked)(2.0, 3.0) == 0.0
        return
    for call in (checked, jax.grad(checked)):
        error_of(
            lambda call=call: call(2.0, 3.0),
            "SH435",
            RuleTypeError,
            TypeError,
            "defjvps",
            subject="product",
        )


# --- called before its rule is defined ------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(2.0, 3.0),
        lambda f: jax.jit(f)(2.0, 3.0),
        lambda f: jax.grad(f)(2.0, 3.0),
        lambda f: jax.vmap(f)(jnp.ones(2), jnp.ones(2)),
    ],
    ids=["eager", "jit", "grad", "vmap"],
)
def test_a_call_before_the_rule_is_defined(call):
    checked = checked_custom_jvp(product)
    says = "No JVP defined for custom_jvp function product using defjvp."
    error_of(
        lambda: call(checked),
        "SH401",
        NoRulesError,
        AttributeError,
        "product.defjvp",
        says,
        subject="product",
    )


@pytest.mark.parametrize("fun", [product, lambda x: x, functools.partial(power, n=2)])
def test_none_in_place_of_a_rule(fun):
    error = error_of(
        lambda: define(fun, None),
        "SH409",
        NoRulesError,
        AttributeError,
        "No JVP defined for custom_jvp function",
    )
    assert error.got == "None"


# --- what cannot be called ------------------------------------------------------------


@pytest.mark.parametrize("rule", [3.0, "product_jvp", (product_jvp,)])
def test_a_rule_that_cannot_be_called(rule):
    error_of(
        lambda: define(product, rule),
        "SH402",
        DefinitionError,
        TypeError,
        "has a `jvp` that is",
        describe_value(rule),
        subject="product",
    )


async def coroutine(primals, tangents):
    return primals[0], tangents[0]


def generator(primals, tangents):
    yield primals[0], tangents[0]


async def async_generator(primals, tangents):
    yield primals[0], tangents[0]


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (coroutine, "a coroutine"),
        (generator, "a generator"),
        (async_generator, "an async generator"),
    ],
)
def test_a_rule_that_does_not_return_its_result(rule, what):
    error = error_of(
        lambda: define(product, rule), "SH402", DefinitionError, TypeError, what
    )
    assert error.rule == "jvp"


@pytest.mark.parametrize("rule", [2.0, "x", generator])
def test_a_function_of_defjvps_that_cannot_be_called(rule):
    error_of(
        lambda: define_parts(product, None, rule),
        "SH402",
        DefinitionError,
        TypeError,
        "has a `jvps[1]` that is" if rule is not generator else "generator",
        subject="product",
    )


# --- arity ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fun", "rule", "options", "names"),
    [
        (product, lambda x, y, x_dot, y_dot: (0, 0), {}, ("primals, tangents", "4")),
        (product, lambda primals: (0, 0), {}, ("primals, tangents", "1")),
        (product, lambda: (0, 0), {}, ("primals, tangents", "0")),
        (power, lambda primals, tangents: (0, 0), {"nondiff_argnums": (1,)}, ("n",)),
        (power, lambda x, n, p, t: (0, 0), {"nondiff_argnums": (1,)}, ("n", "4")),
        (product, product, {"nondiff_argnums": (0,)}, ("x", "nondiff")),
    ],
)
def test_a_rule_that_cannot_take_its_arguments(fun, rule, options, names):
    error = error_of(
        lambda: define(fun, rule, **options),
        "SH430",
        SignatureError,
        TypeError,
        *names,
        subject=fun.__name__,
    )
    assert error.rule == "jvp"
    assert "def " in error.hint


@pytest.mark.parametrize(
    "part",
    [lambda t: t, lambda t, x, y: t * y, lambda t, ans, x, y, z: t],
    ids=["tangent alone", "no output", "too many"],
)
def test_a_function_of_defjvps_that_cannot_take_its_arguments(part):
    error = error_of(
        lambda: define_parts(product, None, part),
        "SH430",
        SignatureError,
        TypeError,
        "y_dot, primal_out, x, y",
        subject="product",
    )
    assert error.rule == "jvps[1]"


@pytest.mark.parametrize(
    "parts",
    [(), (lambda t, ans, x, y: t,), (None, None, None)],
    ids=["none", "too few", "too many"],
)
def test_another_number_of_functions_than_arguments(parts):
    says = f"safe_zip() argument 1 has length {len(parts)} but argument 0 has length 2."
    error = error_of(
        lambda: define_parts(product, *parts),
        "SH431",
        UsageError,
        ValueError,
        "x, y",
        subject="product",
    )
    assert says in str(error)
    stock = jax.custom_jvp(product)
    stock.defjvps(*parts)
    with pytest.raises(ValueError, match=r"safe_zip\(\) argument 1 has length"):
        jax.jvp(stock, (1.0, 2.0), (1.0, 1.0))


def test_an_argument_with_a_default_needs_a_function():
    def scaled(x, factor=2.0):
        return x * factor

    error_of(
        lambda: define_parts(scaled, lambda t, ans, x, factor: t * factor),
        "SH431",
        UsageError,
        ValueError,
        "factor",
    )
    checked = define_parts(scaled, lambda t, ans, x, factor: t * factor, None)
    assert jax.grad(checked)(1.0) == 2.0


def test_defjvps_with_nondiff_argnums_is_refused_by_jax():
    checked = checked_custom_jvp(power, nondiff_argnums=(1,))
    with pytest.raises(TypeError, match="Can't use ``defjvps`` with"):
        checked.defjvps(lambda t, ans, x: t)


@pytest.mark.parametrize(
    ("fun", "rule", "names"),
    [
        (lambda x, *, n: x, product_jvp, ("n",)),
        (product, lambda primals, tangents, *, scale: (0, 0), ("scale",)),
        (product, lambda primals, tangents, *, a, b=1: (0, 0), ("a",)),
    ],
)
def test_required_keyword_only_parameters(fun, rule, names):
    error_of(lambda: define(fun, rule), "SH406", SignatureError, TypeError, *names)


# --- returns that are certainly wrong -------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "got"),
    [
        (lambda primals, tangents: None, "None"),
        (lambda primals, tangents: 0.0, "a number"),
        (lambda primals, tangents: 3, "a number"),
    ],
)
def test_a_rule_that_always_returns_something_else(rule, got):
    error = error_of(
        lambda: define(product, rule),
        "SH432",
        RuleTypeError,
        TypeError,
        got,
        "must produce a pair (list or tuple of length two)",
        subject="product",
    )
    assert error.rule == "jvp"


# --- nondiff_argnums ------------------------------------------------------------------


@pytest.mark.parametrize("argnums", [(2,), (-1,), (1, 1), ("n",)])
def test_nondiff_argnums_that_do_not_exist(argnums):
    error_of(
        lambda: checked_custom_jvp(power, nondiff_argnums=argnums),
        "SH407",
        UsageError,
        ValueError,
        "nondiff_argnums",
        subject="power",
    )


@pytest.mark.parametrize("argnames", [("m",), ("x", "x"), ("primals",)])
def test_nondiff_argnames_that_do_not_exist(argnames):
    error_of(
        lambda: checked_custom_jvp(power, nondiff_argnames=argnames),
        "SH408",
        UsageError,
        ValueError,
        argnames[0],
        subject="power",
    )


# --- arguments of the decorator -------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: checked_custom_jvp(product, example_arg=()), "example_arg"),
        (lambda: checked_custom_jvp(example_arg=()), "example_args"),
        (lambda: checked_custom_jvp(3), "fun"),
        (lambda: checked_custom_jvp(power, nondiff_argnums=1), "nondiff_argnums"),
        (
            lambda: checked_custom_jvp(
                define(power, power_jvp, nondiff_argnums=(1,)), nondiff_argnums=(1,)
            ),
            "nondiff_argnums",
        ),
    ],
)
def test_a_wrong_argument_of_the_decorator(make, name):
    error = error_of(make, "SH427", UsageError, ValueError, name)
    assert error.subject == "strict_hijax.checked_custom_jvp"


# --- what must be accepted ------------------------------------------------------------


def declines(*args):
    raise NotImplementedError


class Methods:
    def jvp(self, primals, tangents):
        return product_jvp(primals, tangents)

    @staticmethod
    def static(primals, tangents):
        return product_jvp(primals, tangents)


@pytest.mark.parametrize(
    "rule",
    [
        lambda *args: product_jvp(*args),
        lambda primals, tangents, scale=1.0: product_jvp(primals, tangents),
        lambda primals, /, tangents: product_jvp(primals, tangents),
        functools.partial(lambda scale, p, t: product_jvp(p, t), 1.0),
        jax.jit(product_jvp),
        functools.wraps(power)(lambda *args: product_jvp(*args)),
        Methods().jvp,
        Methods.static,
        declines,
    ],
    ids=[
        "varargs",
        "default",
        "positional-only",
        "partial",
        "jit",
        "decorated",
        "method",
        "static method",
        "declines",
    ],
)
def test_rules_of_any_form_are_accepted(rule):
    checked = define(product, rule)
    if rule is declines:
        with pytest.raises(NotImplementedError):
            jax.grad(checked)(2.0, 3.0)
    else:
        assert jax.grad(checked)(2.0, 3.0) == 3.0
