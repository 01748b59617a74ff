"""What a user says about the checks of one function, and what cannot be used."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

from strict_hijax._effects import EffectPolicy, parse_policy
from strict_hijax._errors import Finding
from strict_hijax._ignoring import parse_codes
from strict_hijax._names import nearest

from .declared_types import DeclaredTypes
from .rules import qualified_name

EAGER_VARIABLE = "STRICT_HIJAX_EAGER"
_OPTIONS = ("example_args", "dims", "axes", "effects", "ignore", "eager")
_STOCK_OPTIONS = ("nondiff_argnums", "nondiff_argnames")


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What was said about the checks of one function."""

    declared: DeclaredTypes
    policy: EffectPolicy
    ignored: frozenset[str]
    eager: bool | None

    @property
    def is_eager(self) -> bool:
        """Whether rules are traced ahead of JAX, by this or by the environment."""
        if self.eager is not None:
            return self.eager
        return eager_of_environment()


def eager_of_environment() -> bool:
    """What STRICT_HIJAX_EAGER says for this process; an unknown value is refused."""
    value = os.environ.get(EAGER_VARIABLE, "").strip()
    if value not in ("", "0", "1"):
        raise Finding(
            code="SH427",
            subject=EAGER_VARIABLE,
            headline=f"`{EAGER_VARIABLE}` is {value!r}, which says neither yes nor no.",
            path=EAGER_VARIABLE,
            expected="1, or 0 to check a rule only where JAX calls it",
            got=repr(value),
            remedies=(f"{EAGER_VARIABLE}=0", f"{EAGER_VARIABLE}=1   # the default"),
        ).error()
    return value != "0"


def parse_options(
    fun: Any,
    *,
    example_args: Any = None,
    dims: Any = None,
    axes: Any = None,
    effects: Any = "jax",
    ignore: Any = (),
    eager: bool | None = None,
) -> Options:
    """The options of one function, each looked at."""
    if eager is None:
        eager_of_environment()
    return Options(
        DeclaredTypes.parse(fun, example_args, dims, axes),
        parse_policy(effects, qualified_name(fun)),
        parse_codes(ignore, "ignore"),
        eager,
    )


def _usage(tool: str, path: str, sentence: str, **more: Any) -> Finding:
    return Finding(
        code="SH427",
        subject=f"strict_hijax.{tool}",
        headline=f"`strict_hijax.{tool}` {sentence}",
        path=path,
        **more,
    )


def refuse_unknown(tool: str, kwargs: Mapping[str, Any]) -> None:
    """An argument that the tool does not have."""
    known = (*_STOCK_OPTIONS, *_OPTIONS)
    for name in kwargs:
        if name not in known:
            near = nearest(name, known)
            did_you_mean = f"; did you mean `{near}`?" if near else "."
            raise _usage(
                tool,
                name,
                f"takes no argument `{name}`{did_you_mean}",
                expected=", ".join(known),
                got=name,
                remedies=(f"{near}=...",) if near else (),
            ).error()


def refuse_uncallable(tool: str, fun: Any) -> None:
    """What is given as the function is none."""
    if not callable(fun):
        kind = type(fun).__name__
        raise _usage(
            tool,
            "fun",
            f"is given `fun` of type {kind}, which is no function.",
            expected=f"a function, or a jax.{tool.removeprefix('checked_')}",
            got=repr(fun)[:60],
            remedies=(
                f"@{tool}",
                f"@{tool}(example_args=(...,))",
            ),
        ).error()


def refuse_nondiff_of_existing(
    tool: str, fun: Any, argnums: Any, argnames: Any
) -> None:
    """A function with rules has its `nondiff_argnums`, too."""
    if argnums or argnames:
        raise _usage(
            tool,
            "nondiff_argnums",
            "is given `nondiff_argnums` for a function that has rules for its own.",
            expected=f"nondiff_argnums={tuple(fun.nondiff_argnums)}, as it has",
            got=repr(argnums or argnames),
            remedies=(f"{tool}(f)   # nothing else is needed",),
        ).error()


def as_tuple(tool: str, value: Any, kind: type) -> tuple[Any, ...]:
    """A tuple of what may be one value, as users write `nondiff_argnums=1`."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        name = "nondiff_argnums" if kind is int else "nondiff_argnames"
        raise _usage(
            tool,
            name,
            f"needs `{name}` as a tuple, even if it is one.",
            expected=f"a tuple of {kind.__name__}",
            got=repr(value)[:60],
            remedies=(f"{name}=({value!r},)",),
        ).error()
    return tuple(value)
