"""What must be accepted: right functions of unusual form, as with `jax.custom_vjp`.

Each test fails if the check that it is near to were naive.
"""

import copy
import functools
import gc
import pickle
import threading
import weakref
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import ShapeDtypeStruct as S
from jax.sharding import PartitionSpec as P

import strict_hijax
from strict_hijax import checked_custom_vjp
from strict_hijax._functions import call_keys

HAS_ACCUMS = hasattr(jax.custom_vjp, "defvjp_with_accums")
X = jnp.arange(3.0)
TWO = pytest.mark.parametrize(
    "custom_vjp", [jax.custom_vjp, checked_custom_vjp], ids=["plain", "checked"]
)


def double_of(custom_vjp=checked_custom_vjp, **options):
    double = custom_vjp(lambda x: x * 2.0, **options)
    double.defvjp(lambda x: (double(x), None), lambda res, ct: (ct * 2.0,))
    return double


def plain_function(x):
    return x * 3.0


def plain_fwd(x):
    return x * 3.0, None


def plain_bwd(res, ct):
    return (ct * 3.0,)


triple = checked_custom_vjp(plain_function)
triple.defvjp(plain_fwd, plain_bwd)


def grad_of_sum(f, *args):
    return jax.grad(lambda *xs: f(*xs).sum())(*args)


# --- Refs -----------------------------------------------------------------------------


@TWO
def test_ref_residuals_and_writes_to_refs_in_bwd(custom_vjp):
    @custom_vjp
    def log_gradient(ref, x):
        return x * 1.0

    def fwd(ref, x):
        return x * 1.0, ref

    def bwd(ref, ct):
        ref[...] = ct
        return None, ct

    log_gradient.defvjp(fwd, bwd)

    @jax.jit
    def use(x):
        ref = jax.new_ref(jnp.zeros(3))
        grad = jax.grad(lambda x: (log_gradient(ref, x) ** 2).sum())(x)
        return grad, ref[...]

    grad, logged = use(X)
    assert (grad == 2 * X).all()
    assert (logged == 2 * X).all()


# --- form of rules --------------------------------------------------------------------


def test_fwd_may_compute_the_primal_on_its_own():
    f = checked_custom_vjp(lambda x: jnp.log1p(jnp.exp(x)), example_args=(X,))
    f.defvjp(lambda x: (jnp.logaddexp(x, 0.0), x), lambda x, ct: (ct * x,))


def test_one_rule_for_several_functions():
    def decline(*args):
        raise NotImplementedError("no gradient")

    for _ in range(2):
        f = checked_custom_vjp(lambda x: x + 1, example_args=(X,))
        f.defvjp(decline, decline)
        assert (f(X) == X + 1).all()
        with pytest.raises(NotImplementedError, match="no gradient"):
            grad_of_sum(f, X)


@pytest.mark.parametrize("error", [ValueError, TypeError, AssertionError, KeyError])
def test_a_rule_that_declines_at_a_first_call(error):
    def bwd(res, ct):
        if ct.shape[0] % 128:
            raise error("needs a multiple of 128")
        return (ct,)

    f = checked_custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (x * 1.0, None), bwd)
    assert (f(X) == X).all()
    with pytest.raises(error, match="multiple of 128"):
        grad_of_sum(f, X)


@TWO
def test_keywords_and_defaults(custom_vjp):
    @custom_vjp
    def scale(x, factor=2.0, *, unused=None):
        return x * factor

    scale.defvjp(
        lambda x, factor: (x * factor, factor), lambda factor, ct: (ct * factor, None)
    )
    assert (scale(X, factor=3.0) == 3 * X).all()
    assert (scale(x=X) == 2 * X).all()
    assert (grad_of_sum(lambda x: scale(x, factor=3.0), X) == 3).all()


@TWO
def test_zeros_of_every_kind(custom_vjp):
    @custom_vjp
    def f(params, key, i, mask, x):
        return x * 1.0

    def fwd(*args):
        return args[-1] * 1.0, None

    def bwd(res, ct):
        float0 = np.zeros((), jax.dtypes.float0)
        return None, None, float0, jnp.ones(()), ct

    f.defvjp(fwd, bwd)
    args = ({"w": X, "n": None}, jax.random.key(0), 3, jnp.array(True))
    assert (grad_of_sum(lambda x: f(*args, x), X) == 1).all()


@TWO
def test_symbolic_zeros(custom_vjp):
    @custom_vjp
    def product(x, y):
        return x * y, x.sum()

    def fwd(x, y):
        kept = (x.value if y.perturbed else None, y.value if x.perturbed else None)
        return product(x.value, y.value), kept

    def bwd(res, cts):
        x, y = res
        ct = cts[0]
        zero = jax.custom_derivatives.SymbolicZero
        if isinstance(ct, zero):
            return None, None
        return (
            zero(ct.aval) if y is None else ct * y,
            None if x is None else ct * x,
        )

    product.defvjp(fwd, bwd, symbolic_zeros=True)
    grad = jax.grad(lambda x: product(x, X)[0].sum())
    assert (grad(X) == X).all()
    assert (jax.jit(grad)(X) == X).all()
    assert (jax.grad(lambda x: product(x, X)[1])(X) == 0).all()
    product(X, X)


@TWO
def test_one_cotangent_for_a_container_is_copied(custom_vjp):
    add = custom_vjp(lambda pair: pair[0] + pair[1])
    add.defvjp(lambda pair: (pair[0] + pair[1], None), lambda res, ct: (ct,))
    assert jax.grad(add)((1.0, 2.0)) == (1.0, 1.0)


@TWO
def test_a_list_of_cotangents(custom_vjp):
    f = custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, ct: [ct * r[1], ct * r[0]])
    assert jax.grad(f)(2.0, 3.0) == 3.0


def test_a_key_among_the_outputs_and_inputs():
    f = checked_custom_vjp(lambda key, x: (jax.random.split(key)[0], x * 2.0))
    f.defvjp(
        lambda key, x: ((jax.random.split(key)[0], x * 2.0), None),
        lambda res, cts: (None, cts[1] * 2.0),
    )
    assert (grad_of_sum(lambda x: f(jax.random.key(0), x)[1], X) == 2).all()


# --- Python values --------------------------------------------------------------------


def test_plain_residuals_reach_bwd_as_they_are():
    def fwd(x):
        return x.reshape(-1), (x.ndim, 3, True, 0.5, np.asarray(x.shape))

    def bwd(res, ct):
        ndim, size, flag, half, shape = res
        assert flag
        assert ndim == 2
        return (ct.reshape(*(int(n) for n in shape)) * (half if flag else size),)

    f = checked_custom_vjp(lambda x: x.reshape(-1), example_args=(jnp.ones((2, 3)),))
    f.defvjp(fwd, bwd)
    assert (grad_of_sum(f, jnp.ones((2, 3))) == 0.5).all()


NEEDS_VALUES = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "while": lambda x: x * len(range(int(x.sum()))),
    "format": lambda x: x * len(f"{x.sum():.2f}"),
    "zeros": lambda x: x * jnp.zeros(int(x[1]) + 2).sum(),
    "zeros of an array": lambda x: x * jnp.zeros(x[1].astype(int)).sum(),
    "slice": lambda x: x * x[: x[2].astype(int)].sum(),
    "block_until_ready": lambda x: x.block_until_ready(),
    "numpy": lambda x: jnp.asarray(np.sort(x)),
    "store": lambda x: jnp.asarray(stored(x)),
    "item": lambda x: x * x.sum().item(),
    "index": lambda x: x * [1.0, 2.0, 3.0, 4.0][x[1].astype(int)],
    "key": lambda x: x * {3.0: 1.0}[float(x.sum())],
    "hash": lambda x: x * len({x[0].item(): 1}),
    "percent": lambda x: x * len("%d" % x[0]),  # noqa: UP031
    "assert": lambda x: checked_positive(x),
}


def stored(x):
    out = np.zeros(3, np.float32)
    out[0] = x[0]
    return out


def checked_positive(x):
    assert (np.asarray(x) >= 0).all()
    return x


@pytest.mark.parametrize("needs", NEEDS_VALUES.values(), ids=NEEDS_VALUES)
@pytest.mark.parametrize("rule", ["fwd", "bwd"])
@pytest.mark.filterwarnings("ignore:Conversion of an array")
def test_rules_that_need_values_and_are_only_used_eagerly(needs, rule):
    f = checked_custom_vjp(lambda x: x * 1.0)
    f.defvjp(
        lambda x: (x * 1.0, needs(x) if rule == "fwd" else x),
        lambda x, ct: (needs(x) * ct if rule == "bwd" else ct,),
    )
    assert (f(X) == X).all()
    jax.grad(lambda x: f(x).sum())(X)


def test_a_primal_that_needs_values():
    f = checked_custom_vjp(lambda x: x if x.sum() > 0 else -x)
    f.defvjp(lambda x: (x, x.sum()), lambda s, ct: (ct if s > 0 else -ct,))
    assert (f(-X) == X).all()
    assert (grad_of_sum(f, X) == 1).all()


def test_an_exception_of_the_primal_is_the_users():
    def f(x):
        raise KeyError("mine")

    checked = checked_custom_vjp(f)
    checked.defvjp(lambda x: (x, None), lambda res, ct: (ct,))
    with pytest.raises(KeyError, match="mine") as raised:
        checked(X)
    assert not isinstance(raised.value, strict_hijax.StrictHijaxError)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("calls_itself", [True, False])
def test_the_code_of_the_function_runs_as_often_as_on_stock(eager, calls_itself):
    def count(decorator):
        calls = []

        def f(x):
            calls.append(x)
            return x * 1.0

        function = decorator(f)
        fwd = function if calls_itself else lambda x: x * 1.0
        function.defvjp(lambda x: (fwd(x), None), lambda res, ct: (ct,))
        for _ in range(3):
            function(X)
        jax.jit(function)(X)
        return len(calls)

    assert count(partial(checked_custom_vjp, eager=eager)) == count(jax.custom_vjp)


def test_eager_checks_off_for_the_process(clean_process):
    code = """
import jax
from strict_hijax import checked_custom_vjp
calls = []
f = checked_custom_vjp(lambda x: calls.append(x) or x * 1.0)
f.defvjp(lambda x: (x, None), lambda res, ct: ct)
f(1.0)
print(len(calls))
"""
    done = clean_process(code, env={"STRICT_HIJAX_EAGER": "0"})
    assert done.stdout.strip() == "1", done.stderr


def test_prints_in_rules_come_once_for_each_type(capsys):
    f = checked_custom_vjp(lambda x: x * 1.0)

    def bwd(res, ct):
        print("bwd")
        return (ct,)

    f.defvjp(lambda x: (x * 1.0, None), bwd)
    for _ in range(3):
        f(X)
    assert capsys.readouterr().out == "bwd\n"


# --- recursion ------------------------------------------------------------------------


def test_a_bwd_that_calls_its_function_with_ever_larger_types():
    @checked_custom_vjp
    def solve(x):
        return x * 2.0

    def bwd(x, ct):
        larger = solve(jnp.concatenate([x, ct]))
        return (larger[: x.shape[0]] * 0 + 2 * ct,)

    solve.defvjp(lambda x: (solve(x), x), bwd)
    assert (grad_of_sum(solve, X) == 2).all()
    solve(jnp.ones(5))


@pytest.fixture(params=["in time", "out of time"])
def has_time(request, monkeypatch):
    """Whether checks of one piece of code may go on."""
    if request.param == "out of time":
        monkeypatch.setattr(call_keys, "_SECONDS_WITHOUT_LIMIT", 0.0)
        monkeypatch.setattr(call_keys, "_SHARE_OF_TIME", 0.0)
    return request.param == "in time"


def test_functions_made_anew_in_each_call_are_checked_while_there_is_time(has_time):
    checks = []

    def call(x):
        f = checked_custom_vjp(lambda x: x * 2.0)

        def bwd(res, ct):
            checks.append(1)
            return (ct * 2.0,)

        f.defvjp(lambda x: (x * 2.0, None), bwd)
        return f(x)

    for n in range(1, 30):
        call(jnp.ones(n))
    assert len(checks) == 29 if has_time else len(checks) <= 1


def test_fresh_lambdas_as_static_arguments(has_time):
    checks = []

    @partial(checked_custom_vjp, nondiff_argnums=(0,))
    def apply(fun, x):
        return fun(x)

    def bwd(fun, x, ct):
        checks.append(1)
        return jax.vjp(fun, x)[1](ct)

    apply.defvjp(lambda fun, x: (fun(x), x), bwd)
    for n in range(30):
        apply(lambda x, n=n: x * n, X)
    assert len(checks) == 30 if has_time else len(checks) <= 1
    assert (grad_of_sum(lambda x: apply(jnp.sin, x), X) == jnp.cos(X)).all()


def test_what_is_remembered_holds_nothing_of_the_users():
    @partial(checked_custom_vjp, nondiff_argnums=(0,))
    def apply(fun, x):
        return fun(x)

    apply.defvjp(lambda fun, x: (fun(x), x), lambda fun, x, ct: jax.vjp(fun, x)[1](ct))

    def scale(x, s=X):
        return x * s

    apply(scale, X)
    grad_of_sum(lambda x: apply(scale, x), X)
    held = weakref.ref(scale)
    del scale
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("fails", [False, True])
def test_no_tracer_is_left_behind(fails):
    def bwd(res, ct):
        if fails:
            ct.block_until_ready()
        return (ct * 2.0,)

    def make():
        f = checked_custom_vjp(lambda x: x * 2.0)
        f.defvjp(lambda x: (f(x), x), bwd)
        return f

    with jax.checking_leaks():
        make()(X)
        jax.jit(lambda x: make()(x))(X)
        jax.vmap(lambda x: make()(x))(jnp.ones((2, 3)))
        if not fails:
            jax.jit(jax.grad(lambda x: make()(x).sum()))(X)


def test_what_is_known_of_a_call_does_not_reach_what_jax_keeps():
    """fwd calls its function directly, in jit, in scan, under vmap and under grad."""

    @checked_custom_vjp
    def f(x):
        return jnp.sin(x)

    jitted = jax.jit(f)

    def fwd(x):
        scanned = jax.lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]
        mapped = jax.vmap(f)(x)
        slope = jax.grad(lambda x: f(x).sum())(x)
        return f(x), (jitted(x), scanned, mapped, slope)

    def bwd(res, ct):
        jitted, scanned, mapped, slope = res
        return (ct * (slope + jitted - scanned + mapped - jitted),)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x),))
    f(jnp.ones(5))
    f.defvjp(fwd, bwd)
    assert (f(X) == jnp.sin(X)).all()
    assert (jitted(X) == jnp.sin(X)).all()


def test_a_rule_that_calls_its_function_in_another_precision():
    @checked_custom_vjp
    def positions(x):
        return x + jnp.arange(3.0)

    def fwd(x):
        with jax.enable_x64(True):
            wide = positions(x).astype(jnp.float64)
        return positions(x), wide.astype(jnp.float32)

    positions.defvjp(fwd, lambda res, ct: (ct,))
    positions(X)
    assert (grad_of_sum(positions, X) == 1).all()


# --- transformations ------------------------------------------------------------------


def test_transformations_agree_with_plain():
    plain, checked = double_of(jax.custom_vjp), double_of()
    total = lambda f: lambda x: f(x).sum()  # noqa: E731
    batch = jnp.ones((4, 3))
    for transform in (
        lambda f: f(X),
        lambda f: jax.jit(f)(X),
        lambda f: jax.vmap(f)(batch),
        lambda f: jax.vmap(f, axis_name="i", in_axes=1, out_axes=1)(batch),
        lambda f: jax.grad(total(f))(X),
        lambda f: jax.jit(jax.vmap(jax.grad(total(f))))(batch),
        lambda f: jax.grad(lambda x: jax.vmap(f)(x).sum())(batch),
        lambda f: jax.grad(lambda x: jax.grad(lambda y: (f(y) ** 3).sum())(x).sum())(X),
        lambda f: jax.lax.scan(lambda c, _: (f(c), None), X, None, length=3)[0],
        lambda f: grad_of_sum(
            lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0], X
        ),
        lambda f: grad_of_sum(jax.checkpoint(lambda x: f(jnp.sin(x))), X),
        lambda f: grad_of_sum(lambda x: jax.lax.cond(x[1] > 0, f, jnp.sin, x), X),
        lambda f: jax.linearize(total(f), X)[0],
        lambda f: jax.jacrev(f)(X),
    ):
        np.testing.assert_array_equal(transform(checked), transform(plain))


def test_forward_mode_is_refused_as_by_plain():
    with pytest.raises(TypeError, match=r"forward-mode autodiff \(jvp\)"):
        jax.jvp(double_of(), (X,), (X,))


def mesh_of(*kinds):
    if len(jax.devices()) < 2:
        pytest.skip("needs two devices")
    return jax.make_mesh((2,), ("i",), axis_types=kinds, devices=jax.devices()[:2])


@pytest.mark.parametrize("check_vma", [True, False])
def test_shard_map(check_vma):
    mesh = mesh_of(jax.sharding.AxisType.Auto)

    def total(f):
        mapped = jax.shard_map(
            f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=check_vma
        )
        return jax.jit(jax.grad(lambda x: (mapped(x) ** 2).sum()))

    x = jnp.arange(4.0)
    got, expected = total(double_of())(x), total(double_of(jax.custom_vjp))(x)
    np.testing.assert_array_equal(got, expected)


def test_a_collective_in_the_rules():
    mesh = mesh_of(jax.sharding.AxisType.Auto)
    f = checked_custom_vjp(lambda x: jax.lax.psum(x, "i"), axes={"i": 2})
    f.defvjp(lambda x: (jax.lax.psum(x, "i"), None), lambda res, ct: (ct,))
    mapped = jax.shard_map(
        f, mesh=mesh, in_specs=P("i"), out_specs=P(), check_vma=False
    )
    assert mapped(jnp.arange(2.0)) == 1.0
    jax.vmap(f, axis_name="i")(jnp.ones(3))


def test_explicit_sharding():
    mesh = mesh_of(jax.sharding.AxisType.Explicit)
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.arange(4.0), P("i"))
        f = double_of()
        assert (f(x) == 2 * x).all()
        grad = jax.jit(jax.grad(lambda x: f(x).sum()))(x)
        assert jax.typeof(grad) == jax.typeof(x)


@pytest.mark.parametrize("flag", ["jax_custom_vjp3", "jax_remat3"])
def test_the_hijax_implementations(flag):
    if not hasattr(jax.config, flag):
        pytest.skip("not in this JAX")
    jax.config.update(flag, True)
    try:
        made_with = double_of()
        for f in (made_with, triple):
            expected = 2.0 if f is made_with else 3.0
            assert isinstance(f, jax.custom_vjp)
            assert (grad_of_sum(f, X) == expected).all()
            grad = jax.jit(jax.grad(lambda x, f=f: jax.checkpoint(f)(x).sum()))
            assert (grad(X) == expected).all()
            assert (jax.vmap(jax.grad(f))(X) == expected).all()
        bad = checked_custom_vjp(lambda x: x * 2.0)
        bad.defvjp(lambda x: (x * 2.0, None), lambda res, ct: ct)
        with pytest.raises(TypeError, match="SH414") as raised:
            bad(X)
        if flag == "jax_custom_vjp3":
            assert "must produce a tuple but got" in str(raised.value)
    finally:
        jax.config.update(flag, False)
    assert (grad_of_sum(made_with, X) == 2.0).all()


def test_jax_disable_bwd_checks_turns_ours_off():
    jax.config.update("jax_disable_bwd_checks", True)
    try:
        f = checked_custom_vjp(lambda x: x * 2.0, example_args=(X,))
        f.defvjp(lambda x: (x * 2.0, None), lambda res, ct: (ct[:1],))
        f(X)
        grad = jax.vjp(f, X)[1](X)
        assert grad[0].shape == (1,)
    finally:
        jax.config.update("jax_disable_bwd_checks", False)
    with pytest.raises(ValueError, match="SH416"):
        f(X)


def test_optimize_remat():
    f = checked_custom_vjp(lambda x: jnp.exp(x))
    f.defvjp(
        lambda x: (jnp.exp(x), jnp.exp(x)),
        lambda out, ct: (ct * out,),
        optimize_remat=True,
    )
    assert jnp.allclose(grad_of_sum(jax.checkpoint(f), X), jnp.exp(X))


def test_logs_reach_the_caller():
    f = checked_custom_vjp(lambda x: x * 2.0, example_args=(X,))
    f.defvjp_with_logs(
        lambda x: (f(x), None), lambda res, ct: ((ct * 2.0,), {"norm": ct.sum()})
    )
    out, vjp = jax.vjp(f, X)
    assert vjp.with_logs(jnp.ones(3))[1] == {"norm": 3.0}
    assert (out == 2 * X).all()


@pytest.mark.skipif(not HAS_ACCUMS, reason="jax 0.12 has accumulators")
def test_accumulators():
    product = checked_custom_vjp(lambda x, y: x * y, example_args=(X, X))

    def bwd(res, ct, x_acc, y_acc):
        x_acc.accum(ct * res[1])
        y_acc.accum(ct * res[0])

    product.defvjp_with_accums(lambda x, y: (product(x, y), (x, y)), bwd)
    total = lambda x: product(x, x).sum()  # noqa: E731
    assert (jax.grad(total)(X) == 2 * X).all()
    assert (jax.jit(jax.grad(total))(X) == 2 * X).all()
    assert (jax.grad(lambda x: product(x, jnp.ones(3)).sum())(X) == 1).all()


@pytest.mark.skipif(not HAS_ACCUMS, reason="jax 0.12 has accumulators")
def test_an_ignored_cotangent_is_passed_on_to_its_accumulator():
    f = checked_custom_vjp(lambda x: x * 2, ignore=("SH417",))
    f.defvjp_with_accums(
        lambda x: (x * 2, None),
        lambda res, ct, acc: acc.accum(ct.astype(jnp.float32) * 2),
    )
    x = jnp.ones(3, jnp.bfloat16)
    assert (grad_of_sum(f, x) == 2).all()


# --- ignoring -------------------------------------------------------------------------


def float32_gradient(**options):
    f = checked_custom_vjp(lambda x: x * 2, **options)
    f.defvjp(lambda x: (x * 2, None), lambda res, ct: (ct.astype(jnp.float32),))
    return f


def test_ignored_for_a_function_a_block_and_the_process(monkeypatch):
    x = jnp.ones(3, jnp.bfloat16)
    ignoring = float32_gradient(ignore=("SH417",))
    assert grad_of_sum(ignoring, x).dtype == jnp.float32
    f = float32_gradient()
    with strict_hijax.ignore("SH417"):
        f(x)
        f(x)
    with pytest.raises(ValueError, match="SH417"):
        f(x)
    monkeypatch.setenv("STRICT_HIJAX_IGNORE", "SH417")
    float32_gradient(example_args=(x,))(x)


# --- objects --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies(duplicate):
    for _ in range(2):  # before and after a call
        other = duplicate(triple)
        assert type(other) is checked_custom_vjp
        assert (grad_of_sum(other, X) == 3.0).all()
        assert other.__name__ == "plain_function"
        triple(X)


def test_subclasses_and_attributes():
    class Mine(checked_custom_vjp):
        pass

    f = Mine(plain_function)
    f.defvjp(plain_fwd, plain_bwd)
    assert isinstance(f, Mine)
    assert f.fwd is plain_fwd
    assert f.bwd is plain_bwd
    assert f.__wrapped__ is plain_function
    assert f.nondiff_argnums == ()


def test_an_existing_function_keeps_its_rules_and_flags():
    plain = jax.custom_vjp(lambda x, n: x**n, nondiff_argnums=(1,))
    plain.defvjp(
        lambda x, n: (x.value**n, x.value),
        lambda n, x, ct: (ct * n * x ** (n - 1),),
        symbolic_zeros=True,
    )
    for f in (checked_custom_vjp(plain), checked_custom_vjp(checked_custom_vjp(plain))):
        assert f.symbolic_zeros
        assert f.nondiff_argnums == (1,)
        assert jax.grad(f)(2.0, 3) == 12.0


def test_an_existing_function_of_the_hijax_implementation():
    jax.config.update("jax_custom_vjp3", True)
    try:
        plain = jax.custom_vjp(lambda x, n: x**n, nondiff_argnums=(1,))
        plain.defvjp(lambda x, n: (x**n, x), lambda n, x, ct: (ct * n * x ** (n - 1),))
        f = checked_custom_vjp(plain)
        assert isinstance(f, jax.custom_vjp)
        assert jax.grad(f)(2.0, 3) == 12.0
    finally:
        jax.config.update("jax_custom_vjp3", False)
    assert jax.grad(f)(2.0, 3) == 12.0


@jax.tree_util.register_pytree_node_class
class Arrays:
    """A container that refuses to hold anything but arrays, and JAX's dummies."""

    def __init__(self, *leaves):
        assert all(type(x) is object or hasattr(x, "dtype") for x in leaves if x)
        self.leaves = leaves

    def tree_flatten(self):
        return self.leaves, None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


@TWO
def test_a_container_that_looks_at_what_it_holds(custom_vjp):
    f = custom_vjp(lambda a, unused: a.leaves[0] * a.leaves[1])
    f.defvjp(
        lambda a, unused: (a.leaves[0] * a.leaves[1], a),
        lambda a, ct: (Arrays(ct * a.leaves[1], ct * a.leaves[0]), None),
    )
    grad = jax.grad(f)(Arrays(jnp.float32(2), jnp.float32(3)), None)
    assert grad.leaves == (3.0, 2.0)


def test_rules_can_be_defined_again():
    f = double_of()
    assert jax.grad(f)(1.0) == 2.0
    f.defvjp(lambda x: (x * 2.0, None), lambda res, ct: (ct * 5.0,))
    assert jax.grad(f)(1.0) == 5.0


def test_decorators_of_every_form():
    @checked_custom_vjp
    def a(x):
        return x

    @checked_custom_vjp(example_args=(X,))
    def b(x):
        return x

    @partial(checked_custom_vjp, nondiff_argnames=("n",))
    def c(x, n):
        return x

    @checked_custom_vjp(nondiff_argnums=(1,), eager=False)
    def d(x, n):
        return x

    for f in (a, b, c, d):
        assert isinstance(f, checked_custom_vjp)
        assert f.__name__ in "abcd"


def test_made_in_threads_and_used_in_others():
    results = []

    def use():
        results.append(grad_of_sum(double_of(), X))
        results.append(grad_of_sum(triple, X))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8


def test_without_a_source_file():
    namespace = {"checked_custom_vjp": checked_custom_vjp}
    exec(
        "f = checked_custom_vjp(lambda x: x * 2.0)\n"
        "f.defvjp(lambda x: (f(x), None), lambda r, ct: (ct * 2.0, ct))",
        namespace,
    )
    with pytest.raises(TypeError, match="SH414"):
        namespace["f"](X)


def test_defined_within_jit():
    @jax.jit
    def use(x):
        f = checked_custom_vjp(lambda y: y * x, example_args=(S((3,), jnp.float32),))
        f.defvjp(lambda y: (y * x, None), lambda res, ct: (ct * x,))
        return f(x)

    assert (use(X) == X * X).all()


def test_import_initialises_no_backend(clean_process):
    code = """
import jax, jax.numpy as jnp
from jax._src import xla_bridge
from strict_hijax import checked_custom_vjp, check
S = jax.ShapeDtypeStruct
key = jax.eval_shape(jax.random.key, 0)
f = checked_custom_vjp(lambda x, k: x * jnp.arange(3) + jax.random.normal(k, (3,)),
                       example_args=(S((3,), "float32"), key))
f.defvjp(lambda x, k: (f(x, k), x), lambda r, ct: (ct * jnp.array([0., 1., 2.]), None))
check(f, S((3,), "float32"), key)
assert not xla_bridge._backends, xla_bridge._backends
"""
    done = clean_process(code)
    assert done.returncode == 0, done.stderr


def test_a_rule_that_initialises_a_backend_at_import(clean_process):
    code = """
import jax
from strict_hijax import checked_custom_vjp, DefinitionError
f = checked_custom_vjp(lambda x: x * 1.0, example_args=(1.0,))
try:
    f.defvjp(lambda x: (x * 1.0, None), lambda r, ct: (ct * len(jax.devices()),))
except DefinitionError as error:
    print(error.code, error.rule)
"""
    assert clean_process(code).stdout == "SH428 bwd\n"


@pytest.mark.parametrize("transform", ["forward", "grad"])
def test_locations_in_stablehlo_are_those_of_plain(transform):
    def lowered(custom_vjp):
        def softplus(x):
            return jnp.where(x > 0, x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))

        f = custom_vjp(softplus)

        def fwd(x):
            return f(x), {"x": x, "pair": (jnp.sin(x), 3)}

        def bwd(res, ct):
            return (ct * jax.nn.sigmoid(res["x"]) * jnp.where(ct > 0, 1, 2),)

        f.defvjp(fwd, bwd)
        use = lambda x: f(x).sum()  # noqa: E731
        use = jax.grad(use) if transform == "grad" else use
        return jax.jit(use).lower(X).as_text(debug_info=True)

    texts = []
    for custom_vjp in (jax.custom_vjp, checked_custom_vjp):
        jax.clear_caches()
        texts.append(lowered(custom_vjp))
    assert texts[0] == texts[1]


def test_docstring_and_signature_are_those_of_the_function():
    @checked_custom_vjp
    def documented(x, scale=2.0):
        """What it does."""
        return x * scale

    documented.defvjp(lambda x, s: (x * s, s), lambda s, ct: (ct * s, None))
    assert documented.__doc__ == "What it does."
    assert functools.partial(documented)(X)[1] == 2.0
    assert documented.__module__ == __name__
