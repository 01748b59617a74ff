"""Tables on a terminal, with rich if it is installed, and JSON."""

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from .detection.counting import COLUMNS
from .detection.running import Run, summary
from .hlo import DIFFERS, IDENTICAL, PLATFORMS, REFUSED, Comparison
from .rows import Row

try:
    from rich.console import Console
    from rich.table import Table
except ImportError:
    Console = Table = None

_STYLES = {"met": "green", "not met": "bold red", DIFFERS: "bold red"}


def machine() -> dict[str, Any]:
    """Where and when this was measured."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "device": ", ".join(sorted({d.device_kind for d in jax.devices()})),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": metadata.version("jaxlib"),
        "strict_hijax": _own_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def _own_version() -> str:
    try:
        return metadata.version("strict-hijax")
    except metadata.PackageNotFoundError:
        return "not installed"


def say(text: str) -> None:
    """Progress, which stays out of the tables."""
    print(f"  {text}", file=sys.stderr, flush=True)


def print_machine(facts: dict[str, Any]) -> None:
    print(", ".join(f"{name}: {value}" for name, value in facts.items()), flush=True)


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """A table of figures."""
    columns = ("subject", "figure", "95 % interval", "strict", "plain", "target", "")
    for figure in dict.fromkeys(row.figure for row in rows):
        table = [_cells(row) for row in rows if row.figure == figure]
        print_table(f"{title}: {figure}", columns, table)


def _cells(row: Row) -> tuple[str, ...]:
    found, target = row.estimate, str(row.target or "")
    if found is None:
        return row.subject, "", "", "", "", target, row.verdict
    interval = f"{found.low:.3f} to {found.high:.3f}"
    times = [_seconds(row.medians.get(name)) for name in ("strict", "plain")]
    figure = f"{found.value:.3f}{row.unit}"
    return row.subject, figure, interval, *times, target, row.verdict


def _seconds(seconds: float | None) -> str:
    """A time with three digits and a unit that suits it."""
    if seconds is None:
        return ""
    units = {"s": 1, "ms": 1e3, "us": 1e6}
    unit = next((unit for unit in units if seconds * units[unit] >= 1), "us")
    return f"{seconds * units[unit]:.3g} {unit}"


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """A line for each program and transform, a column for each platform."""
    cases: dict[tuple[str, str], dict[str, Comparison]] = {}
    for found in comparisons:
        key = (found.program, found.transform)
        cases.setdefault(key, {})[found.platform] = found
    table = [
        (
            *key,
            str(max(found.lines for found in case.values())),
            *(case[name].status for name in PLATFORMS),
        )
        for key, case in cases.items()
    ]
    columns = ("program", "transform", "lines", *PLATFORMS)
    print_table("StableHLO, strict against plain, byte for byte", columns, table)
    _print_details(comparisons)


def _print_details(comparisons: Sequence[Comparison]) -> None:
    for found in comparisons:
        if found.status == DIFFERS:
            place = f"{found.program}, {found.transform}, {found.platform}"
            print(f"  differs: {place}: {found.detail}")
    reasons = {
        f"{found.transform}: {found.detail}": found.program
        for found in comparisons
        if found.status == REFUSED
    }
    for reason, program in reasons.items():
        print(f"  refused by stock, for instance {program}: {reason}")
    counts = {
        status: sum(found.status == status for found in comparisons)
        for status in (IDENTICAL, DIFFERS, REFUSED)
    }
    print("  " + ", ".join(f"{count} {status}" for status, count in counts.items()))


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    if Table is None:
        _print_plain(title, columns, list(rows))
        return
    assert Console is not None
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        style = _STYLES.get(row[-1].partition(",")[0]) if len(row) else None
        table.add_row(*row, style=style if style != "green" else None)
    Console(width=None if sys.stdout.isatty() else 150).print(table)


def _print_plain(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    print(f"\n{title}")
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join(cells).rstrip())


def print_detection(run: Run) -> None:
    """Faults by kind, and what was missed."""
    rows = [row.cells() for row in run.rows]
    print_table("Mutants by kind of fault", COLUMNS, rows)
    for line in summary(run):
        print(line)


def write_json(
    path: Path,
    facts: dict[str, Any],
    comparisons: Sequence[Comparison],
    rows: Sequence[Row],
    detected: Run | None = None,
) -> None:
    """Everything that was printed, as data."""
    found = {
        "machine": facts,
        "stablehlo": [vars(comparison) for comparison in comparisons],
        "figures": [row.as_json() for row in rows],
    }
    if detected is not None:
        found["detection"] = detected.as_json()
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
