"""Primitives that are right by construction.

Each output leaf is a sum, over all input leaves, of an elementwise function of the
leaf, summed and broadcast to the shape of the output (`fit`). So any inputs go with any
outputs, and derivatives are known: `fit` is its own transpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax

from .detours import DETOURS
from .source import Member, Method, Primitive
from .trees import Leaf, Tree, leaves, numbered, places, types, values, written

NEW = jax.__version_info__[:2] > (0, 11)
NAMES = ("x", "params", "w", "k")

FUNCTIONS = {  # the function, and its derivative times a tangent or cotangent
    "id": ("{x}", "{t}"),
    "sin": ("jnp.sin({x})", "jnp.cos({x}) * {t}"),
    "tanh": ("jnp.tanh({x})", "(1 - jnp.tanh({x}) ** 2) * {t}"),
    "square": ("{x} * {x}", "2 * {x} * {t}"),
    "exp": ("jnp.exp({x})", "jnp.exp({x}) * {t}"),
}


@dataclass(frozen=True)
class Spec:
    """What a primitive is like, drawn at random.

    Attributes:
      inputs, output: their types.
      functions: the elementwise function of each input leaf.
      static: a static parameter among "", "scale" and "power".
      reverse: "accums", "retval", "logs", "from_jvp", "from_lin", or "" for none.
      jvp: "hand", "from_lin" or "".
      lin: "hand", "from_jvp" or "".
      third: what a forward rule returns third: "", "True", or a tree of flags.
      fourth: whether it returns structured residuals.
      rules: which of batch, transpose, dce, remat it has.
      supports: what it promises; None where it says nothing.
      layout: "one", "base" or "mixin".
      style: how `jvp`, `vjp_fwd` and `lin` get the primal: "self" or "expand".
      late: where a rule is set late: "class" (it is deleted and set again), "instance"
        (each has its own), "" for nowhere.
      detour: what tangents of outputs are sent through, by its name; "" for nothing.
    """

    inputs: tuple[Tree, ...]
    output: Tree
    functions: tuple[str, ...]
    static: str = ""
    reverse: str = "accums"
    jvp: str = ""
    lin: str = ""
    third: str = ""
    fourth: bool = False
    rules: frozenset[str] = frozenset()
    supports: tuple[str, ...] | None = None
    layout: str = "one"
    style: str = "self"
    late: str = ""
    detour: str = ""
    number: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        more = (f"x{i}" for i in range(len(NAMES), len(self.inputs)))
        return (*NAMES[: len(self.inputs)], *more)

    @property
    def ins(self) -> list[Leaf]:
        return leaves(self.inputs)

    @property
    def outs(self) -> list[Leaf]:
        return leaves(self.output)

    @property
    def float_ins(self) -> list[int]:
        return [i for i, leaf in enumerate(self.ins) if leaf.is_float]

    @property
    def float_outs(self) -> list[int]:
        return [j for j, leaf in enumerate(self.outs) if leaf.is_float]

    @property
    def transforms(self) -> frozenset[str]:
        """The transforms that its rules provide."""
        there = {
            "grad": bool(self.reverse),
            "jvp": bool(self.jvp),
            "linearize": bool(self.lin),
            "vmap": "batch" in self.rules,
            "transpose": "transpose" in self.rules,
            "remat": bool(self.jvp),
        }
        return frozenset(name for name, is_there in there.items() if is_there)

    def offset(self, i: int) -> int:
        """The number of the first leaf of an input."""
        return sum(len(leaves(tree)) for tree in self.inputs[:i])


@dataclass(frozen=True)
class Writer:
    """Writes the rules of a spec."""

    spec: Spec
    rules: dict[str, Member] = field(default_factory=dict[str, Member])

    # --- pieces -----------------------------------------------------------------------

    def unpack(self, prefix: str, sources: tuple[str, ...]) -> Iterator[str]:
        """Lines that name each input leaf, out of one source for each input."""
        count = itertools.count()
        for source, tree in zip(sources, self.spec.inputs, strict=True):
            for path, leaf in places(tree):
                read = "[...]" if leaf.ref and prefix == "x" else ""
                yield f"{prefix}_{next(count)} = {source}{path}{read}"

    @property
    def call(self) -> str:
        args = ", ".join(self.spec.names)
        return f"self({args})" if self.spec.style == "self" else f"self.expand({args})"

    @property
    def scale(self) -> str:
        static = {"scale": "self.scale * ", "power": "self.power ** 2 * ", "": ""}
        return static[self.spec.static]

    def coefficient(self, i: int, j: int) -> int:
        return 1 + (i + 2 * j) % 3

    def tangent(self, j: int, leaf: Leaf, t: str) -> str:
        terms = [
            f"fit({self.coefficient(i, j)} * {self.slope(i, f'{t}_{i}')}, "
            f"{leaf.shape}, '{leaf.dtype}')"
            for i in self.spec.float_ins
        ]
        return f"{self.scale}({' + '.join(terms)})"

    def detour(self, j: int) -> Iterator[str]:
        """A line that sends a tangent through what leaves it as it is."""
        if self.spec.detour:
            x, t = f"x_{self.spec.float_ins[0]}", f"dot_{j}"
            yield f"{t} = {DETOURS[self.spec.detour].format(x=x, t=t)}"

    def slope(self, i: int, t: str) -> str:
        template = FUNCTIONS[self.spec.functions[i]][1]
        return template.format(x=f"x_{i}", t=t)

    def cotangents(self) -> Iterator[str]:
        """Lines that name the output cotangents, and compute those of the inputs."""
        spec = self.spec
        outs = list(places(spec.output, "g"))
        for j in spec.float_outs:
            path, leaf = outs[j]
            yield f"g_{j} = dense({path}, {leaf.shape}, '{leaf.dtype}')"
        for i in spec.float_ins:
            leaf = spec.ins[i]
            terms = [
                f"{self.coefficient(i, j)} * fit(g_{j}, {leaf.shape}, '{leaf.dtype}')"
                for j in spec.float_outs
            ]
            total = f"({' + '.join(terms)})"
            yield f"ct_{i} = {self.scale}{self.slope(i, total)}"

    def accumulations(self) -> Iterator[str]:
        for i, (name, tree) in self._owners():
            path = list(places(tree))[i - self.spec.offset(self._index(name))][0]
            yield f"{name}_acc{path}.accum(ct_{i})"

    def _index(self, name: str) -> int:
        return self.spec.names.index(name)

    def _owners(self) -> Iterator[tuple[int, tuple[str, Tree]]]:
        count = itertools.count()
        for name, tree in zip(self.spec.names, self.spec.inputs, strict=True):
            for leaf in leaves(tree):
                i = next(count)
                if leaf.is_float:
                    yield i, (name, tree)

    def cotangent_tree(self) -> str:
        """The cotangents in the structure of the inputs; None for integers."""
        items = (
            f"ct_{i}" if leaf.is_float else "None"
            for i, leaf in enumerate(self.spec.ins)
        )
        return written(self.spec.inputs, items)

    # --- rules ------------------------------------------------------------------------

    def expand(self) -> Method:
        body = list(self.unpack("x", self.spec.names))
        for j, leaf in enumerate(self.spec.outs):
            terms = [
                f"fit({self.coefficient(i, j)} * {self.value(i)}, "
                f"{leaf.shape}, '{leaf.dtype}')"
                if self.spec.ins[i].is_float
                else f"fit(x_{i}, {leaf.shape}, '{leaf.dtype}')"
                for i in range(len(self.spec.ins))
            ]
            scale = self.scale if leaf.is_float else ""
            body.append(f"out_{j} = {scale}({' + '.join(terms)})")
        out = numbered(self.spec.output, "out")
        return Method(("self", *self.spec.names), tuple(body)).giving(out)

    def value(self, i: int) -> str:
        return FUNCTIONS[self.spec.functions[i]][0].format(x=f"x_{i}")

    def forward(self) -> Method:
        """`vjp_fwd` or `lin`: the primal, and the inputs as residuals."""
        spec = self.spec
        items = (
            f"{name}{path}{'[...]' if leaf.ref else ''}"
            for name, tree in zip(spec.names, spec.inputs, strict=True)
            for path, leaf in places(tree)
        )
        residuals = written(spec.inputs, items)
        flags = {
            "": [],
            "True": ["True"],
            "tree": [written(spec.output, (str(leaf.is_float) for leaf in spec.outs))],
        }[spec.third]
        if spec.fourth:
            flags = [*(flags or ["True"]), "(factor,)"]
        body = [f"out = {self.call}", f"res = {residuals}"]
        if spec.fourth:
            body.append("factor = jnp.float32(2)")
        result = ", ".join(["out", "res", *flags])
        return Method(("self", "nzs_in", *spec.names), tuple(body)).giving(result)

    def backward(self, *, accumulates: bool) -> Method:
        spec = self.spec
        body = (*self.unpack("x", self._of("res")), *self.cotangents())
        leading = ("self", "res", "g")
        if not accumulates:
            return Method(leading, body).giving(self.cotangent_tree())
        if spec.fourth:
            leading = ("self", "res", "sres", "g")
            body = ("(factor,) = sres", *body)
        params = (*leading, *(f"{name}_acc" for name in spec.names))
        return Method(params, body, tuple(self.accumulations()))

    def _of(self, source: str) -> tuple[str, ...]:
        return tuple(f"{source}[{i}]" for i in range(len(self.spec.inputs)))

    def out_tangents(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        spec = self.spec
        lines = list(self.unpack("t", sources))
        for i, leaf in enumerate(spec.ins):
            if leaf.is_float:
                lines.append(f"t_{i} = dense(t_{i}, {leaf.shape}, '{leaf.dtype}')")
        for j, leaf in enumerate(spec.outs):
            if leaf.is_float:
                lines.append(f"dot_{j} = {self.tangent(j, leaf, 't')}")
                lines += self.detour(j)
            else:
                lines.append(f"dot_{j} = no_tangent({leaf.shape})")
        return tuple(lines)

    def jvp(self) -> Method:
        spec = self.spec
        body = (
            *self.unpack("x", self._of("primals")),
            *self.out_tangents(self._of("tangents")),
            *(f"{name} = primals[{i}]" for i, name in enumerate(spec.names)),
            f"out = {self.call}",
        )
        tangents = numbered(spec.output, "dot")
        return Method(("self", "primals", "tangents"), body).giving(f"out, {tangents}")

    def linearized(self) -> Method:
        spec = self.spec
        given = tuple(f"{name}_dot" for name in spec.names)
        leading = ("self", "res", "sres") if spec.fourth else ("self", "res")
        body = (*self.unpack("x", self._of("res")), *self.out_tangents(given))
        return Method((*leading, *given), body).giving(numbered(spec.output, "dot"))

    def transpose(self) -> Method:
        """All inputs are linear; those that are values here are left alone."""
        spec = self.spec
        sink = tuple(
            f"if wants({line.partition('.accum')[0]}): {line}"
            for line in self.accumulations()
        )
        params = ("self", "g", *(f"{name}_acc" for name in spec.names))
        return Method(params, tuple(self.cotangents()), sink)

    def batch(self) -> Method:
        zeros = written(self.spec.output, itertools.repeat("0"))
        body = (
            "mapped = jax.vmap(self.expand, in_axes=dims, axis_size=axis_data.size)",
            "outs = mapped(*args)",
            f"dims_out = {zeros}",
        )
        params = ("self", "axis_data", "args", "dims")
        return Method(params, body).giving("outs, dims_out")

    def dce(self) -> Method:
        live = ("live_ins",) if NEW else ()
        body = (
            "if not any(jax.tree.leaves(used_outs)):",
            "    return False, False, None",
        )
        return Method(("self", "used_outs", *live), body).giving("True, True, self")

    def remat(self) -> Method:
        args = ", ".join(self.spec.names)
        body = (f"out = self({args})", f"res = ({args},)")
        if NEW:
            body = (*body, f"def rem(res, {args}): return self({args})")
            result = "out, res, rem"
        else:
            body = (*body, f"def rem({args}): return self({args})")
            result = "out, rem"
        return Method(("self", "trace", *self.spec.names), body).giving(result)


def primitive(spec: Spec) -> Primitive:
    """The program of a spec."""
    members = dict(_members(spec))
    init = {
        "in_avals": f"self.in_avals = {types(spec.inputs)}",
        "out_aval": f"self.out_aval = {types(spec.output)}",
        "params": f"self.params = {_params(spec)}",
        "super": "super().__init__()",
    }
    keywords = {} if spec.supports is None else {"supports": repr(spec.supports)}
    of_base = frozenset(list(members)[::2]) if spec.layout != "one" else frozenset()
    name = f"Op{spec.number}"
    late = [rule for rule, member in members.items() if isinstance(member, Method)]
    late = late if spec.late else []
    if spec.late == "instance":
        own = (f"self.{rule} = partial(type(self).{rule}, self)" for rule in late)
        init |= {f"own {rule}": line for rule, line in zip(late, own, strict=True)}
    return Primitive(
        spec,
        name,
        members,
        keywords,
        init,
        f"{name}()",
        tuple(map(values, spec.inputs)),
        layout=spec.layout,
        of_base=of_base,
        after=tuple(
            f"{name}.{rule}, _ = {name}.__dict__['{rule}'], delattr({name}, '{rule}')"
            for rule in late
            if spec.late == "class" and rule not in of_base
        ),
    )


def _params(spec: Spec) -> str:
    chosen = {"scale": "dict(scale=0.5)", "power": "dict(power=3, label='p')", "": "{}"}
    return chosen[spec.static]


def _members(spec: Spec) -> Iterator[tuple[str, Any]]:
    write = Writer(spec)
    yield "expand", write.expand()
    if spec.reverse in ("from_jvp", "from_lin"):
        name = f"vjp_{spec.reverse}"
        yield "vjp_fwd", f"vjp_fwd, vjp_bwd_retval = {name}"
    elif spec.reverse:
        yield "vjp_fwd", write.forward()
    if spec.reverse == "accums":
        yield "vjp_bwd", write.backward(accumulates=True)
    elif spec.reverse == "retval":
        yield "vjp_bwd_retval", write.backward(accumulates=False)
    elif spec.reverse == "logs":
        rule = write.backward(accumulates=False)
        logs = "{'norm': jnp.float32(1)}"
        yield "vjp_bwd_retval_logs", rule.giving(f"{rule.result}, {logs}")
    if spec.jvp:
        yield "jvp", write.jvp() if spec.jvp == "hand" else "jvp = jvp_from_lin"
    if spec.lin == "hand":
        yield "lin", write.forward()
        yield "linearized", write.linearized()
    elif spec.lin:
        yield "lin", "lin, linearized = linearize_from_jvp"
    for rule in ("batch", "transpose", "dce", "remat"):
        if rule in spec.rules:
            yield rule, getattr(write, rule)()
