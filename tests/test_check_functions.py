"""`check` of a function: what each rule takes and gives, and advice."""

import contextlib
from collections.abc import Generator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import ShapeDtypeStruct as S
from jaxtyping import Array, Float, Int32

from strict_hijax import UsageError, check, checked_custom_vjp, ignore, transforms

HAS_ACCUMS = hasattr(jax.custom_vjp, "defvjp_with_accums")
needs_accums = pytest.mark.skipif(not HAS_ACCUMS, reason="jax 0.12 has accumulators")

F3, I0, F0 = "float32[3]", "int32[]", "float0[]"
X = S((3,), jnp.float32)


def times(x: Any, n: Any) -> Any:
    """Numbers times an integer, and the integer."""
    return x * n, n


def times_fwd(x: Any, n: Any) -> Any:
    return times(x, n), {"n": n, "cos": jnp.cos(x), "size": 3}


def times_bwd(res: Any, ct: Any) -> Any:
    return ct[0] * res["n"], None


def define(how: str = "defvjp", *rules: Any, fun: Any = times, **options: Any) -> Any:
    checked = checked_custom_vjp(**options)(fun) if options else checked_custom_vjp(fun)
    getattr(checked, how)(*rules)
    return checked


def types(checked: Any, *args: Any) -> dict[str, tuple[Any, Any]]:
    report = check(checked, *args)
    return {rule.name: (rule.takes, rule.gives) for rule in report.rules}


# --- what rules take and give ---------------------------------------------------------


def test_fwd_gives_outputs_and_residuals_and_bwd_cotangents() -> None:
    checked = define("defvjp", times_fwd, times_bwd)
    residuals = (F3, I0, I0)  # cos, n, size
    assert types(checked, X, 2) == {
        "primal": ((F3, I0), (F3, I0)),
        "fwd": ((F3, I0), (F3, I0, *residuals)),
        "bwd": ((*residuals, F3, F0), (F3, "None")),
    }
    lines = str(check(checked, X, 2)).splitlines()
    assert f"  fwd: ({F3}, {I0}) -> ({F3}, {I0}, {F3}, {I0}, {I0})" in lines
    assert f"  bwd: ({F3}, {I0}, {I0}, {F3}, {F0}) -> ({F3}, None)" in lines


def test_the_residuals_reported_are_those_that_are_counted() -> None:
    report = check(define("defvjp", times_fwd, times_bwd), X, 2)
    assert report.residual_bytes == 12 + 4 + 4


def test_none_for_a_container_is_none_for_each_leaf() -> None:
    def fwd(p: Any) -> Any:
        return p["w"] + p["b"], None

    def bwd(res: Any, ct: Any) -> Any:
        return ({"w": None, "b": ct},)

    checked = define("defvjp", fwd, bwd, fun=lambda p: p["w"] + p["b"])
    params = {"w": X, "b": X}
    assert types(checked, params)["bwd"] == ((F3,), (F3, "None"))

    def swallows(res: Any, ct: Any) -> Any:
        return (None,)

    checked = define("defvjp", fwd, swallows, fun=lambda p: p["w"] + p["b"])
    assert types(checked, params)["bwd"] == ((F3,), ("None", "None"))


def test_static_arguments_are_no_types() -> None:
    def power(x: Any, n: Any) -> Any:
        return x**n

    def fwd(x: Any, n: Any) -> Any:
        return x**n, x

    def bwd(n: Any, x: Any, ct: Any) -> Any:
        return (n * x ** (n - 1) * ct,)

    checked = define("defvjp", fwd, bwd, fun=power, nondiff_argnums=(1,))
    assert types(checked, X, 2)["bwd"] == ((F3, F3), (F3,))


def test_symbolic_zeros() -> None:
    def fwd(x: Any, n: Any) -> Any:
        return (x.value * n.value, n.value), n.value

    def bwd(n: Any, ct: Any) -> Any:
        return ct[0] * n, ct[1]

    checked = checked_custom_vjp(times)
    checked.defvjp(fwd, bwd, symbolic_zeros=True)
    assert types(checked, X, 2)["bwd"] == ((I0, F3, F0), (F3, F0))


def test_logs_stand_after_the_cotangents() -> None:
    def bwd(res: Any, ct: Any) -> Any:
        return times_bwd(res, ct), {"norm": {"of_ct": ct[0].sum()}}

    checked = define("defvjp_with_logs", times_fwd, bwd)
    gives = types(checked, X, 2)["bwd"][1]
    assert gives == (F3, "None", "logs['norm']['of_ct']: float32[]")


@needs_accums
def test_what_accumulators_are_given() -> None:
    def fwd(x: Any, y: Any, n: Any) -> Any:
        return x * y * n, (y, n)

    def bwd(res: Any, ct: Any, x_acc: Any, y_acc: Any, n_acc: Any) -> Any:
        x_acc.accum(ct * res[0])
        y_acc.accum(None)
        return {"n": res[1]}

    checked = define("defvjp_with_accums", fwd, bwd, fun=lambda x, y, n: x * y * n)
    gives = types(checked, X, X, 2)["bwd"][1]
    assert gives == (F3, "None", "None", "logs['n']: int32[]")


@contextlib.contextmanager
def hijax_implementations() -> Generator[None]:
    """With these, JAX runs rematerialization rules."""
    names = ("jax_custom_vjp3", "jax_remat3")
    before = {name: getattr(jax.config, name) for name in names}
    for name in names:
        jax.config.update(name, True)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


@needs_accums
@pytest.mark.parametrize("how", ["defremat", "defremat_with_logs"])
def test_rematerialization_rules(how: str) -> None:
    def sine(x: Any) -> Any:
        return jnp.sin(x)

    def fwd(x: Any) -> Any:
        return jnp.sin(x), x.sum()

    def rem(res: Any, x: Any) -> Any:
        jax.debug.print("{}", res)
        return jnp.sin(x), (jnp.cos(x), res)

    def bwd(res: Any, ct: Any) -> Any:
        cts = (res[0] * ct,)
        return (cts, {"sum": res[1]}) if how.endswith("logs") else cts

    with hijax_implementations():
        report = check(define(how, fwd, rem, bwd, fun=sine), X)
    shown = {rule.name: (rule.takes, rule.gives) for rule in report.rules}
    logs = ("logs['sum']: float32[]",) if how.endswith("logs") else ()
    assert shown == {
        "primal": ((F3,), (F3,)),
        "fwd": ((F3,), (F3, "float32[]")),
        "rem": (("float32[]", F3), (F3, F3, "float32[]")),
        "bwd": ((F3, "float32[]", F3), (F3, *logs)),
    }
    effects = {rule.name: rule.effects for rule in report.rules}
    assert effects == {"primal": (), "fwd": (), "rem": ("DebugEffect",), "bwd": ()}


def test_a_fault_that_is_ignored_is_reported_as_it_is() -> None:
    def fwd(x: Any, n: Any) -> Any:
        return (x * n, x), None

    report = check(define("defvjp", fwd, times_bwd, ignore="SH412"), X, 2)
    assert report.rules[1].gives == (F3, F3)

    def bwd(res: Any, ct: Any) -> Any:
        return ct[0].astype(jnp.bfloat16), None

    with ignore("SH417"):
        report = check(define("defvjp", times_fwd, bwd), X, 2)
    assert report.rules[2].gives == ("bfloat16[3]", "None")


@needs_accums
def test_a_fault_of_an_accumulator_that_is_ignored_is_reported_as_it_is() -> None:
    def bwd(res: Any, ct: Any, acc: Any) -> None:
        acc.accum(ct.astype(jnp.bfloat16))

    checked = define(
        "defvjp_with_accums",
        lambda x: (x * 1.0, None),
        bwd,
        fun=lambda x: x * 1.0,
        ignore=("SH417",),
    )
    assert check(checked, X).rules[2].gives == ("bfloat16[3]",)


# --- which inputs ---------------------------------------------------------------------


def test_without_arguments_those_that_the_function_declares() -> None:
    options: list[dict[str, Any]] = [
        {"example_args": (X, 2)},
        {"dims": {"d": 3}},
    ]

    def scale(x: Float[Array, "d"], n: Int32[Array, ""]) -> Any:
        return times(x, n)

    for option in options:
        report = check(define("defvjp", times_fwd, times_bwd, fun=scale, **option))
        assert report.rules[0].takes == (F3, I0)
        report = check(
            define("defvjp", times_fwd, times_bwd, fun=scale, **option),
            S((5,), jnp.float32),
            2,
        )
        assert report.rules[0].takes == ("float32[5]", I0)


def test_without_arguments_and_with_defaults() -> None:
    def scale(x: Any = 1.0, n: Any = 2) -> Any:
        return times(x, n)

    report = check(define("defvjp", times_fwd, times_bwd, fun=scale))
    assert report.rules[0].takes == ("float32[]", I0)


def refused(action: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        action()
    assert "example_args" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((X,), {}), ((), {"n": 2}), ((X, 2, 3), {})]
)
def test_a_wrong_number_of_arguments_of_check(args: Any, kwargs: Any) -> None:
    checked = define("defvjp", times_fwd, times_bwd)
    error = refused(lambda: check(checked, *args, **kwargs))
    assert (error.code, error.path) == ("SH425", "args")
    assert error.got == str(len(args) + len(kwargs))
    assert error.hint.startswith("check(times, x, n)   #")


def test_arguments_of_check_that_cannot_be_used() -> None:
    checked = define("defvjp", times_fwd, times_bwd)
    error = refused(lambda: check(checked, X, "two"))
    assert (error.code, error.path) == ("SH425", "n")
    error = refused(lambda: check(checked, X, S((2,), jnp.float32)))
    assert (error.code, error.path) == ("SH425", "args")
    assert "check(times, x, n)" in error.hint


def test_a_function_without_a_name_is_called_f() -> None:
    checked = define("defvjp", times_fwd, times_bwd, fun=lambda x, n: times(x, n))
    assert "check(f, x, n)" in refused(lambda: check(checked)).hint


def test_transforms_of_a_function_says_to_check_it() -> None:
    for function in (define("defvjp", times_fwd, times_bwd), times):
        error = refused(lambda function=function: transforms(function))
        assert error.code == "SH122"
        assert error.hint.startswith("check(times, *args).transforms")
    error = refused(lambda: transforms(int))
    assert error.hint.startswith("transforms(MyPrim)")


# --- advice ---------------------------------------------------------------------------


def advised(checked: Any, *args: Any) -> list[str]:
    return [advice.split()[0] for advice in check(checked, *args).advice]


def test_no_advice_where_all_is_as_it_should_be() -> None:
    report = check(define("defvjp", times_fwd, times_bwd), X, 2)
    assert report.advice == ()
    assert "advice" not in str(report)


def swapped(res: Any, ct: Any) -> Any:
    return None, ct[0] * res["n"]


def test_a_cotangent_for_an_integer_in_place_of_a_number() -> None:
    report = check(define("defvjp", times_fwd, swapped), X, 2)
    (advice,) = report.advice
    first, place, *more = advice.splitlines()
    assert "`swapped` gives a cotangent for `n` (int32[]), which JAX ignores" in first
    assert "None for `x` (float32[3])" in first
    assert f"{__file__.rpartition('/')[2]}:" in place
    assert more[-1] == "  more: python -m strict_hijax explain SH905"
    assert advised(define("defvjp", times_fwd, swapped, ignore="SH905"), X, 2) == []


def test_a_zero_for_an_integer_is_no_swap() -> None:
    def bwd(res: Any, ct: Any) -> Any:
        return None, jnp.zeros((), jax.dtypes.float0)

    def integers(res: Any, ct: Any) -> Any:
        return None, jnp.zeros((), jnp.int32)

    assert advised(define("defvjp", times_fwd, bwd), X, 2) == []
    assert advised(define("defvjp", times_fwd, integers), X, 2) == []


@needs_accums
def test_an_accumulator_of_an_integer_in_place_of_that_of_a_number() -> None:
    def bwd(res: Any, ct: Any, x_acc: Any, n_acc: Any) -> None:
        x_acc.accum(None)
        n_acc.accum(ct[0] * res["n"])

    assert advised(define("defvjp_with_accums", times_fwd, bwd), X, 2) == ["SH905"]


def test_rules_that_are_defined_again_are_told_once_for_the_last() -> None:
    checked = define("defvjp", times_fwd, times_bwd)
    checked.defvjp(times_fwd, times_bwd)
    assert advised(checked, X, 2) == []
    checked.defvjp(times_fwd, lambda res, ct: times_bwd(res, ct))
    checked.defvjp(times_fwd, lambda res, ct: times_bwd(res, ct))
    (advice,) = check(checked, X, 2).advice
    assert advice.startswith("SH903")
    assert "fwd rule" not in advice


def test_rules_that_were_refused_are_not_defined_twice() -> None:
    checked = checked_custom_vjp(times)
    with pytest.raises(TypeError, match="SH403"):
        checked.defvjp(lambda x: (x, x), times_bwd)
    checked.defvjp(times_fwd, times_bwd)
    assert advised(checked, X, 2) == []


def test_advice_about_a_plain_custom_vjp() -> None:
    plain = jax.custom_vjp(times)
    plain.defvjp(times_fwd, swapped)
    assert advised(plain, X, 2) == ["SH905"]


def test_several_pieces_of_advice_are_told_together() -> None:
    def fun(p: Any, x: Any, n: Any) -> Any:
        return p["w"] * x * n + p["b"]

    def fwd(p: Any, n: Any, x: Any) -> Any:
        return fun(p, n, x), None

    checked = define("defvjp", fwd, lambda res, ct: (ct, ct, None), fun=fun)
    checked.defvjp(fwd, lambda res, ct: (ct, None, ct))
    params = {"w": X, "b": X}
    codes = ["SH903", "SH902", "SH901", "SH905"]
    assert advised(checked, params, X, 2) == codes
    assert str(check(checked, params, X, 2)).count("\n  advice: SH90") == len(codes)
