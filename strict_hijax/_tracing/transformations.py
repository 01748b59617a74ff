"""The rules of transformations, called as `vmap`, `grad` and `checkpoint` call them.

Which inputs `transpose` is linear in, and along which axes `batch` works, a class does
not say. So the likely calls are tried: what a rule returns is held to its contract, and
a call that a rule cannot take is none that JAX need make.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from jax import tree_util

from strict_hijax import _jax
from strict_hijax._checked import is_checked, rule_of
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding, StrictHijaxError
from strict_hijax._types import cotangent_type, has_no_tangent, is_zero, type_of

from .differentiation import trace_expand
from .record import Traced, not_traced, trace

_MOST_INPUTS_APART = 4  # with more, they are not tried one by one


_ALL_IN_FRONT = (
    "args = [batching.bdim_at_front(x, d, axis_data.size) "
    "for x, d in zip(args, dims)]   # of jax.interpreters; and then 0 as out_dims"
)


# --- batch ----------------------------------------------------------------------------


def trace_batch(traced: Traced, facts: ClassFacts, prim: Any) -> None:
    """All inputs mapped at their first axis; then one alone, and at the last axis."""
    avals = prim.in_avals_flat
    if not avals or not all(isinstance(aval, _jax.ShapedArray) for aval in avals):
        return  # Refs and hijax types are mapped in ways of their own
    rule = "batch" if facts.provides("batch") else "batch_dim_rule"
    first, *others = _ways_to_map(avals)
    plain = _batched(facts, rule, prim, first)
    traced.add(plain)
    if plain.causes or plain.unchecked:
        return
    for dims in others:
        attempt = _batched(facts, rule, prim, dims)
        if _could_be_called(attempt, rule):
            traced.findings += attempt.findings


def _could_be_called(attempt: Traced, rule: str) -> bool:
    """Whether what was found, if anything, is about the result of the rule itself."""
    of_calls = ("SH210", "SH211")  # what a rule calls with what it was not made for
    return not attempt.causes and all(
        f.rule == rule and f.code not in of_calls for f in attempt.findings
    )


def _ways_to_map(avals: Sequence[Any]) -> Iterator[tuple[int | None, ...]]:
    n = len(avals)
    yield (0,) * n
    if any(aval.ndim for aval in avals):
        yield tuple(aval.ndim for aval in avals)
    if 1 < n <= _MOST_INPUTS_APART:
        for alone in range(n):
            yield tuple(0 if i == alone else None for i in range(n))
    apart = tuple(min(i % 2, aval.ndim) for i, aval in enumerate(avals))
    if any(apart) and 1 < n <= _MOST_INPUTS_APART:
        yield apart


def _batched(
    facts: ClassFacts, rule: str, prim: Any, dims: tuple[int | None, ...]
) -> Traced:
    attempt = Traced()
    size = _size_of_no_other_axis(prim)
    avals = [
        aval if dim is None else _jax.with_mapped_axis(aval, size, dim)
        for aval, dim in zip(prim.in_avals_flat, dims, strict=True)
    ]

    def batch(*leaves: Any) -> list[Any]:
        args = tree_util.tree_unflatten(prim.in_tree, leaves)
        in_dims = _jax.mirrored(prim.in_tree, dims)
        outs, _ = rule_of(prim, "batch")(_jax.axis_of_size(size), args, in_dims)
        return [x for x in tree_util.tree_leaves(outs) if type_of(x) is not None]

    jaxpr = trace(attempt, facts, rule, avals, batch)
    if jaxpr is not None and not attempt.findings:
        attempt.findings += _of_what_it_builds(facts, rule, prim, jaxpr, dims)
    return attempt


def _of_what_it_builds(
    facts: ClassFacts, rule: str, prim: Any, jaxpr: Any, dims: tuple[int | None, ...]
) -> list[Finding]:
    """What is wrong with the instances of the class that `batch` makes and calls.

    They are its own doing: `expand` fits the instance that is checked.
    """
    built = [
        other
        for other in (eqn.params.get("_prim") for eqn in jaxpr.eqns)
        if isinstance(other, type(prim))
        and is_checked(other)
        and other.in_avals_flat != prim.in_avals_flat
    ]
    inner = Traced()
    for other in built:
        trace_expand(inner, facts, other)
    return [_in_batch(facts, rule, finding, dims) for finding in inner.findings[:1]]


def _in_batch(
    facts: ClassFacts, rule: str, finding: Finding, dims: tuple[int | None, ...]
) -> Finding:
    raises = finding.code == "SH320"
    what = "raises" if raises else "gives another type than that one declares"
    return finding._replace(
        headline=f"`{facts.subject}` has a `{rule}` that, under `jax.vmap(..., "
        f"in_axes={dims})`, builds an instance whose `expand` {what}.",
        rule=rule,
        path=None,
        location=facts.where(rule),
        remedies=(_ALL_IN_FRONT,),
    )


def _size_of_no_other_axis(prim: Any) -> int:
    """A size for the mapped axis by which it is told from the others."""
    avals = (*prim.in_avals_flat, *prim.out_avals_flat)
    sizes = {size for aval in avals for size in getattr(aval, "shape", ())}
    return next(n for n in itertools.count(2) if n not in sizes)


# --- transpose ------------------------------------------------------------------------


def trace_transpose(traced: Traced, facts: ClassFacts, prim: Any) -> None:
    """Each set of inputs as those that are linear.

    A rule may be linear in some only, so that a call which fails is no fault; nor is
    an accumulator that is given nothing, unless that holds in all of these calls.
    """
    types = [cotangent_type(aval) for aval in prim.in_avals_flat]
    outputs = [cotangent_type(aval) for aval in prim.out_avals_flat]
    if None in types or None in outputs or any(map(has_no_tangent, outputs)):
        return
    linear = [i for i, ct in enumerate(types) if not has_no_tangent(ct)]
    attempts = {
        way: _transposed(facts, prim, types, outputs, way)
        for way in _ways_to_be_linear(linear)
    }
    worked = {
        way: each
        for way, each in attempts.items()
        if _could_be_called(each, "transpose") and not each.unchecked
    }
    if len(attempts) == 1:  # there is no other way: what it raises is a fault
        traced.add(*attempts.values())
        return
    if not worked:
        reasons = (each.reasons for each in attempts.values())
        traced.unchecked += next(reasons, [])
    does_nothing = all(_untouched(each) == len(way) for way, each in worked.items())
    for attempt in worked.values():
        traced.findings += [
            finding
            for finding in attempt.findings
            if finding.code != "SH311" or does_nothing
        ]
    traced.reports += next((each.reports for each in worked.values()), [])


def _ways_to_be_linear(inputs: Sequence[int]) -> list[tuple[int, ...]]:
    n = len(inputs)
    sizes = range(n, 0, -1) if n <= _MOST_INPUTS_APART else (n, 1)
    return [way for size in sizes for way in itertools.combinations(inputs, size)]


def _untouched(attempt: Traced) -> int:
    return sum(finding.code == "SH311" for finding in attempt.findings)


def _transposed(
    facts: ClassFacts,
    prim: Any,
    types: Sequence[Any],
    outputs: Sequence[Any],
    linear: tuple[int, ...],
) -> Traced:
    attempt = Traced()
    values = [a for i, a in enumerate(prim.in_avals_flat) if i not in linear]

    def transpose(*leaves: Any) -> list[Any]:
        cotangents, rest = leaves[: len(outputs)], iter(leaves[len(outputs) :])
        args = [
            _jax.ValAccum(ct) if i in linear else next(rest)
            for i, ct in enumerate(types)
        ]
        out_ct = tree_util.tree_unflatten(prim.out_tree, cotangents)
        rule_of(prim, "transpose")(
            out_ct, *tree_util.tree_unflatten(prim.in_tree, args)
        )
        given = [acc.freeze() for acc in args if isinstance(acc, _jax.ValAccum)]
        return [ct for ct in given if not is_zero(ct)]

    trace(attempt, facts, "transpose", [*outputs, *values], transpose)
    return attempt


# --- dce and remat --------------------------------------------------------------------


def trace_dce(traced: Traced, facts: ClassFacts, prim: Any) -> None:
    """No output used, each of them alone, and all; with all inputs live."""
    n = prim.out_tree.num_leaves
    live = _jax.mirrored(prim.in_tree, [True] * prim.in_tree.num_leaves)
    ways = [[False] * n, *([i == j for i in range(n)] for j in range(n)), [True] * n]
    for used in {tuple(way): way for way in ways}.values():
        used_outs = _jax.mirrored(prim.out_tree, used)
        try:
            rule_of(prim, "dce")(
                used_outs, *([live] if _jax.DCE_TAKES_LIVE_INPUTS else [])
            )
        except StrictHijaxError as error:
            traced.findings += error.findings
        except Exception as error:
            not_traced(traced, facts, "dce", (), error)
            return


def trace_remat(traced: Traced, facts: ClassFacts, prim: Any) -> None:
    """The output, and then once more, as `jax.checkpoint` does under `jax_remat3`."""

    def remat(*leaves: Any) -> list[Any]:
        def call(*leaves: Any) -> Any:
            args = tree_util.tree_unflatten(prim.in_tree, leaves)
            return _jax.HiPrim.__call__(prim, *args)

        out = _jax.rematerialized(call, *leaves)
        return [x for x in tree_util.tree_leaves(out) if type_of(x) is not None]

    trace(traced, facts, "remat", prim.in_avals_flat, remat)
