"""The command line: `python -m benchmarks jax-report`."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import report

from . import record
from .record import Change, Record

COLUMNS = ("", "name", "before", "now")


def main(arguments: Sequence[str]) -> int:
    """Compare the installed JAX with a recorded version, print, and return 0.

    2 if there is nothing to compare it with.
    """
    options = _parser().parse_args(arguments)
    report.say("running the corpus with stock JAX, half a minute")
    now = record.of_installed()
    if options.record:
        path = record.save(now, options.folder)
        report.say(f"recorded {now['jax']} as {path.name}")
    version = options.against or record.newest_until(now["jax"], options.folder)
    if version not in record.recorded(options.folder):
        report.say(f"nothing is recorded of {version or 'any version until this one'}")
        return 2
    before = record.load(version, options.folder)
    if options.json:
        print(json.dumps(as_data(before, now), indent=1, ensure_ascii=False))
    else:
        print_report(before, now)
    return 0


def as_data(before: Record, now: Record) -> dict[str, Any]:
    """The whole report, for a program to read."""
    found = record.changes(before, now)
    return {
        "jax": now["jax"],
        "against": before["jax"],
        "not_compared": record.not_compared(before, now),
        "changes": [change._asdict() | {"kind": change.kind} for change in found],
    }


def print_report(before: Record, now: Record) -> None:
    """A table for each section in which something changed."""
    found = record.changes(before, now)
    print(f"jax {now['jax']}, compared with {before['jax']}")
    for section in record.SECTIONS:
        rows = [_cells(change) for change in found if change.section == section]
        if rows:
            report.print_table(f"{section}: {len(rows)} changed", COLUMNS, rows)
    if count := record.not_compared(before, now):
        print(f"{count} programs are not in the record; `--record` adds them.")
    if not found:
        print("nothing changed")


def _cells(change: Change) -> tuple[str, ...]:
    values = (change.before, change.now)
    shown = (x if isinstance(x, str) else "" for x in values)  # not counts and flags
    return change.kind, change.name, *shown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks jax-report",
        description="What the installed JAX changes for rules, against a record.",
    )
    parser.add_argument(
        "--against",
        metavar="VERSION",
        help="a recorded version; the newest until the installed one if not given",
    )
    parser.add_argument(
        "--record", action="store_true", help="write the record of the installed JAX"
    )
    parser.add_argument("--json", action="store_true", help="print data, not tables")
    parser.add_argument(
        "--folder",
        type=Path,
        default=record.FOLDER,
        help="where the records are",
    )
    return parser
