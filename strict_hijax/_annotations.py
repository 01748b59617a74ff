"""Types declared for a function: by `example_args`, or by `dims` and its annotations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ._function_rules import FunctionRules, Inputs


@dataclasses.dataclass(frozen=True, slots=True)
class DeclaredTypes:
    example_args: tuple[Any, ...] | None
    dims: Mapping[str, int] | None
    axes: Mapping[str, int]

    @property
    def code(self) -> str:
        return "SH426" if self.dims is not None else "SH425"

    @classmethod
    def parse(cls, fun: Any, example_args: Any, dims: Any, axes: Any) -> DeclaredTypes:
        return cls(
            None if example_args is None else tuple(example_args), dims, axes or {}
        )

    def inputs(self, rules: FunctionRules) -> Inputs | None:
        if self.example_args is None:
            return None
        return Inputs.of(self.example_args, rules.nondiff_argnums)
