"""Programs as data: methods, primitives and functions, and their source text.

A mutation changes data; the text is written afterwards, so that a mutant is a program
that somebody could have typed, with lines and code objects of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

HEAD = """\
from functools import partial
import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.detection.prelude import *
from jax.experimental.hijax import (
    HiPrim, jvp_from_lin, linearize_from_jvp, vjp_from_jvp, vjp_from_lin)
"""

STRICT_HEAD = """\
from strict_hijax import (
    StrictHiPrim, StrictHiType, checked_custom_jvp, checked_custom_vjp)
"""


@dataclass(frozen=True)
class Method:
    """A function or method: what it computes, what it hands on, what it returns.

    `sink` are the lines that give cotangents to accumulators, one a leaf.
    """

    params: tuple[str, ...]
    body: tuple[str, ...] = ()
    sink: tuple[str, ...] = ()
    returns: str | None = None
    prefix: str = "def"
    decorators: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """Its source."""
        lines = [*self.body, *self.sink]
        if self.returns is not None:
            lines.append(self.returns)
        head = f"{self.prefix} {name}({', '.join(self.params)}):"
        return "\n".join([*self.decorators, head, *indented(lines or ["pass"])])

    def but(self, **changes: Any) -> Self:
        """The same with other fields."""
        return replace(self, **changes)

    def then(self, *lines: str) -> Self:
        """The same with more computed before anything is handed on."""
        return self.but(body=(*self.body, *lines))

    def giving(self, expression: str) -> Self:
        """The same with another result."""
        return self.but(returns=f"return {expression}")

    @property
    def result(self) -> str:
        """The expression that is returned."""
        return (self.returns or "return None").removeprefix("return ")


def indented(lines: Iterable[str]) -> list[str]:
    return [textwrap.indent(line, "    ") for line in lines]


type Member = Method | str


@dataclass(frozen=True)
class Primitive:
    """A class of primitives, an instance of it, and the arguments of its calls.

    Attributes:
      spec: what was drawn, which says what holds by construction.
      members: rules and other members by name; a string is a line of the class body.
      keywords: class keywords that stock JAX does not know.
      init: the lines of `__init__` by the attribute that they set.
      layout: "one" class, rules in a strict "base", or in a plain "mixin".
      of_base: members that stand in the base or mixin.
      before, after: lines of the module around the class.
      construct: the expression that makes an instance.
      args: the arguments of a call.
      examples: whether its types are known at import.
    """

    spec: Any
    name: str
    members: Mapping[str, Member]
    keywords: Mapping[str, str]
    init: Mapping[str, str]
    construct: str
    args: tuple[str, ...]
    layout: str = "one"
    of_base: frozenset[str] = frozenset()
    init_params: tuple[str, ...] = ("self",)
    decorators: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    def but(self, **changes: Any) -> Self:
        """The same with other fields."""
        return replace(self, **changes)

    def having(self, **members: Member) -> Self:
        """The same with these members added or replaced."""
        return self.but(members={**self.members, **members})

    def lacking(self, *names: str) -> Self:
        """The same without these members."""
        left = {k: v for k, v in self.members.items() if k not in names}
        return self.but(members=left)

    def declaring(self, **lines: str) -> Self:
        """The same with other lines in `__init__`."""
        return self.but(init={**self.init, **lines})

    def promising(self, **keywords: str) -> Self:
        """The same with other class keywords."""
        return self.but(keywords={**self.keywords, **keywords})

    def method(self, name: str) -> Method:
        """The rule of this name, which is written by hand."""
        member = self.members[name]
        assert isinstance(member, Method)
        return member

    def is_written(self, name: str) -> bool:
        """Whether a rule of this name is written by hand."""
        return isinstance(self.members.get(name), Method)

    def source(self, *, strict: bool, typed: bool) -> str:
        """The module, on strict_hijax or on stock JAX, with or without examples."""
        root = "StrictHiPrim" if strict else "HiPrim"
        own = {k: v for k, v in self.members.items() if k not in self.of_base}
        shared = {k: v for k, v in self.members.items() if k in self.of_base}
        init = Method(self.init_params, tuple(self.init.values()))
        last: dict[str, Member] = {"__init__": init} if self.init else {}
        if typed:
            example = Method(
                ("cls",),
                returns=f"return [{self.construct.replace(self.name, 'cls')}]",
                decorators=("@classmethod",),
            )
            last["examples"] = example
        parts = [HEAD, STRICT_HEAD if strict else "", *self.before]
        bases = [root]
        if shared and self.layout == "base":
            abstract = {"abstract": "True"} if strict else {}
            parts.append(class_text(f"{self.name}Base", [root], abstract, shared))
            bases = [f"{self.name}Base"]
        elif shared:
            parts.append(class_text(f"{self.name}Mixin", [], {}, shared))
            bases = [f"{self.name}Mixin", root]
        keywords = self.keywords if strict else {}
        parts += self.decorators
        parts.append(class_text(self.name, bases, keywords, {**own, **last}))
        return "\n".join([*parts, *self.after])


def class_text(
    name: str,
    bases: list[str],
    keywords: Mapping[str, str],
    members: Mapping[str, Member],
) -> str:
    """The source of a class statement."""
    listed = [*bases, *(f"{key}={value}" for key, value in keywords.items())]
    head = f"class {name}({', '.join(listed)}):" if listed else f"class {name}:"
    lines = [
        member if isinstance(member, str) else member.text(key)
        for key, member in members.items()
    ]
    return "\n".join([head, *indented(lines or ["pass"])])


@dataclass(frozen=True)
class Function:
    """A function with custom derivatives, and the arguments of its calls.

    Attributes:
      spec: what was drawn.
      methods: "primal", and "fwd", "rem", "bwd" by role; a string stands for a rule
        that is no function.
      options: arguments of the decorator that both libraries take.
      strict_options: those that only `checked_custom_vjp` takes.
      define: the lines after the rules; `{f}` stands for the function's name.
      outside: parameters of a function around all of it.
      after: lines of the module that come last.
      wrapper: what it is made by: "custom_vjp" or "custom_jvp".
    """

    spec: Any
    name: str
    methods: Mapping[str, Member]
    define: tuple[str, ...]
    args: tuple[str, ...]
    example_args: str
    options: Mapping[str, str] = field(default_factory=dict)
    strict_options: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    wrapper: str = "custom_vjp"
    notes: Mapping[str, Any] = field(default_factory=dict)

    def but(self, **changes: Any) -> Self:
        """The same with other fields."""
        return replace(self, **changes)

    def having(self, **methods: Member) -> Self:
        """The same with other rules."""
        return self.but(methods={**self.methods, **methods})

    def method(self, role: str) -> Method:
        """The rule of this role."""
        found = self.methods[role]
        assert isinstance(found, Method)
        return found

    def source(self, *, strict: bool, typed: bool) -> str:
        """The module, on strict_hijax or on stock JAX, with or without types."""
        options = dict(self.options)
        decorator = f"{'checked_' if strict else 'jax.'}{self.wrapper}"
        if strict:
            options |= self.strict_options
            if typed and (self.after or not self.outside):
                options["example_args"] = self.example_args
        if options:
            listed = ", ".join(f"{k}={v}" for k, v in options.items())
            decorator = f"partial({decorator}, {listed})"
        lines: list[str] = []
        for role, method in self.methods.items():
            name = self.name if role == "primal" else f"{self.name}_{role}"
            if isinstance(method, str):
                lines.append(f"{name} = {method}")
                continue
            if role == "primal":
                method = method.but(decorators=(f"@{decorator}", *method.decorators))
            lines.append(method.text(name))
        lines += [line.replace("{f}", self.name) for line in self.define]
        if self.outside:
            around = Method(self.outside, tuple(lines), returns=f"return {self.name}")
            lines = [around.text(f"{self.name}_in")]
        head = STRICT_HEAD if strict else ""
        return "\n".join([HEAD, head, *self.before, *lines, *self.after])
