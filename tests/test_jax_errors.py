"""`docs/jax_errors.md` answers for each `raise` and `assert` of the installed JAX."""

import re
from pathlib import Path

import pytest

from benchmarks.jax_report import sites as sites_of_jax
from strict_hijax._codes import CODES
from tests import (
    test_jax_errors_at_definition,
    test_jax_errors_of_functions,
    test_jax_errors_of_jvp_functions,
    test_jax_errors_of_primitives,
    test_jax_errors_of_types,
    test_jax_errors_on_a_mesh,
)
from tests.jax_errors import FILES, STAGES, VERSIONS, Row, fits, rows, sites

CASES = [
    *test_jax_errors_at_definition.CASES,
    *test_jax_errors_of_primitives.CASES,
    *test_jax_errors_of_functions.CASES,
    *test_jax_errors_of_jvp_functions.CASES,
    *test_jax_errors_of_types.CASES,
    *test_jax_errors_on_a_mesh.CASES,
]

REASONS = ("caller", "JAX says it at once", "internal", "another API", "open")


def of_installed() -> list[Row]:
    return [row for row in rows() if row.installed]


@pytest.mark.parametrize("file", FILES)
def test_every_raise_and_assert_has_one_row(file: str) -> None:
    answered = {
        site: sum(row.covers(site) for row in of_installed()) for site in sites(file)
    }
    wrong = [
        f"{s}: add a row to docs/jax_errors.md" for s, n in answered.items() if not n
    ]
    wrong += [f"{s}: several rows answer for it" for s, n in answered.items() if n > 1]
    assert not wrong, "\n".join(wrong)


def test_every_row_is_about_something_that_is_there() -> None:
    left = []
    for row in of_installed():
        covered = [site for site in sites(row.file) if row.covers(site)]
        functions = {site.function for site in covered}
        left += [f"{row}: no {name}" for name in row.functions if name not in functions]
        for start in row.texts:
            if not any(fits(start, site.text) for site in covered):
                left.append(f"{row}: nothing says {start!r}")
    assert left == []


def test_rows_of_the_other_version_are_about_nothing_that_is_there() -> None:
    others = [row for row in rows() if not row.installed]
    there = [row for row in others for site in sites(row.file) if row.covers(site)]
    assert there == []


@pytest.mark.parametrize("row", rows(), ids=str)
def test_every_row_has_an_answer(row: Row) -> None:
    assert row.versions in VERSIONS
    if row.codes:
        assert {code for code, _ in row.codes} <= CODES.keys()
        assert {stage for _, stage in row.codes} <= set(STAGES)
        assert set(re.findall(r"SH\d+", row.answer)) == {code for code, _ in row.codes}
    else:
        assert re.match(rf"none: ({'|'.join(REASONS)})(\. [A-Z`].+)?$", row.answer)
    if "open" in row.answer:
        assert "open. " in row.answer, "say why"


def test_every_code_that_comes_earlier_is_seen_to() -> None:
    shown = {
        (case.file, case.function, case.says, case.code, stage)
        for case in CASES
        for stage in case.stages.split(" or ")
    }
    unseen = {
        (row.file, row.functions[0], code, stage)
        for row in of_installed()
        for code, stage in row.codes
        if not any(
            (row.file, function, text, code, stage) in shown
            for function in row.functions
            for text in row.texts
        )
    }
    assert unseen == set()


def test_what_a_new_release_adds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
def call_rule(rule):
    def checked(x):
        message = f"{rule} must give a widget"
        raise TypeError(message)
    assert rule is not None
"""
    (tmp_path / "new.py").write_text(source)
    monkeypatch.setattr(sites_of_jax, "path_of", lambda file: tmp_path / file)
    assert list(map(str, sites("new.py"))) == [
        "jax/_src/new.py: `call_rule.checked` raises TypeError (… must give a widget)",
        "jax/_src/new.py: `call_rule` raises assert (rule is not None)",
    ]
