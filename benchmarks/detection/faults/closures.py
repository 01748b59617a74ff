"""Kind 31: rules that close over a tracer, where JAX raises while it runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.detection.operators import fault
from benchmarks.detection.source import Function
from benchmarks.detection.stages import Stage
from benchmarks.detection.uses import total


def _outer(around: Callable[[Any], Any]) -> Callable[[Function, dict[str, Any]], Any]:
    """A gradient for `s`, of which the rules and the arguments of the call are made."""

    def use(program: Function, scope: dict[str, Any]) -> Any:
        args = [eval(arg, scope) for arg in program.args]

        def loss(s: Any) -> Any:
            fun = scope[f"{program.name}_in"](s)
            scaled = jax.tree.map(lambda x: _scaled(x, s), args[0])
            return total(around(lambda x: fun(x, *args[1:]))(scaled))

        return jax.grad(loss)(2.0)  # under jit JAX does not always raise

    return use


def _scaled(x: Any, s: Any) -> Any:
    return (jnp.asarray(x) * s).astype(x.dtype)


def _mapped(fun: Any) -> Any:
    return lambda x: jax.vmap(fun)(jax.tree.map(lambda x: jnp.stack([x, x]), x))


def _scanned(fun: Any) -> Any:
    def run(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (c, total(fun(x))), 0, None, length=2)[1]

    return run


USES = tuple(map(_outer, (lambda fun: fun, jax.jit, _mapped)))
IN_SCAN = _outer(_scanned)  # what fwd recorded is evaluated later, when no rule runs


@fault(
    31,
    Stage.RULE,
    "SH423",
    at_import=False,
    family="function",
    form_in=("defvjp", "defvjp_with_logs", "defvjp_with_accums"),
    static=None,
    optimize_remat=False,
)
def a_rule_that_closes_over_a_tracer(f: Function) -> Iterator[Function]:
    i = f.spec.float_ins[0]
    inside = f.but(outside=("s",))
    if f.spec.functions[i] == "id":  # its backward reads no residual
        return
    keeps = "res = jax.tree.map(lambda r: (r * s).astype(r.dtype), res)"
    fwd = inside.having(fwd=inside.method("fwd").then(keeps))
    gives = f"ct_{i} = (ct_{i} * s).astype(ct_{i}.dtype)"
    bwd = inside.having(bwd=inside.method("bwd").then(gives))
    for use in USES:
        yield fwd.but(notes={"only": (use,)})
    for use in (*USES, IN_SCAN):
        yield bwd.but(notes={"only": (use,)})
