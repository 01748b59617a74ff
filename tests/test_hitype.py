"""Faults of hijax types that are told at the class statement, or at the first instance.

What must be accepted is in `test_hitype_accepts.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import strict_hijax
from strict_hijax import MultipleFaultsError, StrictHijaxError, StrictHiType
from tests.faults import Faulty, Table, check
from tests.hijax_types import Q, array, body, make

FAULTS = Table()


def define(**methods: Any) -> Any:
    """A class statement alone: what is told here needs no instance."""
    return type(StrictHiType)("Bad", (StrictHiType,), body(**methods))


# --- missing --------------------------------------------------------------------------


@FAULTS.add("SH701", NotImplementedError, "lowering values", "`jit`", rule="lower_val")
def without_lower_val():
    define(lower_val=None)


@FAULTS.add("SH701", NotImplementedError, "lowering (e.g. under jit)", rule="lo_ty")
def without_lo_ty():
    define(lo_ty=None)


@FAULTS.add("SH701", NotImplementedError, "raising lowered", rule="raise_val")
def without_raise_val():
    define(raise_val=None)


@FAULTS.add("SH701", NotImplementedError, "autodiff", "`grad`", rule="to_tangent_aval")
def without_a_tangent_type():
    define(to_tangent_aval=None)


@FAULTS.add("SH701", NotImplementedError, "type equality", rule="__eq__")
def without_equality():
    class Bad(StrictHiType, supports=()):
        def __hash__(self):
            return 0


@FAULTS.add("SH701", NotImplementedError, "type equality", rule="__eq__")
def without_equality_under_a_decorator():
    @dataclasses.dataclass(frozen=True, eq=False)
    class Bad(StrictHiType, supports=()):
        shape: tuple[int, ...]

        def __hash__(self):
            return hash(self.shape)

    Bad((3,))


@FAULTS.add("SH701", NotImplementedError, "`vmap`", "vmap requires", rule="inc_rank")
def promised_vmap():
    class Bad(make(), supports=("vmap",)):  # type: ignore[misc]
        def dec_rank(self, size, spec):
            return self


@FAULTS.add("SH701", NotImplementedError, "shard_map", rule="unshard")
def promised_shard_map():
    class Bad(make(), supports=("shard_map",)):  # type: ignore[misc]
        def shard(self, mesh, manual_axes, check_vma, spec):
            return self


# --- hash -----------------------------------------------------------------------------


@FAULTS.add("SH702", TypeError, "unhashable type: 'Bad'", rule="__hash__")
def equality_without_hash():
    class Bad(StrictHiType, supports=()):
        def __eq__(self, other):
            return type(other) is type(self)


@FAULTS.add("SH702", TypeError, rule="__hash__")
def equality_without_hash_in_a_subclass():
    class Bad(make()):  # type: ignore[misc]
        def __eq__(self, other):
            return True


@FAULTS.add("SH702", TypeError, rule="__hash__")
def equality_without_hash_in_a_base():
    class Bad(StrictHiType, abstract=True):
        def __eq__(self, other):
            return True


@FAULTS.add("SH702", TypeError, rule="__hash__")
def equality_without_hash_under_a_decorator_that_leaves_it_so():
    @dataclasses.dataclass(eq=False)
    class Bad(StrictHiType, supports=()):
        shape: tuple[int, ...]

        def __eq__(self, other):
            return True

    Bad((3,))


def unfrozen(**options: Any) -> None:
    @dataclasses.dataclass(**options)
    class Bad(StrictHiType, supports=()):
        shape: tuple[int, ...]

    Bad((3,))


@FAULTS.add("SH703", TypeError, "frozen=True", "unhashable type", rule="__hash__")
def unfrozen_dataclass():
    unfrozen()


@FAULTS.add("SH703", TypeError, rule="__hash__")
def unfrozen_dataclass_with_slots():
    unfrozen(slots=True)


@FAULTS.add("SH703", TypeError, rule="__hash__")
def unfrozen_dataclass_that_is_ordered():
    unfrozen(order=True)


@FAULTS.add("SH703", TypeError, rule="__hash__")
def unfrozen_dataclass_with_an_equality_of_its_own():
    @dataclasses.dataclass
    class Bad(StrictHiType, supports=()):
        def __eq__(self, other):
            return True

    Bad()


# --- signatures -----------------------------------------------------------------------


@FAULTS.add("SH704", TypeError, "nothing", "lo_ty(self, x)", rule="lo_ty")
def lo_ty_with_an_argument():
    define(lo_ty=lambda self, x: [])


@FAULTS.add("SH704", TypeError, "lacks `self`", rule="lower_val")
def lower_val_without_self():
    define(lower_val=lambda value: [value])


@FAULTS.add("SH704", TypeError, "keyword-only argument `like`", rule="raise_val")
def raise_val_with_a_keyword():
    def raise_val(self, *values, like):
        return values

    define(raise_val=raise_val)


@FAULTS.add("SH704", TypeError, "x and y", rule="vspace_add")
def vspace_add_of_one():
    define(vspace_add=lambda self, x: x)


@FAULTS.add("SH704", TypeError, "size and spec", rule="dec_rank")
def dec_rank_without_spec():
    define(dec_rank=lambda self, size: self)


@FAULTS.add("SH704", TypeError, "__eq__(self, other)", rule="__eq__")
def equality_of_three():
    define(__eq__=lambda self, a, b: True, __hash__=lambda self: 0)


# --- what JAX cannot call -------------------------------------------------------------


@FAULTS.add("SH705", TypeError, "a list of 1", rule="lo_ty")
def lo_ty_that_is_a_list():
    define(lo_ty=[array(())])


@FAULTS.add("SH705", TypeError, "a property", rule="lo_ty")
def lo_ty_that_is_a_property():
    define(lo_ty=property(lambda self: [self]))


@FAULTS.add("SH705", TypeError, "a generator", rule="lower_val")
def lower_val_that_yields():
    def lower_val(self, value):
        yield value

    define(lower_val=lower_val)


@FAULTS.add("SH705", TypeError, "a coroutine", rule="to_tangent_aval")
def a_coroutine():
    async def to_tangent_aval(self):
        return self

    define(to_tangent_aval=to_tangent_aval)


@FAULTS.add("SH705", TypeError, "returns nothing", rule="raise_val")
def raise_val_that_returns_nothing():
    def raise_val(self, integers, scale):
        self.integers = integers

    define(raise_val=raise_val)


# --- misspelt -------------------------------------------------------------------------


@FAULTS.add(
    "SH706", NotImplementedError, "did you mean `lower_val`?", rule="lower_value"
)
def lower_value():
    define(lower_val=None, lower_value=lambda self, value: [value])


@FAULTS.add("SH706", NotImplementedError, "`lo_ty`", rule="low_ty")
def low_ty():
    define(lo_ty=None, low_ty=lambda self: [])


@FAULTS.add("SH706", NotImplementedError, "`to_tangent_aval`", rule="tangent_aval")
def tangent_aval():
    define(to_tangent_aval=None, tangent_aval=lambda self: self)


@FAULTS.add("SH706", NotImplementedError, "`to_ct_aval`", rule="to_cotangent_aval")
def to_cotangent_aval():
    define(to_cotangent_aval=lambda self: self)


@FAULTS.add("SH706", NotImplementedError, "`vspace_zero`", rule="vspace_zeros")
def vspace_zeros():
    define(vspace_zeros=lambda self: self)


# --- instances ------------------------------------------------------------------------


@FAULTS.add(
    "SH707", TypeError, "unhashable type: 'list'", "tuple(shape)", rule="__hash__"
)
def list_for_a_shape():
    make()([3])


@FAULTS.add("SH707", TypeError, "`shape`", rule="__hash__")
def array_in_a_type():
    make()(jnp.ones(3))


@FAULTS.add("SH707", TypeError, "`shape`", "dict", rule="__hash__")
def dict_in_a_type():
    make()({"x": 3})


@FAULTS.add("SH708", TypeError, "differs", rule="__hash__")
def hash_by_identity():
    make(__hash__=object.__hash__)((3,))


@FAULTS.add("SH708", TypeError, "not equal to itself", rule="__eq__")
def never_equal():
    make(__eq__=lambda self, other: False, __hash__=lambda self: 0)((3,))


@FAULTS.add("SH708", TypeError, "not equal to itself", rule="__eq__")
def not_implemented_for_itself():
    make(__eq__=lambda self, other: jnp.ones(2), __hash__=lambda self: 0)((3,))


# --- class keywords -------------------------------------------------------------------


@FAULTS.add("SH117", ValueError, "did you mean 'vmap'?")
def supports_of_no_use():
    class Bad(StrictHiType, supports=("vmaps",)):
        pass


@FAULTS.add("SH117", ValueError, "is no tuple of names")
def supports_that_is_a_string():
    class Bad(StrictHiType, supports="jit"):
        pass


@FAULTS.add("SH117", ValueError, "no class keyword 'suports'")
def keyword_of_no_class():
    class Bad(StrictHiType, suports=()):
        pass


SUBJECTS = {f.make.__name__: "Bad" for f in FAULTS} | dict.fromkeys(
    [
        "list_for_a_shape",
        "array_in_a_type",
        "dict_in_a_type",
        "hash_by_identity",
        "never_equal",
        "not_implemented_for_itself",
    ],
    "QuantizedType",
)


@FAULTS.parametrize()
def test_fault_is_told(faulty: Faulty) -> None:
    check(faulty, SUBJECTS[faulty.make.__name__])


@FAULTS.parametrize()
def test_fault_can_be_ignored(faulty: Faulty) -> None:
    if faulty.code == "SH117":
        pytest.skip("a wrong use of the tool itself is always told")
    with strict_hijax.ignore(faulty.code):
        faulty.make()


def test_all_faults_of_a_class_are_in_one_exception() -> None:
    with pytest.raises(MultipleFaultsError) as caught:
        define(
            lower_val=None,
            lower_value=lambda self, value: [value],
            raise_val=None,
            lo_ty=lambda self, x: [],
            to_ct_aval=3,
        )
    codes = [finding.code for finding in caught.value.findings]
    assert sorted(codes) == ["SH701", "SH704", "SH705", "SH706"]
    assert isinstance(caught.value, NotImplementedError)
    assert isinstance(caught.value, TypeError)


def test_location_is_that_of_the_method_or_of_the_class() -> None:
    with pytest.raises(StrictHijaxError) as caught:

        class Bad(StrictHiType):
            pass

    assert {f.rule for f in caught.value.findings} == {
        "__eq__",
        "__hash__",
        "lo_ty",
        "lower_val",
        "raise_val",
        "to_tangent_aval",
    }
    location = caught.value.findings[0].location
    assert location is not None
    assert location.filename == __file__
    assert location.text == "class Bad(StrictHiType)"


def test_a_class_says_which_checks_are_off() -> None:
    class Base(StrictHiType, ignore=("SH702",), supports=()):
        def __eq__(self, other):
            return True

    class Inherits(Base):
        pass

    assert Inherits.__hash__ is None


def test_a_fault_is_told_again_until_it_is_mended() -> None:
    @dataclasses.dataclass
    class Bad(StrictHiType, supports=()):
        shape: tuple[int, ...]

    for _ in range(2):
        with pytest.raises(TypeError, match="SH703"):
            Bad((3,))
    Bad.__hash__ = lambda self: hash(self.shape)  # type: ignore[method-assign]
    assert hash(Bad((3,))) == hash((3,))


def test_what_jax_makes_within_typeof_is_told_as_the_cause() -> None:
    make(decorate=dataclasses.dataclass)
    with pytest.raises(TypeError) as caught:
        jax.jit(lambda q: q)(Q)
    assert isinstance(caught.value.__cause__, StrictHijaxError)
    with pytest.raises(StrictHijaxError, match="SH703"):
        jax.typeof(Q)
