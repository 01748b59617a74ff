"""What an instance declares and what a call gives: faults 17 and 18."""

import collections
import dataclasses
import functools
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.effects import Effect

from strict_hijax import (
    ArgumentError,
    ConstructionError,
    MultipleFaultsError,
    NotInitializedError,
    StrictHiPrim,
)
from tests.faults import Faulty, Table, check
from tests.primitives import AVAL, X, init

FAULTS = Table()
add = FAULTS.add
Pair = collections.namedtuple("Pair", ["x"])
S = jax.ShapeDtypeStruct


def declaring(in_avals: Any = (AVAL,), out_aval: Any = AVAL, params: Any = None) -> Any:
    """An instance of `Bad` that declares this."""

    class Bad(StrictHiPrim, supports=()):
        def __init__(self):
            self.in_avals = in_avals
            self.out_aval = out_aval
            self.params = {} if params is None else params
            super().__init__()

        def expand(self, x):
            return x

    return Bad()


# --- 17. initialisation ---------------------------------------------------------------


@add("SH201", AttributeError, "super().__init__()", "def __init__")
def init_that_forgets_super():
    class Bad(StrictHiPrim, supports=()):
        def __init__(self):
            self.in_avals, self.out_aval, self.params = (), (), {}

        def expand(self):
            return ()

    Bad()


@add("SH201", AttributeError, "def __post_init__(self): super().__init__()")
def dataclass_without_post_init():
    @dataclasses.dataclass(eq=False)
    class Bad(StrictHiPrim, supports=()):
        n: int

        def expand(self, x):
            return x

    Bad(3)


class ForgetfulMixin:
    def __init__(self):
        self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, {}


@add("SH201", AttributeError, "the last line of __init__")
def mixin_that_forgets_super():
    class Bad(ForgetfulMixin, StrictHiPrim, supports=()):
        def expand(self, x):
            return x

    Bad()


@add(
    "SH202",
    AttributeError,
    "before it sets `self.in_avals`",
    "should set `self.in_avals`",
)
def super_first():
    class Bad(StrictHiPrim, supports=()):
        def __init__(self):
            super().__init__()
            self.in_avals, self.out_aval, self.params = (), (), {}

        def expand(self):
            return ()

    Bad()


@add("SH202", AttributeError, "before it sets `self.params`", "self.params = ...")
def params_last():
    class Bad(StrictHiPrim, supports=()):
        def __init__(self):
            self.in_avals, self.out_aval = (), ()
            super().__init__()
            self.params = {}

        def expand(self):
            return ()

    Bad()


@add("SH202", AttributeError, "no `__init__` that sets `self.in_avals`")
def no_init_at_all():
    class Bad(StrictHiPrim, supports=()):
        def expand(self):
            return ()

    Bad()


# --- 17. types ------------------------------------------------------------------------


@add("SH203", TypeError, "got:      a list of 1", "self.in_avals = tuple(in_avals)")
def a_list():
    declaring([AVAL])


@add("SH203", TypeError, "the type float32[3]", "with a comma")
def a_lone_type():
    declaring(AVAL)


@add("SH203", TypeError, "a dict of 1")
def a_dict():
    declaring({"x": AVAL})


@add("SH203", TypeError, "a Pair")
def a_namedtuple():
    declaring(Pair(AVAL))


@add("SH204", TypeError, "a value in place of a type at `in_avals[0]`")
def an_array():
    declaring((X,))


@add("SH204", TypeError, "a spec", "`in_avals[0]['w']`", "ShapeDtypeStruct bfloat16[8]")
def a_spec_in_a_tree():
    declaring(({"w": S((8,), "bfloat16")},))


@add("SH204", TypeError, "something else", "`out_aval`", "the string 'float32'")
def a_name():
    declaring((AVAL,), "float32")


@add("SH204", TypeError, "`out_aval[1]`", "self.out_aval = jax.typeof(x)")
def a_number_in_the_output():
    declaring((AVAL,), (AVAL, 3))


# --- 17. parameters -------------------------------------------------------------------


@add("SH205", TypeError, "no mapping", "a list of 1", "self.params = {}")
def params_that_are_a_list():
    declaring(params=["n"])


@add("SH205", TypeError, "no mapping", "the Python int 3")
def params_that_are_a_number():
    declaring(params=3)


@add("SH205", TypeError, "no string: 1", "'name_1'")
def a_key_that_is_a_number():
    declaring(params={1: "n"})


@add("SH206", TypeError, "`params['sizes']`", "dict(sizes=tuple(sizes))")
def a_list_of_sizes():
    declaring(params={"sizes": [1, 2]})


@add("SH206", TypeError, "`params['options']`", "sorted(options.items())")
def a_dict_of_options():
    declaring(params={"options": {"a": 1}})


@add("SH206", TypeError, "frozenset(names)")
def a_set_of_names():
    declaring(params={"names": {"a"}})


@add("SH206", TypeError, "float32[3]", "def expand(self, x, mask)")
def an_array_as_parameter():
    declaring(params={"mask": X})


@add("SH206", TypeError, "hashable in all its parts")
def a_tuple_with_a_list():
    declaring(params={"sizes": (1, [2])})


class Refuses:
    def __hash__(self):
        raise RuntimeError("no")


@add("SH206", TypeError, "a Refuses", "above class Refuses")
def a_value_whose_hash_raises():
    declaring(params={"value": Refuses()})


@add("SH207", TypeError, "a tracer of type float32[]", "def expand(self, x, scale)")
def a_tracer():
    jax.grad(lambda s: declaring(params={"scale": s})(X).sum())(1.0)


@add("SH207", TypeError, "`params['f']`", "tracer")
def a_tracer_in_a_partial():
    partial = jax.tree_util.Partial
    jax.jit(lambda s: declaring(params={"f": partial(jnp.add, s)})(X))(1.0)


@add("SH207", TypeError, "`params['scales']`")
def a_tracer_in_a_tuple():
    jax.vmap(lambda s: declaring(params={"scales": (1, s)})(X))(X)


@dataclasses.dataclass(frozen=True, eq=False)
class Config:
    value: Any


WAYS_TO_HIDE: dict[str, Any] = {
    "a frozen dataclass": Config,
    "one in another": lambda s: Config((1, Config(s))),
    "a partial": lambda s: functools.partial(jnp.add, s),
    "a keyword of a partial": lambda s: functools.partial(jnp.clip, min=s),
    "a closure": lambda s: lambda x: x * s,
    "a closure over a closure": lambda s: (lambda f: lambda x: f(x))(lambda x: x * s),
    "a default": lambda s: lambda x, s=s: x * s,
    "a keyword's default": lambda s: lambda x, *, s=s: x * s,
    "a method of it": lambda s: s.reshape,
    "a jitted closure": lambda s: jax.jit(lambda x: x * s),
}


@pytest.mark.parametrize("hide", WAYS_TO_HIDE.values(), ids=WAYS_TO_HIDE)
def test_a_tracer_inside_of_a_parameter(hide):
    def run(s: Any) -> Any:
        return declaring(params={"f": hide(s)})(X).sum()

    with pytest.raises(ConstructionError, match=r"SH207 .*`params\['f'\]`"):
        jax.grad(run)(1.0)
    with pytest.raises(ConstructionError, match="SH207"):
        jax.jit(run)(1.0)
    np.testing.assert_array_equal(run(jnp.float32(1)), X.sum())  # no tracer


def recursive() -> Any:
    def walk(n: int) -> Any:
        return walk(n - 1) if n else walk

    return walk


def closes_over_what_is_not_there_yet() -> Any:
    def function() -> Any:
        return later

    if not X.size:
        later = 1
    return function


STATIC: dict[str, Any] = {
    "a recursive function": recursive(),
    "an empty cell": closes_over_what_is_not_there_yet(),
    "dataclasses": Config(Config(None)),
    "a class": Config,
    "a partial of a partial": functools.partial(functools.partial(jnp.sum), axis=0),
    "a jitted function": jnp.sin,
    "a type": np.float32,
    "a builtin method": [].append,
}


@pytest.mark.parametrize("value", STATIC.values(), ids=STATIC)
def test_static_values_without_a_tracer(value):
    def run(s: Any) -> Any:
        return (s * declaring(params={"f": value})(X)).sum()

    np.testing.assert_allclose(jax.jit(run)(2.0), 2 * X.sum())


@add("SH208", TypeError, "hides the rule `jvp`", "dict(jvp_=...)")
def a_rule_hidden():
    declaring(params={"jvp": 1})


@add("SH208", TypeError, "hides the attribute `check`")
def an_attribute_hidden():
    declaring(params={"check": True})


@add("SH208", TypeError, "hides the attribute `in_tree`")
def an_attribute_that_jax_sets():
    declaring(params={"in_tree": None})


# --- 17. inputs against rules ---------------------------------------------------------


@add(
    "SH209",
    TypeError,
    "declares 2 inputs",
    "takes 1",
    "((a_aval, b_aval),)",
    rule="expand",
)
def two_inputs_for_one():
    declaring((AVAL, AVAL))


@add("SH209", TypeError, "declares no inputs", "expected: expand(self)", rule="expand")
def no_inputs_for_one():
    declaring(())


@add(
    "SH209",
    TypeError,
    "declares 3 inputs",
    "vjp_fwd(self, nzs_in, x0, x1, x2)",
    rule="vjp_fwd",
)
def too_many_for_the_forward():
    class Bad(StrictHiPrim, supports=()):
        __init__ = init((AVAL,) * 3)

        def expand(self, *xs):
            return xs[0]

        def vjp_fwd(self, nzs_in, x, y):
            return x, None

    Bad()


@add("SH115", TypeError, "has an `expand` that returns nothing", rule="expand")
def expand_of_an_output_that_returns_nothing():
    class Bad(StrictHiPrim, supports=()):
        __init__ = init((AVAL,))

        def expand(self, x):
            self.out = jnp.sin(x)

    Bad()


@add("SH115", TypeError, "`linearized` that returns nothing", rule="linearized")
def linearized_that_returns_nothing():
    class Bad(StrictHiPrim, supports=()):
        __init__ = init((AVAL,))

        def expand(self, x):
            return x

        def lin(self, nzs_in, x):
            return x, None

        def linearized(self, res, x_dot): ...

    Bad()


@add("SH118", TypeError, "no set, but a list of 1", "self.effects")
def effects_of_an_instance():
    class Bad(StrictHiPrim, supports=()):
        def __init__(self):
            self.effects = [Noise()]
            init((AVAL,))(self)

        def expand(self, x):
            return x

    Bad()


class Noise(Effect):
    pass


# --- 18. calls ------------------------------------------------------------------------


@add("SH210", TypeError, "called with 2 arguments, but declares 1", "Bad(...)(x)")
def too_many_arguments():
    declaring()(X, X)


@add("SH210", TypeError, "called with 0 arguments", "got:      ()")
def no_arguments():
    declaring()()


@add("SH210", TypeError, "another structure", "a dict of 1")
def a_tree_for_an_array():
    declaring()({"x": X})


@add("SH210", TypeError, "at `x[1]`", "keys 'w'", "keys 'v'")
def another_key():
    declaring(((AVAL, {"w": AVAL}),))((X, {"v": X}))


@add("SH211", TypeError, "expected: float32[3]", 'jnp.asarray(x, "float32")')
def another_dtype():
    declaring()(X.astype("bfloat16"))


@add("SH211", TypeError, "got:      float32[2]", "input type mismatch for Bad")
def another_shape():
    declaring()(X[:2])


@add("SH211", TypeError, "the string 'x'")
def no_jax_value():
    declaring()("x")


@add("SH211", TypeError, "`x[1]['w']`", "got:      bool[3]", "jax.tree.map")
def another_dtype_in_a_tree():
    declaring(((AVAL, {"w": AVAL}),))((X, {"w": X > 0}))


@add("SH211", TypeError, "got:      float32[]")
def another_rank_under_jit():
    jax.jit(declaring())(1.0)


@FAULTS.parametrize()
def test_a_faulty_instance_or_call(faulty: Faulty):
    error = check(faulty)
    kinds = {
        "SH201": NotInitializedError,
        "SH202": NotInitializedError,
        "SH210": ArgumentError,
        "SH211": ArgumentError,
    }
    if faulty.code not in ("SH115", "SH118"):
        assert isinstance(error, kinds.get(faulty.code, ConstructionError))


def test_all_faults_of_an_instance_are_told_at_once():
    with pytest.raises(MultipleFaultsError) as caught:
        declaring([X], params={"n": [1], "jvp": 3})
    assert [finding.code for finding in caught.value.findings] == [
        "SH203",
        "SH204",
        "SH206",
        "SH208",
    ]
    assert isinstance(caught.value, TypeError)


def test_the_faulty_argument_is_named_as_the_rule_names_it():
    class Bad(StrictHiPrim, supports=()):
        __init__ = init((AVAL, AVAL))

        def expand(self, weights, bias):
            return weights + bias

    with pytest.raises(ArgumentError) as caught:
        Bad()(X, X.astype(int))
    assert caught.value.path == "bias"
    assert (caught.value.expected, caught.value.got) == ("float32[3]", "int32[3]")


def test_the_place_of_a_forgotten_super_is_the_init():
    with pytest.raises(NotInitializedError) as caught:
        init_that_forgets_super()
    assert caught.value.location.text == "def __init__"


def test_faults_are_found_also_where_hiprim_is_initialised_by_name():
    class Bad(StrictHiPrim, supports=()):
        def __init__(self):
            self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, {"n": [1]}
            jax.experimental.hijax.HiPrim.__init__(self)

        def expand(self, x):
            return x

    with pytest.raises(ConstructionError, match="SH206"):
        Bad()


def test_what_the_users_own_check_raises_is_raised():
    class Bad(StrictHiPrim, supports=()):
        __init__ = init((AVAL,))

        def expand(self, x):
            return x

        def check(self, *types):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        Bad()


# --- what must be accepted ------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"n": 3, "mode": "same", "sizes": (1, 2), "axis": None, "fun": jnp.sin},
        {"effects": frozenset(), "skip_linearization_on_zero_tangents": True},
        types.MappingProxyType({"n": 3}),
        collections.OrderedDict(n=3),
        collections.ChainMap({"n": 3}, {"m": 4}),
        {"dtype": np.dtype("float32"), "partial": functools.partial(jnp.add, 1)},
        {"aval": AVAL, "treedef": jax.tree.structure((1, 2))},
        {"a b": 3, "x": object()},
        {"transposed": True, "batch_size": 3, "name": "n"},
    ],
    ids=lambda params: f"{type(params).__name__}-{'-'.join(params)}",
)
def test_parameters(params):
    prim = declaring(params=params)
    assert prim.params == params
    assert prim(X).shape == (3,)


def test_none_and_no_inputs():
    class Good(StrictHiPrim, supports=()):
        def __init__(self, *in_avals):
            self.in_avals, self.out_aval, self.params = in_avals, AVAL, {}
            super().__init__()

        def expand(self, *args):
            return X

    np.testing.assert_array_equal(Good()(), X)
    np.testing.assert_array_equal(Good(None, (AVAL, None))(None, (X, None)), X)


def test_weak_types_and_python_numbers():
    scalar = jax.typeof(jnp.float32(1))
    assert declaring((scalar,), scalar)(2.0) == 2.0
    assert declaring((scalar,), scalar)(np.float32(2)) == 2.0


def test_effects_by_property_and_by_instance():
    class Property(StrictHiPrim, supports=()):
        __init__ = init((AVAL,))
        effects = property(lambda self: {Noise()})

        def expand(self, x):
            return x

    class Instance(StrictHiPrim, supports=()):
        def __init__(self):
            self.effects = {Noise()}
            init((AVAL,))(self)

        def expand(self, x):
            return x

    assert len(Property().effects) == len(Instance().effects) == 1


def test_a_new_that_gives_something_else():
    class Applied(StrictHiPrim, supports=()):
        """A class that is called like the function it stands for."""

        def __new__(cls, x):
            self = super().__new__(cls)
            init((jax.typeof(x),))(self)
            return self(x)

        def expand(self, x):
            return 2 * x

    np.testing.assert_array_equal(Applied(X), 2 * X)


def test_a_new_that_keeps_instances():
    class Kept(StrictHiPrim, supports=()):
        kept = {}
        __init__ = init((AVAL,))

        def __new__(cls):
            return cls.kept.setdefault(cls, super().__new__(cls))

        def expand(self, x):
            return x

    assert Kept() is Kept()


def test_more_attributes_after_super():
    class Good(StrictHiPrim, supports=()):
        def __init__(self):
            init((AVAL,), n=3)(self)
            self.cache = {}
            self.m = self.n + 1

        def expand(self, x):
            return self.m * x

    np.testing.assert_array_equal(Good()(X), 4 * X)


def test_a_dataclass():
    @dataclasses.dataclass(eq=False)
    class Good(StrictHiPrim, supports=()):
        n: int

        def __post_init__(self):
            self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, {"n": self.n}
            super().__init__()

        def expand(self, x):
            return self.n * x

    np.testing.assert_array_equal(Good(3)(X), 3 * X)
