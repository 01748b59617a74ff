"""`check` of hijax types: what their methods give, held to the type."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import HiType, register_hitype

import strict_hijax
from strict_hijax import (
    MultipleFaultsError,
    RuleReport,
    StrictHijaxError,
    StrictHiType,
    check,
)
from tests.faults import Faulty, Table
from tests.hijax_types import Axis, Q, Quantized, array, make

FAULTS = Table()


def checked(
    *args: Any, ty: Any = None, base: Any = StrictHiType, **methods: Any
) -> Any:
    return check(make(base, **methods)(ty or (3,)), *args)


# --- lo_ty ----------------------------------------------------------------------------


@FAULTS.add("SH711", TypeError, "the type int8[3]", rule="lo_ty")
def a_type_alone():
    checked(lo_ty=lambda self: array(self.shape, "int8"))


@FAULTS.add("SH711", TypeError, "ShapeDtypeStruct at [1]", rule="lo_ty")
def a_spec():
    spec = jax.ShapeDtypeStruct((), "float32")
    checked(lo_ty=lambda self: [array(self.shape, "int8"), spec])


@FAULTS.add("SH711", TypeError, "generator", rule="lo_ty")
def a_generator():
    checked(lo_ty=lambda self: (each for each in [array(())]))


@FAULTS.add("SH711", TypeError, "at [0]", rule="lo_ty")
def a_hijax_type_in_lo_ty():
    checked(lo_ty=lambda self: [self])


# --- lower_val and raise_val ----------------------------------------------------------


@FAULTS.add(
    "SH712",
    TypeError,
    "gives 1 value and a `lo_ty` that gives 2 types",
    rule="lower_val",
)
def too_few():
    checked(lower_val=lambda self, value: [value.integers])


@FAULTS.add("SH712", TypeError, "int8[3]", "float32[]", rule="lower_val")
def swapped():
    checked(lower_val=lambda self, value: [value.scale, value.integers])


@FAULTS.add("SH712", TypeError, "whose [1] is not", "bfloat16[]", rule="lower_val")
def another_dtype():
    checked(
        lower_val=lambda self, value: [value.integers, value.scale.astype("bfloat16")]
    )


@FAULTS.add("SH712", TypeError, "no list", rule="lower_val")
def the_array_alone():
    checked(lower_val=lambda self, value: value.integers)


@FAULTS.add("SH712", TypeError, "the string 'x'", rule="lower_val")
def no_value():
    checked(lower_val=lambda self, value: [value.integers, "x"])


@FAULTS.add(
    "SH712", TypeError, "takes 1, where `lo_ty` gives 2 types", rule="raise_val"
)
def raise_val_of_one():
    checked(raise_val=lambda self, integers: Quantized(integers, 1.0))


@FAULTS.add("SH713", TypeError, "quantized[2]", rule="raise_val")
def raised_to_another_type():
    checked(raise_val=lambda self, integers, scale: Quantized(integers[:2], scale))


@FAULTS.add("SH713", TypeError, "int8[3]", rule="raise_val")
def raised_to_an_array():
    checked(raise_val=lambda self, integers, scale: integers)


@FAULTS.add("SH713", TypeError, "None", "return ...", rule="raise_val")
def raised_to_none():
    checked(raise_val=lambda self, integers, scale: [None, scale][0])


@FAULTS.add("SH713", TypeError, "register_hitype(Unknown", rule="raise_val")
def raised_to_what_is_not_registered():
    class Unknown:
        pass

    checked(raise_val=lambda self, integers, scale: Unknown())


@FAULTS.add("SH714", ValueError, "[2 3 4], after", rule="raise_val")
def a_value_that_changes():
    checked(Q, raise_val=lambda self, i, s: Quantized(i + np.int8(1), s))


@FAULTS.add("SH714", ValueError, "at [1]", rule="raise_val")
def a_scale_that_is_lost():
    checked(Q, raise_val=lambda self, i, s: Quantized(i, jnp.float32(1.0)))


@FAULTS.add("SH714", ValueError, "at [1]", "-0.0", rule="raise_val")
def a_sign_that_is_lost():
    value = Quantized(Q.integers, jnp.float32(-0.0))
    checked(value, raise_val=lambda self, i, s: Quantized(i, jnp.abs(s)))


@FAULTS.add("SH715", AttributeError, "has no attribute 'values'", rule="lower_val")
def lower_val_that_raises():
    checked(lower_val=lambda self, value: [value.values])


@FAULTS.add("SH715", ZeroDivisionError, "division", rule="raise_val")
def raise_val_that_raises():
    checked(raise_val=lambda self, i, s: Quantized(i, 1 // 0))


@FAULTS.add("SH715", AttributeError, "shapes", rule="to_tangent_aval")
def tangents_that_raise():
    checked(to_tangent_aval=lambda self: array(self.shapes))


@FAULTS.add("SH716", ValueError, "quantized[2]", rule="lower_val")
def a_value_of_another_type():
    checked(Q, ty=(2,))


@FAULTS.add("SH716", ValueError, "float32[3]", rule="lower_val")
def an_array_for_a_value():
    checked(jnp.ones(3))


@FAULTS.add("SH716", ValueError, "the string", rule="lower_val")
def a_string_for_a_value():
    checked("value")


# --- ranks ----------------------------------------------------------------------------


def ranks(inc: Any, dec: Any) -> dict[str, Any]:
    """Methods by what they make of a shape."""
    return {
        "leading_axis_spec": lambda self: Axis(0),
        "inc_rank": lambda self, size, spec: type(self)(inc(self.shape, size)),
        "dec_rank": lambda self, size, spec: type(self)(dec(self.shape)),
    }


@FAULTS.add(
    "SH721", TypeError, "Axis(of_integers=0)", "quantized[1, 2]", rule="dec_rank"
)
def the_other_end():
    checked(ty=(2, 4), **ranks(lambda s, n: (n, *s), lambda s: s[:-1]))


@FAULTS.add("SH721", TypeError, "size 2", rule="dec_rank")
def right_for_size_one_alone():
    checked(ty=(1,), **ranks(lambda s, n: (n, *s), lambda s: s[:-1]))


@FAULTS.add("SH721", TypeError, "quantized[1, 3]", rule="dec_rank")
def nothing_is_taken_out():
    checked(**ranks(lambda s, n: (n, *s), lambda s: s))


@FAULTS.add("SH721", TypeError, "None", rule="dec_rank")
def dec_rank_gives_nothing():
    methods = ranks(lambda s, n: (n, *s), lambda s: s)
    checked(**methods | {"dec_rank": lambda self, size, spec: [None][0]})


@FAULTS.add("SH721", TypeError, "Axis(of_integers=1)", rule="dec_rank")
def wrong_for_a_spec_that_is_given():
    methods = ranks(lambda s, n: (n, *s), lambda s: s[1:])
    methods["dec_rank"] = lambda self, size, spec: type(self)(
        self.shape[: spec.of_integers] + self.shape[spec.of_integers + 1 :]
    )
    check(make(**methods)((3,)), specs=[Axis(1)])


# --- tangents -------------------------------------------------------------------------


@FAULTS.add("SH722", TypeError, "ShapeDtypeStruct", rule="to_tangent_aval")
def a_spec_for_tangents():
    checked(to_tangent_aval=lambda self: jax.ShapeDtypeStruct(self.shape, "float32"))


@FAULTS.add("SH722", TypeError, "the value float32[3]", rule="to_tangent_aval")
def an_array_for_tangents():
    checked(to_tangent_aval=lambda self: jnp.zeros(self.shape))


@FAULTS.add("SH722", TypeError, "None", rule="to_ct_aval")
def no_cotangents():
    checked(to_ct_aval=lambda self: [None][0])


@FAULTS.add("SH722", TypeError, "a tuple of 1", rule="inc_rank")
def a_shape_for_a_type():
    methods = ranks(lambda s, n: (n, *s), lambda s: s[1:])
    checked(**methods | {"inc_rank": lambda self, size, spec: (size,)})


@FAULTS.add(
    "SH723", TypeError, "quantized[1, 3]", "quantized[1, 1, 3]", rule="to_tangent_aval"
)
def tangents_that_grow():
    checked(to_tangent_aval=lambda self: type(self)((1, *self.shape)))


@FAULTS.add("SH723", TypeError, "bfloat16[3]", rule="to_ct_aval")
def cotangents_that_tangents_do_not_have():
    checked(to_ct_aval=lambda self: array(self.shape, "bfloat16"))


@FAULTS.add("SH723", TypeError, "float32[2]", rule="to_ct_aval")
def cotangents_of_another_shape():
    checked(to_ct_aval=lambda self: array((2,)))


def itself(**methods: Any) -> dict[str, Any]:
    """Methods of a type that is its own tangent type."""
    return {"to_tangent_aval": lambda self: self} | methods


def total(x: Any, y: Any) -> Quantized:
    return Quantized(x.integers + y.integers, x.scale + y.scale)


@FAULTS.add("SH724", TypeError, "quantized[2]", rule="vspace_zero")
def zero_of_another_shape():
    zero = Quantized(jnp.zeros(2, "int8"), jnp.float32(0))
    checked(**itself(vspace_zero=lambda self: zero))


@FAULTS.add("SH724", TypeError, "float32[3]", rule="vspace_zero")
def zero_that_is_an_array():
    checked(**itself(vspace_zero=lambda self: jnp.zeros(self.shape)))


@FAULTS.add("SH724", TypeError, "int8[3]", rule="vspace_add")
def sum_that_is_an_array():
    checked(**itself(vspace_add=lambda self, x, y: x.integers + y.integers))


@FAULTS.add("SH724", TypeError, "quantized[2]", rule="vspace_add")
def sum_of_another_shape():
    def add(self, x, y):
        return Quantized((x.integers + y.integers)[:2], x.scale)

    checked(**itself(vspace_add=add))


@FAULTS.add("SH724", TypeError, "float16[3], float32[]", rule="vspace_add")
def sum_whose_parts_have_other_types_than_typeof_tells():
    def add(self, x, y):
        return Quantized((x.integers + y.integers).astype("float16"), x.scale)

    checked(**itself(vspace_add=add))


@FAULTS.add("SH724", TypeError, "None", rule="vspace_add")
def sum_that_is_nothing():
    checked(**itself(vspace_add=lambda self, x, y: [None][0]))


@FAULTS.parametrize()
def test_fault_is_told(faulty: Faulty) -> None:
    with pytest.raises(StrictHijaxError) as caught:
        faulty.make()
    error = caught.value
    assert [finding.code for finding in error.findings] == [faulty.code]
    assert isinstance(error, faulty.stock)
    assert error.rule == faulty.rule
    assert error.subject.endswith("QuantizedType")
    message = str(error)
    assert message.startswith(f"{faulty.code} `{error.subject}` ")
    assert error.hint
    named = faulty.rule if faulty.code != "SH716" else "value of another type"
    for part in (named, *faulty.says, f"explain {faulty.code}"):
        assert part in message


@FAULTS.parametrize()
def test_fault_can_be_ignored(faulty: Faulty) -> None:
    if faulty.code == "SH716":
        pytest.skip("a wrong use of the tool itself is always told")
    with strict_hijax.ignore(faulty.code):
        faulty.make()


# --- what is reported -----------------------------------------------------------------


def test_report_says_what_was_checked() -> None:
    report = checked(Q)
    assert report.subject.endswith("QuantizedType: quantized[3]")
    assert report.rules[:3] == (
        RuleReport("lo_ty", (), ("int8[3]", "float32[]")),
        RuleReport("lower_val", ("quantized[3]",), ("int8[3]", "float32[]")),
        RuleReport("raise_val", ("int8[3]", "float32[]"), ("quantized[3]",)),
    )
    assert report.transforms["jit"] == "provided"
    assert report.transforms["vmap"] == "missing (no dec_rank, inc_rank)"
    assert report.unchecked == ()
    assert "  raise_val: (int8[3], float32[]) -> (quantized[3])" in str(report)


def test_report_says_what_was_not_checked() -> None:
    report = checked()
    assert report.unchecked == ("values: none is given",)
    methods = {
        "inc_rank": lambda self, size, spec: self,
        "dec_rank": lambda self, size, spec: self,
    }
    assert "dec_rank, inc_rank: give specs=[...] to try" in checked(**methods).unchecked


def test_a_method_that_declines_is_reported() -> None:
    def decline(self):
        raise NotImplementedError("not yet")

    report = checked(Q, to_tangent_aval=decline)
    assert report.unchecked == ("to_tangent_aval: NotImplementedError: not yet",)


def test_ranks_that_undo_each_other() -> None:
    report = checked(Q, **ranks(lambda s, n: (n, *s), lambda s: s[1:]))
    assert (
        RuleReport("dec_rank", ("quantized[5, 3]",), ("quantized[3]",)) in report.rules
    )
    assert report.transforms["scan"] == "provided"


def test_a_sum_of_values_alone_is_reported_and_no_fault() -> None:
    report = checked(Q, **itself(vspace_add=lambda self, x, y: total(x, y)))
    (unchecked,) = (each for each in report.unchecked if "vspace_add" in each)
    assert unchecked.startswith("vspace_add under jit: AttributeError")
    assert any(rule.name == "vspace_add" for rule in report.rules)


def test_values_are_compared_bit_for_bit() -> None:
    odd = np.frombuffer(b"\x01\x00\xc0\x7f", np.float32)[0]  # a NaN with a payload
    assert checked(Quantized(Q.integers, jnp.float32(odd))).rules
    value = Quantized(np.array([1, 2, 3], "int8"), np.float32("nan"))
    assert checked(value).unchecked == ()


def test_traced_values_are_checked_by_their_types() -> None:
    reports = []

    @jax.jit
    def f(integers):
        reports.append(checked(Quantized(integers, jnp.float32(1.0))))
        return integers

    f(Q.integers)
    assert "value at [0]: it is not concrete here" in reports[0].unchecked


def test_several_faults_are_in_one_exception() -> None:
    with pytest.raises(MultipleFaultsError) as caught:
        checked(
            lower_val=lambda self, value: [value.integers],
            to_tangent_aval=lambda self: 3,
        )
    assert [f.code for f in caught.value.findings] == ["SH712", "SH722"]


def test_a_plain_type_is_checked_too() -> None:
    assert checked(Q, base=HiType).rules
    with pytest.raises(StrictHijaxError, match="SH712"):
        checked(base=HiType, lower_val=lambda self, value: [value.integers])
    with pytest.raises(TypeError, match="SH703"):
        checked(base=HiType, decorate=dataclasses.dataclass)


def test_a_plain_type_promises_nothing() -> None:
    report = checked(base=HiType, lower_val=None, raise_val=None, lo_ty=None)
    assert report.transforms["jit"] == "missing (no lo_ty, lower_val, raise_val)"
    assert any(each.startswith("lo_ty: NotImpl") for each in report.unchecked)


def test_check_leaves_no_tracer_and_no_trace_behind() -> None:
    with jax.checking_leaks():
        checked(Q, **ranks(lambda s, n: (n, *s), lambda s: s[1:]))


def test_check_initialises_no_backend(clean_process: Any) -> None:
    done = clean_process(
        "from jax._src import xla_bridge\n"
        "import tests.conftest\n"
        "from strict_hijax import StrictHiType, check\n"
        "import dataclasses\n"
        "from jax.experimental.hijax import ShapedArray, register_hitype\n"
        "import numpy as np\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class V:\n"
        "    a: object\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class T(StrictHiType):\n"
        "    def lo_ty(self): return [ShapedArray((3,), np.dtype('float32'))]\n"
        "    def lower_val(self, v): return [v.a]\n"
        "    def raise_val(self, a): return V(a)\n"
        "    def to_tangent_aval(self): return self\n"
        "    def vspace_zero(self): return V(np.zeros(3, 'float32'))\n"
        "register_hitype(V, lambda v: T())\n"
        "check(T())\n"
        "assert not xla_bridge._backends\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_check_of_an_unregistered_value_says_what_jax_says() -> None:
    class Other:
        pass

    with pytest.raises(StrictHijaxError, match="SH713") as caught:
        checked(raise_val=lambda self, integers, scale: Other())
    assert "JAX says: " in str(caught.value)
    register_hitype(Other, lambda other: array(()))
    with pytest.raises(StrictHijaxError, match=r"got: +float32\[\]"):
        checked(raise_val=lambda self, integers, scale: Other())


def test_a_class_that_is_not_registered_is_told_how() -> None:
    class Unregistered:
        pass

    with pytest.raises(StrictHijaxError, match="SH716") as caught:
        checked(Unregistered())
    assert "a class that JAX does not know, Unregistered" in str(caught.value)
    assert caught.value.hint.startswith("register_hitype(Unregistered, lambda value: ")


def test_a_value_is_not_held_to_a_type_whose_lo_ty_is_at_fault() -> None:
    with pytest.raises(StrictHijaxError, match="SH711") as caught:
        checked("value", lo_ty=lambda self: array(()))
    assert [finding.code for finding in caught.value.findings] == ["SH711"]


def test_values_are_passed_one_by_one() -> None:
    one_by_one = "The values are passed one by one, raise_val(*values)"
    with pytest.raises(StrictHijaxError, match="SH712") as caught:
        checked(raise_val=lambda self, values: Quantized(*values))
    assert one_by_one in str(caught.value)
