"""Names that were meant: of a keyword, or of a rule that JAX would call."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ._signatures import function_of, names_used

# One wrong letter in a name of seven is 6/7. Below, words of their own are as near:
# `patch` to `batch` is 0.8.
_NEAR = 0.85


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that is nearest, if it is near enough to have been meant."""
    best = max(known, key=lambda other: _likeness(str(name), other), default=None)
    return None if best is None or _likeness(str(name), best) < _NEAR else best


@functools.lru_cache(maxsize=4096)
def _likeness(name: str, known: str) -> float:
    """From 0 to 1, which is that of the same letters: of `bacth` and `vjpFwd`."""
    name, known = (word.lower().replace("_", "") for word in (name, known))
    if name == known or (len(known) > 3 and sorted(name) == sorted(known)):
        return 1.0  # but `vjp` is not a misspelt `jvp`
    return difflib.SequenceMatcher(None, name, known).ratio()


class LookAlike(NamedTuple):
    """A name of a class that looks like a rule that is missing."""

    name: str
    value: Any
    rule: str
    other_version: bool = False


_SUFFIXES = ("", "_rule", "_impl", "_fn", "_fun")  # such as `batch_rule`


def look_alikes(
    others: Mapping[str, Any],
    own: Mapping[str, Any],
    missing: Mapping[str, bool],
    words: Mapping[str, str],
    fits: Callable[[Any, str], bool],
    is_certain: Callable[[Any, str], bool],
) -> Iterator[LookAlike]:
    """The names of a class that JAX never calls, each with the rule that was meant.

    Args:
      others: what stands in the class beside the rules that it has.
      own: those rules.
      missing: the rules that it lacks, and whether something needs them.
      words: what people write for a rule; good names where nothing needs the rule.
      fits: whether a method could be called as a rule is.
      is_certain: whether a method that is another word for a rule can be nothing else.
    """
    used = frozenset[str]().union(*map(names_used, (*own.values(), *others.values())))
    long_names = tuple(name for name in (*own, *missing) if len(name) > 5)
    for name, value in others.items():
        if name.startswith("_") or name in used or function_of(value) is None:
            continue
        stems = {name.removesuffix(suffix) for suffix in _SUFFIXES}
        called = [r for r in words if stems & {r, *words[r].split()}]
        helper = name.startswith(long_names)  # such as `transposed`
        for rule in (*called, *missing):
            if rule not in missing or not fits(value, rule):
                continue
            needed = missing[rule]
            by_word = rule in called and (needed or is_certain(value, rule))
            slip = not called and _is_slip(name, rule, needed)
            if by_word or (slip and (needed or not helper)):
                yield LookAlike(name, value, rule)
                break


def _is_slip(name: str, rule: str, needed: bool) -> bool:
    """Short names are near to other words: `lin` to `line`, and `batch` to `bath`."""
    likeness = _likeness(name, rule)
    return likeness == 1 or (likeness >= _NEAR and len(rule) >= (5 if needed else 6))
