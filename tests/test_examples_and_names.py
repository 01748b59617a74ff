"""Names that are missing when a class is defined: they come later, or are typos."""

import importlib
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import StrictHijaxError, check, ignore
from tests.primitives import X, found_in, gradient, sine

type CleanProcess = Callable[..., subprocess.CompletedProcess[str]]
type Write = Callable[..., None]

TOP = """
import jax
import jax.numpy as jnp
from strict_hijax import StrictHiPrim
"""
CLASS = """
class Sine(StrictHiPrim):
    def __init__(self):
        aval = jax.typeof(jax.ShapeDtypeStruct((3,), "float32"))
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()

    def expand(self, x):
        return jnp.sin(x)

    def vjp_fwd(self, nzs_in, x):
        return self(x), x

    def vjp_bwd(self, x, g, x_acc):
        x_acc.accum(BACKWARD)

    @classmethod
    def examples(cls):
        yield EXAMPLE
"""


def module(
    backward: str = "g * jnp.cos(x)", example: str = "cls()", **parts: str
) -> str:
    """A module with the sine, and what stands before and after it."""
    text = CLASS.replace("BACKWARD", backward).replace("EXAMPLE", example)
    return TOP + parts.get("before", "") + text + parts.get("after", "")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules that can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)

    def write(**sources: str) -> None:
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()

    yield write
    for name in set(sys.modules) - known:
        if name.startswith("mod_"):
            del sys.modules[name]


def imported(name: str) -> Any:
    return importlib.import_module(name)


# --- names that exist nowhere ---------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "code", "missing"),
    [
        ({"backward": "g * coss(x)"}, "SH320", "'coss' is not defined"),
        ({"example": "cls(aval)"}, "SH121", "'aval' is not defined"),
        ({"example": "cls.exampel()"}, "SH121", "no attribute 'exampel'"),
    ],
    ids=["a rule", "examples", "an attribute of the class"],
)
def test_a_typo_is_told_at_the_first_use_after_the_import(
    write: Write, parts: dict[str, str], code: str, missing: str
) -> None:
    write(mod_typo=module(**parts))
    cls = imported("mod_typo").Sine
    error = found_in(cls)
    assert (error.code, error.subject) == (code, "mod_typo.Sine")
    assert missing in str(error)
    assert isinstance(error, NameError | AttributeError)
    assert isinstance(error.__cause__, NameError | AttributeError)


def test_the_message_names_the_rule_and_what_to_write(write: Write) -> None:
    write(mod_typo=module("g * coss(x)"))
    message = str(found_in(imported("mod_typo").Sine))
    assert message.startswith(
        "SH320 `mod_typo.Sine` has a `vjp_bwd` that uses a name which does not exist."
    )
    assert "NameError: name 'coss' is not defined" in message
    assert 'class Sine(StrictHiPrim, ignore=("SH320",)): ...' in message


def test_an_attribute_that_a_whole_module_lacks_is_told_at_once(write: Write) -> None:
    write(mod_typo=module(example="cls(jax.typeov(1.0))"))
    error = found_in(lambda: imported("mod_typo"))
    assert error.code == "SH121"
    assert isinstance(error, AttributeError)


def test_a_typo_in_a_class_of_a_function_is_told_at_once() -> None:
    error = found_in(lambda: sine(vjp_bwd=uses_a_typo, examples=True))
    assert (error.code, error.rule) == ("SH320", "vjp_bwd")
    assert isinstance(error, NameError)


def uses_a_typo(self: Any, x: Any, g: Any, x_acc: Any) -> None:
    x_acc.accum(g * coss(x))  # type: ignore[name-defined]


def test_a_local_variable_that_is_not_set_is_told_at_once() -> None:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        x_acc.accum(g * factor)  # type: ignore[has-type]
        factor = 2
        del factor

    error = found_in(lambda: sine(vjp_bwd=vjp_bwd, examples=True))
    assert (error.code, error.rule) == ("SH320", "vjp_bwd")
    assert isinstance(error, UnboundLocalError)


def test_an_instance_made_during_the_import_is_checked_when_it_is_called(
    write: Write,
) -> None:
    write(mod_typo=module("g * coss(x)", after="\nsine = Sine()\n"))
    prim = imported("mod_typo").sine
    assert found_in(lambda: prim(X)).code == "SH320"


def test_check_tells_a_missing_name_whatever_may_come() -> None:
    prim = sine(vjp_bwd=uses_a_typo)()
    error = found_in(lambda: check(prim))
    assert (error.code, error.rule) == ("SH320", "vjp_bwd")


@pytest.mark.parametrize("ignored", [True, False], ids=["ignored", "not ignored"])
def test_a_name_that_is_set_much_later_can_be_ignored(ignored: bool) -> None:
    keywords = {"ignore": ("SH320",)} if ignored else {}
    with ignore() if ignored else ignore("SH320"):
        cls = sine(vjp_bwd=uses_a_typo, examples=True, keywords=keywords)
    np.testing.assert_array_equal(cls()(X), jnp.sin(X))


# --- names that come later ------------------------------------------------------------

BELOW = "\ndef below(x): return jnp.cos(x)\n"


@pytest.mark.parametrize(
    "parts",
    [
        {"backward": "g * below(x)", "after": "\nsine = Sine()\nSine()\n" + BELOW},
        {
            "example": "later()",
            "after": "\nsine = Sine()\ndef later(): return Sine()\n",
        },
        {"example": "Sub()", "after": "\nclass Sub(Sine): pass\nsine = Sine()\n"},
        {"example": "cls(*cls.none)", "after": "\nSine.none = ()\nsine = Sine()\n"},
    ],
    ids=["a helper", "a maker of examples", "a subclass", "an attribute"],
)
def test_what_the_module_defines_below(write: Write, parts: dict[str, str]) -> None:
    write(mod_below=module(**parts))
    prim = imported("mod_below").sine
    np.testing.assert_allclose(gradient(prim, X), jnp.cos(X), rtol=1e-6)
    assert not type(prim)._examples_waiting


def test_many_instances_are_made_before_the_names_below(write: Write) -> None:
    after = "\nmany = [Sine() for _ in range(100)]\n" + BELOW
    write(mod_below=module("g * below(x)", after=after))
    cls = imported("mod_below").Sine
    for _ in range(64):
        cls()
    assert not cls._examples_waiting


def test_what_is_wrong_once_the_names_are_there(write: Write) -> None:
    write(mod_below=module("below(g)", after="\ndef below(g): return g[:2]\n"))
    cls = imported("mod_below").Sine
    error = found_in(cls)
    assert (error.code, error.rule) == ("SH315", "vjp_bwd")
    cls()  # told once


def test_modules_that_import_one_another(write: Write) -> None:
    write(
        mod_one="import mod_two\nsine = mod_two.Sine()\n" + TOP + BELOW,
        mod_two=module("g * mod_one.below(x)", before="import mod_one\n"),
        mod_three="import mod_four\nsine = mod_four.Sine()\n" + TOP + BELOW,
        mod_four=module("g * (lambda: importlib.import_module('mod_three').below)()(x)")
        .replace("import jax\n", "import jax, importlib\n"),
    )  # fmt: skip
    for name in ("mod_one", "mod_three"):
        prim = imported(name).sine
        np.testing.assert_allclose(gradient(prim, X), jnp.cos(X), rtol=1e-6)
        assert not type(prim)._examples_waiting


def test_a_name_that_a_rule_imports_from_a_module_half_imported(write: Write) -> None:
    source = module("below(x, g)").replace(
        "    def vjp_bwd(self, x, g, x_acc):\n",
        "    def vjp_bwd(self, x, g, x_acc):\n        from mod_one import below\n",
    )
    write(
        mod_one="import mod_two\ndef below(x, g): return g\n",
        mod_two=source,
    )
    imported("mod_one")
    prim = imported("mod_two").Sine()
    np.testing.assert_array_equal(gradient(prim, X), np.ones(3))


def test_a_module_that_is_loaded_again_with_a_new_name_below(write: Write) -> None:
    write(mod_again=module())
    loaded = imported("mod_again")
    write(mod_again=module("g * below(x) * 1", after="\nsine = Sine()\n" + BELOW))
    importlib.reload(loaded)
    np.testing.assert_allclose(gradient(loaded.sine, X), jnp.cos(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["__main__", "mod_of_exec"])
def test_cells_of_a_notebook(name: str) -> None:
    namespace: dict[str, Any] = {"__name__": name}
    exec(module("g * below(x)", after="\nsine = Sine()\n"), namespace)
    with ignore() if name == "__main__" else pytest.raises(StrictHijaxError):
        Sine = namespace["Sine"]
        Sine()
        namespace["sine"](X)
    exec(BELOW, namespace)
    np.testing.assert_allclose(gradient(namespace["sine"], X), jnp.cos(X), rtol=1e-6)


def test_a_script(clean_process: CleanProcess) -> None:
    after = "\nprint(Sine()(1.0 * jnp.arange(3)).shape)\n" + BELOW
    done = clean_process(module("g * below(x)", after=after))
    assert done.stdout.strip() == "(3,)", done.stderr


def test_a_variable_of_the_function_around_a_class() -> None:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        x_acc.accum(defined_below(g))

    cls = sine(vjp_bwd=vjp_bwd, examples=True)
    assert cls._examples_waiting
    prims = [cls() for _ in range(3)]  # as at the top of a module

    def defined_below(g: Any) -> Any:
        return 2 * g

    for prim in prims:
        np.testing.assert_array_equal(gradient(prim, X), 2 * np.ones(3))
    assert not cls._examples_waiting


def test_a_class_that_examples_name_while_it_is_made(write: Write) -> None:
    write(mod_self=module(example="Sine()").replace("@classmethod", "@staticmethod")
          .replace("examples(cls)", "examples()"))  # fmt: skip
    cls = imported("mod_self").Sine
    cls()
    assert not cls._examples_waiting


def test_a_package_that_is_not_installed_says_nothing_of_the_class() -> None:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        imported("package_for_gpus_alone")

    def examples(cls: Any) -> Any:
        imported("package_for_gpus_alone")

    cls = sine(vjp_bwd=vjp_bwd, examples=True)
    np.testing.assert_array_equal(cls()(X), jnp.sin(X))
    assert "vjp_bwd: ModuleNotFoundError" in str(check(cls))
    other = sine(examples=classmethod(examples))
    np.testing.assert_array_equal(other()(X), jnp.sin(X))
    assert found_in(lambda: check(other)).code == "SH121"


def test_threads_that_use_a_class_while_it_waits(write: Write) -> None:
    write(mod_threads=module("g * below(x)", after=BELOW))
    cls = imported("mod_threads").Sine
    failed: list[BaseException] = []

    def use() -> None:
        try:
            for _ in range(20):
                cls()(X)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert not cls._examples_waiting


def test_a_module_that_another_thread_imports_may_be_half_imported(
    write: Write,
) -> None:
    half, go_on = threading.Event(), threading.Event()
    events = types.ModuleType("mod_events")
    vars(events).update(half=half, go_on=go_on)
    sys.modules["mod_events"] = events
    wait = "\nimport mod_events\nmod_events.half.set()\nmod_events.go_on.wait(60)\n"
    write(mod_slow=module("g * below(x)", after=wait + BELOW))
    thread = threading.Thread(target=imported, args=("mod_slow",))
    thread.start()
    try:
        assert half.wait(60)
        cls = sys.modules["mod_slow"].Sine
        prim = cls()
        assert cls._examples_waiting
    finally:
        go_on.set()
        thread.join()
    np.testing.assert_allclose(gradient(prim, X), jnp.cos(X), rtol=1e-6)


def test_a_fault_that_is_found_late_shows_the_users_frames_alone(write: Write) -> None:
    write(mod_typo=module("g * coss(x)"))
    error = found_in(imported("mod_typo").Sine)
    traceback = error.__traceback__
    while traceback is not None:
        assert "strict_hijax/_" not in traceback.tb_frame.f_code.co_filename
        traceback = traceback.tb_next
