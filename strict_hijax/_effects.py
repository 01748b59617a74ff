"""Effect policies, and where in the user's code an effect comes from.

The sets of effects that JAX allows are read off its live registries, so that an effect
type which a library registers is allowed here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from . import _jax
from ._errors import Finding, Location
from ._names import nearest

POLICIES = ("jax", "remat", "pure")


class EffectPolicy(NamedTuple):
    """Which effects the primal, fwd and bwd may have.

    `name` is "jax", "remat" or "pure"; or "types", where only `types` are allowed.
    """

    name: str = "jax"
    types: frozenset[type] = frozenset()

    def code_for(self, effect: Any, role: str) -> str | None:
        """The code for an effect of a rule, or None where it is allowed."""
        if isinstance(effect, _NO_SIDE_EFFECT):
            return None
        if role == "vjp_bwd" and isinstance(effect, _jax.RefEffect):
            return None  # its accumulators may be Refs
        if self.name in ("pure", "types"):
            return None if isinstance(effect, tuple(self.types)) else "SH503"
        if not _jax_allows(effect, role):
            return "SH501"
        if self.name == "remat" and not _jax.remat_allowed_effects.contains(effect):
            return "SH502"
        return None

    def __str__(self) -> str:
        if self.name != "types":
            return f'effects="{self.name}"'
        return f"effects=({', '.join(sorted(t.__name__ for t in self.types))},)"


DEFAULT_POLICY = EffectPolicy()

# Axis names and arrays that a function makes and changes for itself alone.
_NO_SIDE_EFFECT = (_jax.NamedAxisEffect, _jax.InternalMutableArrayEffect)

_NEED_NOT_BE_DECLARED = (*_NO_SIDE_EFFECT, _jax.ReadEffect, _jax.DebugEffect)


def _jax_allows(effect: Any, role: str) -> bool:
    if _jax.custom_derivatives_allowed_effects.contains(effect):
        return True
    # JAX checks neither bwd nor jvp; 0.12 allows these everywhere. Remove with 0.11.2.
    backward = role in ("bwd", "jvp") or role.startswith("vjp_bwd")
    return backward and isinstance(effect, _jax.IOEffect | _jax.OrderedIOEffect)


def parse_policy(policy: Any, subject: str) -> EffectPolicy:
    """The policy that a user gave as `effects=`, or an error with what it can be."""
    if isinstance(policy, EffectPolicy):
        return policy
    if isinstance(policy, str) and policy in POLICIES:
        return EffectPolicy(policy)
    if not isinstance(policy, str) and isinstance(policy, Iterable):
        types = list(policy)
        if all(isinstance(t, type) and issubclass(t, _jax.Effect) for t in types):
            return EffectPolicy("types", frozenset(types))
    raise _wrong_policy(policy, subject)


def _wrong_policy(policy: Any, subject: str) -> Exception:
    got = repr(policy)[:60]
    near = nearest(policy, POLICIES)
    did_you_mean = f"; did you mean {near!r}?" if near else ""
    return Finding(
        code="SH504",
        subject=subject,
        headline=f"`{subject}` is given effects={got}, which is no effect policy"
        f"{did_you_mean}",
        path="effects",
        expected='"jax", "remat", "pure", or an iterable of effect types',
        got=got,
        remedies=(
            'effects="jax"     # what JAX allows in custom derivatives, the default',
            'effects="remat"   # what it also allows under jax.checkpoint',
            'effects="pure"    # none',
            "effects=(MyEffect,)   # these types alone",
        ),
    ).error()


# --- findings -------------------------------------------------------------------------


class Recorded(NamedTuple):
    """Equations of a trace that is under way, in place of a jaxpr."""

    eqns: list[Any]
    with_lines: bool = True

    @property
    def effects(self) -> set[Any]:
        """All effects of the equations."""
        return {effect for eqn in self.eqns for effect in eqn.effects}


class RuleOwner(Protocol):
    """What has rules, and the words to speak of them: a function or a primitive."""

    def finding(
        self, code: str, role: str | None, sentence: str, **more: Any
    ) -> Finding:
        """A finding about the rule that plays a role."""
        ...

    def location(self, role: str) -> Location | None:
        """Where the rule is written."""
        ...

    def rule_name(self, role: str) -> str:
        """The name of the rule."""
        ...

    def holder(self, role: str) -> str:
        """What has an effect, in a sentence that starts with the finding's subject."""
        ...


def effect_findings(
    rules: RuleOwner,
    role: str,
    jaxpr: Any,
    policy: EffectPolicy,
    declared: frozenset[type] = frozenset(),
) -> list[Finding]:
    """The effects of a traced rule that the policy does not allow, each at its line.

    Effects of a type that the owner declares itself are allowed by every policy.
    """
    found: dict[tuple[Any, ...], Finding] = {}
    for effect in sorted(jaxpr.effects, key=repr):
        code = policy.code_for(effect, role)
        if code is None or type(effect) in declared:
            continue
        primitive, location = origin(jaxpr, effect)
        finding = _effect_finding(
            rules, role, code, effect, policy, primitive, location
        )
        found.setdefault((code, type(effect), finding.path, location), finding)
    return list(found.values())


def undeclared_effect_findings(
    owner: RuleOwner,
    rule: str,
    jaxpr: Any,
    declared: frozenset[type],
    refs: Sequence[int] = (),
) -> list[Finding]:
    """The effects of an `expand` that its primitive does not declare.

    What JAX may drop or repeat without harm need not be declared: a read of a Ref, and
    `jax.debug.print`, which promises nothing. `refs` are the inputs that are Refs.
    """
    found: dict[type, Finding] = {}
    written = str(refs[0]) if len(refs) == 1 else "i"
    for effect in sorted(jaxpr.effects, key=repr):
        kind = type(effect)
        if kind in declared or isinstance(effect, _NEED_NOT_BE_DECLARED):
            continue
        primitive, location = origin(jaxpr, effect)
        where = f"`{primitive}`" + (f" at {location}" if location else "")
        spelled = _spelled(effect, written)
        found[kind] = owner.finding(
            "SH505",
            rule,
            f"has in its `{rule}` the effect {kind.__name__}, which its `effects` does "
            f"not declare: {where}.",
            path=primitive,
            location=location or owner.location(rule),
            expected=_in_words(declared),
            got=f"{kind.__name__} from {where}",
            facts=(
                "JAX drops an equation without declared effects where its result is",
                "not used, under jit, scan or grad, and the effect goes with it.",
            ),
            remedies=(
                f"self.effects = frozenset({{{spelled}}})   # in __init__",
                f"  # {kind.__name__} is in {kind.__module__}",
            ),
        )
    return list(found.values())


def _in_words(declared: frozenset[type]) -> str:
    names = ", ".join(sorted(kind.__name__ for kind in declared))
    return f"effects that it declares: {names or 'none'}"


def _spelled(effect: Any, written: str) -> str:
    """The effect as it is written; one of a Ref has the position of that input."""
    on_input = isinstance(effect, _jax.RefEffect)
    return f"{type(effect).__name__}({written if on_input else ''})"


def _effect_finding(
    rules: RuleOwner,
    role: str,
    code: str,
    effect: Any,
    policy: EffectPolicy,
    primitive: str,
    location: Location | None,
) -> Finding:
    name = type(effect).__name__
    where = f"`{primitive}`" + (f" at {location}" if location else "")
    return rules.finding(
        code,
        role,
        f"{_has(rules.holder(role))} the effect {name}, which "
        f"{_BY[code].format(policy=policy)}: {where}.",
        path=primitive,
        expected=_EXPECTED[code].format(policy=policy),
        got=f"{name} from {where}",
        location=location or rules.location(role),
        facts=(f"rule: {rules.rule_name(role)} ({role})",),
        jax_says=_jax_says(code, role, effect),
        remedies=_remedies(code, effect, policy),
    )


def _has(holder: str) -> str:
    return "has" if holder == "it" else f"has in {holder}"


_BY = {
    "SH501": "custom derivatives do not allow",
    "SH502": "jax.checkpoint does not allow",
    "SH503": "{policy} does not allow",
}
_EXPECTED = {
    "SH501": "effects that JAX allows in custom derivatives",
    "SH502": "effects that JAX also allows under jax.checkpoint",
    "SH503": "{policy}",
}


def _jax_says(code: str, role: str, effect: Any) -> str | None:
    if role.startswith("vjp_"):  # those of a HiPrim it does not look at
        return None
    if code == "SH503" and _jax_allows(effect, role):
        return None  # it is the user's own policy that refuses
    if code == "SH502":
        return f"Effects not supported in AD of `checkpoint`/`remat`: {[effect]}"
    return f"Effects not supported in `custom_vjp`: {[effect]}"


def _remedies(code: str, effect: Any, policy: EffectPolicy) -> tuple[str, ...]:
    kind = type(effect)
    move = "move the effect out of the rule, to where the function is called"
    if code == "SH503":
        more = ", ".join(sorted(t.__name__ for t in {*policy.types, kind}))
        place = f"  # {kind.__name__} is in {kind.__module__}"
        return move, f"effects=({more},)   # if it is meant", place
    if code == "SH502":
        return move, 'effects="jax"   # if it is never used under jax.checkpoint'
    register = "jax._src.effects.custom_derivatives_allowed_effects.add_type"
    place = f"{kind.__module__}.{kind.__qualname__}"
    return (
        move,
        f"{register}({kind.__name__})",
        f"  # that line stands where {place} is defined, and says that it is safe",
    )


# --- where an effect comes from -------------------------------------------------------


def origin(
    jaxpr: Any, effect: Any, with_lines: bool = True
) -> tuple[str, Location | None]:
    """The primitive that has an effect, and the user's line that calls it.

    It is looked for inside of scan, cond, while, jit, custom_jvp and checkpoint; the
    innermost equation is named. No line is given where the equations have another's.
    """
    with_lines = with_lines and getattr(jaxpr, "with_lines", True)
    for eqn in jaxpr.eqns:
        if any(_same_kind(effect, other) for other in eqn.effects):
            here = _location(eqn) if with_lines else None
            for inner in _inner(eqn):
                name, location = origin(inner, effect, with_lines)
                if name:
                    return name, location or here
            return str(eqn.primitive), here
    return "", None


def _inner(eqn: Any) -> Iterator[Any]:
    yield from _jax.inner_jaxprs(eqn.params)
    prim = eqn.params.get("_prim")  # a primitive of hijax
    traced = getattr(prim, "traced", None)
    if traced is not None:
        yield traced.jaxpr


def _same_kind(a: Any, b: Any) -> bool:
    """Equal, or of one type: effects on inputs have another number further in."""
    return type(a) is type(b)


def _location(eqn: Any) -> Location | None:
    frame = _jax.user_frame(eqn.source_info)
    return None if frame is None else Location(*frame, f"in {eqn.primitive}")
