"""Where the installed JAX raises, read off its source, and the rows of the table.

`docs/jax_errors.md` answers for each `raise` and `assert` of three files of JAX; here
are both sides of that comparison.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import jax

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "jax_errors.md"
FILES = ("hijax.py", "custom_derivatives.py", "interpreters/ad.py")
STAGES = ("definition", "import", "construction", "call", "rule")

VERSIONS = {
    "both": True,
    "0.11.2": jax.__version_info__[:2] < (0, 12),
    "to 0.12.0": jax.__version_info__[:3] < (0, 12, 1),
    "0.12 on": jax.__version_info__[:2] >= (0, 12),
    "0.12.1 on": jax.__version_info__[:3] >= (0, 12, 1),
}
"""What a row says of versions, and whether the installed one is meant."""


# --- the source of JAX ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """One `raise` or `assert`: where it is, what it raises, and how its text starts."""

    file: str
    function: str
    error: str
    text: str
    lines: tuple[int, int]

    def __str__(self) -> str:
        text = f" ({self.text[:60]})" if self.text else ""
        return f"jax/_src/{self.file}: `{self.function}` raises {self.error}{text}"


def path_of(file: str) -> Path:
    """Where a file of JAX is installed."""
    return Path(jax.__file__).parent / "_src" / file


@functools.cache
def sites(file: str) -> tuple[Site, ...]:
    """Every `raise` and `assert` of a file of the installed JAX, in its order."""
    module = ast.parse(path_of(file).read_text(encoding="utf-8"))
    return tuple(_sites(file, module, module, (), ()))


def _sites(
    file: str,
    module: ast.Module,
    node: ast.AST,
    names: tuple[str, ...],
    before: tuple[ast.AST, ...],
) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*names, child.name)
            yield from _sites(file, module, child, inner, (*before, child))
        elif isinstance(child, ast.Raise | ast.Assert):
            error, text = _raised(module, child, before)
            lines = (child.lineno, child.end_lineno or child.lineno)
            yield Site(file, ".".join(names), error, plain(text), lines)
        else:
            yield from _sites(file, module, child, names, before)


def _raised(
    module: ast.Module, node: ast.Raise | ast.Assert, scopes: tuple[ast.AST, ...]
) -> tuple[str, str]:
    """The name of what is raised, and its text with `…` for what is filled in."""
    if isinstance(node, ast.Assert):
        return "assert", ast.unparse(node.test)
    if node.exc is None:
        return "raise", ""
    if not isinstance(node.exc, ast.Call):
        return ast.unparse(node.exc), ""
    error = ast.unparse(node.exc.func).removeprefix("ad.")
    if not node.exc.args:
        return error, ""
    return error, _template(module, node.exc.args[0], scopes, node.lineno)


def _template(
    module: ast.Module, node: ast.expr, scopes: tuple[ast.AST, ...], line: int
) -> str:
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(_template(module, v, scopes, line) for v in node.values)
        case ast.BinOp():
            sides = (node.left, node.right)
            return "".join(_template(module, s, scopes, line) for s in sides)
        case ast.Name() if (found := _assigned(node.id, scopes, line)) is not None:
            return _template(module, found, scopes, line)
        case ast.Call(func=ast.Attribute(attr="format", value=value)):
            return _template(module, value, scopes, line).replace("{}", "…")
        case ast.Call(func=ast.Name(id=name)):
            for function in module.body:
                if isinstance(function, ast.FunctionDef) and function.name == name:
                    last = function.body[-1]
                    if isinstance(last, ast.Return) and last.value is not None:
                        return _template(module, last.value, (function,), last.lineno)
        case _:
            pass
    return "…"


def _assigned(name: str, scopes: tuple[ast.AST, ...], line: int) -> ast.expr | None:
    """What a local name was last given before a line."""
    for scope in reversed(scopes):
        given = [
            node
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign)
            and node.lineno <= line
            and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ]
        if given:
            return max(given, key=lambda node: node.lineno).value
    return None


def plain(text: str) -> str:
    """A text without back-ticks, and with one space for each run of white space."""
    return re.sub(r"\s+", " ", text.replace("`", "").replace("|", "or")).strip()


def fits(start: str, text: str) -> bool:
    """Whether a text starts like this, where `…` is a gap; "" is for none at all."""
    pattern = ".*?".join(re.escape(part) for part in start.split("…"))
    return re.match(pattern if start else "$", text) is not None


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
