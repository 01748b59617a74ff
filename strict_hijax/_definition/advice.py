"""What a class may well mean, and should know of: advice, and never an error."""

from __future__ import annotations

from strict_hijax._errors import Finding
from strict_hijax._rules import derived_half

from .facts import ClassFacts


def definition_advice(facts: ClassFacts) -> list[Finding]:
    """The advice on a class that promises what its rules give in a way of JAX's own."""
    promised = "remat" in facts.supports and not facts.abstract
    return checkpoint_advice(facts) if promised else []


def checkpoint_advice(facts: ClassFacts) -> list[Finding]:
    """`jax.checkpoint` differentiates `jvp`, where the class has other reverse rules.

    With `jax_remat3` off, which is the default, the body of a checkpoint is
    differentiated forward and then transposed (`jax._src.ad_checkpoint`).
    """
    if not (facts.provides("vjp_fwd") and facts.provides("jvp")):
        return []
    one_source = facts.sources("vjp_fwd") <= facts.sources("jvp")
    return [] if one_source else [_checkpoint(facts)]


def _checkpoint(facts: ClassFacts) -> Finding:
    derived = derived_half(facts.rules["jvp"]) is not None
    source = "lin" if derived else "jvp"
    pair = "vjp_from_lin" if derived else "vjp_from_jvp"
    return facts.finding(
        "SH906",
        "has reverse rules that do not come from its `jvp`: under `jax.checkpoint`, "
        "JAX takes the gradient from `jvp` and calls neither `vjp_fwd` nor its "
        "backward rule.",
        rule="jvp",
        location=facts.where("vjp_fwd"),
        expected=f"reverse rules derived from `{source}`, which give one gradient",
        got=f"`jvp` {_origin(facts, 'jvp')}, and `vjp_fwd` "
        f"{_origin(facts, 'vjp_fwd')}; the configuration `jax_remat3` calls that",
        remedies=(
            f"vjp_fwd, vjp_bwd_retval = {pair}",
            'jax.config.update("jax_remat3", True)   # calls your reverse rules',
            'ignore=("SH906",)   # where both are known to give one gradient',
        ),
    )


def _origin(facts: ClassFacts, rule: str) -> str:
    half = derived_half(facts.rules[rule])
    return "written by hand" if half is None else f"from `{half[0].name}`"
