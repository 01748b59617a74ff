"""The command line: `python -m strict_hijax explain CODE`, or `explain --all`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from ._codes import CODES, family_of, nearest_code
from ._pages import page_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, or 2 where it was used wrongly."""
    parser = argparse.ArgumentParser(
        prog="python -m strict_hijax", description="Safe derivative rules for JAX."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    explain = commands.add_parser(
        "explain", help="print the page of a code: what is wrong and what to write"
    )
    explain.add_argument("codes", nargs="*", metavar="CODE", help="such as SH311")
    explain.add_argument("--all", action="store_true", help="list every code")
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    if options.all == bool(options.codes):
        explain.print_usage(sys.stderr)
        print("give one or more codes, or --all", file=sys.stderr)
        return 2
    if options.all:
        print(_listed(CODES))
        return 0
    return _explain(options.codes)


def _explain(codes: Sequence[str]) -> int:
    for given in codes:
        code = given.strip().upper()
        if code not in CODES:
            print(_unknown(given), file=sys.stderr)
            return 2
    print("\n".join(page_of(code.strip().upper()) for code in codes), end="")
    return 0


def _unknown(given: str) -> str:
    near, family = nearest_code(given), _listed(family_of(given))
    if near:
        hint = f"; did you mean {near}? "
    elif family:
        hint = f". Those of its family:\n\n{family}\n\n"
    else:
        hint = ". "
    everything = "All of them: python -m strict_hijax explain --all"
    return f"{given!r} is no code of strict_hijax{hint}{everything}"


def _listed(codes: Iterable[str]) -> str:
    return "\n".join(f"{code}  {CODES[code].title}" for code in codes)


if __name__ == "__main__":
    sys.exit(main())
