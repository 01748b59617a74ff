"""What type checkers say of users' code: the modules in `tests/typing`.

A line that ends in `# error` must be refused by every checker, and no other line may.
The modules are only read, never imported.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "tests" / "typing").glob("*.py"))


class Complaint(NamedTuple):
    path: Path
    line: int
    message: str


def run_tool(*command: str, cwd: Path) -> str:
    """The output of `python -m command`, which must be that of a finished check."""
    finished = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert finished.returncode in (0, 1), finished.stdout + finished.stderr
    return finished.stdout


def pyright(folder: Path) -> list[Complaint]:
    """Pyright as it comes, without the settings of this repository."""
    config = {"extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    output = run_tool(
        "pyright",
        "--outputjson",
        f"--pythonpath={sys.executable}",
        *map(str, MODULES),
        cwd=folder,
    )
    report = json.loads(output)
    assert report["summary"]["filesAnalyzed"] == len(MODULES)
    return [
        Complaint(Path(d["file"]), d["range"]["start"]["line"] + 1, d["message"])
        for d in report["generalDiagnostics"]
        if d["severity"] == "error"
    ]


def mypy(_: Path) -> list[Complaint]:
    """Mypy in strict mode, but for what asks users to annotate."""
    output = run_tool(
        "mypy",
        f"--config-file={os.devnull}",
        "--strict",
        "--allow-incomplete-defs",
        "--allow-untyped-calls",
        "--allow-untyped-decorators",
        "--allow-untyped-defs",
        "--follow-imports=silent",
        *map(str, MODULES),
        cwd=ROOT,
    )
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", output, re.MULTILINE)
    return [Complaint(ROOT / path, int(line), message) for path, line, message in found]


def marked_lines() -> set[tuple[str, int]]:
    return {
        (path.name, number)
        for path in MODULES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if line.endswith("# error")
    }


def test_one_module_is_marked_and_the_others_are_not():
    assert {name for name, _ in marked_lines()} == {"rejected.py"}
    assert len(MODULES) > 4


@pytest.mark.parametrize("tool", [pyright, mypy], ids=lambda tool: tool.__name__)
def test_exactly_the_marked_lines_are_refused(
    tool: Callable[[Path], list[Complaint]], tmp_path: Path
):
    if importlib.util.find_spec(tool.__name__) is None:
        pytest.skip(f"{tool.__name__} is not installed: it is in the group `typing`")
    complaints = tool(tmp_path)
    marked = marked_lines()
    places = {(c.path.name, c.line) for c in complaints}
    false_alarms = [c for c in complaints if (c.path.name, c.line) not in marked]
    assert false_alarms == []
    assert marked - places == set()
