"""Frames of strict_hijax and of JAX stay out of what a user is shown, at every stage.

One function a stage; a new public name, or a new family of codes, needs one as well.
"""

# pyright: reportUnusedClass=false

import importlib
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import strict_hijax
from strict_hijax import (
    StrictHijaxError,
    StrictHiPrim,
    StrictHiType,
    check,
    checked_custom_jvp,
    checked_custom_vjp,
    ignore,
    transforms,
)
from strict_hijax._codes import CODES
from tests.primitives import AVAL, X, init, sine

OURS = str(Path(strict_hijax.__file__).parent)
JAX = str(Path(jax.__file__).parent)

SPEC = jax.ShapeDtypeStruct((3,), jnp.float32)
STAGES: list[Any] = []


def stage(code: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds a function that meets a fault of this code to the table."""

    def add(reach: Callable[..., None]) -> Callable[..., None]:
        STAGES.append(pytest.param(reach, code, id=reach.__name__))
        return reach

    return add


def square(x: Any) -> Any:
    return x * x


def square_fwd(x: Any) -> Any:
    return x * x, x


def square_bwd(x: Any, g: Any) -> Any:
    return (2 * x * g,)


def wrong_bwd(x: Any, g: Any) -> Any:
    return 2 * x * g


def wrong_shape(self: Any, x: Any, g: Any, x_acc: Any) -> None:
    x_acc.accum(g[:2])


def wrong_output(self: Any, x: Any) -> Any:
    return x[:2]


def uses_a_typo(self: Any, x: Any, g: Any, x_acc: Any) -> None:
    x_acc.accum(g * coss(x))  # type: ignore[name-defined]


# --- primitives -----------------------------------------------------------------------


@stage("SH102")
def class_statement(_: Path) -> None:
    class Square(StrictHiPrim):
        def expand(self, x: Any) -> Any:
            return x * x


@stage("SH117")
def class_keyword(_: Path) -> None:
    class Square(StrictHiPrim, supports=("gradient",)):
        pass


@stage("SH117")
def class_keyword_that_does_not_exist(_: Path) -> None:
    class Square(StrictHiPrim, suports=()):  # type: ignore[call-arg]
        pass


@stage("SH120")
def class_keyword_ignore(_: Path) -> None:
    class Square(StrictHiPrim, ignore=("SH999",)):
        pass


@stage("SH315")
def class_with_examples(_: Path) -> None:
    class Sine(sine()):  # type: ignore[misc]
        vjp_bwd = wrong_shape

        @classmethod
        def examples(cls) -> Any:
            yield cls()


@stage("SH121")
def class_with_examples_that_raise(_: Path) -> None:
    class Sine(sine()):  # type: ignore[misc]
        @classmethod
        def examples(cls) -> Any:
            yield 1 / 0


TYPO = """
from tests.primitives import sine

class Sine(sine()):
    @classmethod
    def examples(cls):
        yield EXAMPLE
"""


@stage("SH121")
def import_of_a_module(folder: Path) -> None:
    folder.joinpath("traceback_import.py").write_text(TYPO.replace("EXAMPLE", "1 / 0"))
    importlib.import_module("traceback_import")


@stage("SH121")
def first_use_after_the_import(folder: Path) -> None:
    folder.joinpath("traceback_use.py").write_text(TYPO.replace("EXAMPLE", "cls(typo)"))
    module = importlib.import_module("traceback_use")
    module.Sine()


@stage("SH203")
def construction(_: Path) -> None:
    sine(__init__=init([AVAL]))()


@stage("SH201")
def construction_without_init(_: Path) -> None:
    def __init__(self: Any) -> None:
        pass

    sine(__init__=__init__)()


@stage("SH202")
def construction_with_init_too_early(_: Path) -> None:
    def __init__(self: Any) -> None:
        StrictHiPrim.__init__(self)

    sine(__init__=__init__)()


@stage("SH209")
def construction_for_another_number_of_inputs(_: Path) -> None:
    sine(__init__=init((AVAL, AVAL)))()


@stage("SH210")
def call_with_too_many_arguments(_: Path) -> None:
    sine()()(X, X)


@stage("SH211")
def call_with_another_type(_: Path) -> None:
    sine()()(X[:2])


@stage("SH302")
def eager_call(_: Path) -> None:
    sine(expand=wrong_output)()(X)


@stage("SH302")
def rule_in_jit(_: Path) -> None:
    jax.jit(sine(expand=wrong_output)())(X)


@stage("SH315")
def rule_in_grad(_: Path) -> None:
    prim = sine(vjp_bwd=wrong_shape)()
    jax.grad(lambda x: prim(x).sum())(X)


@stage("SH315")
def rule_in_grad_in_jit(_: Path) -> None:
    prim = sine(vjp_bwd=wrong_shape)()
    jax.jit(jax.grad(lambda x: prim(x).sum()))(X)


@stage("SH330")
def rule_in_vmap(_: Path) -> None:
    jax.vmap(sine(batch=lambda self, axis_data, args, dims: None)())(X[None])


@stage("SH322")
def rule_in_jvp(_: Path) -> None:
    jax.jvp(sine(jvp=lambda self, primals, tangents: primals)(), (X,), (X,))


# --- functions ------------------------------------------------------------------------


@stage("SH404")
def defvjp(_: Path) -> None:
    checked_custom_vjp(square).defvjp(square_fwd, lambda g: (g,))


@stage("SH414")
def defvjp_with_types(_: Path) -> None:
    checked = checked_custom_vjp(example_args=(SPEC,))(square)
    checked.defvjp(square_fwd, wrong_bwd)


@stage("SH404")
def wrapping_a_function(_: Path) -> None:
    existing = jax.custom_vjp(square)
    existing.defvjp(square_fwd, lambda g: (g,))
    checked_custom_vjp(existing)


@stage("SH414")
def wrapping_a_function_with_types(_: Path) -> None:
    existing = jax.custom_vjp(square)
    existing.defvjp(square_fwd, wrong_bwd)
    checked_custom_vjp(existing, example_args=(SPEC,))


@stage("SH427")
def argument_that_does_not_exist(_: Path) -> None:
    checked_custom_vjp(square, exampel_args=())  # type: ignore[call-overload]


@stage("SH427")
def decorator_argument_that_does_not_exist(_: Path) -> None:
    @checked_custom_vjp(exampel_args=())  # type: ignore[call-overload, untyped-decorator]
    def f(x: Any) -> Any:
        return x


@stage("SH401")
def call_without_rules(_: Path) -> None:
    checked_custom_vjp(square)(X)


@stage("SH414")
def first_call(_: Path) -> None:
    checked = checked_custom_vjp(square)
    checked.defvjp(square_fwd, wrong_bwd)
    checked(X)


@stage("SH414")
def first_call_in_jit(_: Path) -> None:
    checked = checked_custom_vjp(square)
    checked.defvjp(square_fwd, wrong_bwd)
    jax.jit(checked)(X)


@stage("SH414")
def rule_of_a_function_in_grad(_: Path) -> None:
    checked = checked_custom_vjp(square, eager=False)
    checked.defvjp(square_fwd, wrong_bwd)
    jax.grad(lambda x: checked(x).sum())(X)


@stage("SH503")
def effect_of_a_function(_: Path) -> None:
    def fwd(x: Any) -> Any:
        jax.debug.print("{}", x)
        return x * x, x

    checked = checked_custom_vjp(square, example_args=(SPEC,), effects="pure")
    checked.defvjp(fwd, square_bwd)


def wrong_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (x_dot,) = primals, tangents
    return x * x, (2 * x * x_dot)[:2]


@stage("SH402")
def defjvp(_: Path) -> None:
    checked_custom_jvp(square).defjvp(3)  # type: ignore[arg-type]


@stage("SH436")
def first_call_of_custom_jvp(_: Path) -> None:
    checked = checked_custom_jvp(square)
    checked.defjvp(wrong_jvp)
    checked(X)


@stage("SH436")
def rule_of_custom_jvp_in_jvp(_: Path) -> None:
    checked = checked_custom_jvp(square, eager=False)
    checked.defjvp(wrong_jvp)
    jax.jvp(checked, (X,), (X,))


# --- the rest -------------------------------------------------------------------------


@stage("SH320")
def check_of_an_instance(_: Path) -> None:
    check(sine(vjp_bwd=uses_a_typo)())


@stage("SH315")
def check_of_a_class(_: Path) -> None:
    with ignore("SH315", "SH320"):
        cls = sine(vjp_bwd=wrong_shape, examples=True)
    check(cls)


@stage("SH414")
def check_of_a_function(_: Path) -> None:
    existing = jax.custom_vjp(square)
    existing.defvjp(square_fwd, wrong_bwd)
    check(existing, 1.0)


@stage("SH122")
def check_of_something_else(_: Path) -> None:
    check(3)


@stage("SH122")
def transforms_of_something_else(_: Path) -> None:
    transforms(3)


@stage("SH120")
def ignoring_what_does_not_exist(_: Path) -> None:
    with ignore("SH999"):
        pass


@stage("SH701")
def definition_of_a_type(_: Path) -> None:
    class Bad(StrictHiType):
        def lo_ty(self) -> Any:
            return [AVAL]


class Boxed(StrictHiType, supports=("jit",)):
    """A type that lowers to another type than it says."""

    def lo_ty(self) -> Any:
        return [AVAL]

    def lower_val(self, value: Any) -> Any:
        return [jnp.sum(value)]

    def raise_val(self, value: Any) -> Any:
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Boxed)

    def __hash__(self) -> int:
        return 0


@stage("SH716")
def check_of_a_type(_: Path) -> None:
    check(Boxed(), X)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to import from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("reach", "code"), STAGES)
def test_only_the_users_frames_are_shown(
    reach: Callable[[Path], None], code: str, folder: Path
) -> None:
    with pytest.raises(StrictHijaxError) as caught:
        reach(folder)
    assert caught.value.code == code
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert reach.__name__ in [frame.name for frame in frames]
    internal = [f for f in frames if f.filename.startswith((OURS, JAX))]
    assert not internal


def test_what_a_user_raises_shows_the_users_frames_alone() -> None:
    def raising(self: Any, *args: Any) -> None:
        raise KeyError("mine")

    prim = sine(expand=raising)()
    for reach in (sine(__init__=raising), lambda: prim(X), lambda: jax.jit(prim)(X)):
        with pytest.raises(KeyError) as caught:
            reach()
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].name == "raising"
        assert not [f for f in frames if f.filename.startswith((OURS, JAX))]


def test_every_part_of_the_package_has_a_stage() -> None:
    used = {name for param in STAGES for name in param.values[0].__code__.co_names}
    used |= {"StrictHiPrim"}  # by `sine`
    public = {name for name in vars(strict_hijax) if not name.startswith("_")}
    reports = {"CheckReport", "RuleReport"}
    callables = {
        name
        for name in public - reports
        if callable(value := getattr(strict_hijax, name))
        and not (inspect.isclass(value) and issubclass(value, Exception))
    }
    assert callables <= used
    families = {code[:3] for code, row in CODES.items() if not row.is_advice}
    assert {param.values[1][:3] for param in STAGES} == families
