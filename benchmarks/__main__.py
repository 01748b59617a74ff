"""The command line: `python -m benchmarks [SECTION ...] [--quick] [--json FILE]`.

`detection` counts faults that are caught; the other sections say what that costs.
`python -m benchmarks jax-report` is a command of its own, about the installed JAX.
"""

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
from .detection import running as detection
from .hlo import Comparison
from .jax_report import command as jax_report
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
ALL = ("hlo", *SECTIONS, "detection")
QUICK_TRANSFORMS = ("forward", "grad", "grad of scan")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 2 for wrong arguments.

    1 if any StableHLO differs, a fault is missed, or a right program is refused.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["jax-report"]:
        return jax_report.main(given[1:])
    options = _parser().parse_args(given)
    chosen = options.sections or ALL
    settings = Settings(options.quick, report.say)
    timing.use_clock(options.clock)
    facts = report.machine() | {"clock": options.clock}
    report.print_machine(facts)
    comparisons = _compare(settings) if "hlo" in chosen else []
    rows = [row for name in chosen if name in SECTIONS for row in _run(name, settings)]
    found = _detect(settings, options.seed) if "detection" in chosen else None
    if options.json:
        report.write_json(options.json, facts, comparisons, rows, found)
    is_clean = found is None or found.is_clean
    return 0 if hlo.is_same(comparisons) and is_clean else 1


def _detect(settings: Settings, seed: int) -> detection.Run:
    size = detection.QUICK if settings.quick else detection.FULL
    found = detection.run_all(size, seed, settings.say)
    report.print_detection(found)
    return found


def _seed(text: str) -> int:
    return detection.fresh_seed() if text == "fresh" else int(text)


def _compare(settings: Settings) -> list[Comparison]:
    transforms = QUICK_TRANSFORMS if settings.quick else tuple(hlo.TRANSFORMS)
    found: list[Comparison] = []
    for program in programs()[:: 8 if settings.quick else 1]:
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
        prog="python -m benchmarks",
        description="What strict_hijax catches, and what it costs.",
    )
    parser.add_argument(
        "sections",
        nargs="*",
        choices=[[], *ALL],
        metavar="SECTION",
        help=f"one of {', '.join(ALL)}; all of them if none is named",
    )
    parser.add_argument("--quick", action="store_true", help="few rounds and programs")
    parser.add_argument(
        "--clock",
        choices=list(timing.CLOCKS),
        default="wall",
        help="time on the wall, or the processor's where other programs run",
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=detection.SEED,
        help="what the programs of detection are drawn from: a number, or `fresh`",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
