"""What custom_vjp and custom_jvp functions differ in, as data.

A function belongs to one of two families. How its rules are found, checked, traced and
handed to JAX is read from here by what is the same for both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from strict_hijax import _jax
from strict_hijax._effects import EffectPolicy
from strict_hijax._errors import Finding
from strict_hijax._jax_functions import make_custom_jvp, make_custom_vjp

from . import custom_jvp, custom_vjp
from .custom_jvp import JvpRules
from .definition import definition_findings
from .eager import examine
from .first_calls import Checker, Examine
from .jvp_definition import jvp_definition_findings
from .jvp_eager import examine_jvp
from .rules import FunctionRules
from .wrapped_jvp import JvpWrapper
from .wrapped_rules import RuleWrapper

type Attributes = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """One of the two kinds of functions that have rules.

    Attributes:
      stock: its name in JAX, such as `custom_vjp`.
      attributes_of: the attributes of an existing function; None for any other value.
      rules_of: the rules among such attributes.
      without_rules: a function as data, before its rules are defined.
      no_rules: the finding about a call of one.
      define: what to write to define its rules.
      defined: checks of rules when they are defined.
      examine: traces rules ahead of JAX.
      wrapped: attributes with the rules of one kind as they are handed to JAX.
      handed: a plain function with such attributes.
      run_by: which implementation JAX would choose now, where it chooses when the
        function is made.
      transforms: what a report says of them.
    """

    stock: str
    attributes_of: Callable[[Any], Attributes | None]
    rules_of: Callable[[Mapping[str, Any]], list[FunctionRules]]
    without_rules: Callable[[Any, tuple[int, ...]], FunctionRules]
    no_rules: Callable[[Any, tuple[int, ...]], Finding]
    define: str
    defined: Callable[[FunctionRules], list[Finding]]
    examine: Examine
    wrapped: Callable[
        [FunctionRules, EffectPolicy, frozenset[str], Checker], Attributes
    ]
    handed: Callable[[Attributes], Callable[..., Any]]
    run_by: Callable[[], bool]
    transforms: Mapping[str, str]


def _wrapped_vjp(
    rules: FunctionRules,
    policy: EffectPolicy,
    ignored: frozenset[str],
    checker: Checker,
) -> Attributes:
    wrapper = RuleWrapper(rules, policy, ignored, checker)
    if not rules.has_rem:
        return {"fwd": wrapper.fwd(), "bwd": wrapper.bwd()}
    wrapped = (wrapper.fwd(), wrapper.rem(), wrapper.bwd())
    return {"remat_rules": (*wrapped, rules.with_logs)}


def _wrapped_jvp(
    rules: FunctionRules,
    policy: EffectPolicy,
    ignored: frozenset[str],
    checker: Checker,
) -> Attributes:
    if not isinstance(rules, JvpRules):
        return {}
    wrapper = JvpWrapper(rules, policy, ignored, checker)
    return {"jvp": wrapper.jvp(rules)}


VJP = Family(
    stock="custom_vjp",
    attributes_of=custom_vjp.attributes_of,
    rules_of=custom_vjp.rules_of,
    without_rules=FunctionRules,
    no_rules=custom_vjp.no_rules_finding,
    define="f.defvjp(f_fwd, f_bwd)",
    defined=definition_findings,
    examine=examine,
    wrapped=_wrapped_vjp,
    handed=make_custom_vjp,
    run_by=_jax.custom_vjp3_enabled,
    transforms={"grad": "provided", "vmap": "derived", "jvp": "missing"},
)

JVP = Family(
    stock="custom_jvp",
    attributes_of=custom_jvp.attributes_of,
    rules_of=custom_jvp.rules_of,
    without_rules=JvpRules,
    no_rules=custom_jvp.no_rules_finding,
    define="f.defjvp(f_jvp)",
    defined=jvp_definition_findings,
    examine=examine_jvp,
    wrapped=_wrapped_jvp,
    handed=make_custom_jvp,
    run_by=_jax.custom_jvp3_enabled,
    transforms={"grad": "derived", "vmap": "derived", "jvp": "provided"},
)


FAMILIES = {family.stock: family for family in (VJP, JVP)}


def family_of(function: Any) -> Family | None:
    """The family of a function that has rules, or may get them."""
    for family in FAMILIES.values():
        if family.attributes_of(function) is not None:
            return family
    return None
