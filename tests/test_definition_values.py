"""What stands in a class body: faults 13 to 16, and the class keywords."""

import abc
import collections
import dataclasses

import jax.numpy as jnp
import pytest
from jax._src.effects import Effect
from jax.experimental.hijax import HiPrim

from strict_hijax import StrictHiPrim
from tests.faults import Faulty, Table, check

FAULTS = Table()
add = FAULTS.add


class Base(StrictHiPrim, supports=(), abstract=True):
    def expand(self, x):
        return x


class Noise(Effect):
    pass


# --- 13. what cannot be called --------------------------------------------------------


@add("SH114", TypeError, "is a generator", "return ...", rule="vjp_bwd_retval")
def generator():
    class Bad(Base):
        def vjp_bwd_retval(self, res, g):
            yield g


@add("SH114", TypeError, "is a coroutine", "def expand(self, x)", rule="expand")
def coroutine():
    class Bad(StrictHiPrim, supports=()):
        async def expand(self, x):
            return x


@add("SH114", TypeError, "is an async generator", rule="vjp_fwd")
def async_generator():
    class Bad(Base):
        async def vjp_fwd(self, nzs_in, x):
            yield x


@add("SH114", TypeError, "the Python int 3", rule="batch")
def number():
    class Bad(Base):
        batch = 3


@add("SH114", TypeError, "a tuple of 2", "an `expand` that is", rule="expand")
def two_functions():
    class Bad(StrictHiPrim, supports=()):
        expand = (jnp.sin, jnp.cos)


@add("SH114", TypeError, "sets `vjp_bwd` to None", rule="vjp_bwd")
def none_that_jax_calls():
    class Bad(Base):
        vjp_bwd = None

        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd_retval(self, res, g):
            return (g,)


@add("SH114", TypeError, "a property with arguments", rule="vjp_fwd")
def property_with_arguments():
    class Bad(Base):
        @property
        def vjp_fwd(self, nzs_in, x):
            return x, None


# --- 14. returns ----------------------------------------------------------------------


@add("SH115", TypeError, "return self(x), x", rule="vjp_fwd")
def forward_that_forgot_return():
    class Bad(Base):
        def vjp_fwd(self, nzs_in, x):
            self(x), x


@add("SH115", TypeError, "return self(a, b), (a, b)", rule="lin")
def lin_that_only_assigns():
    class Bad(StrictHiPrim, supports=()):
        def expand(self, a, b):
            return a

        def lin(self, nzs_in, a, b):
            out = self(a, b)
            self.residuals = (a, b, out)

        def linearized(self, res, *tangents):
            return tangents[0]


@add("SH115", TypeError, "return (x_ct,)", rule="vjp_bwd_retval")
def backward_that_is_a_stub():
    class Bad(Base):
        def vjp_bwd_retval(self, res, g): ...


@add("SH115", TypeError, "return out, out_tangents", rule="jvp")
def jvp_with_a_bare_return():
    class Bad(Base):
        def jvp(self, primals, tangents):
            if primals[0].ndim > 3:
                raise ValueError("too many dimensions")
            return


@add("SH115", TypeError, "(cotangents, logs)", rule="vjp_bwd_retval_logs")
def logs_that_pass():
    class Bad(Base):
        def vjp_bwd_retval_logs(self, res, g):
            pass


@add("SH116", TypeError, "a tuple", "acc.accum(x_ct)", rule="vjp_bwd")
def accumulating_rule_that_returns_a_tuple():
    class Bad(Base):
        def vjp_bwd(self, res, g, acc):
            return (g * res,)


@add(
    "SH116",
    TypeError,
    "a list",
    "def vjp_bwd_retval(self, saved, ct): return (x_ct,)",
    "should return None or a dict",
    rule="vjp_bwd",
)
def accumulating_rule_that_returns_a_list():
    class Bad(Base):
        def vjp_bwd(self, saved, ct, acc):
            if saved is None:
                return [ct]
            return [ct * saved]


@add("SH116", TypeError, "a number", rule="transpose")
def transpose_that_returns_a_number():
    class Bad(Base):
        def transpose(self, out_ct, acc):
            acc.accum(out_ct)
            return 0


# --- 15. keywords and effects ---------------------------------------------------------


@add("SH117", ValueError, "'grads' in supports=", "did you mean 'grad'?")
def unknown_transform():
    class Bad(Base, supports=("grads",)):
        pass


@add("SH117", ValueError, "is no tuple of names", 'supports=("vmap",)')
def a_string():
    class Bad(Base, supports="vmap"):
        pass


@add("SH117", ValueError, "3 in supports= is no tuple")
def a_number():
    class Bad(Base, supports=3):
        pass


@add("SH117", ValueError, "names no transform")
def names_that_are_lists():
    class Bad(Base, supports=(["grad"],)):
        pass


@add("SH117", ValueError, "abstract='yes' is no bool")
def abstract_that_is_no_bool():
    class Bad(Base, abstract="yes"):
        pass


@add("SH117", ValueError, "no class keyword 'support'", "did you mean 'supports'?")
def a_misspelt_keyword():
    class Bad(Base, support=("grad",)):
        pass


@add("SH117", ValueError, "no class keyword 'name'")
def a_keyword_of_nobody():
    class Bad(Base, name="bad"):
        pass


@add("SH117", ValueError, "did you mean 'jvp'?")
def a_transform_under_another_name():
    class Bad(Base, supports=("forward",)):
        pass


@add("SH118", TypeError, "no set, but a list of 1")
def a_list_of_effects():
    class Bad(Base):
        effects = [Noise()]


@add("SH118", TypeError, "the class Noise, not an instance of it")
def a_class_of_effects():
    class Bad(Base):
        effects = frozenset({Noise})


@add("SH118", TypeError, "the string 'io', which is no effect")
def a_name_of_an_effect():
    class Bad(Base):
        effects = {"io"}


@add("SH118", TypeError, "no set, but a Noise")
def an_effect_alone():
    class Bad(Base):
        effects = Noise()


# --- 16. equality ---------------------------------------------------------------------


@add("SH119", TypeError, "__hash__ = StrictHiPrim.__hash__")
def eq_without_hash():
    class Bad(Base):
        def __eq__(self, other):
            return self is other


@add("SH119", TypeError, "`__eq__` without `__hash__`")
def hash_that_is_none():
    class Bad(Base):
        __hash__ = None

        def __eq__(self, other):
            return True


class Equal:
    def __eq__(self, other):
        return True


@add("SH119", TypeError, "cannot be hashed")
def eq_of_a_mixin():
    class Bad(Equal, Base):
        pass


@FAULTS.parametrize()
def test_a_wrong_value_fails_the_class_statement(faulty: Faulty):
    subject = "Bad, ignore=" if faulty.code == "SH120" else "Bad"
    check(faulty, subject)


def test_a_dataclass_that_compares_is_told_at_the_first_construction():
    def make():
        @dataclasses.dataclass
        class Bad(Base):
            n: int

            def __post_init__(self):
                self.in_avals, self.out_aval, self.params = (), (), {}
                super().__init__()

            def expand(self):
                return ()

        Bad(3)

    check(Faulty(make, "SH119", TypeError, None, ("cannot be hashed",)))


# --- what must be accepted ------------------------------------------------------------


class Set(collections.abc.Set):
    """A set of one's own."""

    def __init__(self, items):
        self.items = tuple(items)

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


@pytest.mark.parametrize(
    "effects",
    [
        set(),
        frozenset(),
        {Noise()},
        frozenset({Noise()}),
        Set([Noise()]),
        {Noise(): 1}.keys(),
        (),
        {},
        property(lambda self: {Noise()}),
    ],
    ids=lambda effects: f"{type(effects).__name__}",
)
def test_effects(effects):
    Good = type(StrictHiPrim)(
        "Good", (Base,), {"effects": effects, "expand": Base.expand}
    )
    assert issubclass(Good, HiPrim)


def test_rules_that_are_none_beside_supports():
    class Good(Base):
        jvp = lin = linearized = vjp_fwd = vjp_bwd = vjp_bwd_retval = None

    assert issubclass(Good, HiPrim)


def test_returns_that_are_decided_when_called():
    def stop():
        raise NotImplementedError

    class Good(Base, supports=("grad", "jvp")):
        def vjp_fwd(self, nzs_in, x):
            stop()

        def jvp(self, primals, tangents):
            self.decline("jvp")

        def decline(self, what):
            raise NotImplementedError(what)

        def vjp_bwd(self, res, g, acc):
            if res is None:
                return (g,)
            acc.accum(g)

    assert issubclass(Good, HiPrim)


def test_stubs_of_an_abstract_class():
    class Stubs(StrictHiPrim, abstract=True):
        def vjp_fwd(self, nzs_in, x): ...

        def jvp(self, primals, tangents):
            """To be written by subclasses."""

    class Abc(StrictHiPrim):
        @abc.abstractmethod
        def expand(self, x): ...

        @abc.abstractmethod
        def vjp_fwd(self, nzs_in, x): ...

    assert issubclass(Abc, HiPrim)


@pytest.mark.parametrize(
    "name",
    [
        "_vjp_bwd",
        "transposed",
        "batch_size",
        "linear",
        "linearity",
        "jvp_impl",
        "vjp",
        "expand_dims",
        "remats",
        "patch",
        "forward",
        "impl",
        "vjp_bwd_retval_",
        "dec",
        "nil",
    ],
)
def test_helpers_with_names_near_a_rule(name):
    class Good(StrictHiPrim):
        def expand(self, x):
            return x

        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd_retval(self, res, g):
            return (g,)

        locals()[name] = lambda self, a, b: a

    assert issubclass(Good, HiPrim)


def test_a_helper_that_the_class_calls():
    class Good(StrictHiPrim, supports=("grad",)):
        def expand(self, x):
            return self.transpos(x)

        def transpos(self, x):
            return x.T

        def vjp_fwd(self, nzs_in, x):
            return self(x), None

        def vjp_bwd_retval(self, res, g):
            return (self.transpos(g),)

    assert issubclass(Good, HiPrim)


def test_eq_beside_hash():
    class Good(Base):
        def __eq__(self, other):
            return self is other

        __hash__ = HiPrim.__hash__

    @dataclasses.dataclass(frozen=True)
    class Frozen(Base):
        n: int

    assert hash(Frozen) is not None
