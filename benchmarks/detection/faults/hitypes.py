"""Kinds 35 and 36: hijax types."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.detection.hitypes import HiType
from benchmarks.detection.operators import fault
from benchmarks.detection.stages import Stage

from .sites import NO_VALUES, other_types

type Mutants = Iterator[HiType]

TYPE = {"family": "hijax type", "at_import": False}
NEEDED = ("lo_ty", "lower_val", "raise_val", "to_tangent_aval")

# --- 35: definition -------------------------------------------------------------------


@fault(35, Stage.DEF, "SH701", **TYPE)
def a_method_missing(t: HiType) -> Mutants:
    for name in NEEDED:
        yield t.lacking(name)


@fault(35, Stage.DEF, "SH701", has_axes=True, **TYPE)
def a_method_missing_for_what_is_promised(t: HiType) -> Mutants:
    for name in ("inc_rank", "dec_rank"):
        yield t.lacking(name)
    yield t.but(keywords={"supports": "('jit', 'grad', 'scan')"})
    yield t.but(keywords={"supports": "('jit', 'grad', 'shard_map')"})


@fault(35, Stage.DEF, "SH702", style="plain", **TYPE)
def equality_without_hash(t: HiType) -> Mutants:
    yield t.lacking("__hash__")
    yield t.having(__hash__="__hash__ = None")


@fault(35, Stage.DEF, "SH701", style="plain", **TYPE)
def no_equality(t: HiType) -> Mutants:
    yield t.lacking("__eq__")
    yield t.lacking("__eq__", "__hash__")


@fault(35, Stage.NEW, "SH701", "SH702", "SH703", style="dataclass", **TYPE)
def a_dataclass_that_is_not_frozen(t: HiType) -> Mutants:
    """The decorator runs after the class statement: there is nothing to see before."""
    for arguments in ("", "()", "(eq=True)", "(order=True)", "(eq=False)"):
        yield t.but(decorators=(f"@dataclasses.dataclass{arguments}",))


@fault(35, Stage.DEF, "SH704", **TYPE)
def a_method_that_cannot_take_its_arguments(t: HiType) -> Mutants:
    for name in ("lo_ty", "lower_val", "to_tangent_aval"):
        rule = t.method(name)
        yield t.having(**{name: rule.but(params=(*rule.params, "more"))})
        yield t.having(**{name: rule.but(params=(*rule.params, "*", "more"))})
        yield t.having(**{name: rule.but(params=rule.params[:-1])})


@fault(35, Stage.DEF, "SH705", **TYPE)
def a_method_that_cannot_be_called(t: HiType) -> Mutants:
    for name in NEEDED:
        rule = t.method(name)
        yield t.having(**{name: f"{name} = 3"})
        yield t.having(**{name: rule.but(prefix="async def")})
        yield t.having(**{name: rule.but(returns=f"yield {rule.result}")})
        yield t.having(**{name: rule.but(returns=None)})


@fault(35, Stage.DEF, "SH706", "SH701", **TYPE)
def a_misspelt_method(t: HiType) -> Mutants:
    for name in NEEDED:
        for i in range(1, len(name) - 2):
            a, b = name[i : i + 2]
            if a != b and "_" not in (a, b):
                other = f"{name[:i]}{b}{a}{name[i + 2 :]}"
                yield t.lacking(name).having(**{other: t.method(name)})


# --- 36: what methods give ------------------------------------------------------------


@fault(36, Stage.CHECK, "SH711", **TYPE)
def lo_ty_that_gives_no_list_of_types(t: HiType) -> Mutants:
    rule = t.method("lo_ty")
    parts = t.spec.parts
    specs = ", ".join(part.spec for part in parts)
    for text in (
        parts[0].type,
        f"[{specs}]",
        "3",
        "None or 'float32'",
        "[jnp.float32]",
    ):
        yield t.having(lo_ty=rule.giving(text))


def _types(t: HiType, place: int, text: str) -> str:
    types = [part.type for part in t.spec.parts]
    types[place] = f"typed({text})"
    return f"[{', '.join(types)}]"


@fault(36, Stage.CHECK, "SH712", "SH713", "SH714", **TYPE)
def lo_ty_that_is_not_what_lower_val_gives(t: HiType) -> Mutants:
    rule = t.method("lo_ty")
    for place, part in enumerate(t.spec.parts):
        for other in other_types(part):
            yield t.having(lo_ty=rule.giving(_types(t, place, other)))
    more = ", ".join(part.type for part in (*t.spec.parts, t.spec.parts[0]))
    yield t.having(lo_ty=rule.giving(f"[{more}]"))


@fault(36, Stage.CHECK, "SH712", "SH714", **TYPE)
def lower_val_that_gives_other_values(t: HiType) -> Mutants:
    rule = t.method("lower_val")
    for place, part in enumerate(t.spec.parts):
        for other in other_types(part):
            parts = [f"value.{name}" for name in t.spec.names]
            parts[place] = f"fit({parts[place]}, {other})"
            yield t.having(lower_val=rule.giving(f"[{', '.join(parts)}]"))
        for value in NO_VALUES:
            parts = [f"value.{name}" for name in t.spec.names]
            parts[place] = value
            yield t.having(lower_val=rule.giving(f"[{', '.join(parts)}]"))
    read = ", ".join(f"value.{name}" for name in (*t.spec.names, "a"))
    yield t.having(lower_val=rule.giving(f"[{read}]"))
    yield t.having(lower_val=rule.giving("[]"))


@fault(36, Stage.CHECK, "SH714", "SH713", "SH715", **TYPE)
def values_that_do_not_round_trip(t: HiType) -> Mutants:
    """Types are kept, and a value is changed on the way.

    Not in a way that changes nothing when it is done again: the lowered values are all
    that can be compared, and a `lower_val` that tidies up is right.
    """
    raising, lowering = t.method("raise_val"), t.method("lower_val")
    for name in t.spec.names:
        changed = f"{name} = jnp.zeros_like({name})"
        yield t.having(raise_val=raising.then(changed))
        other = f"fit(value.{name} == 0, value.{name}.shape, value.{name}.dtype)"
        held = lowering.result.replace(f"value.{name}", other)
        yield t.having(lower_val=lowering.giving(held))
    yield t.having(raise_val=raising.giving("object()"))
    yield t.having(raise_val=raising.giving("jnp.zeros(7)"))


@fault(36, Stage.CHECK, "SH721", has_axes=True, **TYPE)
def dec_rank_that_does_not_undo_inc_rank(t: HiType) -> Mutants:
    for text in ("self.lead", "()", "(7,)", "(*self.lead, size)", "self.lead[2:]"):
        rule = t.method("dec_rank")
        made = f"{t.name}({text})"
        if text not in ("()", "self.lead[2:]"):
            yield t.having(dec_rank=rule.giving(made))
    rule = t.method("inc_rank")
    for text in ("self.lead", "(size, size, *self.lead)", "(7, 7)"):
        if text != "self.lead":
            yield t.having(inc_rank=rule.giving(f"{t.name}({text})"))


@fault(36, Stage.CHECK, "SH722", has_axes=True, **TYPE)
def a_rank_method_that_gives_no_type(t: HiType) -> Mutants:
    for text in ("self.lead", "None or ()", "3", "jnp.float32"):
        yield t.having(inc_rank=t.method("inc_rank").giving(text))


@fault(36, Stage.CHECK, "SH722", "SH723", **TYPE)
def a_tangent_type_that_is_none(t: HiType) -> Mutants:
    rule = t.method("to_tangent_aval")
    for text in ("jnp.float32", "S((3,), 'float32')", "'float32'", "[]"):
        yield t.having(to_tangent_aval=rule.giving(text))


@fault(36, Stage.CHECK, "SH724", is_vector=True, **TYPE)
def vspace_methods_that_give_another_type(t: HiType) -> Mutants:
    zero, add = t.method("vspace_zero"), t.method("vspace_add")
    first = t.spec.parts[0]
    for text in ("jnp.zeros(7)", "0.0", "object()", "None or 0"):
        yield t.having(vspace_zero=zero.giving(text))
        yield t.having(vspace_add=add.giving(text))
    for other in other_types(first):
        lines = (f"made = {zero.result}", f"first = fit(made.a, {other})")
        result = "dataclasses.replace(made, a=first)"
        yield t.having(vspace_zero=zero.then(*lines).giving(result))
        lines = (f"made = {add.result}", f"first = fit(made.a, {other})")
        yield t.having(vspace_add=add.then(*lines).giving(result))
