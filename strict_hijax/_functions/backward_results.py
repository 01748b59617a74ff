"""What `bwd` of a function must return, and how a result departs from that.

Pure functions from a result to findings, used in place, whenever JAX calls the rule,
and on the tracers of an eager check. A finding explains what JAX refuses, or what it
takes and is wrong all the same.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._accumulators import Watches
from strict_hijax._errors import Finding, Location
from strict_hijax._exchanged import (
    ask_if_exchanged,
    places_of_arguments,
    places_of_leaves,
)
from strict_hijax._types import (
    cotangent_type,
    describe_value,
    has_no_tangent,
    paths_of,
    same_type,
    structure_mismatch,
    type_of,
    wrong_logs,
)

from .asked import ask_bwd, borne_out
from .cotangents import cotangent_finding, is_none, spread
from .rules import FunctionRules, Inputs, innermost


def backward_findings(
    rules: FunctionRules,
    result: Any,
    inputs: Inputs,
    watches: Watches | None = None,
    *,
    may_skip: bool = False,
) -> list[Finding]:
    """What is wrong with the result of `bwd`, for inputs of these types.

    `may_skip` says that a cotangent of the outputs is a symbolic zero, or that some
    input is not differentiated, so that giving nothing can be right.
    """
    found = _findings(rules, result, inputs, watches, may_skip)
    return _borne_out(rules, result, inputs, watches, found) if found else found


def refused_results(rules: FunctionRules, result: Any, inputs: Inputs) -> list[Finding]:
    """What JAX alone says of a result of which nothing is wrong that we know of.

    In place JAX says it itself.
    """
    if _fit(result[0] if rules.with_logs else result, inputs):
        return []
    return _borne_out(rules, result, inputs, None, [])


def _borne_out(
    rules: FunctionRules,
    result: Any,
    inputs: Inputs,
    watches: Watches | None,
    found: list[Finding],
) -> list[Finding]:
    given = [] if watches is None else _wrongly_given(watches)
    answer = ask_bwd(rules, result, inputs, given)
    return borne_out(rules, "bwd", result, found, answer)


def _findings(
    rules: FunctionRules,
    result: Any,
    inputs: Inputs,
    watches: Watches | None,
    may_skip: bool,
) -> list[Finding]:
    if watches is not None:
        logs = list(_logs(rules, result))
        returned = result is not None and type(result) is not dict
        return logs + _accumulators(rules, inputs, watches, may_skip or returned)
    cotangents, findings = result, list[Finding]()
    if rules.with_logs:
        if not isinstance(result, list | tuple) or len(result) != 2:
            return [_no_logs_pair(rules, result)]
        cotangents, logs = result
        findings += _logs(rules, logs)
    return findings + _cotangents(rules, cotangents, inputs, may_skip)


def _no_logs_pair(rules: FunctionRules, result: Any) -> Finding:
    got = describe_value(result)
    return rules.finding(
        "SH420",
        "bwd",
        f"must return a pair, the cotangents and the logs; it returns {got}.",
        expected="a pair (cotangents, logs)",
        got=got,
        remedies=("return (x_ct,), {'name': value}", "f.defvjp(fwd, bwd)   # no logs"),
    )


def _logs(rules: FunctionRules, logs: Any) -> Iterator[Finding]:
    if logs is None:
        return
    if type(logs) is not dict:
        yield rules.finding(
            "SH420",
            "bwd",
            f"must log a dict or None; it logs {describe_value(logs)}.",
            expected="None, or a dict from strings to pytrees of arrays",
            got=describe_value(logs),
            remedies=("x_acc.accum(x_ct)   # in place of return",)
            if rules.with_accums
            else ("return (x_ct,), {'name': value}",),
        )
        return
    for path, got in wrong_logs(logs):
        yield rules.finding(
            "SH420",
            "bwd",
            f"logs {got} at `{path}`.",
            path=path,
            expected="a dict from strings to pytrees of arrays",
            got=got,
            remedies=("{'name': array}",),
        )


def _cotangents(
    rules: FunctionRules, cotangents: Any, inputs: Inputs, may_skip: bool
) -> list[Finding]:
    if type(cotangents) is list and len(cotangents) == inputs.count:
        cotangents = tuple(cotangents)
    if _fit(cotangents, inputs):
        return []
    names = rules.dynamic_names(inputs.count)
    if type(cotangents) is not tuple or len(cotangents) != inputs.count:
        return [_no_tuple(rules, cotangents, inputs.count, names)]
    findings: list[Finding] = []
    wanted = list(map(cotangent_type, inputs.avals))
    arguments = places_of_arguments(names, inputs.treedef, wanted, cotangents)
    entries: list[tuple[Any, bool]] = []
    for name, child, ct in zip(
        names, inputs.treedef.children(), cotangents, strict=True
    ):
        part = spread(child, ct)
        if part is None:
            findings.append(_wrong_structure(rules, name, child, ct))
        else:
            entries += part
    if _jax.bwd_checks_disabled():
        return findings
    if findings:
        return ask_if_exchanged(findings, arguments)
    paths = list(paths_of(inputs.treedef, names))
    copied: set[int] = set()
    for (ct, is_copy), path, aval in zip(entries, paths, inputs.avals, strict=True):
        found = cotangent_finding(rules, path, aval, ct, copied=is_copy)
        if found is not None and not (is_copy and id(ct) in copied):
            findings.append(found)
        copied.add(id(ct))
    if not findings and not may_skip and all(ct is None for ct, _ in entries):
        return list(_all_none(rules, inputs, paths))
    leaves = places_of_leaves(paths, wanted, [ct for ct, _ in entries])
    return ask_if_exchanged(findings, arguments, leaves)


def _fit(cotangents: Any, inputs: Inputs) -> bool:
    """Whether cotangents are beyond doubt: one for each leaf, each None or right."""
    if type(cotangents) is not tuple:
        return False
    leaves, treedef = tree_util.tree_flatten(cotangents, is_leaf=is_none)
    if treedef != inputs.treedef or all(map(is_none, leaves)):
        return False
    for leaf, aval in zip(leaves, inputs.avals, strict=True):
        if leaf is None:
            continue
        got, expected = type_of(leaf), cotangent_type(aval)
        if got is None or expected is None or not same_type(got, expected):
            return False
    return True


def _no_tuple(
    rules: FunctionRules, got: Any, count: int, names: Sequence[str]
) -> Finding:
    returning = ", ".join(f"{n}_ct" for n in names) + "," * (len(names) == 1)
    if type(got) in (tuple, list):
        what = f"returns {_of(len(got), 'cotangent')}; `{rules.name}` has "
        what += f"{_of(count, 'argument')} that can be differentiated."
    else:
        what = "must return a tuple with one cotangent for each argument; it returns "
        what += f"{_kind_of(got)}."
    static = "A nondiff argument gets no cotangent."
    return rules.finding(
        "SH414",
        "bwd",
        what,
        expected=f"a tuple of {count}: cotangents for {', '.join(names)}",
        got=_kind_of(got),
        facts=(static,) if rules.nondiff_argnums else (),
        remedies=(f"return ({returning})",),
    )


def _of(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _kind_of(value: Any) -> str:
    described = describe_value(value)
    if isinstance(value, tuple) and type(value) is not tuple:
        return f"{described} (a {type(value).__name__})"
    if isinstance(value, types.GeneratorType):
        return "a generator"
    return described


def _wrong_structure(rules: FunctionRules, name: str, child: Any, ct: Any) -> Finding:
    path, expected, got = _first_difference(child, ct, name)
    return rules.finding(
        "SH415",
        "bwd",
        f"returns a cotangent of another structure than the argument: at `{path}` "
        f"expected {expected}, got {got}.",
        path=path,
        expected=expected,
        got=got,
        facts=(
            "A container is one also with sizes and flags in it;",
            "a bare None stands for all of it.",
        ),
        remedies=(
            f"return for `{name}` the structure that it has",
            f"None   # for `{name}`",
        ),
    )


def _first_difference(treedef: Any, ct: Any, path: str) -> tuple[str, str, str]:
    """Where a cotangent first departs from its argument, expected and got."""
    node = treedef.node_data()
    prefix: Any = tree_util.tree_structure(ct)
    if node is not None and prefix.node_data() is not None:
        keyed = list(_jax.flatten_one_level_with_keys(ct)[0])
        children = treedef.children()
        if type(ct) is node[0] and len(keyed) == len(children):
            for child, (key, entry) in zip(children, keyed, strict=True):
                if spread(child, entry) is None:
                    return _first_difference(child, entry, path + _jax.keystr((key,)))
    mismatch = structure_mismatch(treedef, ct, path=path)
    if mismatch is None or mismatch.path != path:
        return path, str(treedef), str(prefix)
    return path, mismatch.expected, mismatch.got


def _all_none(
    rules: FunctionRules, inputs: Inputs, paths: Sequence[str]
) -> Iterator[Finding]:
    """No cotangent at all, where some input wants one and the code does not say so."""
    wanting = [
        path
        for path, aval in zip(paths, inputs.avals, strict=True)
        if (ct := cotangent_type(aval)) is not None and not has_no_tangent(ct)
    ]
    if wanting and not _returns_none_on_purpose(innermost(rules.bwd)):
        yield _nothing_given(rules, wanting, "returns None for every argument")


def _nothing_given(rules: FunctionRules, wanting: list[str], what: str) -> Finding:
    names = ", ".join(f"`{path}`" for path in wanting)
    return rules.finding(
        "SH421",
        "bwd",
        f"{what}: the gradient is silently zero for {names}.",
        path=wanting[0],
        expected=f"a cotangent for at least one of {names}",
        got="none",
        remedies=(
            f"x_acc.accum(None)   # a zero on purpose, for {wanting[0]}"
            if rules.with_accums
            else f"return {', '.join(['None'] * len(wanting))},   # on purpose",
            "jax.lax.stop_gradient(x)   # in place of a rule",
        ),
    )


def _returns_none_on_purpose(rule: Any) -> bool:
    """Whether the code spells out a tuple of None: a stop-gradient on purpose."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return True  # it cannot be seen
    return any(
        isinstance(const, tuple) and const and all(c is None for c in const)
        for const in _constants(code)
    )


def _constants(code: types.CodeType) -> Iterator[Any]:
    for const in code.co_consts:
        yield const
        if isinstance(const, types.CodeType):
            yield from _constants(const)


# --- accumulators -----------------------------------------------------------------


def _accumulators(
    rules: FunctionRules, inputs: Inputs, watches: Watches, may_skip: bool
) -> list[Finding]:
    if _jax.bwd_checks_disabled():
        return []
    paths = list(paths_of(inputs.treedef, rules.dynamic_names(inputs.count)))
    found: list[Finding] = []
    for watch, path, aval in zip(watches, paths, inputs.avals, strict=True):
        for ct, (filename, line) in [] if watch is None else watch.wrong:
            place = Location(filename, line, f"in {rules.rule_name('bwd')}")
            finding = cotangent_finding(rules, path, aval, ct, location=place)
            found += [] if finding is None else [finding]
    types = list(map(cotangent_type, inputs.avals))
    places = places_of_leaves(paths, types, _wrongly_given(watches))
    found = ask_if_exchanged(found, places)
    wanted = [(w, p) for w, p in zip(watches, paths, strict=True) if w is not None]
    if wanted and not may_skip and not any(watch.touched for watch, _ in wanted):
        what = "gives nothing to any accumulator"
        found.append(_nothing_given(rules, [path for _, path in wanted], what))
    return found


def _wrongly_given(watches: Watches) -> list[Any]:
    """What is wrong in each accumulator; None for the others."""
    return [w.wrong[0][0] if w is not None and w.wrong else None for w in watches]
