"""The commands of the Makefile, the versions they install, and which warnings fail."""

import os
import re
import shutil
import subprocess
import tomllib
import warnings
from pathlib import Path

import pytest

from strict_hijax import _jax

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = sorted((ROOT / "constraints").glob("*.txt"))


def pinned(path: Path) -> dict[str, str]:
    """The versions that a file of constraints has, by normalised name."""
    lines = [line.partition("==") for line in path.read_text("utf-8").splitlines()]
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, _, version in lines}


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def required() -> set[str]:
    """What the package, its build and each dependency group name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lists = [
        project["project"]["dependencies"],
        project["build-system"]["requires"],
        *project["dependency-groups"].values(),
    ]
    texts = [each for some in lists for each in some if isinstance(each, str)]
    names = [re.split(r"[^\w-]", text)[0] for text in texts]
    return {name.replace("_", "-") for name in names}


each_constraints = pytest.mark.parametrize(
    "path", CONSTRAINTS, ids=lambda path: path.stem
)


@each_constraints
def test_constraints_are_names_and_versions_and_no_more(path: Path):
    for line in path.read_text("utf-8").splitlines():
        assert re.fullmatch(r"[\w.-]+==\d+(\.\w+)*", line), line


@each_constraints
def test_constraints_bound_all_that_is_installed(path: Path):
    named = required() | {"pip"}
    assert {"jax", "jaxlib", "hatchling", "pytest", "mypy"} <= named
    assert named - pinned(path).keys() == set()
    assert path.stem == f"jax-{pinned(path)['jax']}"


def test_constraints_are_of_the_supported_versions_of_jax():
    versions = sorted((pinned(path)["jax"] for path in CONSTRAINTS), key=numbers)
    (oldest,) = re.findall(r'"jax>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert versions[0] == oldest
    assert versions[-1] == _jax.NEWEST_TESTED
    *others, newest = versions
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"jax {', '.join(others)} and {newest} are tested" in readme


# --- commands -------------------------------------------------------------------------


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`make` as from a shell, also where these tests are run by it."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    inherited = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BENCH", "PYTEST", "PYTHON"}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env={
            name: value for name, value in os.environ.items() if name not in inherited
        },
        capture_output=True,
        text=True,
        check=False,
    )


def commands_of(*arguments: str) -> str:
    """What `make` would run if nothing were installed."""
    done = make("--dry-run", "--always-make", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def runs(*arguments: str) -> dict[str, list[str]]:
    """The arguments of pytest that `make test` runs, by version of JAX."""
    pattern = re.compile(r"^\.venv-(\S+)/bin/python -m pytest(.*)$", re.MULTILINE)
    matches = pattern.findall(commands_of("test", *arguments))
    return {version: options.split() for version, options in matches}


def files(options: list[str]) -> list[Path]:
    return [ROOT / option for option in options if option.startswith("tests/")]


def test_all_is_tested_on_the_newest_and_the_oldest_jax_and_less_between():
    versions = [path.stem.removeprefix("jax-") for path in CONSTRAINTS]
    newest, *between, oldest = sorted(versions, key=numbers, reverse=True)
    by_version = runs()
    assert list(by_version) == [newest, oldest, *sorted(between, key=numbers)]
    assert files(by_version[newest]) == files(by_version[oldest]) == []
    for version in between:
        some = files(by_version[version])
        assert all(path.is_file() for path in some)
        names = {path.stem.removeprefix("test_") for path in some}
        assert {"results", "result_shapes", "accepts_primitives"} <= names
        assert {"custom_vjp_results", "ordinary_programs"} <= names
        assert {"custom_vjp_accepts", "jax_errors", "cotangents", "tangents"} <= names


def test_named_files_are_all_that_is_run():
    for options in runs("PYTEST=-x tests/test_errors.py").values():
        assert options[-2:] == ["-x", "tests/test_errors.py"]


def test_installing_is_bounded_also_where_the_package_is_built():
    commands = commands_of("test", "demo")
    installs = re.findall(r"^.*-m pip .*\binstall .*$", commands, re.MULTILINE)
    assert len(installs) >= len(CONSTRAINTS)
    for line in installs:
        for command in line.split("&&"):
            if " install " in command:
                assert "--constraint constraints/jax-" in command, command
                assert ("--editable" in command) <= ("--no-build-isolation" in command)


def test_make_says_which_python_it_needs(tmp_path: Path):
    done = make("latest", f"PYTHON={tmp_path}/python")
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(said) == 1
    assert said[0].startswith("strict_hijax needs Python 3.12 or newer")


# --- warnings -------------------------------------------------------------------------


def warn(module: str, message: str = "old") -> None:
    warnings.warn_explicit(message, DeprecationWarning, f"{module}.py", 1, module)


@pytest.mark.parametrize("module", ["strict_hijax._jax", "examples", "tests.test_x"])
def test_a_warning_of_our_own_code_is_an_error(module: str):
    with pytest.raises(DeprecationWarning, match="old"):
        warn(module)


@pytest.mark.parametrize(
    "module", ["jax._src.core", "numpy", "testsuite", "hypothesis"]
)
def test_a_warning_of_other_code_is_not(module: str):
    with warnings.catch_warnings(record=True) as shown:
        warn(module)
    assert len(shown) == 1


def test_our_advice_is_an_error_wherever_it_points():
    with pytest.raises(DeprecationWarning, match="SH906"):
        warn("somewhere", "SH906 `Sine` promises `remat`")


def test_importing_the_package_warns_of_nothing(clean_process):
    command = (
        "-W",
        "error",
        "-c",
        "import strict_hijax; strict_hijax.checked_custom_vjp",
    )
    done = clean_process(args=command)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
