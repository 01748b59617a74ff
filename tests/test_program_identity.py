"""Strict programs lower to the StableHLO of plain ones, for every platform.

The benchmark's programs and comparison are used, so that its table and these tests
cannot drift apart.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import strict_hijax
from benchmarks import hlo, primitives, transformed
from benchmarks.hlo import (
    DIFFERS,
    IDENTICAL,
    PLATFORMS,
    REFUSED,
    Comparison,
    compare,
    is_same,
)
from benchmarks.kit import PLAIN, STRICT, Kit
from benchmarks.programs import Program, X, programs
from benchmarks.transforms import TRANSFORMS

PROGRAMS = {program.name: program for program in programs()}


def describe(found: list[Comparison]) -> str:
    return "\n".join(f"{c.platform}: {c.status} {c.detail}" for c in found)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_stablehlo_is_identical_on_every_platform(name: str, transform: str) -> None:
    program = PROGRAMS[name]
    found = compare(program, transform)
    expected = REFUSED if transform in program.refused else IDENTICAL
    assert [c.platform for c in found] == list(PLATFORMS)
    assert {c.status for c in found} == {expected}, describe(found)


@pytest.mark.parametrize("transform", ["forward", "grad"])
def test_no_program_is_left_out_of_forward_and_gradient(transform: str) -> None:
    assert not [name for name in PROGRAMS if transform in PROGRAMS[name].refused]


def test_remat_rules_are_called_and_leave_no_trace() -> None:
    program = Program("remat", transformed.rematerialized, (X,))
    jax.config.update("jax_remat3", True)
    try:
        found = compare(program, "grad of checkpoint")
    finally:
        jax.config.update("jax_remat3", False)
    assert {c.status for c in found} == {IDENTICAL}, describe(found)


def twins(strict, plain) -> Program:
    """A program whose twins are different on purpose."""
    return Program("twins", lambda kit: strict if kit is STRICT else plain, (X,))


def refuse(x):
    raise TypeError("not today")


def test_another_operation_is_found() -> None:
    found = compare(twins(lambda x: jnp.sin(x), lambda x: jnp.cos(x)), "forward")
    assert {c.status for c in found} == {DIFFERS}
    assert all("stablehlo" in c.detail for c in found)
    assert not is_same(found)


def test_another_constant_in_the_gradient_alone_is_found() -> None:
    def build(kit: Kit):
        class Sine(primitives.sine_class(kit)):
            def vjp_bwd_retval(self, res, ct):
                factor = 2 if kit is STRICT else 1
                return (ct * factor * jnp.cos(res),)

        return lambda x: Sine(x.aval)(x)

    program = Program("another gradient", build, (X,))
    assert is_same(compare(program, "forward"))
    assert not is_same(compare(program, "grad"))


def test_another_source_line_is_found() -> None:
    def strict(x):
        return x + 1

    def plain(x):
        return x + 1

    strict.__name__ = strict.__qualname__ = plain.__name__
    found = compare(twins(strict, plain), "forward")
    assert {c.status for c in found} == {DIFFERS}
    assert all(c.detail.startswith("in locations alone: ") for c in found)


def test_a_difference_of_the_first_time_is_forgiven_in_locations_alone() -> None:
    """As where a check of strict_hijax traces a helper before the program does."""
    first: list[bool] = []

    def add(x):
        return x + 1

    def add_elsewhere(x):
        return x + 1

    def once(wrong):
        def build(kit: Kit):
            if kit is STRICT and not first:
                first.append(True)
                return wrong
            return add

        return Program("first time", build, (X,))

    add_elsewhere.__name__ = add_elsewhere.__qualname__ = "add"
    assert is_same(compare(once(add_elsewhere), "forward"))
    first.clear()
    assert not is_same(compare(once(jnp.sin), "forward"))


def test_a_location_inside_the_package_is_found(monkeypatch) -> None:
    monkeypatch.setattr(hlo, "_OWN_FOLDER", str(Path(__file__).parent))

    def add(x):
        return x + 1

    found = compare(twins(add, add), "forward")
    assert {c.status for c in found} == {DIFFERS}
    assert {c.detail for c in found} == {"a location lies in strict_hijax"}


def test_frames_of_the_package_leave_no_location() -> None:
    made_up = Path(strict_hijax.__file__).with_name("made_up.py")
    names: dict[str, Any] = {}
    exec(compile("def add(x): return x + 1", str(made_up), "exec"), names)
    assert is_same(compare(twins(names["add"], names["add"]), "forward"))


@pytest.mark.parametrize(
    ("strict", "plain", "words"),
    [(refuse, jnp.sin, "only strict refuses"), (jnp.sin, refuse, "only stock refuses")],
)
def test_a_refusal_by_one_alone_is_found(strict, plain, words: str) -> None:
    found = compare(twins(strict, plain), "forward")
    assert {c.status for c in found} == {DIFFERS}
    assert all(c.detail.startswith(words) for c in found)


def test_a_refusal_of_another_kind_is_found() -> None:
    def refuse_otherwise(x):
        raise ValueError("not today")

    assert not is_same(compare(twins(refuse_otherwise, refuse), "forward"))


def test_the_twins_differ_in_nothing_but_their_kit() -> None:
    strict, plain = primitives.sine_class(STRICT), primitives.sine_class(PLAIN)
    assert issubclass(strict, STRICT.prim)
    assert not issubclass(plain, STRICT.prim)
    assert strict.__qualname__ == plain.__qualname__
