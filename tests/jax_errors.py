"""The rows of the table in `docs/jax_errors.md`.

It answers for each `raise` and `assert` of three files of JAX, which
`benchmarks.jax_report.sites` reads off the installed source.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path

import jax

from benchmarks.jax_report.sites import FILES as FILES
from benchmarks.jax_report.sites import Site as Site
from benchmarks.jax_report.sites import fits as fits
from benchmarks.jax_report.sites import plain as plain
from benchmarks.jax_report.sites import sites as sites

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "jax_errors.md"
STAGES = ("definition", "import", "construction", "call", "rule")

VERSIONS = {
    "both": True,
    "0.11.2": jax.__version_info__[:2] < (0, 12),
    "to 0.12.0": jax.__version_info__[:3] < (0, 12, 1),
    "0.12 on": jax.__version_info__[:2] >= (0, 12),
    "0.12.1 on": jax.__version_info__[:3] >= (0, 12, 1),
}
"""What a row says of versions, and whether the installed one is meant."""


# --- the table ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One row: some sites, which of our codes comes earlier, or why none does."""

    file: str
    functions: tuple[str, ...]
    error: str
    texts: tuple[str, ...]
    answer: str
    versions: str

    def covers(self, site: Site) -> bool:
        """Whether this row answers for a site."""
        return (
            self.file == site.file
            and site.function in self.functions
            and self.error == site.error
            and any(fits(text, site.text) for text in self.texts)
        )

    @property
    def installed(self) -> bool:
        """Whether it is about the installed version of JAX."""
        return VERSIONS[self.versions]

    @property
    def codes(self) -> tuple[tuple[str, str], ...]:
        """The codes that come earlier, each with a stage at which it does."""
        return tuple(
            (code, stage)
            for code, stages in re.findall(
                r"(SH\d{3}) ([a-z]+(?: or [a-z]+)*)", self.answer
            )
            for stage in stages.split(" or ")
        )

    def __str__(self) -> str:
        where, texts = ", ".join(self.functions), ", ".join(self.texts)
        return f"{self.file}: {where}, {self.error} {texts}"


@functools.cache
def rows() -> tuple[Row, ...]:
    """The rows of all tables of the document."""
    found: list[Row] = []
    file = ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## `jax/_src/(.+)`", line):
            file = heading[1]
        elif file and line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            where, error, says, answer, versions = cells
            functions, texts = _code_spans(where), _code_spans(says) or ("",)
            found.append(Row(file, functions, plain(error), texts, answer, versions))
    return tuple(found)


def _code_spans(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))
