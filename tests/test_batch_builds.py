"""What `batch` builds and calls: its own class, for arguments with the mapped axis."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.interpreters import batching

from strict_hijax import StrictHijaxError, StrictHiPrim, check
from tests.primitives import AVAL, X, found_in

XS = jnp.ones((4, 3))


class Sine(StrictHiPrim, supports=("vmap",)):
    def __init__(self, x: Any) -> None:
        self.in_avals, self.out_aval, self.params = (x,), x, {}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return jnp.sin(x)

    def batch(self, axis: Any, batched: Any, where: Any) -> Any:
        return self(*batched), where[0]  # the line


class Product(StrictHiPrim, supports=("vmap",)):
    def __init__(self, x: Any, w: Any) -> None:
        self.in_avals, self.out_aval, self.params = (x, w), x, {}
        super().__init__()

    def expand(self, x: Any, w: Any) -> Any:
        return x * w

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        return type(self)(*map(jax.typeof, args))(*args), dims[0]


@pytest.mark.parametrize("find", [check, lambda prim: jax.vmap(prim)(XS)])
def test_a_batch_that_calls_self_is_told_what_to_build(find: Any) -> None:
    error = found_in(lambda: find(Sine(AVAL)))
    assert (error.code, error.rule) == ("SH211", "batch")
    assert "calls itself in `batch` with `x` of another type" in str(error)
    place = error.location
    assert place is not None
    assert place.filename == __file__
    assert place.line == Sine.batch.__code__.co_firstlineno + 1
    remedy = "return Sine(*map(jax.typeof, batched))(*batched), where[0]"
    assert error.hint == remedy

    class Mended(Sine):
        def batch(self, axis: Any, batched: Any, where: Any) -> Any:
            return Mended(*map(jax.typeof, batched))(*batched), where[0]

    check(Mended(AVAL))


def test_a_call_in_any_rule_names_the_rule() -> None:
    class Bad(Sine, supports=("grad", "vmap")):
        def vjp_fwd(self, nzs_in: Any, x: Any) -> Any:
            return self(x, x), x

        def vjp_bwd_retval(self, res: Any, g: Any) -> Any:
            return (g,)

    error = found_in(lambda: jax.grad(lambda x: Bad(AVAL)(x).sum())(X))
    assert (error.code, error.rule) == ("SH210", "vjp_fwd")
    assert "calls itself in `vjp_fwd` with 2 arguments" in str(error)


def test_a_call_outside_of_the_rules_is_as_before() -> None:
    error = found_in(lambda: Sine(AVAL)(XS))
    assert error.rule is None
    assert "is called with" in str(error)


def test_a_primitive_that_batch_builds_wrongly_is_batchs_fault() -> None:
    error = found_in(lambda: check(Product(AVAL, AVAL)))
    assert {finding.rule for finding in error.findings} == {"batch"}
    assert "in_axes=(None, 0)" in str(error)
    assert "builds an instance whose `expand` gives another type" in str(error)


@pytest.mark.parametrize("shape", [(3,), (), (2, 3)])
def test_its_remedy_mends_it(shape: tuple[int, ...]) -> None:
    class Mended(Product):
        def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
            args = [
                batching.bdim_at_front(x, d, axis_data.size)
                for x, d in zip(args, dims, strict=True)
            ]
            return type(self)(*map(jax.typeof, args))(*args), 0

    aval = jax.typeof(jnp.ones(shape))
    check(Mended(aval, aval))
    if shape:
        x, w = jnp.ones((4, *shape)), jnp.ones((*shape[:1], 4, *shape[1:]))
        assert jax.vmap(Mended(aval, aval), in_axes=(0, 1))(x, w).shape == x.shape


def test_maps_at_different_axes_are_tried() -> None:
    class Bad(Product):
        def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
            if None in dims:
                raise NotImplementedError
            return super().batch(axis_data, args, dims)

    error = found_in(lambda: check(Bad(AVAL, AVAL)))
    assert "in_axes=(0, 1)" in str(error)
    x, w = jnp.ones((4, 3)), jnp.ones((3, 4))
    with pytest.raises((TypeError, StrictHijaxError)):
        jax.jit(jax.vmap(Bad(AVAL, AVAL), in_axes=(0, 1)))(x, w)


def test_a_batch_that_declines_uneven_maps_is_right() -> None:
    class Good(Product):
        def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
            if dims[0] != dims[1]:
                raise NotImplementedError
            return super().batch(axis_data, args, dims)

    check(Good(AVAL, AVAL))


def _sine(give: Any) -> Any:
    class Made(Sine):
        def batch(self, axis: Any, batched: Any, where: Any) -> Any:
            return give(jnp.sin(batched[0]), where[0])

    return Made(AVAL)


def test_an_output_that_follows_its_input_is_not_mended_with_a_number_alone() -> None:
    error = found_in(lambda: check(_sine(lambda out, d: (out, 0))))
    assert (error.code, error.rule) == ("SH334", "batch")
    assert error.hint == "return out, 1   # or the dimension that it follows"
    check(_sine(lambda out, d: (out, d)))
