"""`python -m benchmarks jax-report`: a change of JAX is seen, and nothing else is."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks import __main__ as benchmarks
from benchmarks.jax_report import interface, names, programs, raises, record, sites
from benchmarks.jax_report.record import Record
from tests.test_import_safety import CleanProcess

VERSION = jax.__version__


@pytest.fixture(scope="session")
def folder(
    tmp_path_factory: pytest.TempPathFactory, clean_process: CleanProcess
) -> Path:
    """A folder with the record of the installed JAX, made by the command."""
    made = tmp_path_factory.mktemp("records")
    arguments = ("-m", "benchmarks", "jax-report", "--record", "--folder", str(made))
    done = clean_process(args=arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("nothing changed\n")
    return made


@pytest.fixture
def installed(folder: Path) -> Record:
    return record.load(VERSION, folder)


@pytest.mark.skipif(VERSION not in record.recorded(), reason="not recorded")
def test_nothing_changes_on_a_version_that_is_recorded(installed: Record) -> None:
    found = record.changes(record.load(VERSION), installed)
    assert found == [], "or record it again: python -m benchmarks jax-report --record"


def rename(section: str, name: str) -> Callable[[Record], None]:
    def edit(before: Record) -> None:
        before[section]["old"] = before[section].pop(name)

    return edit


def put(section: str, name: str, value: Any) -> Callable[[Record], None]:
    return lambda before: before[section].update({name: value})


LOST = "hijax.py, f: TypeError: no"
SHAPE = "shape: vjp_bwd_retval, for a dict: a part too few"
CHANGES = [
    (put("interface", "jax.grad", "(f)"), [("changed", "jax.grad")]),
    (put("interface", "HiPrim.lose", "(self)"), [("gone", "HiPrim.lose")]),
    (
        rename("interface", "HiPrim.batch"),
        [("new", "HiPrim.batch"), ("gone", "old")],
    ),
    (
        put("raises", LOST, 1),
        [("gone", LOST)],
    ),
    (put("programs", SHAPE, "right"), [("changed", SHAPE)]),
    (put("programs", "page: SH000: block 0 abcdef", "taken"), []),
]


@pytest.mark.parametrize(("edit", "expected"), CHANGES)
def test_a_change_is_reported(
    installed: Record, edit: Callable[[Record], None], expected: Any
) -> None:
    before = copy.deepcopy(installed)
    edit(before)
    found = record.changes(before, installed)
    assert [(change.kind, change.name) for change in found] == expected


def test_a_private_name_that_is_gone_is_reported(installed: Record) -> None:
    name = "jax._src.core.typematch"
    now = copy.deepcopy(installed)
    now["private names"][name] = False
    (change,) = record.changes(installed, now)
    assert (change.section, change.kind, change.name) == ("private names", "gone", name)


def test_a_private_name_that_we_use_now_is_reported_where_a_newer_jax_lacks_it(
    installed: Record,
) -> None:
    now = copy.deepcopy(installed)
    now["private names"]["jax._src.core.later"] = False
    assert record.changes(installed, now) == []
    (change,) = record.changes(installed | {"jax": "0.11.1"}, now)
    assert change.kind == "gone"


def test_a_raise_of_another_text_is_one_gone_and_one_new(
    installed: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (*sites.FILES, "api.py"):
        source = sites.path_of(file).read_text("utf-8")
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(source.replace("requires {type(ty)", "wants {type(ty)"))
    monkeypatch.setattr(sites, "path_of", lambda file: tmp_path / file)
    sites.sites.cache_clear()
    now = installed | {"raises": raises.raises()}
    sites.sites.cache_clear()
    found = record.changes(installed, now)
    assert sorted(change.kind for change in found) == ["gone", "new"]
    assert all("_must_override: NotImplementedError" in c.name for c in found)


# --- the command ----------------------------------------------------------------------


@pytest.fixture
def run(
    installed: Record,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str]]:
    """The command, with what is installed known."""
    monkeypatch.setattr(record, "of_installed", lambda: installed)

    def main(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        return benchmarks.main(["jax-report", *arguments]), capsys.readouterr().out

    return main


def test_report_says_what_changed_and_exits_with_0(
    run: Callable[..., tuple[int, str]], installed: Record, tmp_path: Path
) -> None:
    before = copy.deepcopy(installed) | {"jax": "0.11.0"}
    before["interface"]["jax.grad"] = "(fun, argnums=0)"
    before["programs"].pop(SHAPE)
    record.save(before, tmp_path)
    code, printed = run("--folder", str(tmp_path))
    assert code == 0
    assert printed.startswith(f"jax {VERSION}, compared with 0.11.0\n")
    assert "interface: 1 changed" in printed
    assert "(fun, argnums=0)" in printed
    assert "1 programs are not in the record" in printed
    code, printed = run("--folder", str(tmp_path), "--json")
    data = json.loads(printed)
    assert (code, data["against"], data["not_compared"]) == (0, "0.11.0", 1)
    assert [change["name"] for change in data["changes"]] == ["jax.grad"]


def test_what_is_compared_with(
    run: Callable[..., tuple[int, str]], installed: Record, tmp_path: Path
) -> None:
    assert run("--folder", str(tmp_path))[0] == 2
    for version in ("0.9.3", "0.10.10", "0.10.9", "99.0"):
        record.save(installed | {"jax": version}, tmp_path)
    assert record.recorded(tmp_path) == ["0.9.3", "0.10.9", "0.10.10", "99.0"]
    assert "with 0.10.10\n" in run("--folder", str(tmp_path))[1]
    assert "with 99.0\n" in run("--folder", str(tmp_path), "--against", "99.0")[1]
    assert run("--folder", str(tmp_path), "--against", "0.1")[0] == 2
    assert "nothing changed" in run("--folder", str(tmp_path), "--record")[1]
    assert VERSION in record.recorded(tmp_path)


# --- the parts ------------------------------------------------------------------------


def test_private_names_are_those_imported_and_their_attributes() -> None:
    source = """
from jax._src import core as _core
from jax._src.util import fun_name as fun_name
import jax
x = _core.trace_ctx.trace, jax.grad, _core.aval(1).shape
"""
    assert set(names.names_in(source)) == {
        "jax._src.core",
        "jax._src.util.fun_name",
        "jax._src.core.trace_ctx",
        "jax._src.core.trace_ctx.trace",
        "jax._src.core.aval",
    }
    assert names.is_there("jax._src.core.trace_ctx.trace")
    assert names.is_there("jax._src.interpreters.ad")
    assert not names.is_there("jax._src.core.no_such_name")
    assert not names.is_there("jax._src.no_such_module.name")


def test_every_private_name_that_is_used_is_there() -> None:
    found = names.private_names()
    assert len(found) > 80
    gone = [name for name, there in found.items() if not there]
    # An older JAX may lack a name that is used for a newer one alone.
    assert gone == [] or jax.__version_info__ < (0, 12)


def test_parameters_are_shown_without_types_and_addresses() -> None:
    def function(x: int, /, y: Any = object(), *, z: bool = False) -> None: ...  # noqa: B008

    assert interface.parameters(function) == "(x, /, y=Ellipsis, *, z=False)"


def test_what_becomes_of_a_program() -> None:
    assert programs.attempt(lambda: None) == "taken"
    assert programs.attempt(lambda: [][0]) == "refused, IndexError"
    assert programs.named("page", "x") != programs.named("page", "y")


def test_records_hold_nothing_of_a_machine(folder: Path) -> None:
    for path in (*folder.glob("*.json"), *record.FOLDER.glob("*.json")):
        text = path.read_text("utf-8")
        assert "site-packages" not in text
        assert "0x" not in text
        assert len(text) < 120_000
