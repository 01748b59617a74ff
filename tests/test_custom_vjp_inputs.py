"""What bad input to checked_custom_vjp gets: a code, a place, a remedy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import ShapeDtypeStruct as S
from jaxtyping import Array, Bool, Complex, Float, Float32, Int, Key, PyTree, Shaped

from strict_hijax import (
    ArgumentError,
    StrictHijaxError,
    UsageError,
    check,
    checked_custom_vjp,
)
from tests.custom_vjp_cases import error_of

X = jnp.ones((2, 3))


def dense(x, w):
    return x @ w


def dense_fwd(x, w):
    return x @ w, (x, w)


def dense_bwd(res, ct):
    return ct @ res[1].T, res[0].T @ ct


def define(fun=dense, fwd=dense_fwd, bwd=dense_bwd, **options):
    checked = checked_custom_vjp(**options)(fun) if options else checked_custom_vjp(fun)
    checked.defvjp(fwd, bwd)
    return checked


def expect(action, code, *names, subject=None):
    error = error_of(action, code, UsageError, ValueError, *names, subject=subject)
    assert error.path
    assert error.expected
    assert error.got
    return error


# --- example_args ---------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_and_too_many_example_args(count):
    error = expect(
        lambda: define(example_args=(X,) * count),
        "SH425",
        "x",
        "w",
        subject="dense",
    )
    assert error.location.filename == __file__


@pytest.mark.parametrize("wrong", ["relu", object(), jnp.sin, jnp.float32, {"a": "b"}])
def test_example_args_that_are_no_arrays_or_specs(wrong):
    error = expect(lambda: define(example_args=(X, wrong)), "SH425", "w")
    assert "nondiff_argnums=(1,)" in error.hint


@pytest.mark.parametrize("wrong", [X, S((2,), jnp.float32), "x", {"x": X}])
def test_example_args_that_are_no_tuple(wrong):
    error = expect(lambda: define(example_args=wrong), "SH425", "dense")
    assert error.path == "example_args"


@pytest.mark.parametrize("shape", [(2, 3), (), (4, 2)])
def test_a_shape_that_the_function_cannot_take(shape):
    error = expect(
        lambda: define(example_args=(X, S(shape, jnp.float32))),
        "SH425",
        "example_args",
    )
    assert "Error: " in str(error)
    assert error.location.filename == __file__
    assert error.__cause__ is None


def test_arrays_specs_types_and_numbers_are_example_args():
    aval = jax.typeof(X)
    for first in (X, S((2, 3), jnp.float32), aval, np.ones((2, 3), np.float32)):
        define(example_args=[first, S((3, 4), jnp.float32)])
    checked = checked_custom_vjp(lambda x: x * 2.0, example_args=(1.0,))
    checked.defvjp(lambda x: (x * 2.0, None), lambda res, ct: (ct * 2.0,))


def test_defaults_complete_example_args():
    def scale(x, factor=2.0):
        return x * factor

    checked = checked_custom_vjp(scale, example_args=(X,))
    checked.defvjp(lambda x, f: (x * f, (x, f)), lambda r, ct: (ct * r[1], None))


# --- dims and annotations -------------------------------------------------------------


def norm(x: Float[Array, "b d"], w: Float[Array, "d"]) -> Float[Array, "b d"]:
    return x * w


def norm_fwd(x, w):
    return x * w, (x, w)


def norm_bwd(res, ct):
    return ct * res[1], (ct * res[0]).sum(0)


def define_norm(fun=norm, bwd=norm_bwd, **options):
    return define(fun, norm_fwd, bwd, **options)


def test_annotations_with_dims_are_types():
    define_norm(dims={"b": 8, "d": 4})
    with pytest.raises(ValueError, match=r"SH416 .*`w`: expected float32\[4\]"):
        define_norm(bwd=lambda res, ct: (ct, ct), dims={"b": 8, "d": 4})


@pytest.mark.parametrize(
    ("dims", "remedy"),
    [
        ({}, "dims={'b': ..., 'd': ...}"),
        ({"b": 8}, "dims={'b': 8, 'd': ...}"),
        ({"b": 8, "D": 4}, "dims={'b': 8, 'D': 4, 'd': ...}"),
    ],
)
def test_dims_that_do_not_cover_the_annotations(dims, remedy):
    error = expect(lambda: define_norm(dims=dims), "SH426", "x", subject="norm")
    assert error.location.filename == __file__
    assert f"dims={dims!r}" in str(error)
    assert error.hint.startswith(remedy)


def test_all_names_that_dims_lacks_are_told_at_once():
    def apply(
        x: Float[Array, "*batch n"], w: tuple[Float[Array, "2*n+m"], int]
    ) -> Float[Array, "*batch out"]:
        return x

    error = expect(lambda: define_norm(fun=apply, dims={"k": 2}), "SH426", "x")
    assert error.hint.startswith("dims={'k': 2, 'batch': (...,), 'n': ..., 'm': ...}")


@pytest.mark.parametrize("dims", [3, {"b": "8"}, {1: 8}, {"b": -1}, [("b", 8)]])
def test_dims_that_are_no_sizes(dims):
    error = expect(lambda: define_norm(dims=dims), "SH426", "dims")
    assert error.path == "dims"


def test_dims_and_example_args_are_one_too_many():
    expect(lambda: define_norm(dims={"b": 1}, example_args=(X, X)), "SH427", "dims")


@pytest.mark.parametrize(
    "annotation",
    [jax.Array, np.ndarray, dict[str, Float[Array, "d"]], PyTree, "str", list],
)
def test_annotations_that_are_no_jaxtyping_types(annotation):
    def fun(x: annotation, w: Float[Array, "d"]):
        return x * w

    expect(lambda: define_norm(fun, dims={"b": 2, "d": 3}), "SH426", "x", subject="fun")


def test_a_parameter_without_annotation():
    expect(lambda: define_norm(lambda x, w: x * w, dims={"b": 2}), "SH426", "x")


def test_a_static_parameter_needs_a_default():
    def power(x: Float[Array, "d"], n: int):
        return x**n

    options = {"nondiff_argnums": (1,), "dims": {"d": 3}}
    fwd, bwd = lambda x, n: (x**n, x), lambda n, x, ct: (ct * n * x ** (n - 1),)
    expect(lambda: define(power, fwd, bwd, **options), "SH426", "n", "no default")

    def square(x: Float[Array, "d"], n: int = 2):
        return x**n

    define(square, fwd, bwd, **options)


def test_annotations_of_every_kind():
    def fun(
        x: Float[Array, "*batch 2*d"],
        i: Int[Array, "#n 3 size=4"],
        key: Key[Array, ""],
        pair: tuple[Complex[Array, ""], Bool[Array, "d-1"]],
        maybe: Float32[Array, "d"] | None,
        any_: Shaped[Array, "..."],
        number: float,
    ):
        seen.append(jax.tree.map(jax.typeof, (x, i, key, pair, maybe, any_, number)))
        return x * number

    seen = []
    checked = checked_custom_vjp(
        fun, dims={"batch": (5, 6), "d": 2, "n": 1, "...": (7,)}
    )
    checked.defvjp(
        lambda *args: (args[0] * args[-1], None),
        lambda res, ct: (ct, None, None, None, None, None, None),
    )
    words = [a.str_short() for a in jax.tree.leaves(seen[0])]
    assert words == [
        "float32[5,6,4]",
        "int32[1,3,4]",
        "key<fry>[]",
        "complex64[]",
        "bool[1]",
        "float32[2]",
        "float32[7]",
        "float32[]",
    ]


# --- other arguments ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("example_arg", "example_args"),
        ("nondiff_argnum", "nondiff_argnums"),
        ("effect", "effects"),
        ("zzz", None),
    ],
)
def test_an_unknown_keyword(wrong, near):
    for action in (
        lambda: checked_custom_vjp(dense, **{wrong: ()}),
        lambda: checked_custom_vjp(**{wrong: ()}),
    ):
        error = expect(action, "SH427", wrong)
        assert near is None or f"did you mean `{near}`?" in str(error)


@pytest.mark.parametrize("fun", [3, "dense", None, [dense]])
def test_something_else_than_a_function(fun):
    expect(lambda: checked_custom_vjp(fun), "SH427", "fun" if fun else "function")


@pytest.mark.parametrize("argnums", [1, "1"])
def test_nondiff_argnums_that_are_no_tuple(argnums):
    expect(
        lambda: checked_custom_vjp(dense, nondiff_argnums=argnums),
        "SH427",
        "nondiff_argnums",
    )


def test_nondiff_argnums_of_a_function_that_has_its_own():
    existing = jax.custom_vjp(lambda x, n: x**n, nondiff_argnums=(1,))
    expect(
        lambda: checked_custom_vjp(existing, nondiff_argnums=(0,)),
        "SH427",
        "nondiff_argnums",
    )


@pytest.mark.parametrize("code", ["SH999", "417", "sh417 ", 417])
def test_an_unknown_code(code):
    with pytest.raises(UsageError, match=r"SH120 .*no code of strict_hijax"):
        checked_custom_vjp(dense, ignore=(code,))


@pytest.mark.parametrize("axes", [3, {"i": "2"}, [("i", 2)]])
def test_axes_that_are_no_sizes(axes):
    expect(lambda: checked_custom_vjp(dense, axes=axes), "SH427", "axes")


# --- arrays in static positions -------------------------------------------------------


def power(x, n):
    return x**n


def define_power(**options):
    checked = checked_custom_vjp(power, nondiff_argnums=(1,), **options)
    checked.defvjp(lambda x, n: (x**n, x), lambda n, x, ct: (ct * n * x ** (n - 1),))
    return checked


@pytest.mark.parametrize(
    "static", [jnp.float32(2), {"n": jnp.ones(2)}, jax.random.key(0)]
)
@pytest.mark.parametrize("eager", [True, False])
def test_an_array_in_a_static_position(static, eager):
    checked = define_power(eager=eager)
    for _ in range(2):
        error = error_of(
            lambda: checked(2.0, static), "SH422", ArgumentError, TypeError, "n"
        )
        assert error.path == "n"
        assert "return None for `n` from bwd" in error.hint


@pytest.mark.parametrize(
    "call",
    [
        lambda f: jax.jit(f)(2.0, 2),
        lambda f: jax.vmap(f)(jnp.ones(2), jnp.ones(2)),
        lambda f: jax.grad(f, argnums=1)(2.0, 2.0),
    ],
)
def test_a_tracer_in_a_static_position(call):
    error = error_of(
        lambda: call(define_power()),
        "SH422",
        StrictHijaxError,
        jax.errors.UnexpectedTracerError,
        "n",
        "Found a JAX Tracer object passed as an argument to a custom_vjp function",
    )
    assert error.path == "n"


@pytest.mark.parametrize(
    "static", [2, 2.0, np.float32(2), np.int64(2), np.full(3, 2.0), True]
)
def test_static_values_that_are_fine(static):
    checked = define_power()
    x = jnp.full(3, 3.0)
    expected = jax.grad(lambda x: (x**static).sum())(x)
    assert jnp.allclose(jax.grad(lambda x: checked(x, static).sum())(x), expected)
    jax.jit(lambda x: checked(x, static))(x)


# --- check ----------------------------------------------------------------------------


def test_check_of_a_function_reports_types_and_residuals():
    for function in (define(), checked_custom_vjp(define())):
        report = check(function, S((2, 3), jnp.float32), w=S((3, 4), jnp.float32))
        assert "dense: (float32[2,3], float32[3,4]) -> (float32[2,4])" in report.subject
        assert [rule.name for rule in report.rules] == ["primal", "fwd", "bwd"]
        assert report.residual_bytes == 4 * (2 * 3 + 3 * 4)
        assert report.transforms["grad"] == "provided"


def test_check_of_a_plain_custom_vjp_finds_its_faults():
    plain = jax.custom_vjp(dense)
    plain.defvjp(dense_fwd, lambda res, ct: (ct, ct))
    with pytest.raises(ValueError, match=r"SH416 .*dense"):
        check(plain, X, jnp.ones((3, 4)))


def test_check_of_functions_that_cannot_be_checked():
    with pytest.raises(UsageError, match=r"SH122 .*dense"):
        check(dense, X, X)
    with pytest.raises(AttributeError, match=r"SH401 .*dense"):
        check(jax.custom_vjp(dense), X, X)
    with pytest.raises(UsageError, match=r"SH425 .*dense"):
        check(define(), X)


def test_check_says_what_could_not_be_checked():
    def declines(res, ct):
        if ct.ndim:
            raise NotImplementedError("only for scalars")
        return ct, ct

    report = check(define(bwd=declines), X, jnp.ones((3, 4)))
    assert report.unchecked == ("bwd declines: NotImplementedError: only for scalars",)
