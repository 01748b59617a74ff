"""Functions with a jvp rule that are right by construction: `defjvp`, and `defjvps`."""

from __future__ import annotations

from typing import Any

from .functions import Spec, Writer
from .source import Function, Method
from .trees import leaves, numbered, places, specs, values

FORMS = ("defjvp", "defjvps")


class JvpWriter(Writer):
    """The tangents of the outputs, of all inputs or of one."""

    def all_tangents(self, statics: tuple[str, ...]) -> Method:
        """A rule for `defjvp`."""
        spec = self.spec
        names = [f"{name} = primals[{i}]" for i, name in enumerate(spec.names)]
        body = (
            *self.unpack("x", self._of("primals")),
            *self.out_tangents(self._of("tangents")),
            *names,
        )
        dots = numbered(spec.output, "dot")
        params = (*statics, "primals", "tangents")
        return Method(params, body).giving(f"out, {dots}")

    def one_tangent(self, place: int) -> Method:
        """The rule for one input, as `defjvps` takes it; JAX adds them up."""
        spec = self.spec
        own = range(spec.offset(place), spec.offset(place + 1))
        body = [*self.unpack("x", spec.names)]
        for i, (path, leaf) in zip(own, places(spec.inputs[place], "t"), strict=True):
            body.append(f"t_{i} = dense({path}, {leaf.shape}, '{leaf.dtype}')")
        for j, leaf in enumerate(spec.outs):
            terms = [
                f"fit({self.coefficient(i, j)} * {self.slope(i, f't_{i}')}, "
                f"{leaf.shape}, '{leaf.dtype}')"
                for i in own
            ]
            body.append(f"dot_{j} = {' + '.join(terms)}")
            body += self.detour(j) if leaf.is_float else ()
        params = ("t", "ans", *spec.names)
        return Method(params, tuple(body)).giving(numbered(spec.output, "dot"))


def jvp_function(spec: Spec) -> Function:
    """The program of a spec."""
    write = JvpWriter(spec.plain)
    primal = write.expand().but(params=spec.params)
    name = f"f{spec.number}"
    methods: dict[str, Any] = {"primal": primal}
    if spec.form == "defjvp":
        rule = write.all_tangents(spec.statics)
        call = f"out = {name}({', '.join(spec.params)})"
        own = (*primal.body, f"out = {primal.result}")
        methods["jvp"] = rule.then(*((call,) if spec.style == "self" else own))
        define = (
            "{f}.defjvp({f}_jvp" + ", symbolic_zeros=True" * spec.symbolic_zeros + ")"
        )
    else:
        given: list[str] = []
        for place, tree in enumerate(spec.inputs):
            if all(leaf.is_float for leaf in leaves(tree)):
                methods[f"jvp{place}"] = write.one_tangent(place)
                given.append(f"{{f}}_jvp{place}")
            else:
                given.append("None")
        define = f"{{f}}.defjvps({', '.join(given)})"
    args, examples = list(map(values, spec.inputs)), list(map(specs, spec.inputs))
    options: dict[str, str] = {}
    if spec.position is not None:
        args.insert(spec.position, "2")
        examples.insert(spec.position, "2")
        options = {"nondiff_argnums": f"({spec.position},)"}
    return Function(
        spec,
        name,
        methods,
        (define,),
        tuple(args),
        f"({', '.join(examples)},)",
        options,
        wrapper="custom_jvp",
    )
