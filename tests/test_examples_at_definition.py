"""`examples`: what is checked as soon as the class exists, and what waits."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import HiPrim

from strict_hijax import (
    ConstructionError,
    MissingRuleError,
    StrictHiPrim,
    UntraceableRuleError,
    UsageError,
)
from tests.primitives import AVAL, X, found_in, init, sine


def pending(cls: Any) -> bool:
    """Whether a class still waits to be checked."""
    return cls._examples_waiting


def wrong_shape(self: Any, x: Any, g: Any, x_acc: Any) -> None:
    x_acc.accum(g[:2])


@pytest.mark.parametrize(
    "examples",
    [
        classmethod(lambda cls: [cls()]),
        classmethod(lambda cls: (cls(),)),
        classmethod(lambda cls: iter([cls()])),
        classmethod(lambda cls: {cls(): None}),
    ],
    ids=["a list", "a tuple", "an iterator", "a dict"],
)
def test_any_iterable_of_instances_is_checked(examples: Any) -> None:
    assert not pending(sine(examples=examples))
    error = found_in(lambda: sine(examples=examples, vjp_bwd=wrong_shape))
    assert (error.code, error.path) == ("SH315", "x")


def test_a_generator_is_checked_to_its_end() -> None:
    seen = []

    @classmethod  # type: ignore[misc]
    def examples(cls: Any) -> Any:
        for n in range(3):
            seen.append(n)
            yield cls()

    sine(examples=examples)
    assert seen == [0, 1, 2]


def test_a_static_method_that_names_the_class_waits_for_it() -> None:
    @staticmethod
    def examples() -> Any:
        return [Waiting()]

    assert pending(sine("Waiting", examples=examples))


# --- examples that cannot be used -----------------------------------------------------


@pytest.mark.parametrize(
    ("examples", "got"),
    [
        (classmethod(lambda cls: None), "NoneType"),
        (classmethod(lambda cls: cls()), "Sine"),
        (classmethod(lambda cls: [AVAL]), "ShapedArray"),
        (classmethod(lambda cls: [cls]), "StrictMeta"),
        (classmethod(lambda cls: [3]), "int"),
    ],
    ids=["None", "one instance", "a type", "the class", "a number"],
)
def test_examples_that_give_something_else(examples: Any, got: str) -> None:
    error = found_in(lambda: sine(examples=examples))
    assert isinstance(error, UsageError)
    assert isinstance(error, ValueError)
    assert (error.code, error.subject) == ("SH121", "mylib.Sine")
    assert (error.path, error.got) == ("examples", got)
    assert "yield cls(...)" in error.hint


@pytest.mark.parametrize(
    "examples",
    [lambda self: [], [1], property(lambda self: [])],
    ids=["a method", "a list", "a property"],
)
def test_examples_that_are_no_classmethod(examples: Any) -> None:
    error = found_in(lambda: sine(examples=examples))
    assert (error.code, error.path) == ("SH121", "examples")
    assert "@classmethod" in error.hint


@pytest.mark.parametrize("raised", [ValueError, KeyError, RuntimeError, IndexError])
def test_examples_that_raise_are_said_with_what_they_raised(raised: Any) -> None:
    @classmethod  # type: ignore[misc]
    def examples(cls: Any) -> Any:
        raise raised("no file")

    error = found_in(lambda: sine(examples=examples))
    assert isinstance(error, UntraceableRuleError)
    assert isinstance(error, raised)
    assert isinstance(error.__cause__, raised)
    assert (error.code, error.path) == ("SH121", "examples")
    assert "no file" in error.finding.message()


def test_a_wrong_construction_in_examples_fails_the_import() -> None:
    error = found_in(lambda: sine(__init__=init([AVAL]), examples=True))
    assert isinstance(error, ConstructionError)
    assert (error.code, error.path) == ("SH203", "in_avals")


def test_wrong_arguments_of_an_init_that_is_there_fail_the_import() -> None:
    examples = classmethod(lambda cls: [cls(1, 2)])
    error = found_in(lambda: sine(examples=examples))
    assert error.code == "SH121"
    assert isinstance(error, TypeError)


# --- rules that raise -----------------------------------------------------------------


def raising(error: Exception) -> Any:
    def vjp_fwd(self: Any, nzs_in: Any, x: Any) -> Any:
        if x.ndim:
            raise error
        return self(x), x

    return vjp_fwd


@pytest.mark.parametrize("raised", [ValueError, KeyError, ZeroDivisionError])
def test_a_rule_that_raises_is_said_with_what_it_raised(raised: Any) -> None:
    error = found_in(lambda: sine(vjp_fwd=raising(raised("odd")), examples=True))
    assert isinstance(error, UntraceableRuleError)
    assert isinstance(error, raised)
    assert isinstance(error.__cause__, raised)
    assert (error.code, error.rule) == ("SH320", "vjp_fwd")
    message = error.finding.message()
    assert f"{raised.__name__}: " in message
    assert "odd" in message
    assert "traced for: float32[3]" in message


def test_a_backward_that_differentiates_what_it_cannot_is_said() -> None:
    def vjp_bwd_retval(self: Any, x: Any, g: Any) -> Any:
        kernel = sine(vjp_bwd=None, vjp_fwd=None, keywords={"supports": ()})()
        return jax.vjp(kernel, x)[1](g)

    error = found_in(lambda: sine(vjp_bwd_retval=vjp_bwd_retval, examples=True))
    assert (error.code, error.rule) == ("SH320", "vjp_bwd_retval")
    assert "NotImplementedError: for grad support" in str(error)


def test_a_rule_that_needs_concrete_values_is_said() -> None:
    def expand(self: Any, x: Any) -> Any:
        return jnp.sin(x) if x[0] > 0 else x

    error = found_in(lambda: sine(expand=expand, examples=True))
    assert (error.code, error.rule) == ("SH320", "expand")
    assert isinstance(error, jax.errors.TracerBoolConversionError)
    line = 'class Sine(StrictHiPrim, ignore=("SH320",)): ...   # it is never traced'
    assert line in error.hint


def test_two_rules_that_raise_are_told_together() -> None:
    def expand(self: Any, x: Any) -> Any:
        return jnp.sin(x) if x.ndim == 0 else {}["missing"]

    error = found_in(
        lambda: sine(expand=expand, vjp_fwd=raising(ValueError("odd")), examples=True)
    )
    assert {(f.code, f.rule) for f in error.findings} == {
        ("SH320", "expand"),
        ("SH320", "vjp_fwd"),
    }


def test_ignoring_the_code_leaves_the_rule_alone() -> None:
    cls = sine(
        vjp_fwd=raising(ValueError("odd")),
        examples=True,
        keywords={"ignore": ("SH320",)},
    )
    np.testing.assert_array_equal(cls()(X), jnp.sin(X))


def test_a_rule_that_declines_is_no_fault() -> None:
    assert not pending(sine(vjp_fwd=raising(NotImplementedError("no")), examples=True))


def test_an_unbound_axis_name_is_left_to_jax() -> None:
    def expand(self: Any, x: Any) -> Any:
        return jax.lax.psum(x, "i")

    cls = sine(expand=expand, examples=True)
    assert not pending(cls)
    prim = cls()
    mesh = jax.make_mesh((1,), ("i",))
    mapped = jax.shard_map(
        prim, mesh=mesh, in_specs=jax.P(), out_specs=jax.P(), check_vma=False
    )
    np.testing.assert_array_equal(mapped(X), X)


# --- classes that are not ready yet: names are in test_examples_and_names -------------


def test_a_dataclass_decorator_adds_init_later() -> None:
    @dataclasses.dataclass(eq=False)
    class Scale(StrictHiPrim):
        factor: float

        def __post_init__(self) -> None:
            self.in_avals, self.out_aval = (AVAL,), AVAL
            self.params = {"factor": self.factor}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return self.factor * x

        def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
            return self(x), None

        def vjp_bwd_retval(self, res: Any, g: Any) -> Any:
            return (g[:2],)

        @classmethod
        def examples(cls) -> Any:
            yield cls(2.0)

    assert pending(Scale)
    error = found_in(lambda: Scale(2.0))
    assert (error.code, error.rule) == ("SH315", "vjp_bwd_retval")


# --- inheritance ----------------------------------------------------------------------


def test_inherited_examples_check_the_subclass() -> None:
    base = sine(examples=True)
    error = found_in(lambda: sine(bases=(base,), vjp_bwd=wrong_shape))
    assert error.code == "SH315"


def test_inherited_examples_of_the_base_alone_say_nothing_of_the_subclass() -> None:
    @classmethod  # type: ignore[misc]
    def examples(cls: Any) -> Any:
        yield base()

    base = sine()
    base.examples = examples
    derived = type(base)("Derived", (base,), {})
    assert not pending(derived)
    np.testing.assert_array_equal(derived()(X), jnp.sin(X))


def test_an_abstract_class_is_not_checked() -> None:
    sine(
        examples=classmethod(lambda cls: [cls(3)]),
        expand=None,
        keywords={"abstract": True},
    )


def test_a_fault_of_the_class_comes_first() -> None:
    error = found_in(lambda: sine(vjp_fwd=None, examples=True, vjp_bwd=wrong_shape))
    assert isinstance(error, MissingRuleError)


def test_one_fault_of_several_examples_is_told_once() -> None:
    examples = classmethod(lambda cls: [cls(), cls(), cls()])
    error = found_in(lambda: sine(examples=examples, vjp_bwd=wrong_shape))
    assert len(error.findings) == 1


def test_rules_are_traced_once_for_each_example() -> None:
    calls = []

    def expand(self: Any, x: Any) -> Any:
        calls.append(type(x))
        return jnp.sin(x)

    sine(expand=expand, examples=True)
    assert len(calls) == 1
    assert issubclass(calls[0], jax.core.Tracer)


def test_a_plain_class_is_never_checked() -> None:
    class Plain(HiPrim):
        @classmethod
        def examples(cls) -> Any:
            raise AssertionError

    assert not hasattr(Plain, "_facts")


def test_equality_that_a_decorator_adds_is_seen_after_the_examples() -> None:
    """`dataclass` sets `__eq__` after the class statement has made an instance."""

    @dataclasses.dataclass(repr=False)
    class Op(StrictHiPrim):
        def __init__(self):
            self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, {}
            super().__init__()

        def expand(self, x):
            return x

        def vjp_fwd(self, nzs_in, x):
            return self(x), None

        def vjp_bwd(self, res, g, x_acc):
            x_acc.accum(g)

        @classmethod
        def examples(cls):
            return [cls()]

    assert found_in(Op).code == "SH119"
