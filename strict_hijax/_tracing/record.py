"""One rule traced, and what is kept of it: types, effects, or why it could not be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from strict_hijax import _jax, _jax_traces
from strict_hijax._definition import ClassFacts
from strict_hijax._errors import Finding, StrictHijaxError
from strict_hijax._raised import (
    declines,
    has_text,
    in_short,
    is_raised_by_user,
    raised_at,
)
from strict_hijax._report import RuleReport, describe_all


@dataclasses.dataclass
class Traced:
    """What came of tracing the rules of one instance.

    Attributes:
      findings: what is wrong.
      advice: what is worth a look, and never raised.
      causes: the exception behind a finding of a rule that raised.
      reports: what each rule takes and gives.
      unchecked: rules that decline, or are not ready to be traced, and why.
      residual_bytes: what the forward rule keeps.
    """

    findings: list[Finding] = dataclasses.field(default_factory=list[Finding])
    advice: list[Finding] = dataclasses.field(default_factory=list[Finding])
    causes: dict[Finding, Exception] = dataclasses.field(
        default_factory=dict[Finding, Exception]
    )
    reports: list[RuleReport] = dataclasses.field(default_factory=list[RuleReport])
    unchecked: list[tuple[str, Exception]] = dataclasses.field(
        default_factory=list[tuple[str, Exception]]
    )
    residual_bytes: int | None = None

    def add(self, other: Traced) -> None:
        """Take over what came of tracing one more rule."""
        self.findings += other.findings
        self.causes |= other.causes
        self.reports += other.reports
        self.unchecked += other.unchecked

    @property
    def reasons(self) -> list[tuple[str, Exception]]:
        """Which rules could not be traced, and why."""
        raised = ((f.rule or "", error) for f, error in self.causes.items())
        return [*self.unchecked, *raised]


def trace(
    traced: Traced,
    facts: ClassFacts,
    rule: str,
    in_avals: Sequence[Any],
    call: Callable[..., Sequence[Any]],
    shown: tuple[Sequence[Any], Sequence[Any] | None] | None = None,
) -> Any | None:
    """Trace a rule, keep what came of it, and return its jaxpr if there is one."""
    backends = _jax.initialised_backends()
    try:
        jaxpr = _jax_traces.trace_to_jaxpr(call, in_avals, rule)
    except StrictHijaxError as error:
        traced.findings += error.findings
        return None
    except Exception as error:
        not_traced(traced, facts, rule, in_avals, error)
        return None
    if new := _jax.initialised_backends() - backends:
        traced.findings.append(_backend_finding(facts, rule, new))
    takes, gives = shown or (in_avals, None)
    gives = [v.aval for v in jaxpr.outvars] if gives is None else gives
    effects = sorted(type(effect).__name__ for effect in jaxpr.effects)
    traced.reports.append(
        RuleReport(rule, describe_all(takes), describe_all(gives), tuple(effects))
    )
    return jaxpr


def not_traced(
    traced: Traced,
    facts: ClassFacts,
    rule: str,
    in_avals: Sequence[Any],
    error: Exception,
) -> None:
    """A rule that raised: it declines, is not ready yet, or cannot work."""
    if declines(error) or isinstance(error, NameError):
        traced.unchecked.append((rule, error))
        return
    if _is_told(traced, error):
        return
    (source, *_) = sorted(facts.sources(rule))
    derived = f", derived from `{source}`," if source != rule else ""
    finding = facts.finding(
        "SH320",
        f"has {_a(rule)}{derived} that raises {type(error).__name__} when it is "
        "traced.",
        rule=rule,
        location=facts.where(source),
        facts=(
            in_short(error),
            *filter(None, [raised_at(error) if has_text(error) else None]),
            f"traced for: {', '.join(describe_all(in_avals)) or 'no inputs'}",
        ),
        remedies=(
            *_remedies(facts, error),
            f"mend `{source}`; the exception above this one has the line",
            *([_DECLINE] if is_raised_by_user(error) else []),
        ),
    )
    traced.findings.append(finding)
    traced.causes[finding] = error


_DECLINE = "raise NotImplementedError   # where the rule declines on purpose"


def _missing_attribute(error: BaseException) -> str | None:
    """The attribute that an instance lacks, as in `self.n`."""
    if isinstance(error, AttributeError) and isinstance(error.obj, _jax.HiPrim):
        return error.name
    return None


def _is_told(traced: Traced, error: Exception) -> bool:
    """Whether another rule failed already because the instance lacks an attribute."""
    name = _missing_attribute(error)
    return name is not None and name in map(_missing_attribute, traced.causes.values())


def _remedies(facts: ClassFacts, error: Exception) -> Iterator[str]:
    name = _missing_attribute(error)
    if name is not None:
        yield (
            f"self.params = dict({name}=...)   # in __init__: each is set on the "
            "instance"
        )
    elif isinstance(error, AttributeError) and error.name == "accum":
        yield "jax.tree.map(lambda acc, ct: acc.accum(ct), accs, cts)   # a pytree"
    elif isinstance(error, TypeError) and "'Zero'" in str(error):
        yield "instantiate_zeros(x_dot)   # from jax.experimental.hijax"


def _a(rule: str) -> str:
    return f"an `{rule}`" if rule == "expand" else f"a `{rule}`"


def _backend_finding(facts: ClassFacts, rule: str, backends: frozenset[str]) -> Finding:
    return facts.finding(
        "SH321",
        f"has {_a(rule)} that initialises a backend ({', '.join(sorted(backends))}) "
        "while it is traced: `jax.distributed.initialize` no longer works after that.",
        rule=rule,
        remedies=(
            "pass what it needs of the device in `self.params`",
            "jax.lax.platform_dependent(...)   # to choose by platform",
        ),
    )
