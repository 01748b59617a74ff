"""What `transforms` says of a class."""

import pytest
from jax.experimental.hijax import (
    HiPrim,
    jvp_from_lin,
    linearize_from_jvp,
    vjp_from_jvp,
    vjp_from_lin,
)

from strict_hijax import StrictHiPrim, UsageError, transforms


class Jvp(StrictHiPrim, supports=("jvp",)):
    def expand(self, x):
        return x

    def jvp(self, primals, tangents):
        return primals[0], tangents[0]


def test_what_is_missing_says_what_it_needs():
    class Lookup(StrictHiPrim, supports=()):
        def expand(self, x):
            return x

    found = transforms(Lookup)
    assert list(found) == ["grad", "jvp", "linearize", "vmap", "transpose", "remat"]
    assert found["grad"] == "missing (needs vjp_fwd, and vjp_bwd or vjp_bwd_retval)"
    assert found["linearize"] == "missing (needs lin, and linearized)"
    assert found["remat"] == "missing (needs jvp unless jax_remat3 is on)"
    assert found["vmap"].startswith("missing (needs batch")


def test_what_is_provided():
    class Full(Jvp):
        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

        def batch(self, axis_data, args, dims):
            return args[0], dims[0]

        def transpose(self, out_ct, acc):
            acc.accum(out_ct)

    found = transforms(Full)
    assert found["grad"] == "provided (vjp_fwd, vjp_bwd)"
    assert found["vmap"] == "provided (batch)"
    assert found["transpose"] == "provided (transpose)"
    assert found["remat"] == found["jvp"] == "provided (jvp)"


def test_what_is_derived():
    class Derived(Jvp):
        lin, linearized = linearize_from_jvp
        vjp_fwd, vjp_bwd_retval = vjp_from_lin

    found = transforms(Derived)
    assert found["grad"] == "derived (vjp_from_lin)"
    assert found["linearize"] == "derived (linearize_from_jvp)"


def test_what_is_derived_from_nothing_is_missing():
    class Nothing(StrictHiPrim, abstract=True):
        vjp_fwd, vjp_bwd_retval = vjp_from_jvp
        jvp = jvp_from_lin

    assert set(map(is_missing, transforms(Nothing).values())) == {True}


def is_missing(status: str) -> bool:
    return status.startswith("missing")


def test_rules_of_a_mixin_count():
    class Mixin:
        def batch(self, axis_data, args, dims):
            return args[0], dims[0]

    class Mixed(Mixin, Jvp):
        pass

    assert transforms(Mixed)["vmap"] == "provided (batch)"


def test_a_class_that_is_not_strict():
    class Plain(HiPrim):
        def jvp(self, primals, tangents):
            return primals[0], tangents[0]

        vjp_fwd, vjp_bwd_retval = vjp_from_jvp

    found = transforms(Plain)
    assert found["grad"] == "derived (vjp_from_jvp)"
    assert found["jvp"] == "provided (jvp)"


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (3, "transforms(MyPrim)"),
        (int, "transforms(MyPrim)"),
        (None, "transforms(MyPrim)"),
        ("Sine", "transforms(MyPrim)"),
        (HiPrim.__init__, "check(__init__, *args).transforms"),
    ],
)
def test_no_primitive(value, remedy):
    with pytest.raises(UsageError) as caught:
        transforms(value)
    assert caught.value.subject == "strict_hijax.transforms"
    assert caught.value.hint.startswith(remedy)
