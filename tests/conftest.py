"""What all tests share: JAX on eight CPU devices, and code run in a fresh process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# Before jax is imported: it reads the platform then, and the devices at first use.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = " ".join(
    [os.environ.get("XLA_FLAGS", ""), "--xla_force_host_platform_device_count=8"]
).strip()

import jax
import pytest

ROOT = Path(__file__).resolve().parent.parent

type CleanProcess = Callable[..., subprocess.CompletedProcess[str]]


def pytest_report_header() -> str:
    return f"jax {jax.__version__}"


@pytest.fixture(scope="session")
def clean_process() -> CleanProcess:
    """Run Python in a fresh process, as a user would in the root of the repository.

    Call it with code, or with `args=` for the command line after `python`; `env=` is
    added to the environment. The result has `returncode`, `stdout` and `stderr`.
    """

    def run(
        code: str = "",
        *,
        args: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        timeout: float = 240,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *(args or ("-c", code))],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | (env or {}),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
