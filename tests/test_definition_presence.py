"""Rules that are missing, misspelt or of another JAX version: faults 1, 2, 3, 8, 12."""

import pytest
from jax.experimental.hijax import (
    HiPrim,
    jvp_from_lin,
    linearize_from_jvp,
    vjp_from_jvp,
    vjp_from_lin,
)

from strict_hijax import MissingRuleError, MultipleFaultsError, StrictHiPrim
from tests.faults import Faulty, Table, check

FAULTS = Table()
add = FAULTS.add
HAS_BATCH_DIM_RULE = hasattr(HiPrim, "batch_dim_rule")


class Base(StrictHiPrim, abstract=True):
    def expand(self, x):
        return x


class Jvp(Base, abstract=True):
    def jvp(self, primals, tangents):
        return primals[0], tangents[0]


# --- 1. expand ------------------------------------------------------------------------


@add(
    "SH101", NotImplementedError, "abstract=True", "def expand(self, x)", rule="expand"
)
def no_expand():
    class Bad(StrictHiPrim):
        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd_retval(self, res, g):
            return (g,)


@add("SH101", NotImplementedError, "has: no rule", rule="expand")
def nothing_at_all():
    class Bad(StrictHiPrim, supports=()):
        pass


@add("SH101", NotImplementedError, "def expand(self, a, b)", rule="expand")
def expand_is_none():
    class Bad(Base, supports=("jvp",)):
        expand = None

        def lin(self, nzs_in, a, b):
            return a, b

        def linearized(self, res, a_dot, b_dot):
            return a_dot

        jvp = jvp_from_lin


@add("SH101", NotImplementedError, "must implement `expand`", rule="expand")
def an_abstract_base_without_it_and_a_subclass_that_forgot():
    class Middle(StrictHiPrim, abstract=True):
        pass

    class Bad(Middle, supports=()):
        pass


# --- 2. grad --------------------------------------------------------------------------


@add(
    "SH102", NotImplementedError, "no reverse-mode rule", "supports=()", rule="vjp_fwd"
)
def no_reverse_rule():
    class Bad(Base):
        pass


@add("SH102", NotImplementedError, "vjp_from_jvp   # derive", rule="vjp_fwd")
def a_jvp_alone():
    class Bad(Jvp):
        pass


@add("SH102", NotImplementedError, "vjp_from_lin   # derive", rule="vjp_fwd")
def lin_alone():
    class Bad(Base):
        def lin(self, nzs_in, x):
            return x, None

        def linearized(self, res, x_dot):
            return x_dot


@add(
    "SH102",
    NotImplementedError,
    "def vjp_bwd(self, res, outgrad, x_acc)",
    "must implement `vjp_bwd` or `vjp_bwd_retval`",
    rule="vjp_bwd_retval",
)
def only_forward():
    class Bad(Base):
        def vjp_fwd(self, nzs_in, x):
            return x, None


@add("SH102", NotImplementedError, "has no `vjp_fwd`", rule="vjp_fwd")
def only_backward():
    class Bad(Base):
        def vjp_bwd(self, res, g, acc):
            acc.accum(g)


@add("SH102", NotImplementedError, "vjp_bwd_retval", rule="vjp_bwd_retval")
def half_of_a_derivation():
    class Bad(Jvp):
        vjp_fwd, _ = vjp_from_jvp


@add("SH102", NotImplementedError, "promises `grad`", rule="vjp_fwd")
def promised_again_by_a_subclass():
    class Middle(Base, supports=()):
        pass

    class Bad(Middle, supports=("grad",)):
        pass


@add("SH102", NotImplementedError, "promises `grad`", rule="vjp_fwd")
def one_of_two_bases_promises_it():
    class Left(Base, supports=()):
        pass

    class Right(Base, abstract=True):
        pass

    class Bad(Left, Right):
        pass


# --- 3. other transforms --------------------------------------------------------------


@add(
    "SH103", NotImplementedError, "def batch(self, axis_data, args, dims)", rule="batch"
)
def vmap():
    class Bad(Base, supports=("vmap",)):
        pass


@add("SH103", NotImplementedError, "must implement `jvp`", rule="jvp")
def jvp():
    class Bad(Base, supports=["jvp"]):
        pass


@add("SH103", NotImplementedError, "jvp = jvp_from_lin   # derive", rule="jvp")
def jvp_beside_lin():
    class Bad(Base, supports={"jvp"}):
        def lin(self, nzs_in, x):
            return x, None

        def linearized(self, res, x_dot):
            return x_dot


@add("SH103", NotImplementedError, "linearize_from_jvp   # derive", rule="lin")
def linearize():
    class Bad(Jvp, supports=("linearize",)):
        pass


@add("SH103", NotImplementedError, "transpose(self, out_ct, x_acc)", rule="transpose")
def transpose():
    class Bad(Base, supports=("transpose",)):
        pass


@add("SH103", NotImplementedError, "promises `remat`", "needs: jvp", rule="jvp")
def remat():
    class Bad(Base, supports=("remat",)):
        pass


# --- 8. lin and linearized ------------------------------------------------------------


@add(
    "SH108",
    NotImplementedError,
    "def linearized(self, residuals, x_dot)",
    rule="linearized",
)
def lin_without_linearized():
    class Bad(Base, supports=()):
        def lin(self, nzs_in, x):
            return x, None


@add("SH108", NotImplementedError, "def lin(self, nzs_in, x)", rule="lin")
def linearized_without_lin():
    class Bad(Base, supports=("linearize",)):
        def linearized(self, res, x_dot):
            return x_dot


@add(
    "SH108",
    NotImplementedError,
    "lin, linearized = linearize_from_jvp",
    rule="linearized",
)
def half_of_linearize_from_jvp():
    class Bad(Jvp, supports=("jvp",)):
        lin = linearize_from_jvp.lin


# --- 12. names ------------------------------------------------------------------------


@add(
    "SH112",
    NotImplementedError,
    "did you mean `vjp_bwd_retval`?",
    rule="vjp_bwd_ret_val",
)
def vjp_bwd_ret_val():
    class Bad(Base):
        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd_ret_val(self, res, g):
            return (g,)


@add("SH112", NotImplementedError, "did you mean `vjp_fwd`?", rule="vjp_fwrd")
def vjp_fwrd():
    class Bad(Base):
        def vjp_fwrd(self, nzs_in, x):
            return x, None

        def vjp_bwd_retval(self, res, g):
            return (g,)


@add("SH112", NotImplementedError, "did you mean `vjp_bwd`?", rule="vjp_bwrd")
def vjp_bwrd():
    class Bad(Base):
        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwrd(self, res, g, acc):
            acc.accum(g)


@add("SH112", NotImplementedError, "did you mean `expand`?", rule="expnd")
def expnd():
    class Bad(StrictHiPrim, supports=()):
        def expnd(self, x):
            return x


@add("SH112", NotImplementedError, "did you mean `transpose`?", rule="tranpose")
def tranpose_that_nobody_promised():
    class Bad(Base, supports=()):
        def tranpose(self, out_ct, acc):
            acc.accum(out_ct)


@add("SH112", NotImplementedError, "did you mean `linearized`?", rule="linearised")
def british_spelling():
    class Bad(Base, supports=("linearize",)):
        def lin(self, nzs_in, x):
            return x, None

        def linearised(self, res, x_dot):
            return x_dot


@add("SH112", NotImplementedError, "did you mean `batch`?", rule="bacth")
def letters_exchanged():
    class Bad(Base, supports=()):
        def bacth(self, axis_data, args, dims):
            return args[0], dims[0]


@add(
    "SH112", NotImplementedError, "did you mean `vjp_bwd_retval`?", rule="vjpBwdRetval"
)
def camel_case():
    class Bad(Base):
        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjpBwdRetval(self, res, g):
            return (g,)


@add("SH112", NotImplementedError, "did you mean `vjp_fwd`?", rule="forward")
def the_name_in_another_framework():
    class Bad(Base):
        def forward(self, nzs_in, x):
            return x, None

        def vjp_bwd_retval(self, res, g):
            return (g,)


class MisspeltMixin:
    def vjp_bwd_retvla(self, res, g):
        return (g,)


@add(
    "SH112",
    NotImplementedError,
    "did you mean `vjp_bwd_retval`?",
    rule="vjp_bwd_retvla",
)
def misspelt_in_a_mixin():
    class Bad(MisspeltMixin, Base):
        def vjp_fwd(self, nzs_in, x):
            return x, None


@add("SH113", NotImplementedError, "`expand` has taken its place", rule="impl")
def impl():
    class Bad(StrictHiPrim, supports=()):
        def impl(self, x):
            return x


@add("SH113", NotImplementedError, "`expand` has taken its place", rule="to_lojax")
def to_lojax():
    class Bad(StrictHiPrim, supports=()):
        def to_lojax(self, x):
            return x


@add("SH113", NotImplementedError, "`lin` has taken its place", rule="linearize")
def linearize_of_another_version():
    class Bad(Base, supports=("linearize",)):
        def linearize(self, nzs_in, x):
            return x, None

        def linearized(self, res, x_dot):
            return x_dot


if not HAS_BATCH_DIM_RULE:

    @add(
        "SH113", NotImplementedError, "never calls", "def batch(", rule="batch_dim_rule"
    )
    def batch_dim_rule():
        class Bad(Base, supports=()):
            def batch_dim_rule(self, axis_data, dims):
                return dims[0]

    @add(
        "SH113", NotImplementedError, "never calls", "def batch(", rule="batch_dim_rule"
    )
    def batch_dim_rule_for_a_promise():
        class Bad(Base, supports=("vmap",)):
            def batch_dim_rule(self, axis_data, dims):
                return dims[0]


@FAULTS.parametrize()
def test_a_missing_rule_fails_the_class_statement(faulty: Faulty):
    assert isinstance(check(faulty), MissingRuleError)


def test_all_faults_of_a_class_are_told_at_once():
    with pytest.raises(MultipleFaultsError) as caught:

        class Bad(StrictHiPrim, supports=("grad", "vmap")):
            def vjp_fwd(self):
                return self(), None

    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["SH110", "SH101", "SH102", "SH103"]
    assert str(caught.value).startswith("4 faults in `")
    assert all(code in str(caught.value) for code in codes)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, NotImplementedError)


def test_what_is_derived_needs_no_rule_of_its_own():
    class Good(Jvp, supports=("grad", "jvp", "linearize", "remat")):
        vjp_fwd, vjp_bwd_retval = vjp_from_lin
        lin, linearized = linearize_from_jvp

    assert issubclass(Good, HiPrim)


def test_the_place_is_the_class_statement_with_its_bases():
    with pytest.raises(MissingRuleError) as caught:

        class Bad(Base, supports=("jvp",)):
            pass

    place = caught.value.location
    assert place is not None
    assert place.filename == __file__
    assert place.text == "class Bad(Base, supports=('jvp',))"
    assert str(place) in str(caught.value)
