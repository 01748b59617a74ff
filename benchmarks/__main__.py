"""The command line: `python -m benchmarks [SECTION ...] [--quick] [--json FILE]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import (
    checking,
    definition,
    eager,
    hlo,
    importing,
    report,
    runtime,
    timing,
    tracing,
)
from .hlo import Comparison
from .programs import programs
from .rows import Row, Section, Settings

SECTIONS: dict[str, Section] = {
    "runtime": runtime.rows,
    "tracing": tracing.rows,
    "eager": eager.rows,
    "definition": definition.rows,
    "import": importing.rows,
    "check": checking.rows,
}
QUICK_TRANSFORMS = ("forward", "grad", "grad of scan")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if any StableHLO differs, 2 for wrong arguments."""
    options = _parser().parse_args(arguments)
    chosen = options.sections or ["hlo", *SECTIONS]
    settings = Settings(options.quick, report.say)
    timing.use_clock(options.clock)
    facts = report.machine() | {"clock": options.clock}
    report.print_machine(facts)
    comparisons = _compare(settings) if "hlo" in chosen else []
    rows = [row for name in chosen if name != "hlo" for row in _run(name, settings)]
    if options.json:
        report.write_json(options.json, facts, comparisons, rows)
    return 0 if hlo.is_same(comparisons) else 1


def _compare(settings: Settings) -> list[Comparison]:
    transforms = QUICK_TRANSFORMS if settings.quick else tuple(hlo.TRANSFORMS)
    found: list[Comparison] = []
    for program in programs()[:: 3 if settings.quick else 1]:
        settings.say(f"StableHLO: {program.name}")
        found += hlo.compare_all([program], transforms)
    report.print_comparisons(found)
    return found


def _run(name: str, settings: Settings) -> list[Row]:
    rows = list(SECTIONS[name](settings))
    report.print_rows(name, rows)
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="What strict_hijax costs."
    )
    parser.add_argument(
        "sections",
        nargs="*",
        choices=[[], "hlo", *SECTIONS],
        metavar="SECTION",
        help=f"one of {', '.join(['hlo', *SECTIONS])}; all of them if none is named",
    )
    parser.add_argument("--quick", action="store_true", help="few rounds and programs")
    parser.add_argument(
        "--clock",
        choices=list(timing.CLOCKS),
        default="wall",
        help="time on the wall, or the processor's where other programs run",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
