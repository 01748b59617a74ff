"""Kinds 15 and 16: class keywords, effects, and equality."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.operators import fault
from benchmarks.detection.source import Method, Primitive
from benchmarks.detection.stages import Stage

type Mutants = Iterator[Primitive]


@fault(15, Stage.DEF, "SH117", stock=False)
def unknown_transforms(p: Primitive) -> Mutants:
    for value in (
        "'grad'",
        "('gard',)",
        "('grad', 'backward')",
        "3",
        "(grad,)",
        "(1,)",
    ):
        before = ("grad = object()",)
        yield p.promising(supports=value).but(before=before)


@fault(15, Stage.DEF, "SH120", stock=False)
def unknown_codes(p: Primitive) -> Mutants:
    for value in ("('SH999',)", "'SH31'", "('sh_311',)", "(311,)", "('SH311', 'E501')"):
        yield p.promising(ignore=value)


@fault(15, Stage.DEF, "SH117", stock=False)
def unknown_keywords(p: Primitive) -> Mutants:
    for key, value in (
        ("suports", "('grad',)"),
        ("abstract", "'yes'"),
        ("ignored", "()"),
    ):
        yield p.promising(**{key: value})


@fault(15, Stage.DEF, "SH118")
def effects_that_are_no_set_of_effects(p: Primitive) -> Mutants:
    effect = "LibraryEffect"
    for value in (
        "'io'",
        f"[{effect}()]",
        f"{{{effect}}}",
        "{3}",
        f"({effect}(),)",
        "7",
    ):
        yield p.having(effects=f"effects = {value}")


@fault(15, Stage.NEW, "SH118")
def effects_of_an_instance_that_are_no_set_of_effects(p: Primitive) -> Mutants:
    for value in ("'io'", "[LibraryEffect()]", "{LibraryEffect}", "{3}"):
        yield p.declaring(effects=f"self.effects = {value}")


_EQUAL = Method(("self", "other"), returns="return type(self) is type(other)")


@fault(16, Stage.DEF, "SH119")
def eq_without_hash(p: Primitive) -> Mutants:
    yield p.having(__eq__=_EQUAL)
    yield p.having(__hash__="__hash__ = None")
    if p.layout != "one":
        yield p.having(__eq__=_EQUAL).but(of_base=p.of_base | {"__eq__"})


@fault(16, Stage.NEW, "SH119", at_import=False)
def a_decorator_that_adds_eq(p: Primitive) -> Mutants:
    """There is nothing to see of it when the class statement ends."""
    decorators = ("import dataclasses", "@dataclasses.dataclass(repr=False)")
    yield p.but(decorators=decorators)
