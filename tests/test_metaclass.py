"""Class statements of every form: keywords, hooks, factories, reloads, and examples."""

import abc
import copy
import dataclasses
import functools
import importlib
import pickle
import sys
import threading
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import (
    MissingRuleError,
    RuleValueError,
    StrictHijaxError,
    StrictHiPrim,
    UsageError,
    check,
    transforms,
)
from tests.primitives import AVAL, X, init

T = TypeVar("T")


class Sine(StrictHiPrim):
    __init__ = init((AVAL,))

    def expand(self, x):
        return jnp.sin(x)

    def vjp_fwd(self, nzs_in, x):
        return self(x), x

    def vjp_bwd_retval(self, x, g):
        return (g * jnp.cos(x),)


def assert_sine(prim: Any) -> None:
    np.testing.assert_allclose(prim(X), jnp.sin(X))
    gradient = jax.grad(lambda x: prim(x).sum())(X)
    np.testing.assert_allclose(gradient, jnp.cos(X), rtol=1e-6)


# --- keywords and inheritance ---------------------------------------------------------


def test_promises_are_inherited_and_joined():
    class Vmap(Sine, supports=("vmap",), abstract=True):
        pass

    class Both(Vmap, Sine, abstract=True):
        pass

    with pytest.raises(MissingRuleError, match="promises `vmap`"):

        class Bad(Both):
            pass

    class Less(Both, supports=("grad",)):
        pass

    assert_sine(Less())


def test_abstract_is_not_inherited():
    class Kernel(StrictHiPrim, abstract=True):
        pass

    with pytest.raises(StrictHijaxError):

        class Bad(Kernel):
            pass


def test_other_keywords_go_through_to_init_subclass():
    class Named(Sine):
        def __init_subclass__(cls, /, label: str = "", **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            cls.label = label

    class Good(Named, label="sine", supports=("grad",), ignore=("SH316",)):
        pass

    assert Good.label == "sine"
    with pytest.raises(UsageError, match="no class keyword"):

        class Bad(Sine, nonsense=1):
            pass


def test_an_abstract_method_makes_a_class_abstract():
    class Base(StrictHiPrim):
        @abc.abstractmethod
        def factor(self) -> float: ...

    class Good(Base, Sine):
        def factor(self):
            return 2.0

    assert_sine(Good())
    with pytest.raises(TypeError, match="abstract"):
        Base()


def test_generic_protocols_and_type_parameters():
    class Old(Sine, Generic[T]):
        pass

    class New[U](Sine):
        pass

    assert_sine(Old[int]())
    assert_sine(New[int]())

    class Sub(New[int]):
        pass

    assert_sine(Sub())


def test_a_metaclass_that_derives_from_ours():
    class Meta(type(StrictHiPrim)):
        def __new__(mcs, name, bases, namespace, *, extra=None, **kwargs):
            cls = super().__new__(mcs, name, bases, namespace, **kwargs)
            cls.extra = extra
            return cls

        def __init__(cls, name, bases, namespace, *, extra=None, **kwargs):
            super().__init__(name, bases, namespace, **kwargs)

    class Good(Sine, metaclass=Meta, extra=3):
        pass

    assert_sine(Good())
    assert Good.extra == 3
    with pytest.raises(StrictHijaxError) as caught:

        class Bad(StrictHiPrim, metaclass=Meta):
            pass

    assert caught.value.location.filename == __file__
    assert caught.value.location.text == "class Bad(StrictHiPrim)"


def test_a_class_that_stands_beside_a_plain_abc():
    class Runs(abc.ABC):
        @abc.abstractmethod
        def run(self): ...

    class Good(Sine, Runs):
        def run(self):
            return self(X)

    np.testing.assert_allclose(Good().run(), jnp.sin(X))


# --- hooks ----------------------------------------------------------------------------


def test_a_registry_hears_of_each_class_once_and_of_no_twin():
    registry: list[str] = []

    class Registered(StrictHiPrim, abstract=True):
        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            registry.append(cls.__name__)

    Good = functools.partial(
        type(StrictHiPrim), "Good", (Registered, Sine), {"__module__": __name__}
    )()
    assert_sine(Good())
    assert registry == ["Good"]
    assert Registered.__subclasses__() == [Good]
    assert Good.__subclasses__() == []


def test_a_hook_may_make_and_use_an_instance():
    class Instantiated(Sine):
        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            cls.value = cls()(X)

    class Double(Instantiated):
        def expand(self, x):
            return 2 * x

    np.testing.assert_array_equal(Double.value, 2 * X)
    np.testing.assert_array_equal(Double()(X), 2 * X)
    np.testing.assert_allclose(Instantiated()(X), jnp.sin(X))


def test_a_hook_may_write_rules():
    class Written(StrictHiPrim, abstract=True):
        __init__ = init((AVAL,))

        def __init_subclass__(cls, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            cls.vjp_fwd = Sine.vjp_fwd
            cls.vjp_bwd_retval = Sine.vjp_bwd_retval

    class Good(Written):
        def expand(self, x):
            return jnp.sin(x)

    assert_sine(Good())
    assert transforms(Good)["grad"] == "provided (vjp_fwd, vjp_bwd_retval)"


# --- how a class is made --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["keywords", "slots"])
def test_dataclasses_keep_their_keywords(kind):
    @dataclasses.dataclass(eq=False, slots=kind == "slots")
    class Good(StrictHiPrim, supports=(), ignore=("SH302",)):
        n: int

        def __post_init__(self):
            self.in_avals, self.out_aval, self.params = (AVAL,), AVAL, {}
            StrictHiPrim.__init__(self)

        def expand(self, x):
            return (self.n * x).astype("int32")

    assert Good(3)(X).dtype == "int32"


def test_classes_made_by_calls():
    rules = {n: vars(Sine)[n] for n in ("expand", "vjp_fwd", "vjp_bwd_retval")}
    kept = dict(rules)
    Made = type(StrictHiPrim)("Made", (Sine,), rules)
    assert Made.__module__ == __name__
    assert rules == kept
    assert_sine(Made())
    New = types.new_class("New", (Sine,), {"supports": ("grad",)})
    assert_sine(New())
    Again = type(Sine)(Sine.__name__, Sine.__bases__, dict(vars(Sine)))
    assert_sine(Again())


def test_a_class_made_again_from_its_own_body_keeps_its_keywords():
    class Forward(StrictHiPrim, supports=()):
        __init__ = init((AVAL,))

        def expand(self, x):
            return x

    Again = type(Forward)(Forward.__name__, Forward.__bases__, dict(vars(Forward)))
    np.testing.assert_array_equal(Again()(X), X)


def test_slots():
    class Good(Sine):
        __slots__ = ("scale",)

        def __init__(self, scale):
            self.scale = scale
            init((AVAL,))(self)

        def expand(self, x):
            return self.scale * x

    np.testing.assert_array_equal(Good(3)(X), 3 * X)


def test_classes_made_while_jax_traces():
    def run(x):
        class Local(Sine):
            __init__ = init((jax.typeof(x),))

        return jax.grad(lambda x: Local()(x))(x)

    np.testing.assert_allclose(jax.jit(run)(0.0), 1.0)


def test_code_without_source():
    module: dict[str, Any] = {"__name__": "nowhere", "StrictHiPrim": StrictHiPrim}
    with pytest.raises(MissingRuleError) as caught:
        exec("class Bad(StrictHiPrim):\n    def expand(self, x): return x\n", module)
    assert caught.value.subject == "nowhere.Bad"
    assert "<string>:1   class Bad(StrictHiPrim)" in str(caught.value)
    exec("class Good(StrictHiPrim, supports=()):\n def expand(self): return ()", module)
    assert module["Good"].__module__ == "nowhere"


def test_classes_made_in_threads():
    barrier = threading.Barrier(8)

    def make(n):
        barrier.wait()

        class Local(Sine):
            def expand(self, x):
                return n * x

        return Local()(X)[1]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(make, range(8))) == [2 * n for n in range(8)]


def test_a_module_that_is_reloaded(tmp_path, monkeypatch):
    text = """
from strict_hijax import StrictHiPrim
from tests.primitives import AVAL, init
class Scale(StrictHiPrim, supports=()):
    __init__ = init((AVAL,))
    def expand(self, x):
        return {} * x
    @classmethod
    def examples(cls):
        return [Scale()]
"""
    path = tmp_path / "reloaded_primitives.py"
    path.write_text(text.format(2))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module("reloaded_primitives")
    old = module.Scale()
    path.write_text(text.format(3) + "\n# another size, so that it is read again\n")
    importlib.invalidate_caches()
    importlib.reload(module)
    np.testing.assert_array_equal(module.Scale()(X), 3 * X)
    np.testing.assert_array_equal(old(X), 2 * X)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies(duplicate):
    found = duplicate(Sine())
    found = pickle.loads(found) if isinstance(found, bytes) else found
    np.testing.assert_allclose(found(X), jnp.sin(X))
    if found.in_avals == (AVAL,):  # for JAX an unpickled type may be another one
        assert_sine(found)
        assert found == Sine()


def test_a_class_is_not_kept_alive():
    class Local(Sine):
        def expand(self, x):
            return x

    reference = weakref.ref(Local)
    del Local
    import gc

    gc.collect()
    assert reference() is None


# --- rules that change ----------------------------------------------------------------


def test_rules_patched_on_a_class_and_taken_back(monkeypatch):
    class Local(Sine):
        pass

    prim = Local()
    assert_sine(prim)
    with monkeypatch.context() as patch:
        patch.setattr(Local, "vjp_bwd_retval", lambda self, x, g: (g, g))
        with pytest.raises(RuleValueError, match="SH313"):
            assert_sine(prim)
    assert "vjp_bwd_retval" not in vars(Local)
    assert_sine(prim)


def test_a_rule_added_to_a_base_is_checked_in_its_subclasses():
    class Base(StrictHiPrim, abstract=True):
        __init__ = init((AVAL,))

    class Local(Base):
        expand, vjp_fwd = Sine.expand, Sine.vjp_fwd
        vjp_bwd_retval = Sine.vjp_bwd_retval

    assert_sine(Local())
    Base.jvp = lambda self, primals, tangents: (primals[0][:2], tangents[0])
    with pytest.raises(StrictHijaxError, match="`jvp`"):
        jax.jvp(Local(), (X,), (X,))
    del Base.jvp
    assert transforms(Local)["jvp"].startswith("missing")


# --- examples -------------------------------------------------------------------------


class Wrong(Sine, abstract=True):
    def vjp_bwd_retval(self, x, g):
        return (g[:1],)


def test_examples_fail_the_class_statement():
    with pytest.raises(RuleValueError, match="SH315"):

        class Bad(Wrong):
            @classmethod
            def examples(cls):
                yield cls()


def test_a_name_that_is_defined_below_moves_examples_to_the_first_construction():
    namespace = {"StrictHiPrim": StrictHiPrim, "Wrong": Wrong, "__name__": "later"}
    exec(
        "class Bad(Wrong):\n"
        "    def vjp_fwd(self, nzs_in, x): return self(x), defined_below(x)\n"
        "    @classmethod\n"
        "    def examples(cls): return [cls()]\n",
        namespace,
    )
    namespace["defined_below"] = jnp.sin
    with pytest.raises(RuleValueError, match="SH315"):
        namespace["Bad"]()
    namespace["Bad"]()  # told once


def test_a_decorator_that_adds_init_moves_examples_to_the_first_construction():
    @dataclasses.dataclass(eq=False)
    class Bad(Wrong):
        n: int

        def __post_init__(self):
            init((AVAL,))(self)

        @classmethod
        def examples(cls):
            return [cls(3)]

        __init__: Any = None
        del __init__

    with pytest.raises(RuleValueError, match="SH315"):
        check(Bad)


def test_examples_of_a_base_are_not_those_of_an_abstract_class():
    class Base(Wrong, abstract=True):
        @classmethod
        def examples(cls):
            raise AssertionError("not called")

    class Mended(Base):
        vjp_bwd_retval = Sine.vjp_bwd_retval

        @classmethod
        def examples(cls):
            return (cls() for _ in range(2))

    assert_sine(Mended())
