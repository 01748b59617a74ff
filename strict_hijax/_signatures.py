"""What can be seen of a rule without calling it, read from its code object.

Only what is certain is said: `inspect.signature` follows `__wrapped__` and believes
`__signature__`, but the code object is what is called. A callable whose code cannot
be seen (a property, a jitted function, a partial) is one about which nothing is said.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import types
from collections.abc import Sequence
from typing import Any, NamedTuple


def function_of(value: object) -> types.FunctionType | None:
    """The Python function behind a value of a class body, if it is certain."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    return value if isinstance(value, types.FunctionType) else None


class NoFunction(NamedTuple):
    """Why a value gives no result when JAX calls it as a rule, and what to write."""

    what: str
    got: str
    remedy: str


def no_function(value: object, line: str, got: str) -> NoFunction | None:
    """What is wrong with a value that cannot be called, or that runs nothing.

    `line` begins the rule as it should be; `got` is the value in words.
    """
    if kind := is_generator_or_coroutine(value):
        is_async = kind != "a generator"
        remedy = f"{line}   # not async def" if is_async else "return ...   # not yield"
        return NoFunction(f"is {kind}: a call of it returns no result.", kind, remedy)
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    if callable(value) or hasattr(type(value), "__get__"):  # a property may give one
        return None
    return NoFunction(f"is {got}, which JAX cannot call.", got, line)


def is_property_with_arguments(value: object) -> bool:
    """Whether a value is a property whose getter wants more than self."""
    getter: object = None
    if isinstance(value, property):
        getter = value.fget
    elif isinstance(value, functools.cached_property):
        getter = value.func
    arity = arity_of(getter)
    return arity is not None and arity.least > 0


_SELF = ("self", "cls", "_", "_self", "this", None)


class Arity(NamedTuple):
    """How many positional arguments a function can take, after any `self`.

    `most` is None for a function with `*args`; `first` is what it calls its self.
    """

    least: int
    most: int | None
    required_keywords: tuple[str, ...]
    names: tuple[str, ...]
    first: str | None
    code: types.CodeType
    defaults: int
    defaulted: frozenset[str]

    @property
    def written(self) -> str:
        """The parameters as they stand in the source, with any `self`."""
        cells = tuple(types.CellType() for _ in self.code.co_freevars)
        defaults = (_Dots(),) * self.defaults
        bare = types.FunctionType(self.code, {}, None, defaults, cells)
        bare.__kwdefaults__ = dict.fromkeys(self.defaulted, _Dots())
        return str(inspect.signature(bare))

    def takes(self, count: int) -> bool:
        """Whether a call with `count` positional arguments binds."""
        return self.least <= count and (self.most is None or count <= self.most)

    @property
    def lacks_self(self) -> bool:
        """Whether a method calls its first parameter something else than self."""
        return self.most == -1 or self.first not in _SELF

    def problem(self, given: Sequence[str], *, or_more: bool = False) -> str | None:
        """Why a method cannot take what JAX gives it after self, or more than that."""
        if self.required_keywords:
            return (
                f"requires the keyword-only argument `{self.required_keywords[0]}`, "
                "which JAX does not give."
            )
        count = len(given)
        enough = self.most is None or self.most >= count
        if enough if or_more else self.takes(count):
            return None
        listed = " and ".join((*given, *["each input"] * or_more)) or "nothing"
        if not enough and self.lacks_self:
            return f"lacks `self`: JAX calls it as a method, with {listed}."
        return f"takes {self.counted} after self; JAX gives it {listed}."

    @property
    def counted(self) -> str:
        """How many arguments it takes, in words."""
        return f"{self} argument{'' if str(self) == '1' else 's'}"

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}" if self.least else "any number of"
        if self.least == self.most:
            return str(self.least)
        return f"{self.least} to {self.most}"


def arity_of(value: object) -> Arity | None:
    """The arity of a rule in a class body, or None if it cannot be seen."""
    function = function_of(value)
    if function is None:
        return None
    return _arity_of(function, bound=not isinstance(value, staticmethod))


def arity_of_function(function: object) -> Arity | None:
    """The arity of a function that is called as it is; of a method without its self."""
    if isinstance(function, types.MethodType):
        inner = function.__func__
        return _arity_of(inner, True) if isinstance(inner, types.FunctionType) else None
    if isinstance(function, types.FunctionType):
        return _arity_of(function, bound=False)
    return None


def _arity_of(function: types.FunctionType, bound: bool) -> Arity:
    defaults = len(function.__defaults__ or ())
    return _arity(
        function.__code__, defaults, frozenset(function.__kwdefaults__ or ()), bound
    )


# By code, and not by function, which would be kept alive with all that it closes over.
@functools.lru_cache(maxsize=4096)
def _arity(
    code: types.CodeType, defaults: int, defaulted: frozenset[str], bound: bool
) -> Arity:
    names = code.co_varnames[: code.co_argcount]
    keywords = code.co_varnames[
        code.co_argcount : code.co_argcount + code.co_kwonlyargcount
    ]
    required = tuple(name for name in keywords if name not in defaulted)
    skip = 1 if bound and names else 0
    least = max(code.co_argcount - defaults - skip, 0)
    varargs = bool(code.co_flags & inspect.CO_VARARGS)
    most = None if varargs else code.co_argcount - skip
    if bound and not names and not varargs:
        most = -1  # cannot even take self
    first = names[0] if skip else None
    return Arity(least, most, required, names[skip:], first, code, defaults, defaulted)


class _Dots:
    """Stands for a default value in a printed signature."""

    def __repr__(self) -> str:
        return "..."


def is_generator_or_coroutine(value: object) -> str | None:
    """What a call of the function gives instead of its result, if that is certain."""
    function = function_of(value)
    if function is None:
        return None
    flags = function.__code__.co_flags
    if flags & inspect.CO_ASYNC_GENERATOR:
        return "an async generator"
    if flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE):
        return "a coroutine"
    if flags & inspect.CO_GENERATOR:
        return "a generator"
    return None


def names_used(value: object) -> frozenset[str]:
    """Names of attributes, globals and free variables in a function's code."""
    function = function_of(value)
    if function is None:
        return frozenset()
    return _names_in(function.__code__)


def _names_in(code: types.CodeType) -> frozenset[str]:
    names = {*code.co_names, *code.co_freevars}
    names.update(c for c in code.co_consts if isinstance(c, str))  # getattr(self, "…")
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _names_in(const)
    return frozenset(names)


# --- returns --------------------------------------------------------------------------

_PUSHED: dict[str, str] = {
    "BUILD_TUPLE": "a tuple",
    "BUILD_LIST": "a list",
}


def certain_returns(value: object) -> frozenset[str] | None:
    """What every `return` of a function gives, or None if that cannot be said.

    Elements are "None", "a tuple", "a list", "a number". The empty set is a function
    that never returns: it only raises.
    """
    function = function_of(value)
    if function is None or is_generator_or_coroutine(value):
        return None
    return _certain_returns(function.__code__)


def returned_lengths(value: object) -> frozenset[int] | None:
    """How long the tuple is that each `return` writes out, or None if one does not."""
    function = function_of(value)
    if function is None or is_generator_or_coroutine(value):
        return None
    return _returned_lengths(function.__code__)


@functools.lru_cache(maxsize=4096)
def _returned_lengths(code: types.CodeType) -> frozenset[int] | None:
    instructions = [i for i in dis.get_instructions(code) if i.opname != "NOP"]
    found: set[int] = set()
    for before, instruction in itertools.pairwise(instructions):
        if instruction.opname == "RETURN_CONST":
            constant: object = instruction.argval
        elif instruction.opname != "RETURN_VALUE":
            continue
        elif instruction.is_jump_target:
            return None
        elif before.opname in ("BUILD_TUPLE", "BUILD_LIST"):
            found.add(before.arg or 0)
            continue
        else:
            constant = before.argval if before.opname == "LOAD_CONST" else None
        if not isinstance(constant, tuple):
            return None
        found.add(len(constant))  # pyright: ignore[reportUnknownArgumentType]
    return frozenset(found)


def only_raises(value: object) -> bool:
    """Whether a function has no way to return, as one that declines on purpose."""
    return certain_returns(value) == frozenset()


@functools.lru_cache(maxsize=4096)
def _certain_returns(code: types.CodeType) -> frozenset[str] | None:
    instructions = [i for i in dis.get_instructions(code) if i.opname != "NOP"]
    found: set[str] = set()
    for index, instruction in enumerate(instructions):
        if instruction.opname == "RETURN_CONST":
            kind, rest = _kind_of_constant(instruction.argval), instructions[:index]
        elif instruction.opname == "RETURN_VALUE":
            kind, rest = (
                _kind_of_pushed(instructions[index - 1]),
                instructions[: index - 1],
            )
            if instruction.is_jump_target:
                return None
        else:
            continue
        if kind is None or (kind == "None" and _ends_in_a_call(rest)):
            return None
        found.add(kind)
    return frozenset(found)


def _kind_of_pushed(pushed: dis.Instruction) -> str | None:
    if pushed.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
        return _kind_of_constant(pushed.argval)
    return _PUSHED.get(pushed.opname)


def _kind_of_constant(constant: Any) -> str | None:
    if constant is None:
        return "None"
    if isinstance(constant, tuple):
        return "a tuple"
    if isinstance(constant, int | float | complex) and not isinstance(constant, bool):
        return "a number"
    return None


def _ends_in_a_call(instructions: list[dis.Instruction]) -> bool:
    """Whether the last statement is a bare call: of a helper that raises, perhaps."""
    names = [i.opname for i in instructions[-2:]]
    return names[-1:] == ["POP_TOP"] and names[0].startswith(("CALL", "POP_TOP"))


def reads_parameter(value: object, index: int) -> bool:
    """Whether a rule's code reads its positional parameter `index` (self is 0)."""
    function = function_of(value)
    if function is None:
        return True
    code = function.__code__
    if index >= code.co_argcount:
        return bool(code.co_flags & inspect.CO_VARARGS)
    name = code.co_varnames[index]
    if name in code.co_cellvars:
        return True
    loads = ("LOAD_FAST", "LOAD_DEREF")
    return any(
        i.opname.startswith(loads) and name in _loaded(i)
        for i in dis.get_instructions(code)
    )


_APART = ("UNPACK", "BINARY_SUBSCR", "BINARY_SLICE", "GET_ITER", "MAKE_CELL")


def takes_no_pair(value: object, *, of_tuples: bool) -> bool:
    """Whether a rule that only computes cannot do so with a pair that it is given.

    It never takes it apart, or once and as something else: into another number of
    names, or into two of which it computes with the first, where that is a tuple.
    """
    function = function_of(value)
    if function is None or function.__code__.co_exceptiontable:
        return False
    steps = [i for i in dis.get_instructions(function) if i.opname != "NOP"]
    apart = [
        index
        for index, i in enumerate(steps)
        if (i.opname.startswith(_APART) or (i.opname, i.argrepr) == ("BINARY_OP", "[]"))
        and steps[index - 2].opname != "BUILD_TUPLE"  # what is built here is no pair
    ]
    if len(apart) != 1 or steps[apart[0]].opname != "UNPACK_SEQUENCE":
        return not apart
    before, unpacking, stored = steps[apart[0] - 1 : apart[0] + 2]
    if _loaded(before)[-1:] != function.__code__.co_varnames[1:2]:
        return False
    first = _loaded(stored)[0]
    uses = [
        after.opname.startswith(("BINARY", "CALL")) and after.argrepr not in ("+", "+=")
        for step, after in itertools.pairwise(steps[apart[0] + 2 :])
        if step.opname.startswith("LOAD_FAST") and first in _loaded(step)
    ]
    return unpacking.arg != 2 or (of_tuples and bool(uses) and all(uses))


def _loaded(instruction: dis.Instruction) -> tuple[str, ...]:
    argval = instruction.argval
    return argval if isinstance(argval, tuple) else (argval,)


def is_abstract(value: object) -> bool:
    """Whether a rule is marked with `abc.abstractmethod`."""
    return bool(getattr(value, "__isabstractmethod__", False))


def calls_itself_on_its_inputs(value: object) -> bool:
    """Whether a method's first act is `self(x, ...)` with all of its own arguments.

    Read off straight code alone: no branch, handler or assignment comes before.
    """
    function = function_of(value)
    if function is None or isinstance(value, staticmethod | classmethod):
        return False
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    plain = not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if is_generator_or_coroutine(value) or not plain or code.co_exceptiontable:
        return False
    loaded: list[str] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("RESUME", "NOP", "PUSH_NULL", "COPY_FREE_VARS"):
            continue
        if instruction.opname == "CALL":
            return len(names) > 1 and tuple(loaded) == names
        if not instruction.opname.startswith("LOAD_FAST"):
            return False
        loaded.extend(_loaded(instruction))
    return False
