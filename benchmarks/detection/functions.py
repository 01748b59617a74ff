"""Functions with custom derivatives that are right by construction.

They compute what the primitives do, with the derivatives that are known for these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from . import primitives
from .source import Function, Method
from .trees import Leaf, Tree, leaves, specs, values

_ALL = (
    "defremat",
    "defremat_with_logs",
    "defvjp",
    "defvjp_with_accums",
    "defvjp_with_logs",
)
FORMS = tuple(form for form in _ALL if hasattr(jax.custom_vjp, form))
"""How rules are defined; 0.11.2 has two of these."""
REMAT = tuple(form for form in FORMS if "remat" in form)


@dataclass(frozen=True)
class Spec:
    """What a function is like, drawn at random.

    Attributes:
      inputs, output, functions: as in a primitive.
      form: how the rules are defined, such as "defvjp".
      static: the position of a static argument: 0, 1, "last", or None for none.
      by_name: whether it is declared by `nondiff_argnames`.
      symbolic_zeros, optimize_remat: options of `defvjp`.
      style: whether fwd calls the function it"self" or computes on its "own".
      detour: as in a primitive, where there is a jvp rule.
    """

    inputs: tuple[Tree, ...]
    output: Tree
    functions: tuple[str, ...]
    form: str = "defvjp"
    static: int | str | None = None
    by_name: bool = False
    symbolic_zeros: bool = False
    optimize_remat: bool = False
    style: str = "self"
    detour: str = ""
    number: int = 0

    @property
    def plain(self) -> primitives.Spec:
        """The primitive that computes the same, as far as that has a meaning."""
        scale = "" if self.static is None else "static"
        return primitives.Spec(
            self.inputs,
            self.output,
            self.functions,
            static=scale,
            detour=self.detour,
            number=self.number,
        )

    @property
    def position(self) -> int | None:
        """Where the static argument stands."""
        if self.static is None:
            return None
        n = len(self.inputs)
        return n if self.static == "last" else min(int(self.static), n)

    @property
    def params(self) -> tuple[str, ...]:
        """The parameters of the function."""
        names = list(self.plain.names)
        if self.position is not None:
            names.insert(self.position, "n")
        return tuple(names)

    @property
    def statics(self) -> tuple[str, ...]:
        return () if self.static is None else ("n",)

    @property
    def accumulates(self) -> bool:
        return "accums" in self.form

    @property
    def logs(self) -> bool:
        return "logs" in self.form

    @property
    def ins(self) -> list[Leaf]:
        return leaves(self.inputs)

    @property
    def outs(self) -> list[Leaf]:
        return leaves(self.output)

    @property
    def float_ins(self) -> list[int]:
        return self.plain.float_ins

    @property
    def float_outs(self) -> list[int]:
        return self.plain.float_outs


class Writer(primitives.Writer):
    """The same rules, for a function."""

    @property
    def scale(self) -> str:
        return "(1 + n) * " if self.spec.static else ""


def function(spec: Spec) -> Function:
    """The program of a spec."""
    write = Writer(spec.plain)
    primal = write.expand().but(params=spec.params)
    methods: dict[str, Any] = {"primal": primal}
    name = f"f{spec.number}"
    if "remat" in spec.form:
        methods["fwd"] = _forward(spec, primal, name, residuals="()")
        methods["rem"] = _forward(spec, primal, name).but(params=("kept", *spec.params))
    else:
        methods["fwd"] = _forward(spec, primal, name)
    methods["bwd"] = _backward(spec, write)
    args, examples = list(map(values, spec.inputs)), list(map(specs, spec.inputs))
    options: dict[str, str] = {}
    if spec.position is not None:
        args.insert(spec.position, "2")
        examples.insert(spec.position, "2")
        options = (
            {"nondiff_argnames": "('n',)"}
            if spec.by_name
            else {"nondiff_argnums": f"({spec.position},)"}
        )
    return Function(
        spec,
        name,
        methods,
        (define(spec),),
        tuple(args),
        f"({', '.join(examples)},)",
        options,
    )


def define(spec: Spec, form: str | None = None) -> str:
    """The line that defines the rules."""
    roles = ["fwd", "rem", "bwd"] if "remat" in spec.form else ["fwd", "bwd"]
    given = [f"{{f}}_{role}" for role in roles]
    given += ["symbolic_zeros=True"] * spec.symbolic_zeros
    given += ["optimize_remat=True"] * spec.optimize_remat
    return f"{{f}}.{form or spec.form}({', '.join(given)})"


def _forward(spec: Spec, primal: Method, name: str, residuals: str = "") -> Method:
    items = list(spec.plain.names)
    unwrap = [f"{item} = values_of({item})" for item in items if spec.symbolic_zeros]
    compute = (
        [f"out = {name}({', '.join(spec.params)})"]
        if spec.style == "self"
        else [*primal.body, f"out = {primal.result}"]
    )
    kept = residuals or f"({', '.join(items)},)"
    body = (*unwrap, *compute, f"res = {kept}")
    return Method(spec.params, body).giving("out, res")


def _backward(spec: Spec, write: Writer) -> Method:
    rule = write.backward(accumulates=spec.accumulates)
    names = (f"{name}_acc" for name in spec.plain.names)
    accums = tuple(names) if spec.accumulates else ()
    rule = rule.but(params=(*spec.statics, "res", "g", *accums))
    if spec.accumulates:
        return rule
    if spec.logs:
        return rule.giving(f"{rule.result}, {{'norm': jnp.float32(1)}}")
    return rule
