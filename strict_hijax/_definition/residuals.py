"""Whether a backward rule, by its code, can read the residuals of a derived forward.

Those of `vjp_from_jvp` and `vjp_from_lin` are a pair: `(primals, nzs_in)`, or what
`lin` keeps and flags. A rule by hand that takes the pair apart is right, and so is one
that reads no residuals. Certainly wrong is one that does nothing with the pair but what
no tuple can do: arithmetic, a function of arrays, an attribute that tuples lack, or
unpacking it into another number of names.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from strict_hijax._signatures import function_of

_ARITHMETIC = frozenset(
    op + eq for op in ("*", "-", "/", "@", "**", "//", "%") for eq in ("", "=")
)
_GIVE_ONE_VALUE = ("BINARY", "BUILD", "CALL", "COMPARE", "CONTAINS", "GET_", "UNARY")
_OF_LOCALS = re.compile("(LOAD|STORE)_FAST")


class _Step(NamedTuple):
    """An instruction; one that loads or stores two local variables is two of these."""

    op: str
    value: Any
    effect: int  # on the height of the stack
    may_be_jumped_to: bool


def misreads_pair(rule: object, of_tuples: bool) -> bool:
    """Whether a rule fails on residuals that are a pair, wherever it reads them.

    With `of_tuples`, what is in the pair are two tuples.
    """
    function = function_of(rule)
    if function is None or isinstance(rule, staticmethod):
        return False
    code = function.__code__
    if code.co_argcount < 2:
        return False
    name, steps = code.co_varnames[1], _steps(dis.get_instructions(code))
    if name in code.co_cellvars or _stores(steps, name):
        return False
    return _misreads(steps, name, of_tuples)


def _steps(instructions: Any) -> list[_Step]:
    steps: list[_Step] = []
    for i in instructions:
        locals_ = _OF_LOCALS.findall(i.opname)
        if len(locals_) == 2:
            for op, name in zip(locals_, i.argval, strict=True):
                effect = 1 if op == "LOAD" else -1
                steps.append(_Step(f"{op}_FAST", name, effect, i.is_jump_target))
            continue
        op = f"{locals_[0]}_FAST" if locals_ else i.opname
        value = i.argrepr if op == "BINARY_OP" else i.argval
        effect = dis.stack_effect(i.opcode, i.arg, jump=False)
        if op != "NOP" or i.is_jump_target:
            steps.append(_Step(op, value, effect, i.is_jump_target))
    return steps


def _stores(steps: Sequence[_Step], name: str) -> int:
    return sum(s.op != "LOAD_FAST" and s.value == name for s in steps)


def _misreads(steps: Sequence[_Step], name: str, of_tuples: bool) -> bool:
    """Whether a variable is read, and nowhere as the tuple that it is."""
    reads = [i for i, s in enumerate(steps) if s.op == "LOAD_FAST" and s.value == name]
    return bool(reads) and all(_fails(steps, i, of_tuples) for i in reads)


def _fails(steps: Sequence[_Step], read: int, of_tuples: bool) -> bool:
    """Whether a tuple that is loaded here makes the code fail, whatever else is so."""
    user = _user(steps, read)
    if user is None:
        return False
    op, value = steps[user].op, steps[user].value
    if op == "UNPACK_SEQUENCE":
        return value != 2 or (of_tuples and _misreads_a_part(steps, user))
    if op == "CALL":
        return user == read + 1 and value == 1 and _is_of_arrays(steps[:read])
    if op == "LOAD_ATTR":
        return not hasattr(tuple, value)
    return op == "UNARY_NEGATIVE" or (op == "BINARY_OP" and value in _ARITHMETIC)


def _misreads_a_part(steps: Sequence[_Step], unpacking: int) -> bool:
    """Whether a part of the pair, a tuple itself, is used as something else."""
    stored = steps[unpacking + 1 : unpacking + 3]
    parts = {step.value for step in stored if step.op == "STORE_FAST"}
    once = len(parts) == 2 and all(_stores(steps, part) == 1 for part in parts)
    return once and any(_misreads(steps, part, False) for part in parts)


def _user(steps: Sequence[_Step], read: int) -> int | None:
    """The step that takes off the stack what is loaded here, if that is certain."""
    height = 1  # of the stack, from the value on
    for i in range(read + 1, len(steps)):
        step = steps[i]
        if step.may_be_jumped_to or "JUMP" in step.op:
            return None
        if height == 1 and step.op in ("LOAD_ATTR", "UNPACK_SEQUENCE"):
            return i
        height += step.effect
        gives_one = step.op.startswith(_GIVE_ONE_VALUE)
        if height < 1 or (height == 1 and gives_one):
            return i
    return None


def _is_of_arrays(before: Sequence[_Step]) -> bool:
    """Whether the function that is called is one of NumPy's, such as `jnp.cos`."""
    names = [s.value for s in before[-2:] if s.op in ("LOAD_ATTR", "LOAD_GLOBAL")]
    name = names[-1] if names else ""
    return isinstance(getattr(np, name, None), np.ufunc)
