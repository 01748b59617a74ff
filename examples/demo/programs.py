"""Part 3: whether two functions lower to the same program, on every platform."""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from . import text

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


class Comparison(NamedTuple):
    """The StableHLO of a strict and of a plain function for one platform."""

    platform: str
    strict: str
    plain: str

    @property
    def same(self) -> bool:
        """Whether the programs are identical, byte for byte."""
        return self.strict == self.plain


def lowered(function: Callable[..., Any], args: Any, platform: str) -> str:
    """The StableHLO of a function; the platform's devices are not needed."""
    traced = jax.jit(function).trace(*args)
    return traced.lower(lowering_platforms=(platform,)).as_text()


def compare(
    strict: Callable[..., Any], plain: Callable[..., Any], args: Any
) -> list[Comparison]:
    """Lower two functions for every platform."""
    return [
        Comparison(p, lowered(strict, args, p), lowered(plain, args, p))
        for p in PLATFORMS
    ]


def fingerprint(program: str) -> str:
    """The beginning of a program's hash, and its length."""
    digest = hashlib.sha256(program.encode()).hexdigest()
    return f"{digest[:16]} {len(program.encode()):,} bytes"


def rows(comparisons: list[Comparison]) -> str:
    """The comparisons as a table."""
    head = ("platform", "strict: sha256, length", "plain: sha256, length", "")
    return text.table(
        [
            head,
            *(
                (
                    c.platform,
                    fingerprint(c.strict),
                    fingerprint(c.plain),
                    "identical" if c.same else "DIFFERENT",
                )
                for c in comparisons
            ),
        ]
    )


def broken_claims(comparisons: list[Comparison]) -> list[str]:
    """Each platform for which the programs differ."""
    return [
        f"the training step is another program for {c.platform}"
        for c in comparisons
        if not c.same
    ]
