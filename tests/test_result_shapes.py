"""What a rule may return: nothing that JAX takes is refused, and nothing else is taken.

Each row of `benchmarks.shapes` is run with stock JAX and with what is strict. Nothing
of what JAX does is written here: it is asked in the same test.
"""

from __future__ import annotations

import functools

import jax
import pytest

from benchmarks.shapes import BASES, ROWS, Outcome, Row, outcome
from strict_hijax import StrictHijaxError

# What we refuse although stock JAX takes it, with the right value.
REFUSED_ON_PURPOSE = {
    "custom_vjp.bwd, two inputs: a namedtuple (jax_custom_vjp3)": (
        "0.11.2 takes it with this option alone, and with no newer version"
    ),
}

# What we take although stock JAX refuses it, or gives something wrong.
TAKEN_ON_PURPOSE = {
    "jvp, the pair: swapped": "the two have the same types: only values can tell",
}


@functools.cache
def stock(row: Row) -> Outcome:
    return outcome(row, BASES["stock"])


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_result_is_taken_if_and_only_if_jax_takes_it_for_what_is_meant(
    row: Row,
) -> None:
    theirs, ours = stock(row), outcome(row, BASES["strict"])
    if theirs.verdict == "not called":
        assert ours.verdict == "not called"
    elif theirs.verdict == "right":
        allowed = (
            {"right"} if row.name not in REFUSED_ON_PURPOSE else {"right", "refused"}
        )
        assert ours.verdict in allowed, ours.error
    elif row.name not in TAKEN_ON_PURPOSE:
        assert ours.verdict == "refused", theirs
    if ours.verdict == "refused":
        assert isinstance(ours.error, StrictHijaxError), repr(ours.error)


def test_rows_have_names_of_their_own_and_are_of_every_rule() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) >= 60
    assert {row.rule for row in ROWS} >= {
        "expand",
        "vjp_fwd",
        "vjp_bwd",
        "vjp_bwd_retval",
        "vjp_bwd_retval_logs",
        "jvp",
        "lin",
        "linearized",
        "batch",
        "dce",
        "custom_vjp.fwd",
        "custom_vjp.bwd",
        "custom_jvp.jvp",
    }
    assert {*REFUSED_ON_PURPOSE, *TAKEN_ON_PURPOSE} <= {*names}


def test_the_right_result_is_right_with_stock_jax() -> None:
    as_it_is = [row for row in ROWS if row.name.partition(": ")[2] == "as it is"]
    assert len(as_it_is) > 50
    assert {stock(row).verdict for row in as_it_is} - {"not called"} == {"right"}


def test_what_is_listed_is_needed() -> None:
    rows = {row.name: row for row in ROWS}
    for name in TAKEN_ON_PURPOSE:
        assert stock(rows[name]).verdict != "right"
    if jax.__version_info__ < (0, 12):
        for name in REFUSED_ON_PURPOSE:
            assert stock(rows[name]).verdict == "right"


def test_a_wrong_value_a_refusal_and_a_rule_that_is_not_called_are_told_apart() -> None:
    rows = {row.name: row for row in ROWS}
    silent = rows["vjp_bwd, the pair: no cotangent"]
    assert stock(silent).verdict == "wrong"
    assert str(stock(rows["vjp_fwd, the pair: None"])) == "refused, TypeError"
    row = rows["vjp_bwd, the pair: no logs"]
    assert stock(row).verdict == "right"
    called = Row("no rule", "batch", "call", row.layout, row.give, row.meant)
    assert stock(called).verdict == "not called"
