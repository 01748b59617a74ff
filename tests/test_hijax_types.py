"""Primitives on hijax types: no pytrees, with cotangents of other types."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import HiPrim, HiType, ShapedArray, register_hitype

from strict_hijax import StrictHiPrim, check
from tests.primitives import X, both, found_in, init

FLOAT = ShapedArray((3,), jnp.dtype("float32"))


@dataclasses.dataclass(frozen=True)
class Quantized:
    integers: Any
    scale: Any


@dataclasses.dataclass(frozen=True)
class QuantizedType(HiType):
    """Integers and a scale; its tangents and cotangents are float32 arrays."""

    shape: tuple[int, ...]

    def lo_ty(self) -> list[Any]:
        scale = ShapedArray((), jnp.dtype("float32"))
        return [ShapedArray(self.shape, jnp.dtype("int8")), scale]

    def lower_val(self, value: Quantized) -> list[Any]:
        return [value.integers, value.scale]

    def raise_val(self, integers: Any, scale: Any) -> Quantized:
        return Quantized(integers, scale)

    def to_tangent_aval(self) -> Any:
        return ShapedArray(self.shape, jnp.dtype("float32"))

    def str_short(self, *args: Any, **kwargs: Any) -> str:
        return f"quantized{list(self.shape)}"


register_hitype(Quantized, lambda value: QuantizedType(value.integers.shape))
Q = Quantized(jnp.array([1, 2, 3], jnp.int8), jnp.float32(2.0))
QTYPE = QuantizedType((3,))


class Uncomparable(QuantizedType):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("may not be compared")

    def __hash__(self) -> int:
        return 0


class UncomparableQuantized(Quantized):
    pass


register_hitype(UncomparableQuantized, lambda value: Uncomparable(value.integers.shape))


def accumulate(make: Any) -> dict[str, Any]:
    return {"vjp_bwd": lambda self, res, g, v_acc: v_acc.accum(make(g))}


def return_it(make: Any) -> dict[str, Any]:
    return {"vjp_bwd_retval": lambda self, res, g: (make(g),)}


def dequantize(base: Any, *, aval: Any = QTYPE, **rules: Any) -> Any:
    """int8 and a scale to float32, whose cotangent is a float32 array."""

    body = {
        "__init__": init((aval,), FLOAT),
        "expand": lambda self, v: v.integers.astype("float32") * v.scale,
        "vjp_fwd": lambda self, nz, v: (self(v), v),
    }
    return type(base)("Dequantize", (base,), body | rules)


EXAMPLES = {"examples": classmethod(lambda cls: [cls()])}


def slope(cls: Any) -> Any:
    return jax.grad(lambda v: cls()(v).sum())(Q)


@pytest.mark.parametrize("give", [accumulate, return_it])
def test_a_right_primitive(give: Any) -> None:
    rules = give(lambda g: 2 * g) | EXAMPLES
    both(lambda base: dequantize(base, **rules), slope)
    both(lambda base: dequantize(base, **rules), lambda cls: jax.jit(cls())(Q))
    both(
        lambda base: dequantize(base, **rules),
        lambda cls: jax.jit(jax.grad(lambda v: cls()(v).sum()))(Q),
    )
    report = check(dequantize(StrictHiPrim, **rules)())
    assert report.rules[0].takes == ("quantized[3]",)
    assert [rule.name for rule in report.rules][:2] == ["expand", "vjp_fwd"]


@pytest.mark.parametrize("give", [accumulate, return_it])
@pytest.mark.parametrize(
    ("make", "code", "got"),
    [
        (lambda g: Q, "SH317", "quantized[3]"),
        (lambda g: g.astype("int8"), "SH316", "int8[3]"),
        (lambda g: g[:2], "SH315", "float32[2]"),
        (lambda g: "zero", "SH312", "the string 'zero'"),
    ],
    ids=["of the primal's type", "of the type inside", "a shape", "no value"],
)
def test_a_wrong_cotangent(give: Any, make: Any, code: str, got: str) -> None:
    rules = give(make)
    cls = dequantize(StrictHiPrim, **rules)
    at_import = found_in(lambda: dequantize(StrictHiPrim, **rules, **EXAMPLES))
    in_gradient = found_in(lambda: slope(cls))
    under_jit = found_in(
        lambda: jax.jit(lambda v: jax.grad(lambda v: cls()(v)[0])(v))(Q)
    )
    for error in (at_import, in_gradient, under_jit):
        assert (error.code, error.path) == (code, "v")
        assert (error.expected, error.got) == ("float32[3]", got)


def quantize(base: Any, out: Any) -> Any:
    class Quantize(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.in_avals, self.out_aval, self.params = (FLOAT,), QTYPE, {}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return out(x)

        def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
            return self(x), None

        def vjp_bwd(self, res: Any, g: Any, x_acc: Any) -> None:
            x_acc.accum(g)  # straight through

        @classmethod
        def examples(cls) -> Any:
            yield cls()

    return Quantize


def test_an_output_of_a_hijax_type() -> None:
    def out(x: Any) -> Quantized:
        return Quantized(x.astype("int8"), jnp.float32(1.0))

    def run(cls: Any) -> Any:
        back = dequantize(cls.__mro__[1], **accumulate(lambda g: g))()
        loss = jax.jit(lambda x: back(cls()(x)).sum())
        return loss(X), jax.grad(loss)(X)

    both(lambda base: quantize(base, out), run)


@pytest.mark.parametrize(
    ("out", "got"),
    [
        (lambda x: x, "float32[3]"),
        (lambda x: x.astype("int8"), "int8[3]"),
        (lambda x: Quantized(x[:2].astype("int8"), 1.0), "quantized[2]"),
    ],
)
def test_an_output_of_another_type(out: Any, got: str) -> None:
    error = found_in(lambda: quantize(StrictHiPrim, out))
    assert (error.code, error.rule) == ("SH302", "expand")
    assert (error.expected, error.got) == ("quantized[3]", got)


def test_a_type_that_may_not_be_compared() -> None:
    value = UncomparableQuantized(Q.integers, Q.scale)

    def make(base: Any) -> Any:
        rules = accumulate(lambda g: g)
        return dequantize(base, aval=Uncomparable((3,)), **rules)

    both(make, lambda cls: cls()(value))


def test_a_type_that_does_not_say_what_it_is_made_of_is_left_unchecked() -> None:
    class Opaque(QuantizedType):
        def lo_ty(self) -> list[Any]:
            raise NotImplementedError("not yet")

    cls = dequantize(StrictHiPrim, aval=Opaque((3,)), **accumulate(lambda g: g))
    assert "expand: NotImplementedError: not yet" in check(cls()).unchecked


def test_a_plain_class_is_checked_on_hijax_types_too() -> None:
    cls = dequantize(HiPrim, **accumulate(lambda g: Q))
    assert found_in(lambda: check(cls())).code == "SH317"
    np.testing.assert_array_equal(cls()(Q), [2.0, 4.0, 6.0])
