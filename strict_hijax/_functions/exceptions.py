"""What it means that a rule raises while it is traced ahead of JAX.

It may decline, need a name or an axis that is not there yet, need concrete values, or
be unable to work at all. Only the last is a fault, and in doubt it is none.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import jax

from strict_hijax._errors import Finding, StrictHijaxError
from strict_hijax._raised import has_text, in_short, is_refused_effect, raised_at
from strict_hijax._report import describe_all

from .advice import order_advice
from .rules import FunctionRules, Inputs

_JAX = str(Path(jax.__file__).parent / "_src")
_OURS = str(Path(__file__).parent)
_NEEDS_VALUES = re.compile(
    r"[Tt]race[rd]|[Aa]bstract|[Cc]oncret|setting an array element with a sequence"
)
# `custom_vjp_primal_tree_values` where `symbolic_zeros` is off: no value mends it.
_NO_RECORD = "unexpected leaf type"
_SLIP = re.compile(
    r"unpack|positional argument|keyword argument|is not (callable|iterable)"
)
_ENVIRONMENT = (RuntimeError, OSError, ImportError, MemoryError, Warning, EOFError)


def is_put_off(error: Exception) -> bool:
    """Whether a rule traced at import is to be tried again at the first call.

    It declines, or needs an axis name or a global name that is not there yet.
    """
    if is_refused_effect(error):
        return False
    return isinstance(error, NotImplementedError | NameError)


def is_fault(error: Exception) -> bool:
    """Whether an exception at a first call shows that a rule can never be traced.

    It does if the interpreter raised it, or JAX, and not for want of a value. What the
    rule raises itself, or a helper of it, is the rule declining.
    """
    if is_refused_effect(error):
        return True
    if isinstance(error, NotImplementedError):
        return "Differentiation rule for" in str(error) and _raised_in(error, _JAX)
    if isinstance(error, _ENVIRONMENT) or needs_values(error):
        return False
    if isinstance(error, NameError) and "axis name" in str(error):
        return False
    return not _raised_by_statement(error) or _raised_in(error, _JAX)


def needs_values(error: Exception) -> bool:
    """Whether a rule failed because it was given tracers in place of values."""
    if isinstance(error, StrictHijaxError) or str(error).startswith(_NO_RECORD):
        return False
    stock = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
    return isinstance(error, stock) or bool(_NEEDS_VALUES.search(str(error)))


def _tracebacks(error: Exception) -> Iterator[TracebackType]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _raised_in(error: Exception, folder: str) -> bool:
    innermost = list(_tracebacks(error))[-1:]
    return any(t.tb_frame.f_code.co_filename.startswith(folder) for t in innermost)


def _raised_by_statement(error: Exception) -> bool:
    """Whether the innermost frame stands at a `raise` or `assert`."""
    for traceback in list(_tracebacks(error))[-1:]:
        opcode = traceback.tb_frame.f_code.co_code[traceback.tb_lasti]
        return dis.opname[opcode] in ("RAISE_VARARGS", "RERAISE")
    return False


def first_line(error: Exception) -> str:
    """Class and first line of an exception; of one of ours, its code."""
    if isinstance(error, StrictHijaxError):
        return f"{error.code}: {error.finding.headline}"
    return in_short(error)


def untraceable_finding(
    rules: FunctionRules, role: str, inputs: Inputs, error: Exception
) -> Finding:
    """The finding about a rule that raised when it was traced."""
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


def _may_decline(error: Exception) -> bool:
    """Whether a rule can have meant to raise: nobody declines by a misspelt name."""
    if _raised_by_statement(error):
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
