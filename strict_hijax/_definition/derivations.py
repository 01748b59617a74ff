"""Derivations: pairs, halves and circles, and two backward rules in one class."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from strict_hijax._errors import Finding
from strict_hijax._rules import (
    BACKWARD_RULES,
    DERIVATIONS,
    RULES,
    Derivation,
    derivation_pair,
    derived_half,
)
from strict_hijax._signatures import (
    function_of,
    names_used,
    only_raises,
    reads_parameter,
    takes_no_pair,
)

from .facts import ClassFacts


def circles(facts: ClassFacts) -> Iterator[Finding]:
    jvp = derived_half(facts.rules.get("jvp"))
    lin = derived_half(facts.rules.get("lin"))
    if jvp is None or lin is None or "jvp" not in lin[0].needs:
        return
    lin_template = RULES["lin"].template(facts.inputs)
    yield facts.finding(
        "SH107",
        "derives `jvp` from `lin`, and `lin` from `jvp`: each is defined in terms of "
        "the other.",
        rule="jvp",
        facts=(f"{jvp[0].line}; {lin[0].line}",),
        jax_says=f"subclass {facts.cls} can't set both `jvp = jvp_from_lin` and "
        "`lin, linearized = linearize_from_jvp`, since each would be defined in terms "
        "of the other",
        remedies=(
            f"{RULES['jvp'].template(facts.inputs)}   # in place of {jvp[0].line}",
            f"{lin_template}   # and linearized, in place of {lin[0].line}",
        ),
    )


def pair_not_unpacked(facts: ClassFacts) -> Iterator[Finding]:
    for name, value in (facts.rules | facts.other_names).items():
        pair = derivation_pair(value)
        if pair is None or (name not in RULES and not _would_give(facts, pair)):
            continue
        yield facts.finding(
            "SH104",
            f"sets `{name}` to `{pair.name}`, which is a pair of rules, not one.",
            rule=name,
            expected=pair.line,
            got=f"{name} = {pair.name}",
            jax_says=f"`{pair.name}` is a pair of rules, not a single rule; unpack "
            f"it in the class body: `{pair.line}`",
            remedies=tuple(
                d.line
                for d in DERIVATIONS
                if d is pair or name in _rules_of(d) - _rules_of(pair)
            ),
        )


def _rules_of(derivation: Derivation) -> set[str]:
    return {rule for rule, _ in derivation.halves}


def _would_give(facts: ClassFacts, pair: Derivation) -> bool:
    """Whether a pair, unpacked, would give rules that are missing."""
    return not _rules_of(pair) <= facts.rules.keys()


def halves_that_do_not_fit(facts: ClassFacts) -> Iterator[Finding]:
    wrong: dict[Derivation, dict[str, str]] = {}
    for name, value in facts.rules.items():
        half = derived_half(value)
        if half is not None and name != half[1]:
            wrong.setdefault(half[0], {})[name] = half[1]
    for derivation, names in wrong.items():
        single = len(derivation.halves) == 1
        what = derivation.name if single else f"a half of `{derivation.name}`"
        told = " and ".join(f"`{name}` is its `{names[name]}`" for name in names)
        yield facts.finding(
            "SH105",
            f"sets `{next(iter(names))}` to `{what}`, which is a `jvp`."
            if single
            else f"unpacks `{derivation.name}` to the wrong names: {told}.",
            rule=next(iter(names)),
            expected=derivation.line,
            got=f"{', '.join(names)} = {derivation.name}",
            remedies=(derivation.line,),
        )
    if not wrong:
        yield from _mixed_halves(facts, "vjp_fwd", _backward_rule(facts) or "")
        yield from _mixed_halves(facts, "lin", "linearized")


def _mixed_halves(facts: ClassFacts, first: str, second: str) -> Iterator[Finding]:
    if first not in facts.rules or second not in facts.rules:
        return
    source, sink = _derivation(facts, first), _derivation(facts, second)
    if source is sink:
        return
    if source is None and sink is not None and not _cannot_feed(facts, first, sink):
        return
    if sink is None and source is not None and not _cannot_read(facts, second, source):
        return
    derivation = sink or source
    assert derivation is not None
    yield facts.finding(
        "SH105",
        f"pairs a `{first}` and a `{second}` that do not fit: the residuals of one are "
        "not what the other reads.",
        rule=second,
        location=facts.where(second if sink is None else first),
        expected="both halves of one derivation, or both written by hand",
        got=f"{first} {_origin(source)}, {second} {_origin(sink)}",
        remedies=(
            derivation.line,
            f"{RULES[first].template(facts.inputs)}   # and {second}, both by hand",
            *([_PAIR] if derivation.name == "vjp_from_jvp" and sink is None else []),
        ),
    )


_PAIR = "primals, nzs_in = res   # what the `vjp_fwd` of `vjp_from_jvp` keeps"


def _derivation(facts: ClassFacts, rule: str) -> Derivation | None:
    half = derived_half(facts.rules[rule])
    return None if half is None else half[0]


def _origin(derivation: Derivation | None) -> str:
    return "written by hand" if derivation is None else f"from {derivation.name}"


def _cannot_feed(facts: ClassFacts, rule: str, derivation: Derivation) -> bool:
    """Whether a forward rule written by hand cannot make a derived half's residuals.

    Those of `vjp_from_jvp` are (primals, nzs_in); the others are private to JAX, and
    only JAX's own half, called from here, makes them.
    """
    value = facts.rules[rule]
    public = derivation.name == "vjp_from_jvp" and reads_parameter(value, 1)
    return _only_computes(value) and not public


def _cannot_read(facts: ClassFacts, rule: str, derivation: Derivation) -> bool:
    """Whether a rule written by hand cannot read a derived half's residuals.

    Those of `linearize_from_jvp` are an object of JAX's own; the others are pairs, that
    of `vjp_from_jvp` one of two tuples.
    """
    value = facts.rules[rule]
    if not _only_computes(value) or not reads_parameter(value, 1):
        return False
    if derivation.name == "linearize_from_jvp":
        return True
    elementwise = all(n in _MODULES or _is_ufunc(n) for n in names_used(value))
    of_tuples = derivation.name == "vjp_from_jvp" and elementwise
    return takes_no_pair(value, of_tuples=of_tuples)


def _is_ufunc(name: str) -> bool:  # `sum` and `stack` take tuples
    return isinstance(getattr(np, name, None), np.ufunc)


_MODULES = frozenset({"jax", "jnp", "np", "numpy", "lax", "expand", "accum"})


def _only_computes(value: object) -> bool:
    """Whether a rule calls nothing but `expand` and functions of arrays.

    What calls a helper, `super()` or another rule may do anything.
    """
    if function_of(value) is None or only_raises(value):
        return False
    return all(n in _MODULES or hasattr(jnp, n) for n in names_used(value))


def _backward_rule(facts: ClassFacts) -> str | None:
    """The reverse rule that JAX calls."""
    return next((name for name in BACKWARD_RULES if name in facts.rules), None)


def two_backward_rules(facts: ClassFacts) -> Iterator[Finding]:
    called = _backward_rule(facts)
    for name in BACKWARD_RULES:
        if called is None or name == called or name not in facts.rules:
            continue
        if not _hides(facts, called, name):
            continue
        one_class = facts.owners[called] is facts.owners[name]
        place = "" if one_class else f" of its base `{facts.owners[called].__name__}`"
        yield facts.finding(
            "SH109",
            f"has both `{called}` and `{name}`; JAX calls `{called}`{place}, and never "
            f"`{name}`.",
            rule=name,
            facts=(f"{facts.where(called)}   def {called}",),
            remedies=tuple(_keep_one(facts, called, name)),
        )


def _keep_one(facts: ClassFacts, called: str, hidden: str) -> Iterator[str]:
    yield f"# delete `{hidden}`, which is never called"
    if facts.owners[called] is facts.owners[hidden]:
        yield f"# delete `{called}`: JAX then calls `{hidden}`"
    elif called == "vjp_bwd":
        yield f"vjp_bwd = HiPrim.vjp_bwd   # JAX's own, which calls `{hidden}`"
    yield f"self.{hidden}(res, outgrad)   # in `{called}`, where both are meant"


def _hides(facts: ClassFacts, called: str, hidden: str) -> bool:
    """Whether `called` makes `hidden` dead code that somebody wrote to be used."""
    values = facts.rules[called], facts.rules[hidden]
    if hidden in names_used(values[0]) or called in names_used(values[1]):
        return False
    if only_raises(values[0]) or only_raises(values[1]):
        return False
    if "batch_dim_rule" in facts.rules and "batch" not in facts.rules:
        return False  # 0.11.2: the batch rule derived from it calls the other one
    mro = facts.cls.__mro__
    return mro.index(facts.owners[hidden]) <= mro.index(facts.owners[called])
