"""Whether strict and plain programs lower to the same StableHLO, byte for byte."""

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

import strict_hijax

from .kit import TWINS, Kit
from .programs import Program
from .transforms import TRANSFORMS

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")

IDENTICAL = "identical"
DIFFERS = "differs"
REFUSED = "refused by stock"

IN_LOCATIONS = "in locations alone: "

_OWN_FOLDER = str(Path(strict_hijax.__file__).parent) + os.sep


@dataclass(frozen=True)
class Comparison:
    """One program under one transform for one platform.

    `lines` counts the StableHLO without debug information; `detail` is the
    first difference, or stock JAX's reason to refuse the program.
    """

    program: str
    transform: str
    platform: str
    status: str
    lines: int
    detail: str = ""


@dataclass(frozen=True)
class _Refusal:
    error: Exception

    def __str__(self) -> str:
        words = str(self.error).strip().partition("\n")[0]
        return f"{type(self.error).__name__}: {words[:160]}"


def compare(program: Program, transform: str) -> list[Comparison]:
    """Compare the twins of `program` under `transform` on every platform.

    A helper that JAX traces once keeps the locations of its first caller, and that can
    be a check of strict_hijax, which runs once for each class and type. So a difference
    in locations alone is looked at again, now that nothing is left to be checked.
    """
    compared = _compare_once(program, transform)
    if any(comparison.detail.startswith(IN_LOCATIONS) for comparison in compared):
        compared = _compare_once(program, transform)
    return compared


def _compare_once(program: Program, transform: str) -> list[Comparison]:
    """Compare with caches cleared before and not between: both find the same ones."""
    jax.clear_caches()
    strict, plain = (_texts(program, transform, kit) for kit in TWINS)
    return [
        Comparison(program.name, transform, platform, *_judge(*pair))
        for platform, *pair in zip(PLATFORMS, strict, plain, strict=True)
    ]


def compare_all(
    programs: Iterable[Program], transforms: Iterable[str] = tuple(TRANSFORMS)
) -> Iterator[Comparison]:
    """Compare every program under every transform."""
    transforms = tuple(transforms)
    for program in programs:
        for transform in transforms:
            yield from compare(program, transform)


def _texts(program: Program, transform: str, kit: Kit) -> list[Any]:
    """For each platform the text without and with debug information, or a refusal."""
    try:
        fun, specs = TRANSFORMS[transform](program.build(kit), program.specs)
        traced = jax.jit(fun).trace(*specs)
    except Exception as error:
        return [_Refusal(error)] * len(PLATFORMS)
    return [_lowered(traced, platform) for platform in PLATFORMS]


def _lowered(traced: Any, platform: str) -> Any:
    try:
        lowered = traced.lower(lowering_platforms=(platform,))
    except Exception as error:
        return _Refusal(error)
    return lowered.as_text(), lowered.as_text(debug_info=True)


def _judge(strict: Any, plain: Any) -> tuple[str, int, str]:
    """The status of a pair, its number of lines, and what there is to say."""
    if isinstance(plain, _Refusal):
        if isinstance(strict, _Refusal) and _same_refusal(strict, plain):
            return REFUSED, 0, str(plain)
        return DIFFERS, 0, f"only stock refuses: {plain}"
    lines = plain[0].count("\n")
    if isinstance(strict, _Refusal):
        return DIFFERS, lines, f"only strict refuses: {strict}"
    if _OWN_FOLDER in strict[1]:
        return DIFFERS, lines, "a location lies in strict_hijax"
    if strict == plain:
        return IDENTICAL, lines, ""
    if strict[0] != plain[0]:
        return DIFFERS, lines, first_difference(strict[0], plain[0])
    return DIFFERS, lines, IN_LOCATIONS + first_difference(strict[1], plain[1])


def _same_refusal(strict: _Refusal, plain: _Refusal) -> bool:
    """Whether an `except` clause for stock's error would catch the strict one too."""
    return isinstance(strict.error, type(plain.error))


def first_difference(strict: str, plain: str) -> str:
    """The first line that only one of the texts has, with its sign."""
    rows = difflib.unified_diff(plain.splitlines(), strict.splitlines(), n=0)
    changed = [row for row in rows if not row.startswith(("---", "+++", "@@"))]
    return changed[0] if changed else "only the ends of lines differ"


def is_same(comparisons: Iterable[Comparison]) -> bool:
    """Whether no comparison differs."""
    return all(comparison.status != DIFFERS for comparison in comparisons)
