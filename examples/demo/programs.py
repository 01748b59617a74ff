"""Whether two functions are the same program, on every platform."""

import hashlib
from typing import Any, NamedTuple

from . import text

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


class Comparison(NamedTuple):
    """A strict and a plain program in one form."""

    form: str
    strict: str
    plain: str

    @property
    def same(self) -> bool:
        """Whether the programs are identical, byte for byte."""
        return self.strict == self.plain


def compare(strict: Any, plain: Any) -> list[Comparison]:
    """Compare two traced functions, as `jax.jit(...).trace(...)` gives them.

    Their StableHLO for every platform, for which no device is needed, and what XLA
    compiles it to on this machine.
    """
    forms = {f"StableHLO, {platform}": platform for platform in PLATFORMS}
    comparisons = [
        Comparison(
            form,
            *(
                traced.lower(lowering_platforms=(platform,)).as_text()
                for traced in (strict, plain)
            ),
        )
        for form, platform in forms.items()
    ]
    compiled = (traced.lower().compile().as_text() for traced in (strict, plain))
    return [*comparisons, Comparison("compiled, here", *compiled)]


def fingerprint(program: str) -> str:
    """The beginning of a program's hash, and its length."""
    digest = hashlib.sha256(program.encode()).hexdigest()
    return f"{digest[:16]} {len(program.encode()):,} bytes"


def rows(comparisons: list[Comparison]) -> str:
    """The comparisons as a table."""
    head = ("", "strict: sha256, length", "plain: sha256, length", "")
    body = [
        (
            comparison.form,
            fingerprint(comparison.strict),
            fingerprint(comparison.plain),
            "identical" if comparison.same else "DIFFERENT",
        )
        for comparison in comparisons
    ]
    return text.table([head, *body])


def broken_claims(comparisons: list[Comparison]) -> list[str]:
    """Each form in which the programs differ."""
    return [
        f"the training step is another program: {comparison.form}"
        for comparison in comparisons
        if not comparison.same
    ]
