"""What is wrong with a function's rules as they are defined: fault 29."""

import functools

import jax
import jax.numpy as jnp
import pytest

from strict_hijax import (
    DefinitionError,
    NoRulesError,
    RuleTypeError,
    SignatureError,
    StrictHijaxError,
    UsageError,
    checked_custom_vjp,
)
from strict_hijax._types import describe_value
from tests.custom_vjp_cases import error_of

HAS_ACCUMS = hasattr(jax.custom_vjp, "defvjp_with_accums")
needs_accums = pytest.mark.skipif(not HAS_ACCUMS, reason="jax 0.12 has accumulators")


def product(x, y):
    return x * y


def product_fwd(x, y):
    return x * y, (x, y)


def product_bwd(res, ct):
    x, y = res
    return ct * y, ct * x


def power(x, n):
    return x**n


def power_fwd(x, n):
    return x**n, x


def power_bwd(n, x, ct):
    return (ct * n * x ** (n - 1),)


def define(fun, fwd, bwd, form="defvjp", **options):
    checked = checked_custom_vjp(fun, **options)
    getattr(checked, form)(fwd, bwd)
    return checked


def test_right_rules_are_accepted():
    checked = define(product, product_fwd, product_bwd)
    assert isinstance(checked, jax.custom_vjp)
    assert jax.grad(checked)(2.0, 3.0) == 3.0
    checked = define(power, power_fwd, power_bwd, nondiff_argnums=(1,))
    assert jax.grad(checked)(2.0, 3) == 12.0


# --- called before its rules are defined ----------------------------------------------


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
def test_a_call_before_the_rules_are_defined(call):
    checked = checked_custom_vjp(product)
    error = error_of(
        lambda: call(checked),
        "SH401",
        NoRulesError,
        AttributeError,
        "No VJP defined for custom_vjp function product using defvjp",
        subject="product",
    )
    assert "product.defvjp(" in error.hint


# --- None, and values that cannot be called -------------------------------------------


@pytest.mark.parametrize(
    ("fwd", "bwd", "role"), [(None, product_bwd, "fwd"), (product_fwd, None, "bwd")]
)
@pytest.mark.parametrize("form", ["defvjp", "defvjp_with_logs"])
def test_none_in_place_of_a_rule(fwd, bwd, role, form):
    error_of(
        lambda: define(product, fwd, bwd, form),
        "SH409",
        NoRulesError,
        AttributeError,
        role,
        "None",
        subject="product",
    )


def test_none_in_place_of_both_rules():
    with pytest.raises(AttributeError, match="2 faults") as raised:
        define(product, None, None)
    assert [f.code for f in raised.value.findings] == ["SH409"] * 2


@pytest.mark.parametrize("wrong", [3, "product_fwd", (product_fwd, product_bwd)])
def test_a_rule_that_cannot_be_called(wrong):
    error_of(
        lambda: define(product, wrong, product_bwd),
        "SH402",
        DefinitionError,
        TypeError,
        "has a `fwd` that is",
        describe_value(wrong),
        subject="product",
    )
    error_of(
        lambda: define(product, product_fwd, wrong),
        "SH402",
        DefinitionError,
        TypeError,
        "has a `bwd` that is",
        describe_value(wrong),
        subject="product",
    )


def generator_fwd(x, y):
    yield x * y
    yield x, y


def generator_bwd(res, ct):
    for r in res:
        yield ct * r


async def coroutine_bwd(res, ct):
    return ct, ct


async def async_generator_bwd(res, ct):
    yield ct


@pytest.mark.parametrize(
    ("fwd", "bwd", "name"),
    [
        (generator_fwd, product_bwd, "generator_fwd"),
        (product_fwd, generator_bwd, "generator_bwd"),
        (product_fwd, coroutine_bwd, "coroutine_bwd"),
        (product_fwd, async_generator_bwd, "async_generator_bwd"),
    ],
)
def test_generators_and_coroutines(fwd, bwd, name):
    error_of(
        lambda: define(product, fwd, bwd),
        "SH402",
        DefinitionError,
        TypeError,
        name,
        subject="product",
    )


# --- arity ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fwd", "options"),
    [
        (lambda x: (x, None), {}),
        (lambda x, y, z: (x, None), {}),
        (lambda: (1.0, None), {}),
        (lambda x: (x, None), {"nondiff_argnums": (1,)}),
    ],
    ids=["too few", "too many", "none", "without the static one"],
)
def test_fwd_that_cannot_take_the_arguments(fwd, options):
    bwd = power_bwd if options else product_bwd
    error = error_of(
        lambda: define(product, fwd, bwd, **options),
        "SH403",
        SignatureError,
        TypeError,
        "fwd",
        "x",
        subject="product",
    )
    assert error.rule == "fwd"
    assert error.location.filename == __file__


@pytest.mark.parametrize(
    ("fun", "bwd", "options", "wanted"),
    [
        (product, lambda ct: (ct, ct), {}, "res, ct"),
        (product, lambda x, y, res, ct: (ct, ct), {}, "res, ct"),
        (power, lambda res, ct: (ct,), {"nondiff_argnums": (1,)}, "n, res, ct"),
        (power, lambda res, ct: (ct,), {"nondiff_argnames": ("n",)}, "n, res, ct"),
        (power, lambda x, n, res, ct: (ct,), {"nondiff_argnums": (1,)}, "n, res, ct"),
    ],
)
def test_bwd_that_cannot_take_the_arguments(fun, bwd, options, wanted):
    fwd = power_fwd if fun is power else product_fwd
    error = error_of(
        lambda: define(fun, fwd, bwd, **options),
        "SH404",
        SignatureError,
        TypeError,
        "bwd",
        wanted,
        subject=fun.__name__,
    )
    assert error.rule == "bwd"


@needs_accums
@pytest.mark.parametrize(
    "bwd",
    [
        lambda res, ct: None,
        lambda res, ct, x_acc: None,
        lambda res, ct, x_acc, y_acc, z_acc: None,
    ],
)
def test_bwd_that_does_not_take_each_accumulator(bwd):
    error_of(
        lambda: define(product, product_fwd, bwd, "defvjp_with_accums"),
        "SH404",
        SignatureError,
        TypeError,
        "x_acc",
        "y_acc",
        subject="product",
    )


def one(x):
    return x


def three(x, y, z):
    return x * y * z


def three_fwd(x, y, z):
    return x * y * z, (x, y, z)


def three_bwd(res, ct):
    return ct, ct, ct


@pytest.mark.parametrize(
    ("fun", "fwd", "bwd", "options"),
    [
        (one, lambda res, ct: (ct,), lambda x: (x, None), {}),
        (three, three_bwd, three_fwd, {}),
        (power, power_bwd, power_fwd, {"nondiff_argnums": (1,)}),
    ],
    ids=["one", "three", "static"],
)
def test_swapped_rules_are_called_swapped(fun, fwd, bwd, options):
    error = error_of(
        lambda: define(fun, fwd, bwd, **options),
        "SH405",
        SignatureError,
        TypeError,
        "swapped",
        fwd.__name__,
        bwd.__name__,
        subject=fun.__name__,
    )
    assert ", ".join(fun.__code__.co_varnames[: fun.__code__.co_argcount]) in str(error)


def keyword_only(x, *, scale):
    return x * scale


@pytest.mark.parametrize(
    ("fun", "fwd", "bwd", "rule"),
    [
        (keyword_only, lambda x: (x, None), lambda res, ct: (ct,), "primal"),
        (one, lambda x, *, scale: (x, None), lambda res, ct: (ct,), "fwd"),
        (one, lambda x: (x, None), lambda res, ct, *, scale: (ct,), "bwd"),
    ],
)
def test_required_keyword_only_parameters(fun, fwd, bwd, rule):
    error = error_of(
        lambda: define(fun, fwd, bwd),
        "SH406",
        SignatureError,
        TypeError,
        "scale",
        subject=fun.__name__,
    )
    assert error.rule == rule
    assert error.path == "scale"


# --- nondiff_argnums ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argnums", "word"),
    [
        ((2,), "2 positional arguments"),
        ((-1,), "negative"),
        ((1, 1), "twice"),
        ((0, 5), "5"),
        ((True,), "True"),
        (("n",), "'n'"),
    ],
)
def test_nondiff_argnums_that_do_not_exist(argnums, word):
    error = error_of(
        lambda: checked_custom_vjp(power, nondiff_argnums=argnums),
        "SH407",
        UsageError,
        ValueError,
        word,
        subject="power",
    )
    assert error.path == "nondiff_argnums"


@pytest.mark.parametrize("argnames", [("m",), ("n", "n"), ("N", "x")])
def test_nondiff_argnames_that_do_not_exist(argnames):
    error = error_of(
        lambda: checked_custom_vjp(power, nondiff_argnames=argnames),
        "SH408",
        UsageError,
        ValueError,
        repr(argnames[0]),
        subject="power",
    )
    assert error.path == "nondiff_argnames"


# --- results that are certain ---------------------------------------------------------


def forgets_to_return(res, ct):
    product_bwd(res, ct)
    x = ct * res[0]
    x = x + 1


@pytest.mark.parametrize(
    ("fwd", "bwd", "code", "rule"),
    [
        (lambda x, y: None, product_bwd, "SH410", "fwd"),
        (lambda x, y: 3.0, product_bwd, "SH410", "fwd"),
        (product_fwd, lambda res, ct: None, "SH414", "bwd"),
        (product_fwd, forgets_to_return, "SH414", "bwd"),
    ],
)
def test_rules_that_certainly_return_something_else(fwd, bwd, code, rule):
    error = error_of(
        lambda: define(product, fwd, bwd),
        code,
        RuleTypeError,
        TypeError,
        rule,
        subject="product",
    )
    assert error.rule == rule


@needs_accums
def test_an_accumulating_bwd_that_certainly_returns_cotangents():
    error_of(
        lambda: define(
            product,
            product_fwd,
            lambda res, ct, x_acc, y_acc: (ct, ct),
            "defvjp_with_accums",
        ),
        "SH420",
        RuleTypeError,
        TypeError,
        "a tuple",
        subject="product",
    )


# --- reported together, and turned off ------------------------------------------------


def test_faults_of_both_rules_are_in_one_exception():
    with pytest.raises(TypeError, match="2 faults in") as raised:
        define(product, lambda x: (x, None), lambda ct: (ct, ct))
    assert [f.code for f in raised.value.findings] == ["SH403", "SH404"]


def test_a_check_can_be_turned_off_for_a_function():
    options = {"ignore": ("SH403",), "eager": False}
    checked = define(product, lambda x: (x, None), product_bwd, **options)
    assert checked(2.0, 3.0) == 6.0


def test_an_existing_function_is_checked_at_once():
    plain = jax.custom_vjp(product)
    plain.defvjp(product_fwd, lambda ct: (ct, ct))
    error_of(
        lambda: checked_custom_vjp(plain), "SH404", SignatureError, TypeError, "bwd"
    )


def test_forms_that_call_one_another_are_checked_once():
    calls = []

    def fwd(x):
        calls.append(x)
        return x * 1.0, None

    checked = checked_custom_vjp(
        one, example_args=(jax.ShapeDtypeStruct((), jnp.float32),)
    )
    checked.defvjp_with_logs(fwd, lambda res, ct: ((ct,), {"ct": ct}))
    assert len(calls) == 1


# --- what cannot be seen is accepted --------------------------------------------------


def decorated(rule):
    @functools.wraps(rule)
    def wrapper(*args):
        return rule(*args)

    return wrapper


def declines(*args):
    raise NotImplementedError("not differentiable")


def declines_with_other_parameters():
    raise NotImplementedError("not differentiable")


class Callable:
    def __call__(self, x, y):
        return product_fwd(x, y)


@pytest.mark.parametrize(
    ("fwd", "bwd"),
    [
        (lambda *args: product_fwd(*args), lambda *args: product_bwd(*args)),
        (functools.partial(product_fwd), functools.partial(product_bwd)),
        (jax.jit(product_fwd), jax.jit(product_bwd)),
        (decorated(product_fwd), decorated(product_bwd)),
        (staticmethod(product_fwd), staticmethod(product_bwd)),
        (lambda x, y, z=1: (x * y, (x, y)), lambda res, ct, *, z=1: (ct, ct)),
        (lambda x, y, /: (x * y, (x, y)), lambda res, ct, /: (ct, ct)),
        (Callable(), product_bwd),
        (declines, declines),
        (declines_with_other_parameters, declines_with_other_parameters),
    ],
    ids=[
        "varargs",
        "partial",
        "jitted",
        "decorated",
        "static",
        "defaults",
        "positional-only",
        "object",
        "declines",
        "declines, of any arity",
    ],
)
def test_signatures_that_cannot_be_judged(fwd, bwd):
    checked = define(product, fwd, bwd)
    assert checked(2.0, 3.0) == 6.0


@pytest.mark.parametrize(
    "fun",
    [
        lambda *xs: xs[0] * xs[1],
        functools.partial(three, 1.0),
        decorated(product),
        jax.jit(product),
        lambda x, y=3.0: x * y,
    ],
    ids=["varargs", "partial", "decorated", "jitted", "defaults"],
)
def test_functions_whose_arguments_cannot_be_counted(fun):
    checked = define(fun, product_fwd, product_bwd)
    assert jax.grad(checked)(2.0, 3.0) == 3.0


def test_rules_that_are_methods():
    class Layer:
        def __init__(self, scale):
            self.scale = scale
            self.apply = checked_custom_vjp(self._apply)
            self.apply.defvjp(self._fwd, self._bwd)

        def _apply(self, x):
            return x * self.scale

        def _fwd(self, x):
            return self._apply(x), None

        def _bwd(self, res, ct):
            return (ct * self.scale,)

    assert jax.grad(Layer(3.0).apply)(1.0) == 3.0


@pytest.mark.skipif(not hasattr(jax.custom_vjp, "defremat"), reason="jax 0.12 has it")
@pytest.mark.parametrize("form", ["defremat", "defremat_with_logs"])
def test_none_in_place_of_a_rematerialization_rule(form):
    @checked_custom_vjp
    def square(x):
        return x * x

    define = getattr(square, form)
    with pytest.raises(StrictHijaxError) as raised:
        define(lambda x: (x * x, x), None, lambda x, g: (2 * x * g,))
    assert (raised.value.code, raised.value.path) == ("SH409", "rem")
