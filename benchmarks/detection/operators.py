"""What a mutation operator is, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from . import functions, habits, hitypes, jvp_functions, primitives, strategies
from .stages import Stage

type Mutate = Callable[[Any], Iterator[Any]]

FAMILIES: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "primitive": (strategies.primitive_specs, primitives.primitive),
    "function": (strategies.function_specs, functions.function),
    "jvp function": (strategies.jvp_function_specs, jvp_functions.jvp_function),
    "hijax type": (strategies.hitype_specs, hitypes.hitype),
    "program with a habit": (habits.programs, lambda program: program),
}
"""For each family of programs, how a spec is drawn and what is made of it."""


@dataclass(frozen=True)
class Operator:
    """One way to make one fault.

    Attributes:
      kind: the number of the fault in `faults.md`.
      name: what it does, in words.
      stage: the latest stage at which it must be told where types are not known.
      codes: one of these must be among the codes of the error.
      mutate: all mutants of a program, each with this one fault.
      family: what kind of programs it is for.
      at_import: whether it must be told at import where types are known.
      stock: whether the fault exists without strict_hijax.
      asks: whether the installed JAX decides: a mutant that it takes, and gets right,
        is no fault, and must be accepted.
      raises: whether the rule itself raises. Where types are not known, that comes out
        as it is when JAX calls the rule.
      wants: what a program must have for it to apply.
    """

    kind: int
    name: str
    stage: Stage
    codes: frozenset[str]
    mutate: Mutate
    family: str = "primitive"
    at_import: bool = True
    stock: bool = True
    asks: bool = False
    raises: bool = False
    wants: Mapping[str, Any] = field(default_factory=dict)

    def latest(self, *, typed: bool) -> Stage:
        """The latest stage that is acceptable."""
        if typed and (self.stage <= Stage.IMPORT or self.at_import):
            return Stage.IMPORT
        return self.stage

    def original(self, mutant: Any) -> Any:
        """The right program that a mutant was made of."""
        return FAMILIES[self.family][1](mutant.spec)

    def programs(self) -> st.SearchStrategy[Any]:
        """Right programs to which it applies."""
        specs, build = FAMILIES[self.family]
        return specs(**self.wants).map(build)

    def mutants(self) -> st.SearchStrategy[Any]:
        """Mutants, each of a program drawn anew; None where it has no place."""

        @st.composite
        def drawn(draw: st.DrawFn) -> Any:
            program = draw(self.programs())
            places = list(self.mutate(program))
            return draw(st.sampled_from(places)) if places else None

        return drawn()


OPERATORS: list[Operator] = []


_FIELDS = ("family", "at_import", "stock", "asks", "raises")


def fault(
    kind: int, stage: Stage, *codes: str, **more: Any
) -> Callable[[Mutate], Mutate]:
    """Registers a generator of mutants; what is no field of `Operator` is wanted."""
    fields = {name: more.pop(name) for name in _FIELDS if name in more}

    def register(mutate: Mutate) -> Mutate:
        name = mutate.__name__.replace("_", " ")
        OPERATORS.append(
            Operator(kind, name, stage, frozenset(codes), mutate, wants=more, **fields)
        )
        return mutate

    return register
