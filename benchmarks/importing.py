"""The time that `import strict_hijax` adds to `import jax`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .rows import Row, Settings, row_of
from .statistics import AtMost, estimate
from .timing import clock

TARGET = AtMost(20, " ms")

_ROOT = Path(__file__).resolve().parent.parent
_CODE = """
import jax, time
start = time.{clock}()
import strict_hijax
print(time.{clock}() - start)
"""


def rows(settings: Settings) -> Iterator[Row]:
    """Fresh processes; the first is not counted, since it may write bytecode."""
    rounds = settings.rounds(25)
    settings.say(f"import: {rounds} processes")
    seconds = np.array([_import_seconds() for _ in range(rounds + 1)][1:])
    samples = {"strict": seconds}
    found = estimate(samples, lambda medians: 1e3 * medians["strict"])
    figure = "import strict_hijax after import jax"
    yield row_of(figure, "in a fresh process", samples, TARGET, found, " ms")


def _import_seconds() -> float:
    command = [sys.executable, "-c", _CODE.format(clock=clock())]
    done = subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1e9
