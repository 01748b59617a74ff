"""Importing and defining: no backend, no trace, no source and no thread in the way."""

import subprocess
import threading
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from strict_hijax import StrictHijaxError, StrictHiPrim
from tests.primitives import X, found_in, gradient, sine

type CleanProcess = Callable[..., subprocess.CompletedProcess[str]]

MODULE = """
import jax, jax.numpy as jnp
from jax.experimental.hijax import ShapedArray
import strict_hijax
from strict_hijax import StrictHiPrim

class Sine(StrictHiPrim):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()

    def expand(self, x):
        table = jnp.arange(3.0) + jax.random.normal(jax.random.key(0), (3,))
        return jnp.sin(x) + 0 * table + 0 * jnp.array([1.0, 2.0, 3.0])

    def vjp_fwd(self, nzs_in, x):
        return self(x), x

    def vjp_bwd(self, x, g, x_acc):
        x_acc.accum(BACKWARD)

    @classmethod
    def examples(cls):
        yield cls(ShapedArray((3,), jnp.dtype("float32")))
        yield cls(jax.typeof(jax.ShapeDtypeStruct((3,), "float32")))
"""
RIGHT = MODULE.replace("BACKWARD", "g * jnp.cos(x)")
WRONG = MODULE.replace("BACKWARD", "g.sum()")
BACKENDS = "from jax._src import xla_bridge; print(len(xla_bridge._backends))"


def test_no_backend_is_initialised(clean_process: CleanProcess) -> None:
    done = clean_process(f"{RIGHT}\nstrict_hijax.check(Sine)\n{BACKENDS}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0"


def test_no_backend_is_initialised_by_a_fault(clean_process: CleanProcess) -> None:
    body = "\n".join(f"    {line}" for line in WRONG.splitlines())
    code = f"try:\n{body}\nexcept Exception as e:\n    print(e.code)\n{BACKENDS}"
    done = clean_process(code)
    assert done.stdout.split() == ["SH315", "0"], done.stderr


def test_a_rule_that_initialises_a_backend_is_said(clean_process: CleanProcess) -> None:
    code = RIGHT.replace("g * jnp.cos(x)", "g * len(jax.devices())")
    done = clean_process(code)
    assert done.returncode == 1
    assert "DefinitionError: SH321 `Sine` has a `vjp_bwd`" in done.stderr
    assert "jax.distributed.initialize" in done.stderr


def test_the_traceback_has_no_frame_of_ours() -> None:
    prim = sine(expand=lambda self, x: x.sum())()
    error = found_in(lambda: jax.jit(lambda x: prim(x))(X))
    files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
    assert __file__ in files
    assert not any("/strict_hijax/" in file for file in files)


def test_a_module_that_is_imported_inside_of_a_trace() -> None:
    def import_it(x: Any) -> Any:
        namespace: dict[str, Any] = {"__name__": "inner"}
        exec(RIGHT, namespace)
        return namespace["Sine"](jax.typeof(x))(x)

    expected = jnp.sin(X)
    np.testing.assert_allclose(jax.jit(import_it)(X), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: import_it(x))(X), expected, rtol=1e-6)
    slope = jax.grad(lambda x: import_it(x).sum())(X)
    np.testing.assert_allclose(slope, jnp.cos(X), rtol=1e-6)


@pytest.mark.parametrize("axis_type", ["Auto", "Explicit"])
def test_definition_under_a_mesh_and_a_shard_map(axis_type: str) -> None:
    kind = getattr(jax.sharding.AxisType, axis_type)
    mesh = jax.make_mesh((8,), ("i",), axis_types=(kind,))

    def body(x: Any) -> Any:
        cls = sine(examples=True)
        return cls.__name__ and x

    with jax.set_mesh(mesh):
        sine(examples=True)
        mapped = jax.shard_map(body, in_specs=jax.P("i"), out_specs=jax.P("i"))
        x = jax.device_put(jnp.arange(8.0), jax.P("i"))
        np.testing.assert_array_equal(jax.jit(mapped)(x), x)


def test_definition_under_vmap_and_scan() -> None:
    def body(x: Any) -> Any:
        sine(examples=True)
        return x

    jax.vmap(body)(X)
    jax.lax.scan(lambda c, x: (c, body(x)), 0, X)


def test_a_definition_leaves_the_trace_as_it_was() -> None:
    @jax.jit
    def f(x: Any) -> Any:
        y = 2 * x
        with pytest.raises(StrictHijaxError):
            sine(examples=True, vjp_bwd=lambda self, x, g, a: a.accum(g[:1]))
        return y + x

    np.testing.assert_array_equal(f(X), 3 * X)


def test_classes_without_source() -> None:
    namespace: dict[str, Any] = {"__name__": "typed_in"}
    exec(compile(RIGHT, "<cell 1>", "exec"), namespace)
    assert namespace["Sine"].__module__ == "typed_in"
    with pytest.raises(StrictHijaxError, match="SH315") as caught:
        exec(compile(WRONG, "<cell 2>", "exec"), {"__name__": "typed_in"})
    assert "<cell 2>:" in str(caught.value)


def test_a_module_that_is_run_again_checks_its_new_class() -> None:
    namespace: dict[str, Any] = {"__name__": "again"}
    explicit = RIGHT.replace("yield cls(", "yield Sine(")
    exec(explicit, namespace)
    exec(explicit, namespace)  # `Sine` still names the class of the first run
    assert namespace["Sine"]._examples_waiting
    namespace["Sine"](jax.typeof(X))
    assert not namespace["Sine"]._examples_waiting


def test_classes_made_by_type_and_in_threads() -> None:
    def expand(self: Any, x: Any) -> Any:
        return x

    cls: Any = type(StrictHiPrim)(
        "Made", (StrictHiPrim,), {"expand": expand}, supports=()
    )
    assert cls.__module__ == __name__
    found: list[Any] = []

    def work() -> None:
        prim = sine(examples=True)()
        found.append(gradient(prim, X))
        try:
            sine(examples=True, vjp_bwd=lambda self, x, g, a: None if x is g else a)
        except StrictHijaxError as error:
            found.append(error.code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    np.testing.assert_allclose(found[0], jnp.cos(X), rtol=1e-6)
    assert found[1] in ("SH309", "SH311")
