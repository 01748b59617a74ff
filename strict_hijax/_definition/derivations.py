"""Derivations: pairs, halves and circles, and two backward rules in one class."""

from __future__ import annotations

from collections.abc import Iterator

from strict_hijax import _jax
from strict_hijax._errors import Finding
from strict_hijax._rules import (
    BACKWARD_RULES,
    RULES,
    Derivation,
    derivation_pair,
    derived_half,
)
from strict_hijax._signatures import (
    certain_returns,
    names_used,
    only_raises,
    reads_parameter,
)

from .facts import ClassFacts


def circles(facts: ClassFacts) -> Iterator[Finding]:
    jvp, lin = (
        derived_half(facts.rules.get("jvp")),
        derived_half(facts.rules.get("lin")),
    )
    if jvp is None or lin is None or "jvp" not in lin[0].needs:
        return
    yield facts.finding(
        "SH107",
        "derives `jvp` from `lin`, and `lin` from `jvp`: each is defined in terms of "
        "the other.",
        rule="jvp",
        jax_says=f"subclass {facts.cls} can't set both `jvp = jvp_from_lin` and "
        "`lin, linearized = linearize_from_jvp`, since each would be defined in terms "
        "of the other",
        remedies=(
            "def jvp(self, primals, tangents): ...   # write jvp, keep the other line",
            "write lin and linearized, and keep jvp = jvp_from_lin",
        ),
    )


def pair_not_unpacked(facts: ClassFacts) -> Iterator[Finding]:
    for name, value in vars(facts.cls).items():
        pair = derivation_pair(value)
        if pair is not None:
            yield facts.finding(
                "SH104",
                f"sets `{name}` to `{pair.name}`, which is a pair of rules, not one.",
                rule=name,
                facts=(f"line: {name} = {pair.name}",),
                jax_says=f"`{pair.name}` is a pair of rules, not a single rule; unpack "
                f"it in the class body: `{pair.line}`",
                remedies=(pair.line,),
            )


def halves_that_do_not_fit(facts: ClassFacts) -> Iterator[Finding]:
    wrong = False
    for name, value in vars(facts.cls).items():
        half = derived_half(value)
        if half is not None and name != half[1] and name in RULES:
            wrong = True
            yield facts.finding(
                "SH105",
                f"sets `{name}` to the `{half[1]}` half of `{half[0].name}`.",
                rule=name,
                expected=half[0].line,
                got=f"{name} = <the {half[1]} half of {half[0].name}>",
                remedies=(half[0].line,),
            )
    if not wrong:
        yield from _mixed_halves(facts, "vjp_fwd", "vjp_bwd_retval")
        yield from _mixed_halves(facts, "lin", "linearized")


def _mixed_halves(facts: ClassFacts, first: str, second: str) -> Iterator[Finding]:
    if first not in facts.rules or second not in facts.rules:
        return
    if second == "vjp_bwd_retval" and _backward_rule(facts) != second:
        return
    source = derived_half(facts.rules[first])
    sink = derived_half(facts.rules[second])
    if source is not None and sink is not None and source[0] is not sink[0]:
        got = f"{first} from {source[0].name}, {second} from {sink[0].name}"
    elif source is None and sink is not None and _cannot_feed(facts, first, sink[0]):
        got = f"{first} written by hand, {second} from {sink[0].name}"
    elif source is not None and sink is None and _cannot_read(facts, second, source[0]):
        got = f"{first} from {source[0].name}, {second} written by hand"
    else:
        return
    derivation = (sink or source or ())[0]
    yield facts.finding(
        "SH105",
        f"pairs a `{first}` and a `{second}` that do not fit: the residuals of one are "
        "not what the other reads.",
        rule=second,
        location=facts.where(second if sink is None else first),
        expected="both halves of one derivation, or both written by hand",
        got=got,
        remedies=(
            derivation.line,
            f"{RULES[first].template(facts.inputs)}   # and {second}, both by hand",
        ),
    )


_FAMILY = frozenset({"super", "vjp_from_jvp", "vjp_from_lin", "linearize_from_jvp"})


def _cannot_feed(facts: ClassFacts, rule: str, derivation: Derivation) -> bool:
    """Whether a forward rule written by hand cannot make a derived half's residuals.

    Those of `vjp_from_jvp` are (primals, nzs_in); the others are private to JAX, and
    only JAX's own half, called from here, makes them.
    """
    value = facts.rules[rule]
    if only_raises(value) or (certain_returns(value) is None and not names_used(value)):
        return False
    if names_used(value) & (_FAMILY | {rule}):
        return False
    if derivation.name == "vjp_from_jvp":
        return not reads_parameter(value, 1)
    return True


def _cannot_read(facts: ClassFacts, rule: str, derivation: Derivation) -> bool:
    """Whether a rule written by hand cannot read residuals that are private to JAX."""
    value = facts.rules[rule]
    if derivation.name == "vjp_from_jvp" or only_raises(value):
        return False
    reading = {rule, "apply", "val", "lin", "linearized"}
    return bool(names_used(value)) and not names_used(value) & (_FAMILY | reading)


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
            location=facts.where(name),
            facts=(f"{facts.where(called)}   def {called}",),
            remedies=(
                f"delete `{name}`   # keep {called}",
                f"delete `{called}`   # keep {name}"
                if one_class
                else f"write `{called}` in `{facts.cls.__name__}`",
                f"call `self.{name}(...)` in `{called}`   # where both are meant",
            ),
        )


def _hides(facts: ClassFacts, called: str, hidden: str) -> bool:
    """Whether `called` makes `hidden` dead code that somebody wrote to be used."""
    values = facts.rules[called], facts.rules[hidden]
    if hidden in names_used(values[0]) or called in names_used(values[1]):
        return False
    if only_raises(values[0]) or only_raises(values[1]):
        return False
    if _jax.HAS_BATCH_DIM_RULE and "batch" not in facts.rules:
        return False  # the derived batch rule calls the other one
    mro = facts.cls.__mro__
    return mro.index(facts.owners[hidden]) <= mro.index(facts.owners[called])
