"""What `checked_custom_jvp` must leave as it is: section 9 of the design."""

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from strict_hijax import check, checked_custom_jvp

X = jnp.array([0.5, 1.0, 2.0])


@checked_custom_jvp
def safe_log(x):
    """The logarithm, with a derivative that is 0 where x is 0."""
    return jnp.log(x)


@safe_log.defjvp
def safe_log_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    safe = jnp.where(x == 0, 1.0, x)
    return safe_log(x), jnp.where(x == 0, 0.0, x_dot / safe)


def total(function):
    return lambda *args: function(*args).sum()


EXPECTED = np.array([2.0, 1.0, 0.5])

TRANSFORMED = {
    "grad": lambda f: jax.grad(total(f))(X),
    "jit of grad": lambda f: jax.jit(jax.grad(total(f)))(X),
    "grad of jit": lambda f: jax.grad(total(jax.jit(f)))(X),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(X),
    "grad of vmap": lambda f: jax.grad(total(jax.vmap(f)))(X),
    "jvp": lambda f: jax.jvp(f, (X,), (jnp.ones(3),))[1],
    "linearize": lambda f: jax.linearize(f, X)[1](jnp.ones(3)),
    "vjp": lambda f: jax.vjp(f, X)[1](jnp.ones(3))[0],
    "jacfwd": lambda f: jax.jacfwd(f)(X).diagonal(),
    "jacrev": lambda f: jax.jacrev(f)(X).diagonal(),
    "checkpoint": lambda f: jax.grad(total(jax.checkpoint(f)))(X),
    "scan": lambda f: jax.grad(
        lambda x: lax.scan(lambda c, a: (c + f(a), None), 0.0, x)[0]
    )(X),
    "cond": lambda f: jax.grad(total(lambda x: lax.cond(x[0] > 0, f, lambda x: x, x)))(
        X
    ),
}


@pytest.mark.parametrize("flag", [False, True], ids=["", "jax_custom_jvp3"])
@pytest.mark.parametrize("run", TRANSFORMED.values(), ids=TRANSFORMED)
def test_under_transformations(run, flag):
    before = jax.config.jax_custom_jvp3
    jax.config.update("jax_custom_jvp3", flag)
    try:
        np.testing.assert_allclose(run(safe_log), EXPECTED)
    finally:
        jax.config.update("jax_custom_jvp3", before)


def test_second_order_uses_the_rule():
    np.testing.assert_allclose(jax.vmap(jax.grad(jax.grad(safe_log)))(X), -1 / X**2)
    assert jax.grad(safe_log)(0.0) == 0.0


def test_it_is_what_it_replaces():
    assert isinstance(safe_log, jax.custom_jvp)
    assert safe_log.__name__ == "safe_log"
    assert safe_log.__doc__.startswith("The logarithm")
    assert safe_log.jvp is safe_log_jvp
    with pytest.raises(AttributeError):
        _ = safe_log.no_such_thing


def test_copies_and_pickles():
    restored = pickle.loads(pickle.dumps(safe_log.__getstate__()["jvp"]))
    assert restored is safe_log_jvp
    for made in (copy.copy(safe_log), copy.deepcopy(safe_log)):
        np.testing.assert_allclose(jax.grad(total(made))(X), EXPECTED)
        assert type(made) is checked_custom_jvp


def test_an_existing_function_with_its_rule():
    relu = checked_custom_jvp(jax.nn.relu)
    assert jax.grad(relu)(2.0) == 1.0
    assert jax.grad(checked_custom_jvp(safe_log))(2.0) == 0.5
    assert check(jax.nn.relu, X).transforms["jvp"] == "provided"


@pytest.mark.parametrize(
    "function",
    [
        jax.nn.relu,
        jax.nn.logsumexp,
        jax.nn.silu,
        jax.numpy.sinc,
        jax.numpy.logaddexp,
        jax.numpy.logaddexp2,
        jax.scipy.special.xlogy,
        jax.scipy.special.xlog1py,
        jax.scipy.special.ndtri,
        jax.scipy.special.log_ndtr,
        jax.scipy.special.expi,
        jax.scipy.special.kl_div,
    ],
)
def test_rules_of_jax_itself_are_right(function):
    while not isinstance(function, jax.custom_jvp):
        function = getattr(function, "__wrapped__", None)
        if function is None:
            pytest.skip("no custom_jvp in this JAX")
    for args in ((X,), (X, X)):
        try:
            jax.eval_shape(function.fun, *args)
        except TypeError:
            continue
        assert check(function, *args).rules[-1].name == "jvp"


def test_symbolic_zeros():
    seen = []

    @checked_custom_jvp
    def product(x, y, n):
        return x * y * n

    def rule(primals, tangents):
        seen.append([type(t).__name__ for t in tangents])
        (x, y, n), (x_dot, y_dot, _) = primals, tangents
        out = product(x, y, n)
        dot = jnp.zeros_like(out)
        if type(x_dot) is not jax.custom_derivatives.SymbolicZero:
            dot += x_dot * y * n
        if type(y_dot) is not jax.custom_derivatives.SymbolicZero:
            dot += y_dot * x * n
        return out, dot

    product.defjvp(rule, symbolic_zeros=True)
    assert product(2.0, 3.0, 4) == 24.0
    assert seen[-1][2] == "SymbolicZero"
    assert jax.grad(product)(2.0, 3.0, 4) == 12.0
    assert seen[-1][1:] == ["SymbolicZero", "SymbolicZero"]


def test_a_symbolic_zero_as_the_tangent():
    @checked_custom_jvp
    def step(x):
        return jnp.floor(x)

    def rule(primals, tangents):
        zero = jax.custom_derivatives.SymbolicZero(jax.typeof(primals[0]))
        return step(*primals), zero

    step.defjvp(rule, symbolic_zeros=True)
    assert jax.grad(step)(1.5) == 0.0


def test_integers_in_and_out():
    @checked_custom_jvp
    def scaled(x, n):
        return x * n, n + 1

    @scaled.defjvp
    def rule(primals, tangents):
        (x, n), (x_dot, n_dot) = primals, tangents
        assert n_dot.dtype == jax.float0
        return scaled(x, n), (x_dot * n, n_dot)

    assert jax.grad(lambda x: scaled(x, 3)[0])(2.0) == 3.0
    assert jax.jit(scaled)(2.0, 3)[1] == 4


def test_a_function_without_anything_to_differentiate_is_not_judged():
    @checked_custom_jvp
    def successor(n):
        return n + 1

    successor.defjvp(lambda primals, tangents: pytest.fail("it is called"))
    assert successor(3) == 4


def test_arrays_in_nondiff_positions_and_unhashable_ones():
    def make(**options):
        @checked_custom_jvp(nondiff_argnums=(0, 2), **options)
        def polynomial(coefficients, x, options):
            return sum(c * x**i for i, c in enumerate(coefficients))

        @polynomial.defjvp
        def rule(coefficients, options, primals, tangents):
            (x,), (x_dot,) = primals, tangents
            slope = sum(i * c * x ** (i - 1) for i, c in enumerate(coefficients) if i)
            return polynomial(coefficients, x, options), slope * x_dot

        return polynomial

    assert jax.grad(make(), argnums=1)([1.0, 2.0, 3.0], 2.0, {"a": 1}) == 14.0
    if not jax.config.jax_custom_jvp3:  # JAX stops their gradient
        function = make()
        grad = jax.grad(lambda x, c: function([c, c], x, None))
        assert jax.jit(grad)(2.0, jnp.float32(3.0)) == 3.0


def test_methods_as_jax_allows_them():
    class Layer:
        def __init__(self, scale):
            self.scale = scale
            self.apply = checked_custom_jvp(self._apply)
            self.apply.defjvp(self._jvp)

        def _apply(self, x):
            return self.scale * x

        def _jvp(self, primals, tangents):
            return self._apply(*primals), self.scale * tangents[0]

    assert jax.grad(Layer(3.0).apply)(1.0) == 3.0


def test_keywords_and_defaults():
    @checked_custom_jvp
    def scaled(x, factor=2.0):
        return x * factor

    scaled.defjvps(lambda t, ans, x, f: t * f, lambda t, ans, x, f: x * t)
    assert scaled(x=3.0) == 6.0
    assert jax.grad(lambda x: scaled(x, factor=5.0))(3.0) == 5.0


def test_types_from_annotations():
    jaxtyping = pytest.importorskip("jaxtyping")
    seen = []

    @checked_custom_jvp(dims={"b": 4})
    def double(x: jaxtyping.Float[jax.Array, "b 2"]):
        return 2.0 * x

    @double.defjvp
    def rule(primals, tangents):
        seen.append(primals[0].shape)
        return double(*primals), 2.0 * tangents[0]

    assert seen == [(4, 2)]


def test_axes_are_in_scope_at_import():
    @checked_custom_jvp(example_args=(X,), axes={"i": 4})
    def summed(x):
        return lax.psum(x, "i")

    @summed.defjvp
    def rule(primals, tangents):
        return summed(*primals), lax.psum(tangents[0], "i")

    out = jax.vmap(jax.grad(total(summed)), axis_name="i")(jnp.ones((4, 3)))
    assert out.shape == (4, 3)


def test_closing_over_a_tracer_of_an_outer_jit_or_vmap():
    def run(scale, x):
        @checked_custom_jvp
        def scaled(x):
            return scale * x

        scaled.defjvp(lambda p, t: (scaled(*p), scale * t[0]))
        return jax.grad(scaled)(x)

    if jax.config.jax_custom_jvp3:
        pytest.skip("refused by JAX")
    assert jax.jit(run)(3.0, 2.0) == 3.0
    np.testing.assert_array_equal(jax.vmap(run)(X, X), X)


def test_made_anew_at_each_call_and_in_threads():
    def run(x):
        function = checked_custom_jvp(lambda x: x * x)
        function.defjvp(lambda p, t: (p[0] * p[0], 2.0 * p[0] * t[0]))
        return jax.grad(function)(x)

    found = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(run(float(i))))
        for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(float, found)) == [2.0 * i for i in range(12)]


def test_import_initialises_no_backend(clean_process):
    done = clean_process("""
import jax, jax.numpy as jnp
from strict_hijax import checked_custom_jvp

@checked_custom_jvp(example_args=(jax.ShapeDtypeStruct((3,), "float32"),))
def wave(x):
    return jnp.sin(x) + jnp.arange(3.0)

@wave.defjvp
def rule(primals, tangents):
    return wave(*primals), jnp.cos(primals[0]) * tangents[0]

from jax._src import xla_bridge
assert not xla_bridge._backends
""")
    assert (done.returncode, done.stderr) == (0, "")


class TestRulesThatNoteWhatTheyAreGiven:
    """The run of a rule that counts for its notes is JAX's, and that is the last."""

    @staticmethod
    def noting(custom_jvp):
        given = []

        @custom_jvp
        def noted(xs):
            return xs

        def noted_jvp(primals, tangents):
            zeros = [type(t).__name__ == "SymbolicZero" for t in tangents[0]]
            given[:] = zeros
            return primals[0], tangents[0]

        noted.defjvp(noted_jvp, symbolic_zeros=True)
        return noted, given

    @pytest.mark.parametrize("custom_jvp", [jax.custom_jvp, checked_custom_jvp])
    def test_which_inputs_are_perturbed(self, custom_jvp):
        noted, given = self.noting(custom_jvp)
        jax.linearize(lambda x: noted((x, lax.stop_gradient(x)))[0], 1.0)
        assert given == [False, True]

    @pytest.mark.parametrize("custom_jvp", [jax.custom_jvp, checked_custom_jvp])
    def test_until_nothing_changes(self, custom_jvp):
        carry = jnp.ones(3), [True, False, False]
        for _ in range(3):
            noted, given = self.noting(custom_jvp)
            values, perturbed = carry

            def body(*dynamic, noted=noted, values=values, perturbed=perturbed):
                left = iter(dynamic)
                a, b, c = [
                    next(left) if p else v
                    for v, p in zip(values, perturbed, strict=True)
                ]
                return noted((a, a + b, c))

            dynamic = [v for v, p in zip(*carry, strict=True) if p]
            jax.linearize(body, *dynamic)
            carry = values, [not zero for zero in given]
        assert carry[1] == [True, True, False]
