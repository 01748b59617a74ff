"""What stock JAX does with the modules of `examples.faulty`, measured.

`python -m examples.demo.stock` executes every faulty module as it stands, with stock
JAX in the place of strict_hijax (see `examples.plain`), runs it, and writes what
happened as JSON. It is a process of its own, in which strict_hijax is never imported.
"""

import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from examples.plain import plain_module

FAULTY = "examples.faulty"


def module_names() -> list[str]:
    """The names of the faulty modules, in alphabetical order."""
    path = importlib.import_module(FAULTY).__path__
    return sorted(module.name for module in pkgutil.iter_modules(path))


def stages(module: ModuleType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is tried with a module, in the order in which a user comes to it."""
    inputs = module.inputs()
    gradient = jax.value_and_grad(module.loss, argnums=tuple(range(len(inputs))))
    yield "forward", lambda: module.loss(*inputs)
    yield "jit", lambda: jax.jit(module.loss)(*inputs)
    yield "grad", lambda: gradient(*inputs)
    yield "jit of grad", lambda: jax.jit(gradient)(*inputs)
    for name, function in getattr(module, "COMPANY", {}).items():
        yield name, lambda function=function: function(*inputs)


def attempt(action: Callable[[], Any]) -> tuple[Any, str | None]:
    """The result of an action, or its error as one line."""
    try:
        return jax.block_until_ready(action()), None
    except Exception as error:
        return None, f"{type(error).__name__}: {opening(error)}".removesuffix(": ")


def opening(error: Exception) -> str:
    """The first line of a message, or two where the first ends in a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first, second, *_ = [*lines, "", ""]
    words = f"{first} {second}" if first.endswith(":") else first
    return re.sub(r" object at 0x[0-9a-f]+", "", words)


def show(leaf: Any) -> str:
    """The values of an array, in a line."""
    values = np.array2string(
        np.asarray(leaf, np.float64), precision=4, separator=", ", threshold=8
    )
    return " ".join(values.split()).replace(" ,", ",")


def contrast(got: Any, true: Any) -> tuple[str, str]:
    """Two arrays as text, with their types where these differ."""
    if got.shape == true.shape and got.dtype == true.dtype:
        return show(got), show(true)
    return tuple(f"{jax.typeof(x).str_short()} {show(x)}" for x in (got, true))


def agrees(got: Any, true: Any) -> bool:
    """Whether two arrays have one type, and the values to a tolerance of that type."""
    if got.shape != true.shape or got.dtype != true.dtype:
        return False
    tolerance = max(1e-4, 4 * float(jnp.finfo(true.dtype).eps))
    wide = np.asarray(got, np.float64), np.asarray(true, np.float64)
    return np.allclose(*wide, rtol=tolerance, atol=tolerance)


def compared(
    module: ModuleType, results: dict[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Every loss and gradient that there is, beside that of the plain reference."""
    inputs = module.inputs()
    argnums = tuple(range(len(inputs)))
    true_loss, true_gradient = jax.value_and_grad(module.reference, argnums)(*inputs)
    arguments = inspect.signature(module.loss).parameters
    for stage in [stage for stage in ("forward", "jit") if stage in results]:
        yield "loss", results[stage], true_loss
    for stage in [stage for stage in ("grad", "jit of grad") if stage in results]:
        loss, gradient = results[stage]
        yield "loss under grad", loss, true_loss
        for name, got, true in zip(arguments, gradient, true_gradient, strict=True):
            yield f"gradient for `{name}`", got, true


def differences(module: ModuleType, results: dict[str, Any]) -> list[dict[str, str]]:
    """Where the loss or a gradient is not that of the plain reference."""
    found: dict[str, dict[str, str]] = {}
    for what, got, true in compared(module, results):
        if what not in found and not agrees(got, true):
            as_got, as_true = contrast(got, true)
            found[what] = {"what": what, "got": as_got, "true": as_true}
    return list(found.values())


def measure(name: str) -> dict[str, Any]:
    """Everything the demonstration shows about one module under stock JAX."""
    module, error = attempt(lambda: plain_module(f"{FAULTY}.{name}"))
    stage_errors = {"import": error}
    if module is None:
        return {"name": name, "stages": stage_errors, "differences": []}
    results = {}
    for stage, action in stages(module):
        result, stage_errors[stage] = attempt(action)
        if stage_errors[stage] is None:
            results[stage] = result
    return {
        "name": name,
        "doc": inspect.cleandoc(module.__doc__ or ""),
        "stages": stage_errors,
        "differences": differences(module, results),
        "expected_code": module.EXPECTED_CODE,
        "expected_stock": module.STOCK,
        "wrong_since": list(getattr(module, "WRONG_SINCE", ())),
    }


def outcome(record: dict[str, Any]) -> str:
    """`"silent"`, the first stage that raises, or `"right"`."""
    if record["differences"]:
        return "silent"
    failed = (stage for stage, error in record["stages"].items() if error)
    return next(failed, "right")


def applies(record: dict[str, Any]) -> bool:
    """Whether the module is wrong on the installed JAX at all."""
    installed = tuple(int(part) for part in jax.__version__.split(".")[:2])
    return installed >= tuple(record.get("wrong_since", ()))


def measure_all() -> list[dict[str, Any]]:
    """Measure every faulty module under stock JAX, in another process."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo.stock"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    records = [measure(name) for name in module_names()]
    if "strict_hijax" in sys.modules:
        raise RuntimeError("strict_hijax was imported: this is not stock JAX alone")
    json.dump(records, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
