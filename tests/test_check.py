"""`check`: instances, classes, plain classes, bad input, and the report."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.hijax import HiPrim, ShapedArray, vjp_from_jvp

from strict_hijax import (
    CheckReport,
    RuleReport,
    RuleTypeError,
    StrictHiPrim,
    UsageError,
    check,
    transforms,
)
from tests.primitives import AVAL, X, binary, found_in, init, sine, unary


def test_an_instance() -> None:
    report = check(sine()())
    assert report.subject == "mylib.Sine: (float32[3]) -> (float32[3])"
    f32 = "float32[3]"
    assert report.rules == (
        RuleReport("expand", (f32,), (f32,)),
        RuleReport("vjp_fwd", (f32,), (f32, f32)),
        RuleReport("vjp_bwd", (f32, f32), (f32,)),
    )
    assert report.residual_bytes == 12
    assert report.unchecked == ()
    assert report.transforms["grad"] == "provided (vjp_fwd, vjp_bwd)"
    assert report.transforms["vmap"].startswith("missing")


def test_the_report_as_text() -> None:
    lines = str(check(sine()())).splitlines()
    assert lines[0] == "mylib.Sine: (float32[3]) -> (float32[3])"
    assert "  expand: (float32[3]) -> (float32[3])" in lines
    assert "  residuals: 12 bytes a call" in lines
    assert "  grad: provided (vjp_fwd, vjp_bwd)" in lines


def test_a_class_is_checked_by_its_examples() -> None:
    report = check(sine(examples=True))
    assert isinstance(report, CheckReport)
    assert [example.residual_bytes for example in report.examples] == [12]
    assert "mylib.Sine: (float32[3])" in str(report)


def test_an_instance_that_jax_holds() -> None:
    (eqn,) = jax.make_jaxpr(sine()())(X).eqns
    assert check(eqn.params["_prim"]).residual_bytes == 12


def test_effects_are_named() -> None:
    def expand(self: Any, x: Any) -> Any:
        jax.debug.print("{}", x)
        return jnp.sin(x)

    (rule, *_) = check(sine(expand=expand)()).rules
    assert rule.effects == ("DebugEffect",)
    assert "effects: DebugEffect" in str(rule)


def test_nothing_is_computed(capsys: pytest.CaptureFixture[str]) -> None:
    def expand(self: Any, x: Any) -> Any:
        jax.debug.print("computed {}", x)
        return jnp.sin(x)

    huge = ShapedArray((1 << 40,), jnp.dtype("float32"))
    report = check(sine(__init__=init((huge,)), expand=expand)())
    jax.effects_barrier()
    assert report.residual_bytes == 4 << 40
    assert "computed" not in capsys.readouterr().out


# --- classes that are not strict ------------------------------------------------------


def test_an_instance_of_a_plain_class() -> None:
    report = check(unary(HiPrim)())
    assert [rule.name for rule in report.rules] == ["expand", "vjp_fwd", "vjp_bwd"]


@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        ({"expand": lambda self, x: x.sum()}, "SH302", "out"),
        ({"vjp_fwd": lambda self, nz, x: self(x)}, "SH305", None),
        ({"vjp_bwd": lambda self, x, g, a: None}, "SH311", "x"),
        ({"vjp_bwd_retval": lambda self, x, g: (g[:2],)}, "SH315", "x"),
        ({"vjp_bwd_retval": lambda self, x, g: (g, g)}, "SH313", None),
    ],
)
def test_faults_of_a_plain_class(body: Any, code: str, path: Any) -> None:
    error = found_in(lambda: check(unary(HiPrim, **body)()))
    assert (error.code, error.path) == (code, path)
    assert error.subject.endswith("Sine")


def test_a_plain_class_with_examples() -> None:
    examples = classmethod(lambda cls: [cls()])
    report = check(unary(HiPrim, examples=examples))
    assert len(report.examples) == 1
    error = found_in(
        lambda: check(
            unary(HiPrim, examples=examples, expand=lambda self, x: x.astype(int))
        )
    )
    assert isinstance(error, RuleTypeError)


def test_a_plain_class_is_left_as_it_was() -> None:
    cls = unary(HiPrim)
    before = dict(vars(cls)), cls.__subclasses__()
    prim = cls()
    check(prim)
    (eqn,) = jax.make_jaxpr(prim)(X).eqns
    assert eqn.params["_prim"] is prim
    assert dict(vars(cls)) == before[0]


# --- classes with some rules ----------------------------------------------------------


def test_a_primitive_that_is_not_differentiable() -> None:
    report = check(sine(vjp_fwd=None, vjp_bwd=None, keywords={"supports": ()})())
    assert [rule.name for rule in report.rules] == ["expand"]
    assert report.residual_bytes is None


def test_a_forward_rule_alone() -> None:
    report = check(sine(vjp_bwd=None, keywords={"supports": ()})())
    assert [rule.name for rule in report.rules] == ["expand", "vjp_fwd"]


def test_a_rule_that_declines_is_named_with_its_reason() -> None:
    def vjp_fwd(self: Any, nz: Any, x: Any) -> Any:
        raise NotImplementedError("only for scalars")

    report = check(sine(vjp_fwd=vjp_fwd)())
    assert report.unchecked == ("vjp_fwd: NotImplementedError: only for scalars",)
    assert "not checked here: vjp_fwd" in str(report)


def test_derived_rules() -> None:
    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        return self(*primals), tangents[0] * jnp.cos(primals[0])

    forward, backward = vjp_from_jvp
    cls = sine(vjp_fwd=forward, vjp_bwd_retval=backward, jvp=jvp)
    report = check(cls())
    assert [rule.name for rule in report.rules] == [
        "expand",
        "vjp_fwd",
        "vjp_bwd_retval",
        "jvp",
    ]
    assert report.transforms["grad"] == "derived (vjp_from_jvp)"


def test_residuals_are_counted_once_for_each_call() -> None:
    def vjp_fwd(self: Any, nz: Any, x: Any, y: Any) -> Any:
        return self(x, y), {"both": (x, y), "half": x.astype("bfloat16"), "n": 3}

    cls = binary(
        StrictHiPrim,
        vjp_fwd=vjp_fwd,
        vjp_bwd_retval=lambda self, res, g: (g, g),
    )
    assert check(cls()).residual_bytes == 12 + 12 + 6 + 4


def test_under_a_trace_that_happens_to_be_active() -> None:
    prim = sine()()

    @jax.jit
    def f(x: Any) -> Any:
        assert check(prim).residual_bytes == 12
        return x

    f(X)
    jax.vmap(f)(X)


# --- bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target", [3, "Sine", None, AVAL, [sine], int], ids=lambda target: str(type(target))
)
def test_what_has_no_rules(target: Any) -> None:
    error = found_in(lambda: check(target))
    assert isinstance(error, UsageError)
    assert (error.code, error.subject) == ("SH122", "strict_hijax.check")
    assert error.got
    assert "check(MyPrim)" in error.hint


def test_examples_that_need_an_unknown_name() -> None:
    def examples(cls: Any) -> Any:
        return [cls(unknown_type)]  # type: ignore[name-defined]

    error = found_in(lambda: check(sine(examples=classmethod(examples))))
    assert isinstance(error, NameError)
    assert (error.code, error.path) == ("SH121", "examples")


@pytest.mark.parametrize("base", [StrictHiPrim, HiPrim])
def test_a_class_without_examples(base: Any) -> None:
    cls = unary(base, vjp_bwd=lambda self, x, g, a: a.accum(g))
    error = found_in(lambda: check(cls))
    assert isinstance(error, UsageError)
    assert (error.code, error.path) == ("SH121", "examples")
    assert "def examples(cls)" in error.hint
    assert "check(prim)" in error.hint


@pytest.mark.parametrize("extra", [((X,), {}), ((), {"x": X})])
def test_arguments_for_a_primitive_are_refused(extra: Any) -> None:
    args, kwargs = extra
    error = found_in(lambda: check(sine()(), *args, **kwargs))
    assert (error.code, error.path) == ("SH122", "args")
    assert "in_avals" in str(error)


# --- transforms -----------------------------------------------------------------------


def test_transforms_of_a_class_that_is_not_strict() -> None:
    assert transforms(unary(HiPrim))["grad"] == "provided (vjp_fwd, vjp_bwd)"


@pytest.mark.parametrize("target", [3, int, X, HiPrim.__init__])
def test_transforms_of_something_else(target: Any) -> None:
    error = found_in(lambda: transforms(target))
    assert isinstance(error, UsageError)
    assert error.subject == "strict_hijax.transforms"
    assert error.hint


def test_transforms_of_an_instance_says_what_to_write() -> None:
    error = found_in(lambda: transforms(sine()()))
    assert "transforms(type(prim))" in error.hint
