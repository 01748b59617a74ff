"""Rules that JAX derives from others, and two backward rules: faults 4 to 7, and 9."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.hijax import (
    HiPrim,
    jvp_from_lin,
    linearize_from_jvp,
    vjp_from_jvp,
    vjp_from_lin,
)

from strict_hijax import (
    DefinitionError,
    MissingRuleError,
    StrictHijaxError,
    StrictHiPrim,
    transforms,
)
from tests.faults import Faulty, Table, check

FAULTS = Table()
add = FAULTS.add


class Base(StrictHiPrim, abstract=True):
    def expand(self, x):
        return x


class Jvp(Base, abstract=True):
    def jvp(self, primals, tangents):
        return primals[0], tangents[0]


class Lin(Base, abstract=True):
    def lin(self, nzs_in, x):
        return x, None

    def linearized(self, res, x_dot):
        return x_dot


class Forward(Base, abstract=True):
    def vjp_fwd(self, nzs_in, x):
        return self(x), x


# --- 4. a pair assigned whole ---------------------------------------------------------


@add("SH104", TypeError, "vjp_fwd, vjp_bwd_retval = vjp_from_jvp", rule="vjp_fwd")
def vjp_from_jvp_whole():
    class Bad(Jvp):
        vjp_fwd = vjp_from_jvp


@add("SH104", TypeError, "is a pair of rules, not a single rule", rule="vjp_bwd_retval")
def vjp_from_lin_whole():
    class Bad(Lin, Forward):
        vjp_bwd_retval = vjp_from_lin


@add("SH104", TypeError, "lin, linearized = linearize_from_jvp", rule="lin")
def linearize_from_jvp_whole():
    class Bad(Jvp, supports=("jvp",)):
        lin = linearize_from_jvp


@add("SH104", TypeError, "vjp_fwd, vjp_bwd_retval = vjp_from_jvp", rule="vjp")
def under_a_name_that_is_no_rule():
    class Bad(Jvp):
        vjp = vjp_from_jvp


class WholePair:
    vjp_bwd = vjp_from_jvp


@add("SH104", TypeError, "vjp_fwd, vjp_bwd_retval = vjp_from_jvp", rule="vjp_bwd")
def whole_in_a_mixin():
    class Bad(WholePair, Jvp):
        pass


@add("SH104", TypeError, "vjp_fwd, vjp_bwd_retval = vjp_from_lin", rule="vjp_fwd")
def whole_under_a_rule_of_another_pair():
    class Bad(Jvp):
        vjp_fwd = linearize_from_jvp

        def vjp_bwd(self, res, g, acc):
            acc.accum(g)


# --- 5. halves ------------------------------------------------------------------------


@add("SH105", TypeError, "got:      vjp_fwd, vjp_bwd = vjp_from_jvp", rule="vjp_fwd")
def halves_exchanged():
    class Bad(Jvp):
        vjp_bwd, vjp_fwd = vjp_from_jvp


@add("SH105", TypeError, "`vjp_bwd` is its `vjp_bwd_retval`", rule="vjp_bwd")
def a_half_under_the_name_of_another_rule():
    class Bad(Jvp):
        vjp_fwd, vjp_bwd = vjp_from_jvp


@add("SH105", TypeError, "expected: lin, linearized", rule="lin")
def linearize_halves_exchanged():
    class Bad(Jvp, supports=("jvp",)):
        linearized, lin = linearize_from_jvp


@add("SH105", TypeError, "expected: jvp = jvp_from_lin", rule="linearized")
def jvp_from_lin_under_another_name():
    class Bad(Base, supports=("linearize",)):
        def lin(self, nzs_in, x):
            return x, None

        linearized = jvp_from_lin


@add("SH105", TypeError, "vjp_fwd from vjp_from_jvp", rule="vjp_bwd_retval")
def halves_of_two_derivations():
    class Bad(Jvp, Lin):
        vjp_fwd, _ = vjp_from_jvp
        _, vjp_bwd_retval = vjp_from_lin


@add("SH105", TypeError, "vjp_fwd written by hand", rule="vjp_bwd_retval")
def a_forward_by_hand_for_vjp_from_jvp():
    class Bad(Jvp):
        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        _, vjp_bwd_retval = vjp_from_jvp


@add("SH105", TypeError, "vjp_fwd written by hand", rule="vjp_bwd_retval")
def a_forward_by_hand_for_vjp_from_lin():
    class Bad(Lin, Forward):
        _, vjp_bwd_retval = vjp_from_lin


@add("SH105", TypeError, "linearized written by hand", rule="linearized")
def a_linearized_by_hand_for_linearize_from_jvp():
    class Bad(Jvp, supports=("linearize",)):
        lin, _ = linearize_from_jvp

        def linearized(self, res, x_dot):
            return res * x_dot


class FromJvp(Jvp, abstract=True):
    vjp_fwd, vjp_bwd_retval = vjp_from_jvp


@add("SH105", TypeError, "vjp_fwd from vjp_from_jvp, vjp_bwd written", rule="vjp_bwd")
def a_backward_by_hand_in_a_subclass():
    class Bad(FromJvp):
        def vjp_bwd(self, x, g, x_acc):
            x_acc.accum(g * jnp.cos(x))


@add("SH105", TypeError, "primals, nzs_in = res", rule="vjp_bwd_retval")
def a_backward_by_hand_beside_half_of_a_pair():
    class Bad(Jvp):
        vjp_fwd, _ = vjp_from_jvp

        def vjp_bwd_retval(self, x, g):
            return (g * x,)


@add("SH105", TypeError, "vjp_fwd from vjp_from_jvp", rule="vjp_bwd_retval_logs")
def a_backward_with_logs_by_hand():
    class Bad(FromJvp):
        def vjp_bwd_retval_logs(self, res, g):
            return (g * res.sum(),), None


@add("SH105", TypeError, "vjp_fwd from vjp_from_lin", rule="vjp_bwd")
def a_backward_by_hand_for_vjp_from_lin():
    class Bad(Lin):
        vjp_fwd, _ = vjp_from_lin

        def vjp_bwd(self, x, g, x_acc):
            x_acc.accum(-x * g)


# --- 6. derived from nothing ----------------------------------------------------------


@add("SH106", NotImplementedError, "def jvp(self, primals, tangents)", rule="jvp")
def vjp_from_no_jvp():
    class Bad(Base):
        vjp_fwd, vjp_bwd_retval = vjp_from_jvp


@add("SH106", NotImplementedError, "linearize_from_jvp", rule="jvp")
def through_a_chain():
    class Bad(Base):
        vjp_fwd, vjp_bwd_retval = vjp_from_lin
        lin, linearized = linearize_from_jvp


class DerivesFromJvp(Base, abstract=True):
    vjp_fwd, vjp_bwd_retval = vjp_from_jvp


@add("SH106", NotImplementedError, "must implement `jvp`", rule="jvp")
def derived_in_a_base():
    class Bad(DerivesFromJvp):
        pass


@add("SH106", NotImplementedError, "derives `vjp_fwd`", rule="jvp")
def taken_away_by_a_subclass():
    class Good(DerivesFromJvp, Jvp):
        pass

    class Bad(Good):
        jvp = None


@add(
    "SH106",
    NotImplementedError,
    "from `lin` and `linearized`",
    "your `jvp`",
    rule="lin",
)
def from_lin_beside_a_jvp():
    class Bad(Jvp):
        vjp_fwd, vjp_bwd_retval = vjp_from_lin


# --- 7. circles -----------------------------------------------------------------------


@add("SH107", TypeError, "each would be defined in terms of the other", rule="jvp")
def a_circle():
    class Bad(Base, supports=()):
        jvp = jvp_from_lin
        lin, linearized = linearize_from_jvp


@add("SH107", TypeError, "jvp = jvp_from_lin; lin, linearized", rule="jvp")
def a_circle_through_a_base():
    class Middle(Base, supports=("linearize",), abstract=True):
        lin, linearized = linearize_from_jvp

    class Bad(Middle):
        jvp = jvp_from_lin


@add("SH107", TypeError, "def jvp(self, primals, tangents)", rule="jvp")
def a_circle_below_the_backward_rules():
    class Bad(Base, supports=("grad",)):
        vjp_fwd, vjp_bwd_retval = vjp_from_jvp
        lin, linearized = linearize_from_jvp
        jvp = jvp_from_lin


# --- 9. two backward rules ------------------------------------------------------------


@add("SH109", TypeError, "JAX calls `vjp_bwd`", "delete", rule="vjp_bwd_retval")
def both_in_one_class():
    class Bad(Forward):
        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

        def vjp_bwd_retval(self, res, g):
            return (g,)


@add("SH109", TypeError, "vjp_bwd = HiPrim.vjp_bwd", rule="vjp_bwd_retval")
def a_subclass_whose_rule_is_not_called():
    class Middle(Forward):
        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

    class Bad(Middle):
        def vjp_bwd_retval(self, res, g):
            return (2 * g,)


@add("SH109", TypeError, "never `vjp_bwd_retval`", rule="vjp_bwd_retval")
def logs_beside_the_plain_one():
    class Bad(Forward):
        def vjp_bwd_retval_logs(self, res, g):
            return (g,), {"norm": g}

        def vjp_bwd_retval(self, res, g):
            return (g,)


@add("SH109", TypeError, "never `vjp_bwd_retval`", rule="vjp_bwd_retval")
def derived_beside_one_by_hand():
    class Bad(Jvp):
        vjp_fwd, vjp_bwd_retval = vjp_from_jvp

        def vjp_bwd(self, res, g, acc):
            acc.accum(g)


@FAULTS.parametrize()
def test_a_wrong_derivation_fails_the_class_statement(faulty: Faulty):
    assert isinstance(check(faulty), DefinitionError | MissingRuleError)


# --- what must be accepted ------------------------------------------------------------


def test_chains():
    class Good(Jvp, supports=("grad", "jvp", "linearize")):
        lin, linearized = linearize_from_jvp
        vjp_fwd, vjp_bwd_retval = vjp_from_lin

    assert transforms(Good)["grad"] == "derived (vjp_from_lin)"


def test_a_pair_kept_under_a_name_of_its_own_before_it_is_unpacked():
    class Good(Jvp):
        derivation = vjp_from_jvp
        vjp_fwd, vjp_bwd_retval = derivation

    assert transforms(Good)["grad"] == "derived (vjp_from_jvp)"


def test_a_forward_by_hand_that_makes_the_residuals_of_the_derived_half():
    class Good(Jvp):
        def vjp_fwd(self, nzs_in, x):
            return self(x), ((x,), nzs_in)

        _, vjp_bwd_retval = vjp_from_jvp

    class Super(Jvp):
        vjp_fwd, vjp_bwd_retval = vjp_from_jvp

    class Calls(Super):
        def vjp_fwd(self, nzs_in, x):
            return super().vjp_fwd(nzs_in, x)

    assert issubclass(Calls, HiPrim)


def test_a_backward_by_hand_for_the_residuals_of_a_derived_forward():
    class Good(Jvp):
        vjp_fwd, _ = vjp_from_jvp

        def vjp_bwd_retval(self, res, g):
            (x,), _ = res
            return (g * x,)

    class Linear(Lin):
        vjp_fwd, _ = vjp_from_lin

        def vjp_bwd_retval(self, res, g):
            from_lin, _ = res
            return (g * from_lin,)

    class Accumulates(Jvp):
        vjp_fwd, _ = vjp_from_jvp

        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

    assert transforms(Accumulates)["grad"] == "derived (vjp_from_jvp)"


def test_two_backward_rules_of_which_one_calls_the_other():
    class Good(Forward):
        def vjp_bwd(self, res, g, acc):
            acc.accum(*self.vjp_bwd_retval(res, g))

        def vjp_bwd_retval(self, res, g):
            return (g,)

    class Logs(Forward):
        def vjp_bwd_retval_logs(self, res, g):
            return self.vjp_bwd_retval(res, g), None

        def vjp_bwd_retval(self, res, g):
            return (g,)

    assert issubclass(Logs, HiPrim)


@pytest.mark.parametrize("other", [None, HiPrim.vjp_bwd_retval])
def test_a_second_backward_rule_that_is_none(other):
    class Good(Forward):
        vjp_bwd_retval = other

        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

    assert issubclass(Good, HiPrim)


def test_a_second_backward_rule_that_only_raises():
    class Good(Forward):
        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

        def vjp_bwd_retval(self, *args):
            raise NotImplementedError

    assert issubclass(Good, HiPrim)


def test_a_subclass_that_returns_to_the_other_backward_rule():
    class Middle(Forward):
        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

    class Good(Middle):
        vjp_bwd = HiPrim.vjp_bwd

        def vjp_bwd_retval(self, res, g):
            return (g,)

    assert transforms(Good)["grad"] == "provided (vjp_fwd, vjp_bwd_retval)"


def test_a_base_whose_rule_gives_way_to_the_subclass():
    class Middle(Forward):
        def vjp_bwd_retval(self, res, g):
            return (g,)

    class Good(Middle):
        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

    assert transforms(Good)["grad"] == "provided (vjp_fwd, vjp_bwd)"


@pytest.mark.skipif(
    not hasattr(HiPrim, "batch_dim_rule"), reason="this jax has no `batch_dim_rule`"
)
def test_batch_dim_rule_needs_both_backward_rules():
    class Both(Forward):
        def vjp_bwd(self, res, g, acc):
            acc.accum(g)

        def vjp_bwd_retval(self, res, g):
            return (g,)

        def batch_dim_rule(self, axis_data, dims):
            return dims[0]

    assert transforms(Both)["vmap"] == "provided (batch_dim_rule)"


# --- residuals of a derived forward rule, read by hand --------------------------------


def by_index(self, res, g):
    return (g * res[0][0],)


def by_names(self, res, g):
    primals, nzs_in = res
    return (g * primals[0],) if any(nzs_in) else (None,)


def by_structure(self, res, g):
    (x,), _ = res
    return (g * x,)


def by_structure_in_two_steps(self, res, g):
    x, _ = res
    (x,) = x
    return (g * x,)


def by_a_star(self, res, g):
    primals, *_ = res
    return (g * primals[0],)


def by_iteration(self, res, g):
    leaves = [x for part in res for x in part]
    return (g * leaves[0],)


def by_tree(self, res, g):
    return (g * jax.tree.leaves(res)[0],)


def by_a_helper(self, res, g):
    return self.helper(res, g)


def by_a_closure(self, res, g):
    return (g * (lambda: res[0])()[0],)


def by_what_it_is(self, res, g):
    x = res[0][0] if isinstance(res, tuple) else res
    return (g * x,)


def by_what_it_is_at_once(self, res, g):
    if isinstance(res, tuple):
        (x,), _ = res
        return (g * x,)
    return (g * res,)


def by_what_it_returns(self, res, g):
    x, _ = res
    return x


def by_its_flags(self, res, g):
    _, flags = res
    return (g if any(flags) else 0 * g,)


def by_a_sum(self, res, g):
    x, _ = res
    return (g * sum(x),)


def not_at_all(self, res, g):
    return (g,)


def with_another_name(self, res, g):
    res = res[0][0]
    return (g * res,)


@pytest.mark.parametrize(
    "backward",
    [
        by_index,
        by_names,
        by_structure,
        by_structure_in_two_steps,
        by_a_star,
        by_iteration,
        by_tree,
        by_a_helper,
        by_a_closure,
        by_what_it_is,
        by_what_it_is_at_once,
        by_what_it_returns,
        by_its_flags,
        by_a_sum,
        not_at_all,
        with_another_name,
    ],
)
def test_a_backward_by_hand_that_reads_the_residuals_of_vjp_from_jvp(backward):
    aval = jax.typeof(jnp.ones(3))

    class Good(FromJvp):
        vjp_bwd_retval = backward

        def __init__(self):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def helper(self, res, g):
            return (g * res[0][0],)

    gradient = jax.grad(lambda x: Good()(x).sum())(jnp.ones(3))
    assert gradient.tolist() == [1, 1, 1]


def flags_for_an_input(self, res, g):
    x, y = res
    return (g * y + g * x,)


def a_tuple_of_inputs_for_one(self, res, g):
    x, _ = res
    return (g * jnp.cos(x),)


def too_many(self, res, g):
    x, y, z = res
    return (g * x * y * z,)


@pytest.mark.parametrize(
    "backward", [flags_for_an_input, a_tuple_of_inputs_for_one, too_many]
)
def test_a_pair_that_is_taken_apart_wrongly_is_told_at_the_class(backward):
    with pytest.raises(StrictHijaxError, match="SH105"):

        class Bad(FromJvp):
            vjp_bwd_retval = backward


def test_both_halves_by_hand_below_a_pair():
    class Good(FromJvp):
        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        def vjp_bwd(self, x, g, x_acc):
            x_acc.accum(g * x)

    assert issubclass(Good, HiPrim)
