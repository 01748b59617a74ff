"""The rules of `HiPrim` as data: their calls, what needs them, what derives them.

Names and signatures are read off the installed `HiPrim`; a row here says only what a
signature does not. A new rule in a new JAX release is one row.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, Literal

from . import _jax

type Contract = Literal[
    "output",  # what `out_aval` declares
    "forward",  # (out, res), and flags and structured residuals
    "accumulated",  # None or logs; the cotangents go to accumulators
    "cotangents",  # a tuple of them
    "cotangents and logs",
    "output and tangents",
    "tangents",
    "batched",  # (outs, out_dims)
    "batched dims",  # out_dims alone
    "reduced",  # flags, and a primitive or None
    "rematerialized",  # what the installed version documents
]
"""What kind of result a rule must give; `_checked` has the check of each kind."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One rule as JAX calls it.

    Attributes:
      name: the method's name.
      leading: names of the arguments before those that there are one of per input.
      per_input: what follows, one for each input: "inputs", "accumulators",
        "tangents", or "" for nothing.
      contract: the kind of result that it must give.
      returns: the same in words.
      structured_residuals: whether JAX may pass one more argument, `sres`, after
        the first.
    """

    name: str
    leading: tuple[str, ...]
    per_input: str
    contract: Contract
    returns: str
    structured_residuals: bool = False

    @property
    def accumulates(self) -> bool:
        """Whether a value other than None or a dict of logs is a fault."""
        return self.contract == "accumulated"

    def template(self, inputs: tuple[str, ...]) -> str:
        """The line that starts a definition of the rule for these inputs."""
        named = {
            "": (),
            "inputs": inputs,
            "accumulators": tuple(f"{name}_acc" for name in inputs),
            "tangents": tuple(f"{name}_dot" for name in inputs),
        }[self.per_input]
        return f"def {self.name}({', '.join(('self', *self.leading, *named))}): ..."


# What each rule is given per input, and what it must return. The contracts are those
# of `jax._src.hijax.HiPrim` and of the functions there that call its rules.
_ROWS: tuple[tuple[str, str, Contract, str], ...] = (
    ("expand", "inputs", "output", "the structure and types of `out_aval`"),
    ("vjp_fwd", "inputs", "forward", "(out, res), (out, res, nzs_out) or with sres"),
    ("vjp_bwd", "accumulators", "accumulated", "None, or a dict of logs"),
    ("vjp_bwd_retval", "", "cotangents", "a tuple with one cotangent for each input"),
    (
        "vjp_bwd_retval_logs",
        "",
        "cotangents and logs",
        "a pair (cotangents, logs)",
    ),
    ("jvp", "", "output and tangents", "a pair (out, out_tangents)"),
    ("lin", "inputs", "forward", "(out, res), (out, res, nzs_out) or with sres"),
    ("linearized", "tangents", "tangents", "the tangents of the outputs"),
    ("transpose", "accumulators", "accumulated", "None, or a dict of logs"),
    ("batch", "", "batched", "a pair (outs, out_dims)"),
    ("batch_dim_rule", "", "batched dims", "the dimensions of the outputs"),
    ("dce", "", "reduced", "(used_ins, produced_outs, new primitive or None)"),
    ("remat", "inputs", "rematerialized", f"({', '.join(_jax.REMAT_RETURNS)})"),
)
_STRUCTURED = frozenset({"vjp_bwd", "linearized"})


def _read_rules() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for name, per_input, contract, returns in _ROWS:
        method = getattr(_jax.HiPrim, name, None)
        if method is None:  # 0.12 has no `batch_dim_rule`
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        leading = tuple(
            p.name.lstrip("_") for p in parameters if p.kind is not p.VAR_POSITIONAL
        )
        rules[name] = Rule(
            name,
            leading,
            per_input if len(leading) < len(parameters) else "",
            contract,
            returns,
            structured_residuals=name in _STRUCTURED,
        )
    return rules


RULES: dict[str, Rule] = _read_rules()

BACKWARD_RULES = ("vjp_bwd", "vjp_bwd_retval_logs", "vjp_bwd_retval")
"""The reverse rules in the order in which JAX prefers them."""

RETURNING_RULES = frozenset(
    {"vjp_fwd", "lin", "jvp", "vjp_bwd_retval", "vjp_bwd_retval_logs"}
)
"""Rules that must return something, whatever the declared types are."""

RULES_OF_OTHER_VERSIONS: dict[str, str] = {
    "batch_dim_rule": "batch",
    "to_lojax": "expand",
    "impl": "expand",
    "linearize": "lin",
}
"""Names that other JAX versions called, and the rule that took their place."""


# --- what a transform needs ---------------------------------------------------------

TRANSFORMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "grad": (("vjp_fwd",), BACKWARD_RULES),
    "jvp": (("jvp",),),
    "linearize": (("lin",), ("linearized",)),
    "vmap": (("batch", "batch_dim_rule"),),
    "transpose": (("transpose",),),
    "remat": (("jvp",),),
}
"""Each transform needs one rule out of each group."""

JAX_SAYS: dict[str, str] = {
    "expand": "subclass {cls} must implement `expand`",
    "vjp_fwd": (
        "for grad support, subclass {cls} must implement `vjp_fwd`, or derive its "
        "reverse-mode rules from its jvp or lin rules by setting "
        "`vjp_fwd, vjp_bwd_retval = vjp_from_jvp` (or `= vjp_from_lin`)"
    ),
    "vjp_bwd_retval": (
        "for grad support, subclass {cls} must implement `vjp_bwd` or "
        "`vjp_bwd_retval`, or derive its reverse-mode rules by setting "
        "`vjp_fwd, vjp_bwd_retval = vjp_from_jvp` (or `= vjp_from_lin`)"
    ),
    "jvp": "for jvp support, subclass {cls} must implement `jvp`",
    "lin": (
        "for linearize support, subclass {cls} must implement `lin` and "
        "`linearized`, or derive them from its `jvp` rule by setting "
        "`lin, linearized = linearize_from_jvp`"
    ),
    "transpose": "for transpose support, subclass {cls} must implement `transpose`",
    "batch": "for vmap support, subclass {cls} must implement `batch`",
}
JAX_SAYS["linearized"] = JAX_SAYS["lin"]
JAX_SAYS["vjp_bwd"] = JAX_SAYS["vjp_bwd_retval"]
JAX_SAYS["batch_dim_rule"] = JAX_SAYS["batch"]


# --- derivations --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Derivation:
    """A way in which JAX derives rules from others: one rule, or an unpacked pair."""

    name: str
    halves: tuple[tuple[str, Callable[..., Any]], ...]
    needs: tuple[str, ...]
    value: Any

    @property
    def line(self) -> str:
        """The line of a class body that sets it."""
        return f"{', '.join(rule for rule, _ in self.halves)} = {self.name}"


def _pair(name: str, pair: Any, needs: tuple[str, ...]) -> Derivation:
    return Derivation(name, tuple(zip(pair._fields, pair, strict=True)), needs, pair)


DERIVATIONS: tuple[Derivation, ...] = (
    _pair("vjp_from_jvp", _jax.vjp_from_jvp, ("jvp",)),
    _pair("vjp_from_lin", _jax.vjp_from_lin, ("lin", "linearized")),
    _pair("linearize_from_jvp", _jax.linearize_from_jvp, ("jvp",)),
    Derivation(
        "jvp_from_lin",
        (("jvp", _jax.jvp_from_lin),),
        ("lin", "linearized"),
        _jax.jvp_from_lin,
    ),
)

_HALVES: dict[Callable[..., Any], tuple[Derivation, str]] = {
    half: (derivation, rule)
    for derivation in DERIVATIONS
    for rule, half in derivation.halves
}


_PAIRS = {id(d.value): d for d in DERIVATIONS if len(d.halves) > 1}


def derived_half(value: object) -> tuple[Derivation, str] | None:
    """The derivation that a value of a class body is a half of, and its rule."""
    try:
        return _HALVES.get(value)  # type: ignore[call-overload]
    except TypeError:  # unhashable
        return None


def derivation_pair(value: object) -> Derivation | None:
    """The derivation whose whole pair a value is."""
    return _PAIRS.get(id(value))
