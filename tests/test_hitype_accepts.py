"""Hijax types that are right, in all the ways in which people write them."""

from __future__ import annotations

import abc
import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import HiPrim, HiType, register_hitype

from benchmarks.hlo import PLATFORMS
from strict_hijax import StrictHiType, check
from tests.hijax_types import Axis, Q, Quantized, array, body, make

BODY = body()
FIELDS = ("__annotations__", "__module__")
METHODS = {name: value for name, value in BODY.items() if name not in FIELDS}


class Methods:
    """The methods of the type, in a class that is no type."""

    def lo_ty(self):
        return [array(self.shape, "int8"), array(())]  # type: ignore[attr-defined]

    def lower_val(self, value):
        return [value.integers, value.scale]

    def raise_val(self, integers, scale):
        return Quantized(integers, scale)

    def to_tangent_aval(self):
        return array(self.shape)  # type: ignore[attr-defined]


def frozen() -> Any:
    @dataclasses.dataclass(frozen=True)
    class Frozen(Methods, StrictHiType):
        shape: tuple[int, ...]

    return Frozen


def frozen_with_slots() -> Any:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Slots(Methods, StrictHiType, ignore=("SH721",)):
        shape: tuple[int, ...]

    assert Slots._ignored == {"SH721"}
    return Slots


def decorated_in_a_statement_of_its_own() -> Any:
    class Later(Methods, StrictHiType):
        shape: tuple[int, ...]

    return dataclasses.dataclass(frozen=True)(Later)


def equality_of_its_own_in_a_dataclass() -> Any:
    @dataclasses.dataclass(frozen=True)
    class Own(Methods, StrictHiType):
        shape: tuple[int, ...]

        def __eq__(self, other):
            return isinstance(other, Own) and self.shape == other.shape

    return Own


def unfrozen_that_says_it_can_be_hashed() -> Any:
    @dataclasses.dataclass(unsafe_hash=True)
    class Unsafe(Methods, StrictHiType):
        shape: tuple[int, ...]

    return Unsafe


def unfrozen_with_equality_and_hash() -> Any:
    @dataclasses.dataclass(eq=False)
    class Both(Methods, StrictHiType):
        shape: tuple[int, ...]

        def __eq__(self, other):
            return isinstance(other, Both) and self.shape == other.shape

        def __hash__(self):
            return hash(self.shape)

    return Both


class Written(Methods, StrictHiType):
    """Without a dataclass."""

    def __init__(self, shape):
        self.shape = shape

    def __eq__(self, other):
        return type(self) is type(other) and self.shape == other.shape

    def __hash__(self):
        return hash(self.shape)


def written_out() -> Any:
    return Written


def inherited() -> Any:
    class Inherits(Written):
        def str_short(self, *_, **__):
            return "inherits"

    return Inherits


def abstract_base() -> Any:
    class Base(StrictHiType, abstract=True):
        def to_tangent_aval(self): ...

    @dataclasses.dataclass(frozen=True)
    class Derived(Methods, Base):
        shape: tuple[int, ...]

    return Derived


def abstract_method() -> Any:
    class Base(StrictHiType):
        @abc.abstractmethod
        def lo_ty(self): ...

        @abc.abstractmethod
        def lower_val(self, value): ...

    @dataclasses.dataclass(frozen=True)
    class Derived(Methods, Base):
        shape: tuple[int, ...]

    return Derived


T = TypeVar("T")


def generic() -> Any:
    @dataclasses.dataclass(frozen=True)
    class OfT(Methods, StrictHiType, Generic[T]):
        shape: tuple[int, ...]

    assert OfT[int]((3,)) == OfT((3,))
    return OfT


def new_generic() -> Any:
    @dataclasses.dataclass(frozen=True)
    class OfU[U](Methods, StrictHiType):
        shape: tuple[U, ...]

    return OfU


def made_by_type() -> Any:
    return make()


def made_by_make_dataclass() -> Any:
    return dataclasses.make_dataclass(
        "Made", ["shape"], bases=(Methods, StrictHiType), frozen=True
    )


def decorator_of_ones_own() -> Any:
    def with_methods(cls):
        cls.__eq__ = lambda self, other: self.shape == other.shape
        cls.__hash__ = lambda self: hash(self.shape)
        return cls

    @with_methods
    class Decorated(Methods, StrictHiType):
        def __init__(self, shape):
            self.shape = shape

    return Decorated


def raw_equality_and_hash() -> Any:
    """Compared by identity: `typeof` gives the same instance each time."""

    class Singleton(Methods, StrictHiType):
        made: dict[Any, Any] = {}

        def __new__(cls, shape):
            if shape not in cls.made:
                cls.made[shape] = super().__new__(cls)
                cls.made[shape].shape = shape
            return cls.made[shape]

        __eq__ = object.__eq__
        __hash__ = object.__hash__

    return Singleton


def hooks_and_keywords() -> Any:
    seen = []

    class Base(StrictHiType, abstract=True):
        def __init_subclass__(cls, *, name, **kwargs):
            super().__init_subclass__(**kwargs)
            seen.append(name)

    @dataclasses.dataclass(frozen=True)
    class Named(Methods, Base, name="named", supports=("jit",)):
        shape: tuple[int, ...]

    assert seen == ["named"]
    return Named


def helpers_with_near_names() -> Any:
    @dataclasses.dataclass(frozen=True)
    class Helpers(Methods, StrictHiType):
        shape: tuple[int, ...]

        def lower_vals(self, values):
            return list(map(self.lower_val, values))

        def tangents(self, count):
            return [self.to_tangent_aval()] * count

        def vspace_zeros(self, count):
            return [count]

        def ct_aval(self):
            return self.to_tangent_aval()

        def to_ct_aval(self):
            return self.ct_aval()

    return Helpers


def methods_as_attributes() -> Any:
    @dataclasses.dataclass(frozen=True)
    class Attributes(StrictHiType):
        shape: tuple[int, ...]
        lo_ty = Methods.lo_ty
        lower_val = staticmethod(lambda value: [value.integers, value.scale])
        raise_val = staticmethod(Quantized)
        to_tangent_aval = property(lambda self: lambda: array(self.shape))

    return Attributes


MAKERS = [
    frozen,
    frozen_with_slots,
    decorated_in_a_statement_of_its_own,
    equality_of_its_own_in_a_dataclass,
    unfrozen_that_says_it_can_be_hashed,
    unfrozen_with_equality_and_hash,
    written_out,
    inherited,
    abstract_base,
    abstract_method,
    generic,
    new_generic,
    made_by_type,
    made_by_make_dataclass,
    decorator_of_ones_own,
    raw_equality_and_hash,
    hooks_and_keywords,
    helpers_with_near_names,
    methods_as_attributes,
]


class Double(HiPrim):
    def __init__(self, ty):
        self.in_avals, self.out_aval, self.params = (ty,), ty, {}
        super().__init__()

    def expand(self, value):
        return Quantized(value.integers, 2 * value.scale)

    def vjp_fwd(self, nzs_in, value):
        return self(value), None

    def vjp_bwd_retval(self, res, g):
        return (2 * g,)


class Dequantize(HiPrim):
    def __init__(self, ty):
        self.in_avals, self.out_aval, self.params = (ty,), array(ty.shape), {}
        super().__init__()

    def expand(self, value):
        return value.integers * value.scale

    def vjp_fwd(self, nzs_in, value):
        return self(value), None

    def vjp_bwd_retval(self, res, g):
        return (g,)


def loss(value: Quantized) -> Any:
    value = Double(jax.typeof(value))(value)
    return Dequantize(jax.typeof(value))(value).sum()


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_type_is_accepted_and_used(maker: Callable[[], Any]) -> None:
    cls = maker()
    register_hitype(Quantized, lambda value: cls(value.integers.shape))
    ty = jax.typeof(Q)
    assert type(ty) is cls
    assert check(ty, Q).transforms["jit"] == "provided"
    out = jax.jit(lambda q: Double(jax.typeof(q))(q))(Q)
    assert (out.integers.tolist(), out.scale) == ([1, 2, 3], 4.0)
    np.testing.assert_array_equal(jax.jit(loss)(Q), 24.0)


def test_equality_and_hash_of_a_named_tuple() -> None:
    class Shape(NamedTuple):
        shape: tuple[int, ...]

    class OfATuple(Shape, Methods, StrictHiType):
        pass

    register_hitype(Quantized, lambda value: OfATuple(value.integers.shape))
    assert check(OfATuple((3,)), Q).transforms["jit"] == "provided"


def test_supports_says_what_is_not_needed() -> None:
    class Nothing(StrictHiType, supports=()):
        __eq__, __hash__ = object.__eq__, object.__hash__

    class OnlyLowers(StrictHiType, supports=("jit",)):
        __eq__, __hash__ = object.__eq__, object.__hash__
        lo_ty, lower_val = Methods.lo_ty, Methods.lower_val
        raise_val = Methods.raise_val

    class Inherits(OnlyLowers):
        pass

    assert check(Nothing()).transforms["jit"].startswith("missing")
    assert Inherits._facts.supports == {"jit"}


def test_a_type_that_may_not_be_compared_or_hashed() -> None:
    def refuse(self, *others):
        raise RuntimeError("may not be compared")

    cls = make(__eq__=refuse, __hash__=refuse)
    assert check(cls((3,)), Q).rules
    cls = make(__eq__=refuse, __hash__=lambda self: 0)
    assert check(cls((3,)), Q).rules


def test_a_type_with_parts_of_hijax_types() -> None:
    """As the tuples of JAX's own tests: the parts are lowered one after another."""
    inner = make()

    @dataclasses.dataclass(frozen=True)
    class Both:
        first: Any
        second: Any

    @dataclasses.dataclass(frozen=True)
    class BothType(StrictHiType):
        first: Any
        second: Any

        def lo_ty(self):
            return [*self.first.lo_ty(), *self.second.lo_ty()]

        def lower_val(self, both):
            first = self.first.lower_val(both.first)
            return [*first, *self.second.lower_val(both.second)]

        def raise_val(self, *parts):
            count = len(self.first.lo_ty())
            first = self.first.raise_val(*parts[:count])
            return Both(first, self.second.raise_val(*parts[count:]))

        def to_tangent_aval(self):
            return BothType(self.first.to_tangent_aval(), self.second.to_tangent_aval())

        def to_ct_aval(self):
            return BothType(self.first.to_ct_aval(), self.second.to_ct_aval())

        def normalize(self):
            return BothType(self.first.normalize(), self.second.normalize())

    register_hitype(
        Both, lambda both: BothType(jax.typeof(both.first), jax.typeof(both.second))
    )
    both = Both(Q, 1.0)  # its second type is weak
    report = check(jax.typeof(both), both)
    assert report.rules[0].gives == ("int8[3]", "float32[]", "float32[]")
    assert isinstance(jax.typeof(both).first, inner)


def test_tangents_of_its_own_type_with_sums_by_a_primitive() -> None:
    class Add(HiPrim):
        def __init__(self, ty):
            self.in_avals, self.out_aval, self.params = (ty, ty), ty, {}
            super().__init__()

        def expand(self, x, y):
            return Quantized(x.integers + y.integers, x.scale)

    cls = make(
        to_tangent_aval=lambda self: self,
        vspace_zero=lambda self: Quantized(jnp.zeros(self.shape, "int8"), Q.scale),
        vspace_add=lambda self, x, y: Add(self)(x, y),
    )
    report = check(cls((3,)), Q)
    assert {"vspace_zero", "vspace_add"} <= {rule.name for rule in report.rules}
    assert report.unchecked == ()


def test_integers_have_no_tangents() -> None:
    cls = make(
        to_tangent_aval=lambda self: array(self.shape, "int8").to_tangent_aval(),
    )
    assert check(cls((3,)), Q).unchecked == ()


def test_a_spec_that_is_given_is_tried() -> None:
    cls = make(
        inc_rank=lambda self, size, spec: type(self)(
            (*self.shape[: spec.of_integers], size, *self.shape[spec.of_integers :])
        ),
        dec_rank=lambda self, size, spec: type(self)(
            self.shape[: spec.of_integers] + self.shape[spec.of_integers + 1 :]
        ),
    )
    report = check(cls((3,)), specs=[Axis(0), Axis(1)])
    assert [rule.name for rule in report.rules].count("dec_rank") == 2


def test_random_keys_and_refs_are_values() -> None:
    @dataclasses.dataclass(frozen=True)
    class Holder:
        content: Any

    @dataclasses.dataclass(frozen=True)
    class HolderType(StrictHiType, supports=("jit",)):
        inner: Any

        def lo_ty(self):
            return [self.inner]

        def lower_val(self, holder):
            return [holder.content]

        def raise_val(self, content):
            return Holder(content)

    register_hitype(Holder, lambda holder: HolderType(jax.typeof(holder.content)))
    key = Holder(jax.random.key(0))
    (declined,) = check(jax.typeof(key), key).unchecked
    assert declined.startswith(
        "to_tangent_aval: NotImplementedError: autodiff requires"
    )
    ref = Holder(jax.new_ref(jnp.ones(3)))
    assert check(jax.typeof(ref), ref).rules


def test_pickled_and_copied_types_are_equal() -> None:
    ty = Written((3,))
    assert pickle.loads(pickle.dumps(ty)) == ty == copy.deepcopy(ty)


def test_checks_within_a_trace() -> None:
    cls = make()

    @jax.jit
    def f(x):
        check(cls((3,)))
        return x

    assert f(1.0) == 1.0


def program(base: Any) -> Callable[..., Any]:
    """Types of the same name, strict and plain, so that names in programs agree."""
    make(base)
    return loss


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("transform", [lambda f: f, jax.grad], ids=["value", "grad"])
def test_stablehlo_is_that_of_the_plain_type(platform: str, transform: Any) -> None:
    texts = []
    for base in (StrictHiType, HiType):
        fun = jax.jit(transform(program(base)))
        lowered = fun.trace(Q).lower(lowering_platforms=(platform,))
        texts.append(lowered.as_text(debug_info=True))
        fun.clear_cache()
    assert texts[0] == texts[1]
    assert "stablehlo.multiply" in texts[0]


def test_stablehlo_of_a_scan_is_that_of_the_plain_type() -> None:
    texts = []
    for base in (StrictHiType, HiType):
        make(base)

        def f(q):
            def step(q, _):
                return Double(jax.typeof(q))(q), None

            return jax.lax.scan(step, q, None, length=3)[0]

        texts.append(jax.jit(f).lower(Q).as_text(debug_info=True))
    assert texts[0] == texts[1]
    assert "stablehlo.while" in texts[0]
