"""The time that `import strict_hijax` adds to `import jax`.

A copy of the package with its bytecode is imported, as an installed one has it.
"""

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import strict_hijax

from .rows import Row, Settings, row_of
from .statistics import AtMost, estimate
from .timing import clock

TARGET = AtMost(20, " ms")

_PACKAGE = Path(strict_hijax.__file__).parent
_CODE = """
import jax, time
start = time.{clock}()
import strict_hijax
print(time.{clock}() - start)
"""


def rows(settings: Settings) -> Iterator[Row]:
    """Fresh processes; the first only brings files into memory."""
    rounds = settings.rounds(25)
    settings.say(f"import: {rounds} processes")
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(_PACKAGE, Path(folder, "strict_hijax"))
        compileall.compile_dir(copy, quiet=1)
        seconds = np.array([_import_seconds(folder) for _ in range(rounds + 1)][1:])
    samples = {"strict": seconds}
    found = estimate(samples, lambda medians: 1e3 * medians["strict"])
    figure = "import strict_hijax after import jax"
    yield row_of(figure, "in a fresh process", samples, TARGET, found, " ms")


def _import_seconds(folder: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(clock=clock())],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) / 1e9
