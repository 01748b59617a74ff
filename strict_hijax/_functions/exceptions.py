"""What it means that a rule raises while it is traced ahead of JAX.

At a call it means nothing: the exception waits until JAX calls the rule. With types
given, it is a fault, unless the rule declines, or needs what is not there yet.
"""

from __future__ import annotations

import re

import jax

from strict_hijax._errors import Finding, StrictHijaxError
from strict_hijax._raised import (
    has_text,
    in_short,
    is_raised_by_user,
    raised_at,
)
from strict_hijax._report import describe_all
from strict_hijax._types import has_no_tangent, paths_of, tangent_type

from .advice import order_advice
from .rules import FunctionRules, Inputs

_NEEDS_VALUES = re.compile(
    r"[Tt]race[rd]|[Aa]bstract|[Cc]oncret|setting an array element with a sequence"
)
_SLIP = re.compile(
    r"unpack|positional argument|keyword argument|is not (callable|iterable)"
)


def is_unbound_axis(error: Exception) -> bool:
    """Whether JAX says that an axis name is not bound; such an error has no `name`."""
    return isinstance(error, NameError) and error.name is None


def lacks_a_name(error: Exception) -> bool:
    """Whether a global name is not there, which the module may yet define."""
    return isinstance(error, NameError) and error.name is not None


def needs_values(error: Exception) -> bool:
    """Whether a rule seems to have failed for want of values in place of tracers."""
    stock = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
    return isinstance(error, stock) or bool(_NEEDS_VALUES.search(str(error)))


def first_line(error: Exception) -> str:
    """Class and first line of an exception; of one of ours, its code."""
    if isinstance(error, StrictHijaxError):
        return f"{error.code}: {error.finding.headline}"
    return in_short(error)


def untraceable_finding(
    rules: FunctionRules, role: str, inputs: Inputs, error: Exception
) -> Finding:
    """The finding about a rule that raised when it was traced."""
    if is_about_float0(error):
        return _float0_finding(rules, role, inputs, error)
    kind = error.code if isinstance(error, StrictHijaxError) else type(error).__name__
    place = raised_at(error)
    raised = first_line(error) if has_text(error) else kind
    facts = [raised] if has_text(error) or place is None else []
    facts += [] if place is None else [place]
    facts.append(f"traced for: {', '.join(describe_all(inputs.avals))}")
    remedies = [
        f"mend `{rules.rule_name(role)}`; the exception above this one has the line"
    ]
    if _may_decline(error):
        remedies.append(
            "raise NotImplementedError   # where the rule declines on purpose"
        )
    if needs_values(error):
        remedies.append("eager=False   # where it needs values, and is never jitted")
    for advice in order_advice(rules):
        if advice.rule == role:
            facts.append(f"It takes ({advice.got}); JAX gives it ({advice.expected}).")
            remedies[:0] = advice.remedies
    return rules.finding(
        "SH424",
        role,
        f"raises {kind} when it is traced, as it is in a gradient under jit.",
        expected="a rule that can be traced for the types of the call",
        got=raised,
        facts=tuple(facts),
        remedies=tuple(remedies),
    )


def is_about_float0(error: Exception) -> bool:
    """Whether JAX refuses to compute with a tangent or cotangent of integers."""
    return isinstance(error, TypeError) and "with a float0 array" in str(error)


def _float0_finding(
    rules: FunctionRules, role: str, inputs: Inputs, error: Exception
) -> Finding:
    whose, what = "an output of integers", "cotangent"
    if role == "jvp":
        paths = paths_of(inputs.treedef, rules.dynamic_names(inputs.count))
        found = zip(paths, map(tangent_type, inputs.avals), strict=True)
        names = [f"`{path}`" for path, aval in found if has_no_tangent(aval)]
        whose, what = " or ".join(names), "tangent"
    return rules.finding(
        "SH424",
        role,
        f"computes with the {what} of {whose}, which is float0: integers have none.",
        expected=f"a rule that leaves the {what} of {whose} alone",
        got=first_line(error),
        facts=() if (place := raised_at(error)) is None else (place,),
        jax_says=str(error).partition("\n")[0],
        remedies=(
            f"leave out the term with the {what} of {whose}",
            f"if {what}.dtype != jax.dtypes.float0: ...   # where it may be a float",
        ),
    )


def _may_decline(error: Exception) -> bool:
    """Whether a rule can have meant to raise: nobody declines by a misspelt name."""
    if is_raised_by_user(error):
        return True
    slip = isinstance(error, NameError | AttributeError | ImportError)
    return not slip and not _SLIP.search(str(error))


def backend_findings(
    rules: FunctionRules, backends: dict[str, frozenset[str]]
) -> list[Finding]:
    """Findings about rules that initialised a backend while a module was imported."""
    return [
        rules.finding(
            "SH428",
            role,
            f"initialises a backend while it is traced ({', '.join(sorted(names))}): "
            "`jax.distributed.initialize` no longer works after that.",
            expected="no call of jax.devices() and the like in a rule",
            got=f"initialised: {', '.join(sorted(names))}",
            remedies=(
                "jax.lax.platform_dependent(...)   # to choose by platform",
                "pass what it needs of the device as a static argument",
            ),
        )
        for role, names in backends.items()
    ]


def forget_frames(error: Exception) -> None:
    """Let go of the tracers in the frames of an exception that is not raised."""
    error.__traceback__ = None
