"""What must be accepted: right primitives of unusual form, the same as with `HiPrim`.

Each test fails if the check that it is near to were naive. What is compared with plain
`HiPrim` is made twice, by a function of the base class.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.hijax import (
    HiPrim,
    jvp_from_lin,
    linearize_from_jvp,
    vjp_from_jvp,
    vjp_from_lin,
)

from strict_hijax import StrictHiPrim, check
from tests.primitives import AVAL, X, binary, both, gradient, init, sine, unary

# --- symbolic zeros and accumulators --------------------------------------------------


def is_symbolic(g: Any) -> bool:
    return type(g).__name__ == "Zero"


def two_outputs(base: Any) -> Any:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> None:
        if is_symbolic(g[1]):
            return  # no influence, by this rule
        x_acc.accum(g[1] * 2)

    return unary(
        base,
        __init__=init((AVAL,), (AVAL, AVAL)),
        expand=lambda self, x: (x, 2 * x),
        vjp_bwd=vjp_bwd,
    )


@pytest.mark.parametrize("output", [0, 1])
def test_a_rule_that_leaves_at_once_for_a_symbolic_zero(output: int) -> None:
    both(two_outputs, lambda cls: jax.grad(lambda x: cls()(x)[output].sum())(X))


def test_symbolic_zeros_are_returned_as_they_came() -> None:
    def vjp_bwd_retval(self: Any, x: Any, g: Any) -> Any:
        return (g[0],)

    both(
        lambda base: unary(
            base,
            __init__=init((AVAL,), (AVAL, AVAL)),
            expand=lambda self, x: (x, 2 * x),
            vjp_bwd_retval=vjp_bwd_retval,
        ),
        lambda cls: jax.grad(lambda x: cls()(x)[1].sum())(X),
    )


@pytest.mark.parametrize("nothing", [None, "float0", "integer"])
def test_whatever_is_returned_for_an_integer_input(nothing: Any) -> None:
    indices = jnp.array([0, 0, 2])
    given = {
        None: None,
        "float0": np.zeros(3, jax.dtypes.float0),
        "integer": jnp.zeros(3, jnp.int32),
    }[nothing]

    def vjp_bwd_retval(self: Any, i: Any, g: Any) -> Any:
        return jnp.zeros(3).at[i].add(g), given

    both(
        lambda base: binary(
            base,
            __init__=init((AVAL, jax.typeof(indices)), AVAL),
            expand=lambda self, x, i: x[i],
            vjp_fwd=lambda self, nz, x, i: (self(x, i), i),
            vjp_bwd_retval=vjp_bwd_retval,
        ),
        lambda cls: gradient(cls(), X, indices),
    )


def test_an_accumulator_that_wants_nothing() -> None:
    def vjp_bwd(self: Any, res: Any, g: Any, x_acc: Any, y_acc: Any) -> None:
        x_acc.accum(g * res[1])
        y_acc.accum(g * res[0])

    both(partial(binary, vjp_bwd=vjp_bwd), lambda cls: gradient(cls(), X, 2 * X))


def test_an_explicit_zero() -> None:
    cls = sine(vjp_bwd=lambda self, x, g, a: a.accum(None), examples=True)
    np.testing.assert_array_equal(gradient(cls(), X), np.zeros(3))


def add_to_the_ref(g: Any, x: Any, accum: Any) -> None:
    accum.inst().ref[...] += g * jnp.cos(x)


def hand_on(g: Any, x: Any, accum: Any) -> None:
    jax.vjp(jnp.sin, x)[1].with_refs(accum)(g)


def hand_on_beside_one_without_influence(g: Any, x: Any, accum: Any) -> None:
    unused = jax.new_ref(jnp.zeros(()))
    jax.vjp(lambda x, _: jnp.sin(x), x, 1.0)[1].with_refs(accum, unused)(g)


def hand_on_to_a_function_without_influence(g: Any, x: Any, accum: Any) -> None:
    jax.vjp(lambda x, y: jnp.sin(y), x, x)[1].with_refs(accum, jax.new_ref(x))(g)


def through_an_inner_jit(g: Any, x: Any, accum: Any) -> None:
    jax.vjp(jax.jit(jnp.sin), x)[1].with_refs(accum)(g)


def replace_the_value(g: Any, x: Any, accum: Any) -> None:
    accum.accum(g)
    if hasattr(accum, "val"):
        accum.val = accum.val * jnp.cos(x)


GIVES = [
    hand_on,
    hand_on_beside_one_without_influence,
    hand_on_to_a_function_without_influence,
    through_an_inner_jit,
]


@pytest.mark.parametrize("give", [*GIVES, replace_the_value])
def test_an_accumulator_that_is_handed_on(give: Any) -> None:
    make = partial(unary, vjp_bwd=lambda self, x, g, a: give(g, x, a))
    both(make, lambda cls: gradient(cls(), X))
    both(make, lambda cls: jax.jit(partial(gradient, cls()))(X))


@pytest.mark.parametrize("give", [*GIVES, add_to_the_ref])
def test_a_ref_accumulator_that_is_handed_on(give: Any) -> None:
    def run(cls: Any) -> Any:
        ref = jax.new_ref(jnp.ones(3))
        jax.vjp(cls(), X)[1].with_refs(ref)(X)
        return ref[...]

    make = partial(unary, vjp_bwd=lambda self, x, g, a: give(g, x, a))
    both(make, run)
    both(make, lambda cls: jax.jit(lambda: run(cls))())


def test_the_same_array_for_two_inputs() -> None:
    def vjp_bwd(self: Any, res: Any, g: Any, x_acc: Any, y_acc: Any) -> None:
        x_acc.accum(g * res[1])
        y_acc.accum(g * res[0])

    make = partial(binary, vjp_bwd=vjp_bwd)
    both(make, lambda cls: jax.grad(lambda x: cls()(x, x).sum())(X))

    def run(cls: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(3))
        jax.vjp(lambda x: cls()(x, x), X)[1].with_refs(ref)(X)
        return ref[...]

    both(make, run)


def test_one_stand_in_for_one_accumulator() -> None:
    def vjp_bwd(self: Any, res: Any, g: Any, x_acc: Any, y_acc: Any) -> None:
        x_acc.accum(g * res[1])
        if y_acc is not x_acc:
            y_acc.accum(g * res[0])
        else:
            x_acc.accum(g * res[0])

    both(
        partial(binary, vjp_bwd=vjp_bwd),
        lambda cls: jax.grad(lambda x: cls()(x, x).sum())(X),
    )


def test_logs_reach_with_logs() -> None:
    def vjp_bwd(self: Any, x: Any, g: Any, x_acc: Any) -> dict[str, Any]:
        x_acc.accum(g)
        return {"norm": jnp.linalg.norm(g)}

    def run(cls: Any) -> Any:
        return jax.vjp(cls(), X)[1].with_logs(X)

    both(partial(unary, vjp_bwd=vjp_bwd), run)


def test_logs_of_the_returning_form() -> None:
    def vjp_bwd_retval_logs(self: Any, x: Any, g: Any) -> Any:
        return (g * jnp.cos(x),), {"norm": jnp.linalg.norm(g)}

    def run(cls: Any) -> Any:
        return jax.vjp(cls(), X)[1].with_logs(X)

    both(partial(unary, vjp_bwd_retval_logs=vjp_bwd_retval_logs), run)
    assert check(unary(StrictHiPrim, vjp_bwd_retval_logs=vjp_bwd_retval_logs)()).rules


def test_structured_residuals() -> None:
    def make(base: Any) -> Any:
        return unary(
            base,
            vjp_fwd=lambda self, nz, x: (self(x), None, True, {"x": x}),
            vjp_bwd=lambda self, res, sres, g, a: a.accum(g * jnp.cos(sres["x"])),
        )

    both(make, lambda cls: gradient(cls(), X))


# --- declining ------------------------------------------------------------------------


def decline(self: Any, *args: Any) -> Any:
    raise NotImplementedError("not differentiable")


def test_one_rule_that_declines_in_every_slot() -> None:
    cls = sine(
        jvp=decline, lin=decline, vjp_fwd=decline, transpose=decline, examples=True
    )
    np.testing.assert_array_equal(cls()(X), jnp.sin(X))
    with pytest.raises(NotImplementedError, match="not differentiable"):
        gradient(cls(), X)
    with pytest.raises(NotImplementedError, match="not differentiable"):
        jax.jvp(cls(), (X,), (X,))


def test_a_rule_that_only_runs_eagerly() -> None:
    def expand(self: Any, x: Any) -> Any:
        return jnp.sin(x) if float(x[0]) > 0 else x

    both(partial(unary, expand=expand), lambda cls: (cls()(X), cls()(-X)))


def test_out_aval_none_for_a_primitive_that_only_writes() -> None:
    ref_aval = jax.typeof(jax.new_ref(X))

    def expand(self: Any, ref: Any, x: Any) -> None:
        ref[...] += x

    def make(base: Any) -> Any:
        def __init__(self: Any) -> None:
            self.in_avals, self.out_aval, self.params = (ref_aval, AVAL), None, {}
            super(cls, self).__init__()

        keywords = {} if base is HiPrim else {"supports": ()}
        body = {"__init__": __init__, "expand": expand}
        cls: Any = type(base)("Write", (base,), body, **keywords)
        return cls

    def run(cls: Any) -> Any:
        ref = jax.new_ref(jnp.zeros(3))
        cls()(ref, X)
        jax.jit(cls())(ref, X)
        return ref[...]

    both(make, run)


def test_none_inside_in_avals_and_no_inputs_at_all() -> None:
    with_none = partial(
        unary,
        __init__=init(((AVAL, None),), AVAL),
        expand=lambda self, pair: jnp.sin(pair[0]),
        vjp_bwd=lambda self, res, g, pair: pair[0].accum(g * jnp.cos(res[0])),
    )
    both(with_none, lambda cls: jax.grad(lambda x: cls()((x, None)).sum())(X))
    returned = partial(
        unary,
        __init__=init(((AVAL, None),), AVAL),
        expand=lambda self, pair: jnp.sin(pair[0]),
        vjp_bwd_retval=lambda self, res, g: ((g * jnp.cos(res[0]), None),),
    )
    both(returned, lambda cls: jax.grad(lambda x: cls()((x, None)).sum())(X))
    constant = partial(
        unary,
        __init__=init((), AVAL),
        expand=lambda self: jnp.ones(3),
        vjp_fwd=lambda self, nz: (self(), None),
        vjp_bwd_retval=lambda self, res, g: (),
    )
    both(constant, lambda cls: (cls()(), jax.jit(cls())()))
    assert check(constant(StrictHiPrim)()).rules


# --- helpers, inheritance and forms of rules ------------------------------------------


def test_rules_that_are_helpers_with_other_types() -> None:
    def vjp_fwd(self: Any, nz: Any, x: Any) -> Any:
        halves = self.expand(x[:1]), self.expand(x[1:])
        return jnp.concatenate(halves), x

    def vjp_bwd(self: Any, x: Any, g: Any, a: Any) -> None:
        a.accum(self.vjp_bwd_retval(x[:1], g[:1])[0].sum() + 0 * x)

    def vjp_bwd_retval(self: Any, x: Any, g: Any) -> Any:
        return (g * jnp.cos(x),)

    make = partial(
        unary, vjp_fwd=vjp_fwd, vjp_bwd=vjp_bwd, vjp_bwd_retval=vjp_bwd_retval
    )
    strict = both(make, lambda cls: gradient(cls(), X))
    assert strict.shape == (3,)


def test_a_batch_rule_that_runs_expand_on_the_batch() -> None:
    make = partial(
        unary,
        batch=lambda self, axis, args, dims: (self.expand(*args), dims[0]),
    )
    both(make, lambda cls: jax.vmap(cls())(jnp.ones((4, 3))))


def test_linearized_and_transpose_may_use_rules_on_other_types() -> None:
    make = partial(
        unary,
        lin=lambda self, nz, x: (self(x), x),
        linearized=lambda self, x, t: self.expand((x + jnp.pi / 2)[None])[0] * t,
    )
    both(make, lambda cls: jax.linearize(cls(), X)[1](X))


def test_super_in_rules_and_a_diamond() -> None:
    class Left:
        def expand(self, x: Any) -> Any:
            return 2 * super().expand(x)  # type: ignore[misc]

    class Right:
        def expand(self, x: Any) -> Any:
            return super().expand(x)[:3] + 0  # type: ignore[misc]

    def make(base: Any) -> Any:
        root = unary(
            base,
            expand=lambda self, x: jnp.concatenate([jnp.sin(x), x]),
            vjp_bwd_retval=lambda self, x, g: (g * jnp.cos(x), None),
        )

        def vjp_bwd_retval(self: Any, x: Any, g: Any) -> Any:
            return super(cls, self).vjp_bwd_retval(x, 2 * g)[:1]

        body = {"vjp_bwd_retval": vjp_bwd_retval}
        cls: Any = type(base)("Twice", (Left, Right, root), body)
        return cls

    both(make, lambda cls: (cls()(X), gradient(cls(), X)))


def test_rules_of_a_mixin_and_of_a_plain_base() -> None:
    class Backward:
        def vjp_fwd(self: Any, nzs_in: Any, x: Any) -> Any:
            return self(x), x

        def vjp_bwd_retval(self, x: Any, g: Any) -> Any:
            return (g * jnp.cos(x),)

    def make(base: Any) -> Any:
        body = {"__init__": init((AVAL,)), "expand": lambda self, x: jnp.sin(x)}
        return type(base)("Mixed", (Backward, base), body)

    both(make, lambda cls: gradient(cls(), X))


def test_rules_that_are_aliases_partials_static_or_decorated() -> None:
    def forward(x: Any, nz: Any, y: Any) -> Any:
        return jnp.sin(y), y

    def make(base: Any) -> Any:
        def vjp_fwd(self: Any, nz: Any, x: Any) -> Any:
            return self(x), x

        return unary(
            base,
            expand=staticmethod(jax.jit(jnp.sin)),
            vjp_fwd=vjp_fwd,
            lin=vjp_fwd,
            linearized=classmethod(lambda cls, x, t: t * jnp.cos(x)),
            vjp_bwd_retval=staticmethod(
                partial(lambda k, x, g: (k * g * jnp.cos(x),), 1)
            ),
        )

    both(make, lambda cls: gradient(cls(), X))
    both(make, lambda cls: jax.linearize(cls(), X)[1](X))


def test_rules_that_are_patched_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(cls: Any) -> Any:
        prim = cls()
        before = prim(X), gradient(prim, X)
        with monkeypatch.context() as patch:
            patch.setattr(cls, "expand", lambda self, x: 2 * x)
            patch.setattr(cls, "vjp_bwd", lambda self, x, g, a: a.accum(2 * g))
            during = prim(X), gradient(prim, X)
        return before, during, prim(X), gradient(prim, X)

    both(unary, run)


def test_a_rule_that_is_set_on_the_instance() -> None:
    def run(cls: Any) -> Any:
        prim = cls()
        prim.expand = lambda x: 3 * x
        return prim(X)

    both(unary, run)


def test_a_rule_that_is_patched_in_a_base() -> None:
    base = unary(StrictHiPrim)
    derived = type(base)("Derived", (base,), {})
    prim = derived()
    prim(X)
    base.expand = lambda self, x: 5 * x
    np.testing.assert_array_equal(prim(X), 5 * X)


@pytest.mark.parametrize(
    "derived",
    [
        lambda: dict(zip(("vjp_fwd", "vjp_bwd_retval"), vjp_from_jvp, strict=True)),
        lambda: dict(zip(("lin", "linearized"), linearize_from_jvp, strict=True)),
    ],
)
def test_rules_derived_from_jvp(derived: Any) -> None:
    def jvp(self: Any, primals: Any, tangents: Any) -> Any:
        return self(*primals), tangents[0] * jnp.cos(primals[0])

    def run(cls: Any) -> Any:
        return jax.jvp(cls(), (X,), (X,)), gradient(cls(), X)

    rules = derived()
    both(lambda base: unary(base, jvp=jvp, **rules), run)


def test_rules_derived_from_lin() -> None:
    rules = dict(zip(("vjp_fwd", "vjp_bwd_retval"), vjp_from_lin, strict=True))

    def make(base: Any) -> Any:
        return unary(
            base,
            lin=lambda self, nz, x: (self(x), x),
            linearized=lambda self, x, t: t * jnp.cos(x),
            jvp=jvp_from_lin,
            **rules,
        )

    both(make, lambda cls: (jax.jvp(cls(), (X,), (X,)), gradient(cls(), X)))


def test_dce_that_returns_the_primitive_itself_or_another() -> None:
    def dce(self: Any, used_outs: Any, *live_ins: Any) -> Any:
        return True, True, self

    def run(cls: Any) -> Any:
        jaxpr = jax.make_jaxpr(lambda x: (cls()(x), x)[1:])(X)
        closed = jax.jit(lambda x: [jnp.sum(cls()(x)), x][1])
        return closed(X), gradient(cls(), X), len(str(jaxpr)) > 0

    both(partial(unary, dce=dce), run)


def test_a_call_of_the_users_own() -> None:
    def make(base: Any) -> Any:
        def __call__(self: Any, x: Any) -> Any:
            return super(cls, self).__call__(jnp.asarray(x, jnp.float32))

        cls: Any = unary(base, __call__=__call__)
        return cls

    both(make, lambda cls: (cls()(np.arange(3)), gradient(cls(), X)))


def test_the_primitive_itself_under_jit() -> None:
    both(unary, lambda cls: jax.jit(cls())(X))


def test_calls_of_rules_are_as_many_as_with_hiprim() -> None:
    def run(cls_of: Any) -> list[str]:
        calls: list[str] = []

        def counted(name: str, rule: Any) -> Any:
            def call(self: Any, *args: Any) -> Any:
                calls.append(name)
                return rule(self, *args)

            return call

        cls = cls_of(
            expand=counted("expand", lambda self, x: jnp.sin(x)),
            vjp_fwd=counted("vjp_fwd", lambda self, nz, x: (self(x), x)),
            vjp_bwd=counted("vjp_bwd", lambda self, x, g, a: a.accum(g)),
        )
        prim = cls()
        prim(X)
        gradient(prim, X)
        jax.jit(partial(gradient, prim))(X)
        jax.vmap(jnp.sin)(X)
        return calls

    assert run(partial(unary, StrictHiPrim)) == run(partial(unary, HiPrim))
