"""What holds for the files of this repository, and for the package made from them."""

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "strict_hijax" / "pages"
PACKAGE = ROOT / "strict_hijax"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 420

each_source = pytest.mark.parametrize(
    "source", SOURCES, ids=lambda path: str(path.relative_to(ROOT))
)


@pytest.fixture(scope="module")
def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert ROOT / "pyproject.toml" in paths
    return [path for path in paths if path.is_file()]


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> Iterator[str]:
    for path in paths:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if pattern.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def folders_of_this_machine() -> list[str]:
    folders = [ROOT, Path.home(), Path(sys.prefix), Path(sys.base_prefix)]
    shared = (Path("/"), Path("/usr"), Path("/usr/local"))
    return sorted({str(folder) for folder in folders if folder not in shared})


def test_no_file_names_a_folder_of_somebodys_machine(tracked_files: list[Path]):
    folders = "|".join(map(re.escape, folders_of_this_machine()))
    somebodys = re.compile(rf"(?<![\w.])(?:{folders}|/home/\w+|/Users/\w+)(?!\w)")
    assert somebodys.search(f"see {ROOT}/README.md")
    assert not somebodys.search("strict_hijax/home/x and tests/Users/y")
    assert list(lines_with(somebodys, tracked_files)) == []


def test_no_file_names_a_package_registry(tracked_files: list[Path]):
    hosts = (
        r"\b(?:files|test|deb|registry|proxy)\.(?:py|npm|debian|golang|yarn)\w*\.\w+"
    )
    options = r"--(?:extra-)?index-url|--find-links"
    registry = re.compile(rf"{hosts}|\bpypi\.(?:org|python)|{options}[ =]")
    assert registry.search("https://registry.npm" + "js.org/")
    assert list(lines_with(registry, tracked_files)) == []


def test_no_lock_file_is_tracked(tracked_files: list[Path]):
    lock = re.compile(r"(\.lock|-lock\.\w+|^pylock.*\.toml)$")
    assert lock.search("uv.lock")
    assert [path for path in tracked_files if lock.search(path.name)] == []


@each_source
def test_a_module_is_short(source: Path):
    lines = source.read_text("utf-8").count("\n")
    assert lines <= MOST_LINES


def jax_internals(tree: ast.Module) -> Iterator[int]:
    """The lines that import from `jax._src`, or reach into it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0, names=names):
                modules = [f"{module}.{alias.name}" for alias in names]
            case ast.Attribute(value=ast.Name(id="jax"), attr="_src"):
                modules = ["jax._src"]
            case _:
                continue
        if any(f"{module}.".startswith("jax._src.") for module in modules):
            yield node.lineno


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import jax._src.core", True),
        ("from jax._src import core", True),
        ("from jax import _src", True),
        ("core = jax._src.core", True),
        ("import jax.core", False),
        ("from ._jax import core", False),
    ],
)
def test_jax_internals_are_seen_where_they_are_used(line: str, found: bool):
    assert bool(list(jax_internals(ast.parse(line)))) is found


@each_source
def test_only_one_module_uses_the_internals_of_jax(source: Path):
    if source == PACKAGE / "_jax.py":
        return
    assert list(jax_internals(ast.parse(source.read_text("utf-8")))) == []


def test_the_package_module_only_re_exports():
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    docstring, *statements = tree.body
    assert isinstance(docstring, ast.Expr)
    assert statements
    for statement in statements:
        assert isinstance(statement, ast.ImportFrom), ast.unparse(statement)
        assert statement.level == 1, ast.unparse(statement)
        for alias in statement.names:
            assert alias.asname == alias.name, f"write `{alias.name} as {alias.name}`"


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
        env=os.environ | {"HATCH_BUILD_CLEAN": "false"},
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = {str(path.relative_to(ROOT)) for path in SOURCES}
    pages = {f"strict_hijax/pages/{path.name}" for path in PAGES.glob("*.md")}
    assert len(pages) == 7
    assert names == sources | pages | {"strict_hijax/py.typed"}


def test_the_map_of_the_code_names_every_module():
    text = (ROOT / "docs" / "how_it_works.md").read_text()
    named = {Path(each).name for each in re.findall(r"`([\w/]+\.py)`", text)}
    folder = ROOT / "strict_hijax"
    modules = [*folder.glob("_[a-z]*.py"), *folder.glob("_[fhr]*/[a-z]*.py")]
    assert {path.name for path in modules} - named == set()
