"""Checks of `nondiff_argnums` and `nondiff_argnames`, when a function is decorated."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from strict_hijax._errors import Finding

from .rules import FunctionRules, positional_names, visible_arity


def nondiff_findings(
    fun: Any, argnums: tuple[Any, ...], argnames: tuple[Any, ...]
) -> list[Finding]:
    """What is wrong with `nondiff_argnums` and `nondiff_argnames` of a function."""
    rules = FunctionRules(fun)
    arity = visible_arity(fun)
    most = None if arity is None else arity.most
    findings = [
        found
        for index, argnum in enumerate(argnums)
        if (found := _bad_argnum(rules, argnum, argnum in argnums[:index], most))
    ]
    return findings + list(_bad_names(rules, argnames))


def _bad_argnum(
    rules: FunctionRules, argnum: Any, repeated: bool, most: int | None
) -> Finding | None:
    if not isinstance(argnum, int) or isinstance(argnum, bool):
        what = f"{argnum!r}, which is no integer"
    elif argnum < 0:
        what = f"{argnum}, which is negative: JAX counts from 0 here"
    elif repeated:
        what = f"{argnum} twice"
    elif most is not None and argnum >= most:
        what = f"{argnum}, but the function takes {most} positional arguments"
    else:
        return None
    names = positional_names(rules.fun, most or 0)
    remedies = tuple(f"nondiff_argnums=({i},)   # {n}" for i, n in enumerate(names))
    return rules.finding(
        "SH407",
        None,
        f"has `nondiff_argnums` with {what}.",
        path="nondiff_argnums",
        expected="positions of arguments, counted from 0, each once",
        got=repr(argnum),
        remedies=remedies,
    )


def _bad_names(rules: FunctionRules, argnames: tuple[Any, ...]) -> Iterator[Finding]:
    try:
        parameters = inspect.signature(rules.fun).parameters
    except (ValueError, TypeError):
        if argnames:  # JAX asserts that there is a signature
            yield _no_signature(rules, argnames)
        return
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for index, name in enumerate(argnames):
        twice = name in argnames[:index]
        if name in parameters and not twice:
            if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
                yield _keyword_only_name(rules, name)
            continue
        what = (
            f"{name!r} twice" if twice else f"{name!r}, which it has no parameter for"
        )
        yield rules.finding(
            "SH408",
            None,
            f"has `nondiff_argnames` with {what}.",
            path="nondiff_argnames",
            expected=f"names out of {', '.join(parameters)}",
            got=repr(name),
            remedies=tuple(f"nondiff_argnames=({n!r},)" for n in parameters),
        )


def _keyword_only_name(rules: FunctionRules, name: str) -> Finding:
    return rules.finding(
        "SH406",
        None,
        f"has `nondiff_argnames` with {name!r}, which is keyword-only: JAX gives all "
        "arguments by position, and refuses every call that passes it.",
        path=name,
        location=rules.location("primal"),
        expected=f"`{name}` as a positional parameter",
        got=f"`{name}` after the `*`",
        jax_says="The following keyword arguments could not be resolved to positions: "
        + name,
        remedies=("drop the `*`", f"functools.partial({rules.called}, {name}=...)"),
    )


def _no_signature(rules: FunctionRules, argnames: tuple[Any, ...]) -> Finding:
    return rules.finding(
        "SH408",
        None,
        "has `nondiff_argnames`, and no signature that Python can read.",
        path="nondiff_argnames",
        expected="a function with a signature, or positions in place of names",
        got=repr(argnames)[:60],
        remedies=(
            "nondiff_argnums=(0,)   # the positions of these arguments",
            "lambda x: fun(x)   # a function of Python around it",
        ),
    )
