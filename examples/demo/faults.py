"""Part 1: the import of each faulty module, beside stock JAX with the same code."""

import importlib
import traceback
from typing import Any

import jax

from strict_hijax import StrictHijaxError

from . import stock, text


def import_error(name: str) -> Exception | None:
    """What the import of a faulty module raises."""
    try:
        importlib.import_module(f"{stock.FAULTY}.{name}")
    except Exception as error:
        return error
    return None


def verdict(record: dict[str, Any]) -> str:
    """In a line, what stock JAX makes of the mistake."""
    failures = [
        f"{error.partition(':')[0]} at {place(stage)}"
        for stage, error in record["stages"].items()
        if error
    ]
    if not record["differences"]:
        return failures[0] if failures else "no mistake is seen"
    first = record["differences"][0]
    line = f"SILENT: {first['what']} is {first['got']}, true {first['true']}"
    return f"{line}; {failures[0]}" if failures else line


def place(stage: str) -> str:
    return "the first grad" if stage == "grad" else stage


def broken_claims(record: dict[str, Any], error: Exception | None) -> list[str]:
    """What is not as the module itself claims."""
    name, claims = record["name"], []
    if error is None:
        claims.append(f"{name}: strict_hijax let it be imported")
    elif not isinstance(error, StrictHijaxError):
        claims.append(f"{name}: the import raised {type(error).__name__}, not ours")
    elif error.code != record.get("expected_code"):
        claims.append(f"{name}: {error.code}, not {record.get('expected_code')}")
    outcome, expected = stock.outcome(record), record.get("expected_stock")
    if outcome != expected:
        claims.append(f"{name}: stock JAX is {outcome!r}, not {expected!r}")
    return claims


def describe(record: dict[str, Any], error: Exception | None) -> str:
    """A module's mistake, the strict error, and what stock JAX did."""
    lines = [text.wrapped(record.get("doc", ""), "  "), ""]
    if error is None:
        lines.append("  strict_hijax: THE IMPORT WORKS")
    else:
        shown = "".join(traceback.format_exception_only(error))
        lines += ["  strict_hijax, at the import:", text.quoted(shown)]
    lines += ["", "  stock JAX, the same code:"]
    grouped: dict[str | None, list[str]] = {}
    for stage, failure in record["stages"].items():
        grouped.setdefault(failure, []).append(stage)
    for failure, names in grouped.items():
        line = f"{', '.join(names)}: {failure or 'works'}"
        lines.append(text.wrapped(line, "    ", "  "))
    lines.append(text.wrapped(f"=> {verdict(record)}", "    ", "   "))
    return "\n".join(lines)


def run() -> list[str]:
    """Print the part, and return what is not as claimed."""
    print(text.heading("1. Faulty rules: strict_hijax at the import, and stock JAX"))
    records = sorted(
        stock.measure_all(), key=lambda r: (stock.outcome(r) != "silent", r["name"])
    )
    claims, rows = [], []
    for number, record in enumerate(records, 1):
        print(f"\n[{number}/{len(records)}] {stock.FAULTY}.{record['name']}\n")
        if not stock.applies(record):
            since = ".".join(map(str, record["wrong_since"]))
            note = f"skipped: right on jax {jax.__version__}, wrong since {since}"
            print(f"  {note}")
            rows.append((record["name"], "-", note))
            continue
        error = import_error(record["name"])
        print(describe(record, error))
        claims += broken_claims(record, error)
        code = getattr(error, "code", type(error).__name__ if error else "IMPORTED")
        rows.append((record["name"], code, verdict(record)))
    print("\nIn short:\n")
    print(text.table([("module", "strict", "stock JAX"), *rows]))
    return claims
