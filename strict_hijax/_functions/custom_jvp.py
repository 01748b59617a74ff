"""What a `jax.custom_jvp` object says of its function and rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from strict_hijax import _jax
from strict_hijax._errors import Finding, Location, location_of
from strict_hijax._jax_functions import functions_of_defjvps, rules_of_custom_jvp3

from .asked import says_without_rules
from .custom_vjp import own_attributes
from .rules import FunctionRules, innermost


@dataclasses.dataclass(frozen=True, slots=True)
class JvpRules(FunctionRules):
    """One function with its forward-mode rule. Of reverse-mode rules it has none.

    `parts` are the functions of `defjvps`, one an argument, of which JAX makes a rule.
    """

    jvp: Any = None
    parts: tuple[Any, ...] | None = None

    @property
    def callables(self) -> tuple[Any, ...]:
        """The function and all its rules."""
        return self.fun, self.jvp, *(self.parts or ())

    @property
    def way_in(self) -> str:
        """What becomes of the derivative of a value that is made an argument."""
        return "its rule is then given the tangent"

    @property
    def takes_static_arrays(self) -> bool:
        """JAX stops their gradient, and hands them to the rule."""
        return not (_jax.CUSTOM_VJP_HAS_NEW and _jax.custom_jvp3_enabled())

    def once_dynamic(self, name: str) -> tuple[str, ...]:
        """What to write for a static argument that is made an ordinary one."""
        return (f"take `{name}` from `primals`; leave out its tangent, a float0",)

    def rule(self, role: str) -> Any:
        """The rule that plays a role: `jvp`, or `jvps[0]` for one of `defjvps`."""
        if role.startswith("jvps["):
            return (self.parts or ())[int(role[5:-1])]
        return self.fun if role == "primal" else self.jvp

    def location(self, role: str) -> Location | None:
        """Where a rule is written; one that JAX made is where its first part is."""
        function = innermost(self.rule(role))
        text = f"def {self.rule_name(role)}"
        if role == "jvp" and self.parts is not None:
            function = next((p for p in self.parts if p is not None), self.fun)
            function, text = innermost(function), "one of defjvps"
        return location_of(function, text if "lambda" not in text else "lambda")

    def jvp_parameters(self) -> str:
        """The parameters that the rule is given: the nondiff arguments come first."""
        most = max(self.nondiff_argnums, default=-1) + 1
        names = self.argument_names(most)
        static = [name for i, name in enumerate(names) if i in self.nondiff_argnums]
        return ", ".join([*static, "primals", "tangents"])

    def part_parameters(self, index: int, names: Sequence[str]) -> str:
        """The parameters that a function of `defjvps` is given."""
        name = names[index] if index < len(names) else "x"
        return ", ".join([f"{name}_dot", "primal_out", *names])


def attributes_of(function: Any) -> dict[str, Any] | None:
    """The attributes of an existing custom_jvp function; None for any other."""
    if isinstance(function, _jax.CustomJVP):
        attributes = own_attributes(function)
        attributes.setdefault("jvp", None)
        attributes.setdefault("symbolic_zeros", False)
        return attributes
    return rules_of_custom_jvp3(function)


def rules_of(attributes: Mapping[str, Any]) -> list[FunctionRules]:
    """The rule among the attributes of a custom_jvp function, if it has one."""
    jvp = attributes.get("jvp")
    if jvp is None:
        return []
    return [
        JvpRules(
            attributes["fun"],
            attributes["nondiff_argnums"],
            symbolic_zeros=bool(attributes.get("symbolic_zeros")),
            jvp=jvp,
            parts=functions_of_defjvps(jvp),
        )
    ]


def no_rules_finding(fun: Any, nondiff_argnums: tuple[int, ...]) -> Finding:
    """The function is called, or checked, before `defjvp`."""
    rules = JvpRules(fun, nondiff_argnums)
    return rules.finding(
        "SH401",
        None,
        "is called before its rule is defined.",
        location=rules.location("primal"),
        expected=f"a call of {rules.called}.defjvp before the first call",
        got="no rule",
        jax_says=says_without_rules(rules),
        remedies=(
            f"{rules.called}.defjvp({rules.called}_jvp)   # (primals, tangents)",
        ),
    )
