"""The jvp rule as it is handed to JAX: held to its contract whenever it is called."""

from __future__ import annotations

from typing import Any

from .call_keys import code_key
from .custom_jvp import JvpRules
from .jvp_results import jvp_findings
from .rules import Inputs
from .wrapped_rules import RuleWrapper, named_like


class JvpWrapper(RuleWrapper):
    """Makes the rule that JAX is handed from the one that the user wrote."""

    __slots__ = ()

    def jvp(self, rules: JvpRules) -> Any:
        """The wrapped rule."""
        code, count = code_key(rules), len(rules.nondiff_argnums)

        @named_like(rules.jvp)
        def jvp(*args: Any) -> Any:
            primals = list(args[count])
            for index, value in zip(rules.nondiff_argnums, args, strict=False):
                primals.insert(index, value)
            inputs = Inputs.of(primals, rules.nondiff_argnums)
            primal = None if inputs is None else self.primal.before_rule(inputs)
            result = self.run("jvp", code, args, inputs)
            found = jvp_findings(rules, result, primal)
            self.raise_certain(found, inputs, "jvp")
            return result

        return jvp
