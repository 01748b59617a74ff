"""Whether rules can take what JAX gives them: faults 10 and 11."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.hijax import HiPrim

from strict_hijax import SignatureError, StrictHijaxError, StrictHiPrim
from tests.faults import Faulty, Table, check

FAULTS = Table()
add = FAULTS.add


class Base(StrictHiPrim, supports=(), abstract=True):
    def expand(self, x):
        return x


class Two(StrictHiPrim, supports=(), abstract=True):
    def expand(self, x, w):
        return x


# --- 10. what JAX gives ---------------------------------------------------------------


@add(
    "SH110",
    TypeError,
    "lacks `nzs_in`",
    "expected: vjp_fwd(self, nzs_in, x)",
    rule="vjp_fwd",
)
def forward_without_nzs_in():
    class Bad(Base):
        def vjp_fwd(self, x):
            return x, None


@add("SH110", TypeError, "got:      vjp_fwd(self, x, w)", rule="vjp_fwd")
def forward_of_two_without_nzs_in():
    class Bad(Two):
        def vjp_fwd(self, x, w):
            return x, None


@add(
    "SH110",
    TypeError,
    "takes 1 argument after self",
    "res and outgrad",
    rule="vjp_bwd_retval",
)
def backward_without_residuals():
    class Bad(Base):
        def vjp_bwd_retval(self, g):
            return (g,)


@add("SH110", TypeError, "takes 3 arguments after self", rule="vjp_bwd_retval")
def backward_of_values_with_an_accumulator():
    class Bad(Base):
        def vjp_bwd_retval(self, res, g, acc):
            return (g,)


@add("SH110", TypeError, "takes 1 argument after self", rule="vjp_bwd")
def backward_without_accumulators():
    class Bad(Base):
        def vjp_bwd(self, res):
            pass


@add("SH110", TypeError, "keyword-only argument `interpret`", rule="expand")
def required_keyword():
    class Bad(StrictHiPrim, supports=()):
        def expand(self, x, *, interpret):
            return x


@add("SH110", TypeError, "keyword-only argument `scale`", "scale)", rule="jvp")
def required_keyword_of_jvp():
    class Bad(Base):
        def jvp(self, primals, tangents, *, scale):
            return primals[0], tangents[0]


@add(
    "SH110", TypeError, "takes 4 arguments", "jvp(self, primals, tangents)", rule="jvp"
)
def jvp_of_arguments_that_are_spread():
    class Bad(Two):
        def jvp(self, x, w, x_dot, w_dot):
            return x, x_dot


@add(
    "SH110",
    TypeError,
    "lacks `self`",
    "got:      vjp_bwd_retval(res, g)",
    rule="vjp_bwd_retval",
)
def no_self():
    class Bad(Base):
        def vjp_bwd_retval(res, g):
            return (g,)


@add("SH110", TypeError, "lacks `self`", "got:      expand()", rule="expand")
def no_self_and_nothing_else():
    class Bad(StrictHiPrim, supports=()):
        def expand():
            return 0


@add("SH110", TypeError, "batch(self, axis_data, args, dims)", rule="batch")
def batch_of_two():
    class Bad(Base):
        def batch(self, args, dims):
            return args[0], dims[0]


@add("SH110", TypeError, "dce(self, used_outs", rule="dce")
def dce_without_arguments():
    class Bad(Base):
        def dce(self):
            return True, True, self


@add(
    "SH110", TypeError, "takes 2 arguments", "axis_data and args and dims", rule="batch"
)
def a_static_rule_too_short():
    class Bad(Base):
        @staticmethod
        def batch(args, dims):
            return args[0], dims[0]


class ShortMixin:
    def vjp_bwd_retval(self, g):
        return (g,)


@add("SH110", TypeError, "vjp_bwd_retval(self, g)", rule="vjp_bwd_retval")
def in_a_mixin():
    class Bad(ShortMixin, Base):
        pass


@add("SH110", TypeError, "lacks `self`", "got:      vjp_fwd(nzs_in, x)", rule="vjp_fwd")
def forward_without_self():
    class Bad(Base):
        def vjp_fwd(nzs_in, x):
            return x, None


@add("SH110", TypeError, "argument `x`", "expected: expand(self, x)", rule="expand")
def everything_keyword_only():
    class Bad(StrictHiPrim, supports=()):
        def expand(self, *, x):
            return x


# --- 11. rules that disagree ----------------------------------------------------------


@add(
    "SH111",
    TypeError,
    "an `expand` for 2 inputs",
    "`vjp_fwd` for 1 input",
    rule="vjp_fwd",
)
def forward_of_one_of_two():
    class Bad(Two):
        def vjp_fwd(self, nzs_in, x):
            return x, None


@add("SH111", TypeError, "vjp_bwd(self, res, outgrad, x_acc, w_acc)", rule="vjp_bwd")
def one_accumulator_for_two():
    class Bad(Two):
        def vjp_bwd(self, res, g, acc):
            acc.accum(g)


@add("SH111", TypeError, "`linearized` for 4 inputs", rule="linearized")
def tangents_of_too_many():
    class Bad(Base):
        def lin(self, nzs_in, x):
            return x, None

        def linearized(self, res, x_dot, y_dot, z_dot, w_dot):
            return x_dot


@add("SH111", TypeError, "transpose(self, out_ct, x_acc, w_acc)", rule="transpose")
def transpose_of_one_of_two():
    class Bad(Two):
        def transpose(self, out_ct, acc):
            acc.accum(out_ct)


@add("SH111", TypeError, "`vjp_fwd` for 1 input and a `vjp_bwd` for", rule="vjp_bwd")
def where_expand_takes_any_number():
    class Bad(StrictHiPrim):
        def expand(self, *args):
            return args[0]

        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd(self, res, g, a_acc, b_acc, c_acc):
            a_acc.accum(g)


@add("SH111", TypeError, "Does `expand` lack `self`?", rule="vjp_fwd")
def an_expand_without_self():
    class Bad(StrictHiPrim, supports=()):
        def expand(x):
            return x

        def vjp_fwd(self, nzs_in, x):
            return x, None


@add("SH111", TypeError, "an `expand` for 1 input", rule="vjp_fwd")
def a_subclass_that_adds_an_input_to_one_rule():
    class Bad(Base):
        def vjp_fwd(self, nzs_in, x, w):
            return x, None


@FAULTS.parametrize()
def test_a_wrong_signature_fails_the_class_statement(faulty: Faulty):
    error = check(faulty)
    assert isinstance(error, SignatureError)
    assert error.location.text == f"def {faulty.rule}"


# --- what must be accepted ------------------------------------------------------------


def jitted(self, x):
    return x


def shifted(function: Any) -> Any:
    """A decorator that gives its function one argument more than it is called with."""

    @functools.wraps(function)
    def wrapper(self, *args):
        return function(self, "extra", *args)

    return wrapper


def one_of(kind: type) -> Any:
    return kind


@pytest.mark.parametrize(
    "body",
    {
        "varargs": {"vjp_fwd": lambda self, nzs_in, *args: (args[0], None)},
        "all varargs": {"vjp_fwd": lambda *args: (args[2], None)},
        "renamed": {"vjp_fwd": lambda me, which, thing: (thing, None)},
        "positional-only": {"vjp_fwd": lambda self, nz, x, /: (x, None)},
        "keyword-only with a default": {"expand": lambda self, x, *, fast=True: x},
        "keywords": {"vjp_fwd": lambda self, nzs_in, x, **options: (x, None)},
        "defaults": {"vjp_fwd": lambda self, nzs_in, x, w=None: (x, None)},
        "many defaults": {"vjp_bwd_retval": lambda self, res, g, scale=2, k=1: (g,)},
        "structured residuals": {"vjp_bwd": lambda self, r, s, g, a: a.accum(g)},
        "or not": {"vjp_bwd": lambda self, r, g, *accs: accs[0].accum(g)},
        "static": {"expand": staticmethod(lambda x: x)},
        "class": {"expand": classmethod(lambda cls, x: x)},
        "partial": {"expand": functools.partial(lambda scale, x: x, 2)},
        "partialmethod": {"expand": functools.partialmethod(lambda self, k, x: x, 2)},
        "jit": {"expand": jax.jit(jitted, static_argnums=0)},
        "a function of NumPy": {"expand": staticmethod(jnp.sin)},
        "decorated": {"expand": shifted(lambda self, extra, x: x)},
        "property": {"expand": property(lambda self: lambda x: x)},
        "callable object": {"expand": type("F", (), {"__call__": lambda s, x: x})()},
        "no inputs": {"expand": lambda self: jnp.ones(3)},
    }.items(),
    ids=lambda item: item[0],
)
def test_unusual_signatures(body):
    rules = {"expand": lambda self, x: x} | body[1]
    if body[0] == "no inputs":
        rules["vjp_fwd"] = lambda self, nzs_in: (self(), None)
    Good = type(StrictHiPrim)("Good", (StrictHiPrim,), rules, supports=())
    assert issubclass(Good, HiPrim)


def declines(self):
    raise NotImplementedError("not differentiable")


def declines_loudly(self, *args, reason, **kwargs):
    raise TypeError(reason)


@pytest.mark.parametrize("rule", [declines, declines_loudly])
def test_one_rule_that_only_raises_in_every_slot(rule):
    class Good(Base, supports=("grad", "jvp", "linearize", "transpose", "vmap")):
        jvp = lin = linearized = vjp_fwd = vjp_bwd_retval = transpose = batch = rule

    assert issubclass(Good, HiPrim)


def test_a_signature_that_is_only_said():
    def rule(self, *args):
        return args[-1], None

    rule.__signature__ = "nonsense"

    class Good(Base):
        vjp_fwd = rule

    assert issubclass(Good, HiPrim)


def test_aliases():
    class Good(Base, supports=("linearize",)):
        def vjp_fwd(self, nzs_in, x):
            return x, None

        lin = vjp_fwd

        def linearized(self, res, *tangents):
            return tangents[0]

    assert issubclass(Good, HiPrim)


# --- structured residuals, and counts in words ----------------------------------------


class Pairs(StrictHiPrim, supports=(), abstract=True):
    def expand(self, x, w):
        return x

    def vjp_fwd(self, nzs_in, x, w):
        return x, None


def test_one_accumulator_too_many_is_a_fault_without_structured_residuals():
    with pytest.raises(SignatureError, match="`vjp_bwd` for 3 inputs") as caught:

        class Bad(Pairs):
            def vjp_bwd(self, res, g, x_acc, w_acc, b_acc):
                x_acc.accum(g)

    assert caught.value.code == "SH111"
    assert caught.value.hint == "def vjp_bwd(self, res, outgrad, x_acc, w_acc): ..."
    assert "the cotangents of all outputs as one" in str(caught.value)


@pytest.mark.parametrize("third", ["True", "None", "(True,)"])
def test_three_results_are_no_structured_residuals(third: str):
    body: dict[str, Any] = {}
    exec(f"def vjp_fwd(self, nzs_in, x, w): return x, w, {third}", body)
    rules = {
        "vjp_fwd": body["vjp_fwd"],
        "vjp_bwd": lambda self, res, sres, g, a, b: None,
    }
    with pytest.raises(SignatureError, match="SH111"):
        type(StrictHiPrim)("Bad", (Pairs,), rules)


def _four(self, nzs_in, x, w):
    return x, w, True, x


def _unknown(self, nzs_in, x, w):
    result = x, None
    return result


def _either(self, nzs_in, x, w):
    if w is None:
        return x, None
    return x, w, True, x


def _declines(self, nzs_in, x, w):
    raise NotImplementedError


@pytest.mark.parametrize("vjp_fwd", [_four, _unknown, _either, _declines])
def test_structured_residuals_are_accepted_where_they_may_be(vjp_fwd):
    rules = {"vjp_fwd": vjp_fwd, "vjp_bwd": lambda self, res, sres, g, a, b: None}
    assert type(StrictHiPrim)("Good", (Pairs,), rules)


def test_a_base_may_leave_the_fourth_result_to_its_subclasses():
    class Base(Pairs, abstract=True):
        def vjp_bwd(self, res, sres, g, a, b): ...

    class Good(Base):
        def vjp_fwd(self, nzs_in, x, w):
            return x, None, True, x

    assert Good


def test_one_accumulator_too_few_counts_what_the_rule_takes():
    with pytest.raises(SignatureError, match="`vjp_bwd` for 1 input") as caught:

        class Bad(Pairs):
            def vjp_bwd(self, res, g, x_acc):
                x_acc.accum(g)

    assert "def expand" not in caught.value.hint


def test_a_rule_without_self_is_told_once():
    with pytest.raises(SignatureError, match="Does `expand` lack `self`") as caught:

        class Bad(StrictHiPrim, supports=()):
            def expand(x, w):
                return x

            def vjp_fwd(self, nzs_in, x, w):
                return x, None

            def vjp_bwd(self, res, g, x_acc, w_acc):
                x_acc.accum(g)

    assert len(caught.value.findings) == 1


@pytest.mark.parametrize("n", [1, 63, 64, 65, 70, 200])
def test_any_number_of_inputs_may_be_written_out(n):
    inputs = ", ".join(f"x{i}" for i in range(n))
    accums = ", ".join(f"a{i}" for i in range(n))
    source = f"""
class Good(StrictHiPrim):
    def expand(self, {inputs}): return x0
    def vjp_fwd(self, nzs_in, {inputs}): return x0, None
    def vjp_bwd(self, res, g, {accums}): return None
"""
    module = {"StrictHiPrim": StrictHiPrim, "__name__": "many"}
    exec(source, module)
    wrong = source.replace(f"nzs_in, {inputs}", f"nzs_in, {inputs}, more")
    with pytest.raises(StrictHijaxError, match=rf"for {n} input.*for {n + 1} inputs"):
        exec(wrong, module)
