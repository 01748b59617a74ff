"""The table of codes, one row a fault: what messages, `explain` and docs are read from.

Once released, a code keeps its meaning. 1xx definition of a primitive, 2xx
construction and call, 3xx what a rule of a primitive returns, 4xx custom_vjp
and custom_jvp, 5xx effects, 7xx hijax types, 9xx advice.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """One fault: its stable name, its title, and the class of its error."""

    name: str
    title: str
    error: str

    @property
    def is_advice(self) -> bool:
        """Whether it stands in reports only, and is never raised."""
        return self.name.startswith("SH9")

    @property
    def can_be_ignored(self) -> bool:
        """Whether `ignore=` turns it off; not so a wrong use of the tool itself."""
        return self.error not in ("UsageError", "NoRulesError")


_ROWS: tuple[Code, ...] = (
    Code("SH101", "`expand` is missing", "MissingRuleError"),
    Code("SH102", "promises grad without a reverse-mode rule", "MissingRuleError"),
    Code("SH103", "promises a transform without its rules", "MissingRuleError"),
    Code("SH104", "a derivation pair assigned to one name", "DefinitionError"),
    Code("SH105", "halves of a derivation that do not fit", "DefinitionError"),
    Code("SH106", "derived from a rule that is not there", "MissingRuleError"),
    Code("SH107", "derivations in a circle", "DefinitionError"),
    Code("SH108", "`lin` without `linearized`, or the reverse", "MissingRuleError"),
    Code("SH109", "two backward rules, of which JAX calls one", "DefinitionError"),
    Code("SH110", "a rule cannot take JAX's arguments", "SignatureError"),
    Code("SH111", "rules disagree on the number of inputs", "SignatureError"),
    Code("SH112", "a misspelt rule", "MissingRuleError"),
    Code("SH113", "a rule of another JAX version", "MissingRuleError"),
    Code("SH114", "a rule that JAX cannot call", "DefinitionError"),
    Code("SH115", "a rule that returns nothing", "RuleTypeError"),
    Code("SH116", "an accumulating rule that returns cotangents", "RuleTypeError"),
    Code("SH117", "a wrong class keyword", "UsageError"),
    Code("SH118", "`effects` is no set of effects", "DefinitionError"),
    Code("SH119", "`__eq__` without `__hash__`", "DefinitionError"),
    Code("SH120", "an unknown code", "UsageError"),
    Code("SH121", "`examples` that cannot be used", "UsageError"),
    Code("SH122", "`check` or `transforms` of something else", "UsageError"),
    Code("SH123", "an `expand` that calls itself", "DefinitionError"),
    Code("SH201", "`super().__init__()` was not called", "NotInitializedError"),
    Code("SH202", "`super().__init__()` was called too early", "NotInitializedError"),
    Code("SH203", "`in_avals` is no tuple", "ConstructionError"),
    Code("SH204", "a value or spec in place of a type", "ConstructionError"),
    Code("SH205", "`params` is no mapping from strings", "ConstructionError"),
    Code("SH206", "a parameter that cannot be hashed", "ConstructionError"),
    Code("SH207", "a tracer among the parameters", "ConstructionError"),
    Code("SH208", "a parameter that hides a rule or attribute", "ConstructionError"),
    Code("SH209", "number of inputs against the rules", "ConstructionError"),
    Code("SH210", "call arguments of another structure", "ArgumentError"),
    Code("SH211", "call arguments of another type", "ArgumentError"),
    Code("SH301", "output of another structure", "RuleValueError"),
    Code("SH302", "output of another type", "RuleTypeError"),
    Code("SH305", "a forward rule returns no (output, residuals)", "RuleTypeError"),
    Code("SH306", "a residual that is no JAX value", "RuleTypeError"),
    Code("SH307", "a wrong `nzs_out`", "RuleValueError"),
    Code("SH308", "structured residuals without `vjp_bwd`", "RuleTypeError"),
    Code("SH309", "`vjp_bwd` returns something else than logs", "RuleTypeError"),
    Code("SH310", "logs with wrong keys or values", "RuleTypeError"),
    Code("SH311", "an accumulator that is given nothing", "RuleValueError"),
    Code("SH312", "a cotangent that is no JAX value", "RuleTypeError"),
    Code("SH313", "cotangents that are no tuple of the right length", "RuleValueError"),
    Code("SH314", "a cotangent of another structure", "RuleValueError"),
    Code("SH315", "a cotangent of another shape", "RuleValueError"),
    Code("SH316", "a cotangent of another dtype", "RuleValueError"),
    Code("SH317", "a cotangent of another type", "RuleValueError"),
    Code("SH318", "tangents that `nzs_out` does not announce", "RuleTypeError"),
    Code("SH319", "an output that depends on tangents", "RuleValueError"),
    Code("SH320", "a rule that cannot be traced", "UntraceableRuleError"),
    Code("SH321", "a rule that initialises a backend", "DefinitionError"),
    Code("SH322", "`jvp` returns no (output, tangents)", "RuleValueError"),
    Code("SH323", "tangents of another structure", "TangentStructureError"),
    Code("SH324", "a tangent of another shape", "RuleTypeError"),
    Code("SH325", "a tangent of another dtype", "RuleTypeError"),
    Code("SH326", "a tangent of another type", "RuleTypeError"),
    Code("SH327", "a tangent that is no JAX value", "RuleTypeError"),
    Code("SH328", "a rule that is not linear in its tangents", "NonlinearRuleError"),
    Code("SH329", "a rule that adds what is no tangent", "RuleValueError"),
    Code("SH330", "`batch` returns no (outputs, dimensions)", "RuleValueError"),
    Code("SH331", "batch dimensions of another structure", "RuleValueError"),
    Code("SH332", "a batch dimension that is no int", "RuleTypeError"),
    Code("SH333", "a batch dimension that does not exist", "RuleIndexError"),
    Code("SH334", "a batched output of another type", "RuleTypeError"),
    Code("SH335", "an output that is mapped and said not to be", "RuleTypeError"),
    Code("SH340", "`dce` returns no flags and primitive", "RuleValueError"),
    Code("SH341", "`dce` removes an output that is used", "RuleValueError"),
    Code("SH342", "flags of `dce` that do not fit", "RuleValueError"),
    Code("SH343", "a reduced primitive of other types", "RuleTypeError"),
    Code("SH345", "`remat` returns no output and `rem`", "RuleValueError"),
    Code("SH346", "a `rem` that cannot be called", "RuleTypeError"),
    Code("SH401", "called before its rules are defined", "NoRulesError"),
    Code("SH402", "a rule that JAX cannot call", "DefinitionError"),
    Code("SH403", "fwd cannot take the arguments", "SignatureError"),
    Code("SH404", "bwd cannot take the arguments", "SignatureError"),
    Code("SH405", "fwd and bwd are swapped", "SignatureError"),
    Code("SH406", "required keyword-only parameters", "SignatureError"),
    Code("SH407", "`nondiff_argnums` that do not exist", "UsageError"),
    Code("SH408", "`nondiff_argnames` that do not exist", "UsageError"),
    Code("SH409", "None in place of a rule", "NoRulesError"),
    Code("SH410", "fwd returns no (output, residuals)", "RuleTypeError"),
    Code("SH411", "primal output of fwd of another structure", "RuleTypeError"),
    Code("SH412", "primal output of fwd of another type", "RuleTypeError"),
    Code("SH413", "a residual that is no JAX value", "RuleTypeError"),
    Code("SH414", "bwd returns no tuple of the right length", "RuleTypeError"),
    Code("SH415", "a cotangent of another structure", "RuleTypeError"),
    Code("SH416", "a cotangent of another shape", "RuleValueError"),
    Code("SH417", "a cotangent of another dtype", "RuleValueError"),
    Code("SH418", "a cotangent of another type", "RuleValueError"),
    Code("SH419", "a cotangent that is no JAX value", "RuleTypeError"),
    Code("SH420", "wrong backward logs", "RuleTypeError"),
    Code("SH421", "no cotangent for any argument", "RuleValueError"),
    Code("SH422", "an array in a `nondiff_argnums` position", "ArgumentError"),
    Code("SH423", "a rule closes over a tracer that is gone", "ClosedOverTracerError"),
    Code("SH424", "a rule that cannot be traced", "UntraceableRuleError"),
    Code("SH425", "arguments to check with that cannot be used", "UsageError"),
    Code("SH426", "`dims` or annotations that cannot be used", "UsageError"),
    Code("SH427", "a wrong argument of a checked function", "UsageError"),
    Code("SH428", "a rule initialises a backend at import", "DefinitionError"),
    Code("SH429", "fwd returns a Ref that is no argument", "RuleValueError"),
    Code("SH430", "a jvp rule cannot take the arguments", "SignatureError"),
    Code("SH431", "`defjvps` of another number of functions", "UsageError"),
    Code("SH432", "a jvp rule returns no (output, tangent)", "RuleTypeError"),
    Code("SH433", "primal output of jvp of another structure", "RuleTypeError"),
    Code("SH434", "primal output of jvp of another type", "RuleTypeError"),
    Code("SH435", "a tangent of another structure", "RuleTypeError"),
    Code("SH436", "a tangent of another type", "RuleTypeError"),
    Code("SH437", "a tangent that is no JAX value", "RuleTypeError"),
    Code("SH438", "a result that JAX does not take", "RuleTypeError"),
    Code("SH439", "a value kept from the trace at import", "ClosedOverTracerError"),
    Code("SH440", "a jvp rule that is not linear", "NonlinearRuleError"),
    Code("SH441", "a jvp rule that adds what is no tangent", "RuleValueError"),
    Code("SH442", "an output that depends on tangents", "RuleValueError"),
    Code("SH501", "an effect that custom derivatives do not allow", "EffectError"),
    Code("SH502", "an effect that checkpoint does not allow", "EffectError"),
    Code("SH503", "an effect where none is allowed", "EffectError"),
    Code("SH504", "an effect policy that does not exist", "UsageError"),
    Code("SH505", "an effect that `effects` does not declare", "EffectError"),
    Code("SH701", "a method that a hijax type needs is missing", "MissingRuleError"),
    Code("SH702", "a type with `__eq__` and without `__hash__`", "DefinitionError"),
    Code("SH703", "a type that is a dataclass and not frozen", "DefinitionError"),
    Code("SH704", "a method cannot take JAX's arguments", "SignatureError"),
    Code("SH705", "a method that JAX cannot call", "DefinitionError"),
    Code("SH706", "a misspelt method", "MissingRuleError"),
    Code("SH707", "a type with a field that cannot be hashed", "ConstructionError"),
    Code("SH708", "equality and hash of a type disagree", "ConstructionError"),
    Code("SH711", "`lo_ty` gives no list of types", "RuleTypeError"),
    Code("SH712", "lowered values are not what `lo_ty` says", "RuleTypeError"),
    Code("SH713", "`raise_val` gives a value of another type", "RuleTypeError"),
    Code("SH714", "a value changes when lowered and raised", "RuleValueError"),
    Code("SH715", "a method that raises", "UntraceableRuleError"),
    Code("SH716", "`check` is given a value of another type", "UsageError"),
    Code("SH721", "`dec_rank` does not undo `inc_rank`", "RuleTypeError"),
    Code("SH722", "a method that gives no type", "RuleTypeError"),
    Code("SH723", "tangents have other tangents or cotangents", "RuleTypeError"),
    Code("SH724", "`vspace_zero` or `vspace_add` gives another type", "RuleTypeError"),
    Code("SH901", "one cotangent for several leaves", "UsageError"),
    Code("SH902", "a rule takes arguments in another order", "UsageError"),
    Code("SH903", "rules defined twice", "UsageError"),
    Code("SH904", "an attribute that is not in `params`", "UsageError"),
    Code("SH905", "a cotangent for an integer in place of a number", "UsageError"),
    Code("SH906", "checkpoint takes the gradient from `jvp`", "UsageError"),
    Code("SH907", "a cotangent for integers", "UsageError"),
)

CODES: dict[str, Code] = {row.name: row for row in _ROWS}


def nearest_code(given: str) -> str | None:
    """The code that was meant by one that does not exist, if that can be told.

    Nearly every number is near to several codes, so only what is beyond doubt is taken
    for one: other letters before the digits, one character too many, two exchanged.
    """
    wanted = _normalised(given)
    exchanged = wanted[:3] + wanted[4:5] + wanted[3:4]
    candidates = (wanted, wanted[:5], exchanged if len(wanted) == 5 else "")
    return next((code for code in candidates if code in CODES), None)


def family_of(given: str) -> list[str]:
    """The codes that begin with the same digit as one that does not exist."""
    first = _normalised(given)[2:3]
    return [code for code in CODES if code[2] == first]


def _normalised(given: str) -> str:
    digits = "".join(filter(str.isalnum, given.upper())).removeprefix("SH")
    return "SH" + digits.replace("O", "0").replace("I", "1")


def codes_instead(given: str) -> tuple[str, ...]:
    """What to write in place of something that is no code, if that can be guessed."""
    parts = [part.strip() for part in given.split(",")]
    if len(parts) > 1 and all(part in CODES for part in parts):
        quoted = ", ".join(f'"{part}"' for part in parts)
        return (f"ignore=({quoted})   # each a string of its own",)
    near = nearest_code(given)
    return (f"{near}   # {CODES[near].title}",) if near else ()
