"""Checks on what `dce` returns: which inputs are used, what is produced, and by what.

The contract is that of `_call_hi_primitive_dce` in `jax._src.hijax`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding
from strict_hijax._rules import RULES
from strict_hijax._types import describe, describe_value, paths_of, same_type


def dce_findings(
    facts: ClassFacts, prim: Any, rule: str, result: Any, used_outs: Any
) -> list[Finding]:
    """What is wrong with the result of `dce` for these outputs that are used."""
    if not isinstance(result, tuple | list) or len(result) != 3:
        got = describe_value(result)
        return [
            _finding(
                facts,
                "SH340",
                f"returns {got} in place of three things.",
                expected=RULES[rule].returns,
                got=got,
                remedies=(
                    "return True, True, self   # everything is used",
                    "return False, False, None   # the equation goes",
                ),
            )
        ]
    used_ins, produced_outs, new = result
    used = tree_util.tree_leaves(used_outs)
    if new is None:
        return list(_removed(facts, prim, used))
    if not isinstance(new, _jax.HiPrim):
        return [_no_primitive(facts, new)]
    ins = _flags(facts, prim.in_tree, used_ins, "used_ins", "inputs")
    outs = _flags(facts, prim.out_tree, produced_outs, "produced_outs", "outputs")
    if isinstance(ins, Finding) or isinstance(outs, Finding):
        return [flags for flags in (ins, outs) if isinstance(flags, Finding)]
    return [
        *_unproduced(facts, prim, used, outs),
        *_types(facts, "in_avals", prim.in_avals_flat, ins, new.in_avals_flat),
        *_types(facts, "out_aval", prim.out_avals_flat, outs, new.out_avals_flat),
    ]


def _finding(facts: ClassFacts, code: str, sentence: str, **more: Any) -> Finding:
    return facts.finding(
        code,
        f"has a `dce` that {sentence}",
        rule="dce",
        **more,
    )


def _removed(facts: ClassFacts, prim: Any, used: Sequence[bool]) -> Iterator[Finding]:
    if any(used) and not prim.effects:
        path = next(p for p, u in zip(paths_of(prim.out_tree), used, strict=True) if u)
        yield _finding(
            facts,
            "SH341",
            f"removes the equation although an output is used, at `used_outs{path}`.",
            path=f"used_outs{path}",
            expected="a primitive that produces the outputs that are used",
            got="None",
            remedies=(
                "return True, True, self",
                "if not any(jax.tree.leaves(used_outs)): return False, False, None",
            ),
        )


def _no_primitive(facts: ClassFacts, new: Any) -> Finding:
    got = describe_value(new)
    return _finding(
        facts,
        "SH340",
        f"returns {got} as the new primitive.",
        path="new primitive",
        expected="an instance of a HiPrim, or None",
        got=got,
        remedies=("return True, True, self",),
    )


def _flags(
    facts: ClassFacts, treedef: Any, flags: Any, path: str, of: str
) -> list[bool] | Finding:
    try:
        return _jax.tuptree_flags(flags, treedef, path)
    except (ValueError, TypeError) as error:
        return _finding(
            facts,
            "SH342",
            f"returns a wrong `{path}`.",
            path=path,
            expected=f"True or False, or a tuple of them for the {of}",
            got=describe_value(flags),
            jax_says=str(error).splitlines()[0],
            remedies=(f"True   # all {of}",),
        )


def _unproduced(
    facts: ClassFacts, prim: Any, used: Sequence[bool], produced: Sequence[bool]
) -> Iterator[Finding]:
    paths = paths_of(prim.out_tree)
    for path, is_used, is_produced in zip(paths, used, produced, strict=True):
        if is_used and not is_produced:
            yield _finding(
                facts,
                "SH341",
                f"does not produce an output that is used, at `produced_outs{path}`.",
                path=f"produced_outs{path}",
                expected="True for each output that is used",
                got="False",
                remedies=("return used_ins, used_outs, new",),
            )


def _types(
    facts: ClassFacts,
    which: str,
    avals: Sequence[Any],
    flags: Sequence[bool],
    new: Sequence[Any],
) -> Iterator[Finding]:
    kept = [aval for aval, flag in zip(avals, flags, strict=True) if flag]
    if len(kept) == len(new) and all(map(same_type, kept, new)):
        return
    flag = "used_ins" if which == "in_avals" else "produced_outs"
    yield _finding(
        facts,
        "SH343",
        f"returns a primitive whose `{which}` do not fit the flags that it returns.",
        path=which,
        expected=f"({', '.join(map(describe, kept))}), those that `{flag}` keeps",
        got=f"({', '.join(map(describe, new))})",
        remedies=(f"return a primitive for these, or other `{flag}`",),
    )
