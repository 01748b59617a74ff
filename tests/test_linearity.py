"""What is certainly not linear in its tangents, and what must never be called so."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from strict_hijax._linearity import Equation, Fault, faulty_equations
from strict_hijax._linearity.states import LINEAR as LINEAR_STATE
from strict_hijax._linearity.states import Origin
from strict_hijax._linearity.walk import Walk

X = jax.ShapeDtypeStruct((4,), jnp.float32)


def equation_of(
    tangent: Callable[..., Any], *specs: Any, tangents: int = 1
) -> Equation | None:
    """The equation that is found for a function of primals, then tangents."""
    specs = specs or (X, X)
    jaxpr = jax.make_jaxpr(tangent)(*specs)
    linear = [i >= len(specs) - tangents for i in range(len(specs))]
    return next(iter(faulty_equations(jaxpr, linear)), None)


def by_jvp(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, t: jax.jvp(function, (x,), (t,))[1]


def one_device() -> jax.sharding.Mesh:
    return jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))


def conjugate_gradients(x, t):
    """Solves (1 + x x') y = t, by steps that are not linear in t."""
    a = jnp.eye(4) + jnp.outer(x, x)
    y, r = jnp.zeros(4), t
    p = r
    for _ in range(4):
        step = (r @ r) / (p @ a @ p)
        y, new = y + step * p, r - step * (a @ p)
        p, r = new + (new @ new) / (r @ r) * p, new
    return y


def conjugate_gradients_in_a_loop(x, t):
    a = jnp.eye(4) + jnp.outer(x, x)

    def step(state):
        y, r, p = state
        size = (r @ r) / (p @ a @ p)
        new = r - size * (a @ p)
        return y + size * p, new, new + (new @ new) / (r @ r) * p

    return lax.while_loop(lambda s: s[1] @ s[1] > 1e-9, step, (jnp.zeros(4), t, t))[0]


def lanczos(x, t):
    """Two normalised steps: neither is linear, and the solution is."""
    size, a = jnp.linalg.norm(t), 3 * jnp.eye(4) + jnp.outer(x, x)
    q = t / size
    rest = a @ q - (q @ (a @ q)) * q
    beta = jnp.linalg.norm(rest)
    r = rest / beta
    small = jnp.array([[q @ (a @ q), beta], [beta, r @ (a @ r)]])
    y = jnp.linalg.solve(small, jnp.array([size, 0.0]))
    return y[0] * q + y[1] * r


def reflected_twice(x, t):
    v = t + jnp.sign(t[0]) * jnp.linalg.norm(t) * jnp.eye(4)[0]
    v = v / jnp.linalg.norm(v)
    once = t - 2 * v * (v @ t)
    return once - 2 * v * (v @ once)


def through_float16(x, t):
    """Scaled to the range of a narrow dtype, and back."""
    scale = jnp.maximum(jnp.abs(t).max(), 1e-20) / 127
    return (x * t / scale).astype(jnp.float16).astype(jnp.float32) * scale


def scaled_by_rms(x, t):
    scale = jnp.sqrt(jnp.mean(t * t) + 1e-6)
    return x * (t / scale) * scale


def by_logarithms(x, t):
    return jnp.sign(t) * jnp.exp(jnp.log(jnp.abs(t)) + jnp.log(jnp.abs(x)))


def scattered(x, t):
    return jnp.zeros(6).at[1:3].set(t[:2]).at[jnp.arange(2)].add(t[2:])


def filled(x, t):
    """A buffer that starts as something else, and is written all over."""
    return jnp.ones(4).at[:2].set(t[:2]).at[2:].set(t[2:])


def summed_in_a_scan(x, t):
    def step(carry, row):
        x_i, t_i = row
        return (carry[0] * x_i, carry[1] * x_i + carry[0] * t_i), carry[1]

    carry, tangents = lax.scan(step, (jnp.float32(1), jnp.float32(0)), (x, t))
    return carry[1], tangents


def in_a_while_loop(x, t):
    def step(state):
        i, y, dy = state
        return i + 1, jnp.sin(y), jnp.cos(y) * dy

    return lax.while_loop(lambda s: s[0] < 3, step, (0, x, t))[2]


@jax.custom_vjp
def scaled_gradient(t):
    return t * 2.0


scaled_gradient.defvjp(lambda t: (t * 2.0, None), lambda _, g: (g,))


@jax.custom_jvp
def with_own_rule(t):
    return 3.0 * t


with_own_rule.defjvps(lambda t, ans, x: 3.0 * t)

LINEAR: dict[str, Callable[..., Any]] = {
    "the tangent itself": lambda x, t: t,
    "times a primal": lambda x, t: x * t,
    "negative": lambda x, t: -t,
    "sum and difference": lambda x, t: x * t - 2 * t + t,
    "a quotient": lambda x, t: x * t / (1 + x),
    "a Python number": lambda x, t: 2.0,
    "a primal where it is zero": lambda x, t: jnp.where(x == 0, x, t / (x + 1)),
    "a primal that is not finite": lambda x, t: jnp.where(jnp.isfinite(x), t, x),
    "a mask that leaves nothing out": lambda x, t: jnp.where(jnp.arange(4) < 4, t, 1.0),
    "a branch that is never taken": lambda x, t: lax.cond(
        jnp.arange(4)[3] == 3, lambda: t, lambda: x
    ),
    "a branch that is known": lambda x, t: lax.switch(0, [lambda: t, lambda: x]),
    "targets that are dropped": lambda x, t: (
        jnp.zeros(4)
        .at[jnp.where(x > 0, jnp.arange(4), 9)]
        .add(jnp.where(x > 0, t, 1.0), mode="drop")
    ),
    "segments that are dropped": lambda x, t: jax.ops.segment_sum(
        jnp.concatenate([t, x]), jnp.array([0, 1, 2, 3, 4, 4, 4, 4]), 4
    ),
    "one element by a masked maximum": lambda x, t: jnp.max(
        jnp.where(jnp.arange(4) == jnp.argmax(x), t, -jnp.inf)
    ),
    "plus a primal and its negative": lambda x, t: t + (x + (-x)),
    "plus a sum that cancels": lambda x, t: t + jnp.stack([t, x, -x]).sum(0),
    "plus the first position": lambda x, t: t + jnp.arange(4.0)[0],
    "plus a power of zero": lambda x, t: t + 0.0 ** (1 + x * x),
    "plus the logarithm of one": lambda x, t: t + jnp.log(x / x),
    "plus zero": lambda x, t: t + 0.0,
    "plus an array of zeros": lambda x, t: t + jnp.zeros_like(x),
    "plus zero times a primal": lambda x, t: t + 0 * x,
    "plus zero times a function": lambda x, t: t + 0.0 * jnp.exp(x) * 3,
    "plus a primal minus itself": lambda x, t: t + (x - x),
    "plus it minus itself stopped": lambda x, t: t + (x - lax.stop_gradient(x)),
    "plus NumPy zeros": lambda x, t: t + np.zeros(4, np.float32),
    "nothing": lambda x, t: jnp.zeros_like(t),
    "zero times the tangent": lambda x, t: 0 * t,
    "where, with zero": lambda x, t: jnp.where(x > 0, t, 0.0),
    "where, with zeros": lambda x, t: jnp.where(x > 0, 2 * t, jnp.zeros_like(t)),
    "where, with nan": lambda x, t: jnp.where(x > 0, t, jnp.nan),
    "where, with infinity": lambda x, t: jnp.where(x == 0, jnp.inf, t / x),
    "where twice": lambda x, t: jnp.where(
        x > 0, jnp.where(x > 0, t, 1.0) / jnp.where(x > 0, x, 1.0), 0.0
    ),
    "a mask that is multiplied": lambda x, t: (x > 0) * jnp.where(x > 0, t, 1.0),
    "where the tangent is nan": lambda x, t: jnp.where(jnp.isnan(t), 0.0, t),
    "nan_to_num": lambda x, t: jnp.nan_to_num(t * jnp.inf),
    "where the tangent is zero": lambda x, t: jnp.where(t == 0, 0.0, t / x),
    "clipped to all that is finite": lambda x, t: jnp.clip(
        t, jnp.finfo(jnp.float32).min, jnp.finfo(jnp.float32).max
    ),
    "clipped to infinity": lambda x, t: jnp.clip(t, -jnp.inf, jnp.inf),
    "times infinity": lambda x, t: t * jnp.inf,
    "stop_gradient": lambda x, t: lax.stop_gradient(t) * x,
    "to the power of one": lambda x, t: t**1,
    "to the float power of one": lambda x, t: t**1.0,
    "a power of a primal": lambda x, t: x**3 * t,
    "dot": lambda x, t: jnp.dot(x, t),
    "outer": lambda x, t: jnp.outer(x, t) + jnp.outer(t, x),
    "einsum": lambda x, t: jnp.einsum("i,j,j->i", x, x, t),
    "matrix product": lambda x, t: jnp.outer(x, x) @ t,
    "convolution": lambda x, t: jnp.convolve(x, t),
    "sum": lambda x, t: t.sum(),
    "mean": lambda x, t: x * (t - t.mean()),
    "cumsum": lambda x, t: jnp.cumsum(t * x),
    "diff": lambda x, t: jnp.diff(t),
    "reshape and transpose": lambda x, t: t.reshape(2, 2).T.ravel()[::-1],
    "roll, pad, tile": lambda x, t: jnp.tile(jnp.pad(jnp.roll(t, 1), 2), 2),
    "concatenate": lambda x, t: jnp.concatenate([t, jnp.zeros(2), x * t]),
    "stack and unpack": lambda x, t: jnp.stack([x, t])[1],
    "a slice of both": lambda x, t: jnp.concatenate([x, t])[4:],
    "index": lambda x, t: t[2] * x,
    "gather": lambda x, t: t[jnp.argsort(x)],
    "take_along_axis": lambda x, t: jnp.take_along_axis(t, jnp.argsort(x), 0),
    "sorted by primals": lambda x, t: lax.sort((x, t), num_keys=1)[1],
    "dynamic slices": lambda x, t: lax.dynamic_slice(t, (jnp.argmax(x),), (2,)),
    "scattered": scattered,
    "a buffer that is filled": filled,
    "other dtypes": lambda x, t: t.astype(jnp.bfloat16).astype(jnp.float32),
    "complex": lambda x, t: lax.complex(t, x * t),
    "real and imaginary part": lambda x, t: (jnp.exp(1j * x) * t).real,
    "conjugate": lambda x, t: jnp.conj(lax.complex(t, t)) * lax.complex(x, x),
    "fft": lambda x, t: jnp.fft.ifft(jnp.fft.fft(t) * jnp.fft.fft(x)),
    "reduce_precision": lambda x, t: lax.reduce_precision(t, 8, 7),
    "optimization_barrier": lambda x, t: lax.optimization_barrier((x, t))[1],
    "a branch": lambda x, t: lax.cond(x[0] > 0, lambda t: t, lambda t: 2 * t, t),
    "a branch of zeros": lambda x, t: lax.cond(
        x[0] > 0, lambda t: t, lambda t: jnp.zeros_like(t), t
    ),
    "scan": summed_in_a_scan,
    "fori_loop": lambda x, t: lax.fori_loop(0, 3, lambda i, c: c * x + t, t),
    "while_loop": in_a_while_loop,
    "while_loop on tangents": conjugate_gradients_in_a_loop,
    "conjugate gradients": conjugate_gradients,
    "cg": lambda x, t: jax.scipy.sparse.linalg.cg(jnp.eye(4) + jnp.outer(x, x), t)[0],
    "solve": lambda x, t: jnp.linalg.solve(jnp.eye(4) + jnp.outer(x, x), t),
    "triangular solve": lambda x, t: jax.scipy.linalg.solve_triangular(
        jnp.eye(4) + jnp.outer(x, x), t
    ),
    "jit": lambda x, t: jax.jit(lambda a, b: a * b)(x, t),
    "checkpoint": lambda x, t: jax.checkpoint(lambda a, b: a * b)(x, t),
    "vmap": lambda x, t: jax.vmap(lambda a, b: jnp.sin(a) * b)(x, t),
    "custom_vjp": lambda x, t: scaled_gradient(t) * x,
    "custom_jvp": lambda x, t: with_own_rule(t) * x,
    "linearize": lambda x, t: jax.linearize(jnp.sin, x)[1](t),
    "a central difference": lambda x, t: (jnp.exp(x + t) - jnp.exp(x - t)) / 2,
    "a difference": lambda x, t: jnp.exp(x + t) - jnp.exp(x),
    "a linear function, twice": lambda x, t: jnp.cumsum(x + t) - jnp.cumsum(x),
    "sums of signs": lambda x, t: t * (jnp.sign(t[0]) - jnp.sign(t[0] * 2)) + t,
    "|t| sign(t)": lambda x, t: jnp.abs(t) * jnp.sign(t),
    "relu(t) - relu(-t)": lambda x, t: jnp.maximum(t, 0) - jnp.maximum(-t, 0),
    "normalised and scaled back": lambda x, t: (
        (x * (t / jnp.abs(t).max())) * jnp.abs(t).max()
    ),
    "the greatest of one": lambda x, t: jnp.max(t.reshape(4, 1), axis=1),
    "a callback": lambda x, t: jax.pure_callback(lambda t: t, X, t),
    "affine in branches, and zero where taken": lambda x, t: lax.cond(
        x[0] == 0, lambda: t + x[0], lambda: t
    ),
    "masks of one half each": lambda x, t: (
        t + jnp.where(x > 0, jnp.maximum(-x, 0), jnp.maximum(x, 0))
    ),
    "over the norm of a primal": lambda x, t: t / jnp.linalg.norm(x),
    "the derivative of a norm": lambda x, t: x @ t / jnp.sqrt(x @ x + 1e-6),
    "softmax of a primal": lambda x, t: jax.nn.softmax(x) * (t - t.mean()),
    "sorted with a primal": lambda x, t: lax.sort((x, x * 2, t), num_keys=2)[2],
    "the greatest primal": lambda x, t: t * jnp.max(x) / jnp.maximum(x, 1e-3).max(),
    "normalised by norm and scaled back": lambda x, t: (
        jnp.linalg.norm(t) * (x * (t / jnp.linalg.norm(t)))
    ),
    "a root squared": lambda x, t: jnp.sign(t) * jnp.sqrt(t * t),
    "a cube over a square": lambda x, t: t**3 / t**2,
    "the logarithm of an exponential": lambda x, t: jnp.log(jnp.exp(t)),
    "logsumexp of one": lambda x, t: jax.vmap(jax.nn.logsumexp)(t[:, None]),
    "an exponential and its inverse": lambda x, t: t * (jnp.exp(t) * jnp.exp(-t)),
    "a sum of squares of sine and cosine": lambda x, t: (
        t * (jnp.sin(t) ** 2 + jnp.cos(t) ** 2)
    ),
    "one more and one less": lambda x, t: (t + 1) - 1,
    "a power that is taken back": lambda x, t: jnp.cbrt(t * t * t),
    "plus what cancels": lambda x, t: t + jnp.stack([x, -x]).sum(0),
    "plus a mask and its complement": lambda x, t: t * (x > 0) + t * (x <= 0),
    "all_gather under vmap": lambda x, t: jax.vmap(
        lambda a, b: lax.all_gather(a * b, "i").sum(), axis_name="i"
    )(x, t),
    "psum and ppermute in a shard_map": lambda x, t: jax.shard_map(
        lambda a, b: lax.psum(a * lax.ppermute(b, "i", [(0, 0)]), "i"),
        mesh=one_device(),
        in_specs=jax.P("i"),
        out_specs=jax.P(),
    )(x, t),
    "rademacher and a custom_vjp in a scan": lambda x, t: lax.scan(
        lambda c, a: (scaled_gradient(c) * a, with_own_rule(c)),
        t,
        jax.random.rademacher(jax.random.key(0), (3, 4), jnp.float32),
    )[1],
    "a Krylov space": lanczos,
    "two reflections": reflected_twice,
    "through float16": through_float16,
    "scaled by its rms, and back": scaled_by_rms,
    "by logarithms": by_logarithms,
    "gmres": lambda x, t: jax.scipy.sparse.linalg.gmres(
        3 * jnp.eye(4) + jnp.outer(x, x), t, restart=2, maxiter=2
    )[0],
    "linear_solve": lambda x, t: lax.custom_linear_solve(
        lambda v: v * (1 + x * x), t, lambda mv, b: b / (1 + x * x), symmetric=True
    ),
    "to bfloat16 and back, scaled": lambda x, t: (
        x.astype(jnp.bfloat16) * t.astype(jnp.bfloat16)
    ).astype(jnp.float32),
    "random in the primal": lambda x, t: (
        t * (x + jax.random.uniform(jax.random.key(1), (4,)))
    ),
    "a random choice of signs": lambda x, t: (
        t * jax.random.rademacher(jax.random.key(0), (4,), jnp.float32)
    ),
    "plus noise that is switched off": lambda x, t: (
        t + 0.0 * jax.random.normal(jax.random.key(0), (4,))
    ),
    "plus a mask that may leave nothing": lambda x, t: (
        t + x * (1 - jax.random.bernoulli(jax.random.key(0), 1.0, (4,)))
    ),
    "a random direction": lambda x, t: t * jax.random.normal(jax.random.key(0), (4,)),
    "dropout": lambda x, t: jnp.where(
        jax.random.bernoulli(jax.random.key(0), 0.5, (4,)), t / 0.5, 0.0
    ),
}

DIFFERENTIATED = {
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "logsumexp": jax.nn.logsumexp,
    "softplus": jax.nn.softplus,
    "standardize": jax.nn.standardize,
    "max": jnp.max,
    "sort": jnp.sort,
    "prod": jnp.prod,
    "cumprod": jnp.cumprod,
    "cummax": lax.cummax,
    "median": jnp.median,
    "norm": jnp.linalg.norm,
    "abs": jnp.abs,
    "sinc": jnp.sinc,
    "arctan2": lambda x: jnp.arctan2(x, 2.0),
    "logaddexp": lambda x: jnp.logaddexp(x, 1.0),
    "power": lambda x: jnp.power(x, 2.5),
    "gammaln": jax.scipy.special.gammaln,
    "digamma": jax.scipy.special.digamma,
    "xlogy": lambda x: jax.scipy.special.xlogy(x, x),
    "erfinv": jax.scipy.special.erfinv,
    "ndtri": jax.scipy.special.ndtri,
    "i0": jax.scipy.special.i0,
    "cholesky": lambda x: jnp.linalg.cholesky(jnp.eye(4) + jnp.outer(x, x)),
    "inv": lambda x: jnp.linalg.inv(jnp.eye(4) + jnp.outer(x, x)),
    "solve": lambda x: jnp.linalg.solve(jnp.eye(4) + jnp.outer(x, x), x),
    "det": lambda x: jnp.linalg.det(jnp.eye(4) + jnp.outer(x, x)),
    "slogdet": lambda x: jnp.linalg.slogdet(jnp.eye(4) + jnp.outer(x, x))[1],
    "eigh": lambda x: jnp.linalg.eigh(jnp.diag(x) + jnp.outer(x, x)),
    "svd": lambda x: jnp.linalg.svd(jnp.diag(x) + jnp.outer(x, x)),
    "qr": lambda x: jnp.linalg.qr(jnp.diag(x) + jnp.outer(x, x)),
    "expm": lambda x: jax.scipy.linalg.expm(jnp.outer(x, x)),
    "scan": lambda x: lax.scan(lambda c, a: (c * a + jnp.sin(c), c), 1.0, x),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x),
    "associative_scan": lambda x: lax.associative_scan(jnp.multiply, x),
    "custom_root": lambda x: lax.custom_root(
        lambda y: y**3 - x, x, lambda f, y: y, lambda g, y: y / g(jnp.ones_like(y))
    ),
    "segment_sum": lambda x: jax.ops.segment_sum(x * x, jnp.array([0, 1, 1, 0]), 2),
    "interp": lambda x: jnp.interp(x, jnp.arange(5.0), jnp.arange(5.0) ** 2),
    "where": lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0),
    "at.max": lambda x: jnp.ones(4).at[1].max(x[0]),
    "at.multiply": lambda x: x.at[jnp.array([1, 2])].multiply(
        x[:2], unique_indices=True
    ),
    "second order": jax.grad(lambda x: jnp.sin(x).prod()),
    "a gradient": jax.grad(lambda x: jax.nn.logsumexp(x) ** 2),
    "avg_pool": lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "VALID"),
    "max_pool": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID"),
}


@pytest.mark.parametrize("rule", LINEAR.values(), ids=LINEAR)
def test_a_linear_rule_is_accepted(rule):
    assert equation_of(rule) is None


@pytest.mark.parametrize("function", DIFFERENTIATED.values(), ids=DIFFERENTIATED)
def test_what_jax_derives_is_accepted(function):
    assert equation_of(by_jvp(function)) is None


NONLINEAR: dict[str, tuple[Callable[..., Any], str]] = {
    "square": (lambda x, t: t * t, "mul"),
    "a power": (lambda x, t: t**2, "integer_pow"),
    "jnp.square": (lambda x, t: x * jnp.square(t), "square"),
    "a float power": (lambda x, t: t**1.5, "pow"),
    "sin": (lambda x, t: jnp.sin(t), "sin"),
    "exp": (lambda x, t: x * jnp.exp(t), "exp"),
    "abs": (lambda x, t: jnp.abs(t), "abs"),
    "sign": (lambda x, t: x * jnp.sign(t), "sign"),
    "sqrt": (lambda x, t: jnp.sqrt(t), "sqrt"),
    "max with zero": (lambda x, t: jnp.maximum(t, 0), "max"),
    "relu": (lambda x, t: jax.nn.relu(t), "max"),
    "min with a primal": (lambda x, t: jnp.minimum(t, x), "min"),
    "clip": (lambda x, t: jnp.clip(t, -1.0, 1.0) * x, "max"),
    "where the tangent is positive": (lambda x, t: jnp.where(t > 0, t, 0.1 * t), "_"),
    "over the tangent": (lambda x, t: x / t, "div"),
    "over itself": (lambda x, t: t / t, "div"),
    "the greatest": (lambda x, t: t.max(), "reduce_max"),
    "sorted": (lambda x, t: jnp.sort(t), "sort"),
    "product": (lambda x, t: jnp.prod(t), "reduce_prod"),
    "dot of itself": (lambda x, t: t @ t, "dot_general"),
    "outer of itself": (lambda x, t: jnp.outer(t, t), "mul"),
    "round": (lambda x, t: jnp.round(t), "round"),
    "to integers": (lambda x, t: t.astype(int).astype(float), "convert_element_type"),
    "nonlinear plus linear": (lambda x, t: t + t * t, "mul"),
    "nonlinear plus constant": (lambda x, t: t * t + x, "mul"),
    "nonlinear in a jit": (lambda x, t: jax.jit(jnp.sin)(t) * x, "sin"),
    "nonlinear in a checkpoint": (lambda x, t: jax.checkpoint(jnp.sin)(t), "sin"),
    "nonlinear in a branch": (
        lambda x, t: lax.cond(x[0] > 0, lambda t: t * t, lambda t: t, t),
        "mul",
    ),
    "nonlinear where masked": (lambda x, t: jnp.where(x > 0, t * t, t), "mul"),
    "a decomposition": (
        lambda x, t: jnp.linalg.cholesky(jnp.outer(t, x)),
        "cholesky",
    ),
    "normalised": (lambda x, t: t / jnp.linalg.norm(t), "div"),
    "normalised away from zero": (
        lambda x, t: x * t / jnp.maximum(jnp.linalg.norm(t), 1e-12),
        "div",
    ),
    "normalised by rms": (
        lambda x, t: t * lax.rsqrt(jnp.mean(t * t) + 1e-6),
        "mul",
    ),
    "normalised by the greatest": (lambda x, t: t / jnp.abs(t).max(), "div"),
    "normalised by two": (
        lambda x, t: t / jnp.sqrt(t[0] ** 2 + t[1] ** 2),
        "div",
    ),
    "normalised in one branch": (
        lambda x, t: lax.cond(
            x[0] > 0, lambda t: t / jnp.linalg.norm(t), lambda t: t, t
        ),
        "div",
    ),
    "normalised, beside itself": (
        lambda x, t: jnp.concatenate([t, t / jnp.linalg.norm(t)]),
        "div",
    ),
    "softmax": (lambda x, t: jax.nn.softmax(t), "div"),
    "softmax, scaled": (lambda x, t: x * jax.nn.softmax(x * t), "div"),
    "swish": (lambda x, t: t * jax.nn.sigmoid(t), "mul"),
    "of its norm": (lambda x, t: x * jnp.tanh(jnp.linalg.norm(t)), "tanh"),
    "a shift of a square": (lambda x, t: t * (x + t), "mul"),
    "nonlinear in a vmap": (lambda x, t: jax.vmap(lambda a: jnp.tanh(a))(t), "tanh"),
}


@pytest.mark.parametrize(("rule", "primitive"), NONLINEAR.values(), ids=NONLINEAR)
def test_a_nonlinear_rule_is_found(rule, primitive):
    found = equation_of(rule)
    assert found is not None
    assert found.fault is Fault.NONLINEAR
    assert primitive in found.primitive
    assert found.location is not None
    assert found.location.filename == __file__


AFFINE: dict[str, Callable[..., Any]] = {
    "plus one": lambda x, t: t + 1,
    "minus a small number": lambda x, t: x * t - 1e-6,
    "plus a primal": lambda x, t: t + x,
    "plus a function of primals": lambda x, t: jnp.cos(x) * t + jnp.sin(x),
    "one plus, scaled": lambda x, t: (t + 1) * jnp.cos(x),
    "one plus, summed": lambda x, t: (t + 1).sum(),
    "one plus, reshaped": lambda x, t: -(t + 1).reshape(2, 2).T,
    "one plus, in a jit": lambda x, t: jax.jit(lambda a: a + 1)(t),
    "one plus, in a scan": lambda x, t: lax.scan(lambda c, a: (c, a + 1), 0.0, t)[1],
    "where, with one": lambda x, t: jnp.where(x > 0, t, 1.0),
    "beside a primal": lambda x, t: jnp.concatenate([t, x]),
    "padded with ones": lambda x, t: jnp.pad(t, 1, constant_values=1.0),
    "plus an array": lambda x, t: t + np.arange(4, dtype=np.float32),
    "plus a primal in both branches": lambda x, t: lax.cond(
        x[0] > 0, lambda t: t + x, lambda t: t - x, t
    ),
    "plus this or that": lambda x, t: jnp.where(x > 0, t + jnp.sin(x), t - 1),
    "plus a switch": lambda x, t: lax.switch(
        jnp.argmax(x), [lambda: t + x, lambda: t - x, lambda: t * x + 1]
    ),
    "plus a primal in a shard_map": lambda x, t: jax.shard_map(
        lambda a, b: lax.psum(b, "i") + a,
        mesh=one_device(),
        in_specs=(jax.P("i"), jax.P("i")),
        out_specs=jax.P("i"),
    )(x, t),
    "plus noise": lambda x, t: t + jax.random.normal(jax.random.key(0), (4,)),
    "plus noise of the key": lambda x, t: (
        x * t + 1e-3 * jax.random.uniform(jax.random.PRNGKey(0), (4,), minval=-1.0)
    ),
    "plus noise in a scan": lambda x, t: lax.scan(
        lambda key, a: (
            jax.random.split(key)[0],
            a + jax.random.gumbel(jax.random.split(key)[1]),
        ),
        jax.random.key(0),
        t,
    )[1],
    "plus a primal and one": lambda x, t: t + (jnp.exp(x) + 1),
    "a primal": lambda x, t: x,
    "a function of primals": lambda x, t: jnp.cos(x),
    "ones": lambda x, t: jnp.ones_like(t),
}


@pytest.mark.parametrize("rule", AFFINE.values(), ids=AFFINE)
def test_an_affine_rule_is_found(rule):
    found = equation_of(rule)
    assert found is not None
    assert found.fault is Fault.AFFINE


def test_the_product_of_two_tangents_is_not_linear():
    found = equation_of(lambda x, t, u: t * u, X, X, X, tangents=2)
    assert found is not None
    assert (found.primitive, found.output) == ("mul", 0)
    assert equation_of(lambda x, t, u: t * u, X, X, X, tangents=1) is None


def test_the_output_at_fault_is_named_by_its_position():
    found = equation_of(lambda x, t: (t, x * t, jnp.exp(t)))
    assert found is not None
    assert (found.primitive, found.output) == ("exp", 2)


def test_an_array_that_is_changed_in_place_is_unknown():
    def rule(x, t):
        ref = jax.new_ref(jnp.ones(4))
        ref[...] = t
        return ref[...]

    assert equation_of(rule) is None


def test_empty_arrays_and_integers_are_zero():
    empty = jax.ShapeDtypeStruct((0,), jnp.float32)
    assert equation_of(lambda x, t: t + 1, empty, empty) is None


def test_the_tangents_of_integers_are_zero():
    integers, float0 = (
        jax.ShapeDtypeStruct((4,), d) for d in (jnp.int32, jax.dtypes.float0)
    )
    jaxpr = jax.make_jaxpr(lambda x, n, t, _: (x * n, t * n))(X, integers, X, float0)
    assert not faulty_equations(jaxpr, [False, False, True, True], 1)
    jaxpr = jax.make_jaxpr(lambda x, n, t, _: (x * n, t + n))(X, integers, X, float0)
    (found,) = faulty_equations(jaxpr, [False, False, True, True], 1)
    assert (found.fault, found.output) == (Fault.AFFINE, 1)


def test_a_large_constant_is_not_read():
    large = np.ones(100_000, np.float32)
    spec = jax.ShapeDtypeStruct(large.shape, large.dtype)
    assert equation_of(lambda x, t: t + large, spec, spec) is None


@pytest.mark.parametrize("flag", ["jax_custom_jvp3", "jax_custom_vjp3"])
def test_functions_with_rules_are_looked_into_whatever_runs_them(flag):
    before = getattr(jax.config, flag)
    jax.config.update(flag, True)
    try:
        assert equation_of(lambda x, t: scaled_gradient(t) * x) is None
        assert equation_of(lambda x, t: jax.nn.relu(t)) is not None
    finally:
        jax.config.update(flag, before)


# --- how much is looked at ------------------------------------------------------------


def visited(function: Callable[..., Any], *specs: Any) -> int:
    """How many equations are walked, where all inputs are tangents."""
    walk = Walk()
    jaxpr = jax.make_jaxpr(function)(*specs)
    walk(jaxpr.jaxpr, [LINEAR_STATE.made_of(Origin.TANGENTS)] * len(specs))
    return walk.visited


def nested(depth: int, around: Callable[[Callable[..., Any]], Any], f: Any) -> Any:
    """A function that calls one twice, which calls one twice, and so on."""
    for _ in range(depth):
        f = around(lambda t, f=f: f(t) + f(t))
    return f


AROUND = {
    "jit": jax.jit,
    "custom_jvp": lambda f: jax.jit(with_rule(f)),
    "cond": lambda f: jax.jit(lambda t: lax.cond(True, f, f, t)),
    "scan": lambda f: jax.jit(
        lambda t: lax.scan(lambda c, _: (f(c), None), t, None, length=3)[0]
    ),
    "while": lambda f: jax.jit(lambda t: lax.fori_loop(0, 3, lambda i, c: f(c), t)),
}


def with_rule(f: Callable[..., Any]) -> Callable[..., Any]:
    function = jax.custom_jvp(lambda t: f(t))
    function.defjvp(lambda p, t: (f(*p), f(*t)))
    return function


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("inside", [lambda t: 2 * t, jnp.sin], ids=["2 *", "sin"])
def test_what_is_called_twice_is_walked_once(around, inside):
    counts = [visited(nested(depth, around, inside), X) for depth in (10, 20, 40)]
    each = (counts[1] - counts[0]) / 10
    assert each <= 24
    assert counts[2] <= counts[1] + 20 * each


def test_one_jaxpr_is_not_walked_for_all_there_is():
    def power(t):
        return t

    for _ in range(30):
        power = jax.jit(lambda t, f=power: f(t) * f(t * t * t))
    assert visited(power, X) < 30 * 17 * 5


def test_loops_in_loops_settle():
    def step(carry, _):
        return jnp.roll(jnp.sin(carry), 1), None

    for _ in range(6):
        step = lambda c, _, f=step: (lax.scan(f, c, None, length=2)[0], None)  # noqa: E731
    assert visited(lambda t: step(t, None)[0], X) < 500


def test_a_call_names_the_equation_of_its_own_operand():
    """What is known of a jaxpr for one call is told of another."""
    same = jax.jit(lambda a, b: (a * 1.5, b))

    def rule(x, t):
        first = same(jnp.sin(t), x)[0]
        second = same(jnp.cos(t), x)[0]
        return first, second

    jaxpr = jax.make_jaxpr(rule)(X, X)
    found = faulty_equations(jaxpr, [False, True])
    assert [equation.primitive for equation in found] == ["sin", "cos"]


# --- what is said is so ---------------------------------------------------------------

UNARY: dict[str, Callable[[Any], Any]] = {
    "-2": lambda a: -2.0 * a,
    "abs": jnp.abs,
    "sin": jnp.sin,
    "square": jnp.square,
    "cumsum": jnp.cumsum,
    "flip": jnp.flip,
    "relu": lambda a: jnp.maximum(a, 0.0),
    "clip": lambda a: jnp.clip(a, -1.0, 2.0),
    "half": lambda a: jnp.concatenate([a[:2], a[:2]]),
    "zeroed": lambda a: a.at[:2].set(0.0),
    "0 *": lambda a: 0.0 * a,
    "where x": lambda a: jnp.where(jnp.arange(4) > 1, a, 0.0),
    "mean": lambda a: a - a.mean(),
    "sort": jnp.sort,
    "max": lambda a: jnp.broadcast_to(a.max(), (4,)),
    "norm": lambda a: jnp.broadcast_to(jnp.sqrt(a @ a), (4,)),
    "rsqrt": lambda a: jax.lax.rsqrt(a * a + 0.5),
    "exp": jnp.exp,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": jnp.add,
    "-": jnp.subtract,
    "*": jnp.multiply,
    "/": jnp.divide,
    "where": lambda a, b: jnp.where(jnp.arange(4) > 1, a, b),
    "beside": lambda a, b: jnp.concatenate([a[:2], b[2:]]),
    "outer": lambda a, b: jnp.outer(a, b) @ jnp.array([1.0, -1.0, 2.0, 0.5]),
}
LEAVES = st.sampled_from(["x", "t", "1", "0"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), inner),
        st.tuples(st.sampled_from(sorted(BINARY)), inner, inner),
    ),
    max_leaves=6,
)


def evaluated(expression: Any, x: jax.Array, t: jax.Array) -> Any:
    """The value, and whether all that it is made of is finite."""
    if isinstance(expression, str):
        leaf = {"x": x, "t": t, "1": jnp.ones(4), "0": jnp.zeros(4)}[expression]
        return leaf, True
    name, *operands = expression
    values, finite = zip(*(evaluated(each, x, t) for each in operands), strict=True)
    value = (UNARY if len(values) == 1 else BINARY)[name](*values)
    return value, functools.reduce(operator.and_, finite, jnp.isfinite(value).all())


@settings(max_examples=300, deadline=None, derandomize=True)
@given(EXPRESSIONS)
def test_what_is_called_not_linear_is_not(expression):
    if equation_of(lambda x, t: evaluated(expression, x, t)[0]) is None:
        return
    draw = np.random.default_rng(0).normal
    for _ in range(20):  # primals and tangents, of which some show it
        x, t, u = (jnp.asarray(draw(size=4), jnp.float32) for _ in range(3))
        apart, other, together = (evaluated(expression, x, v) for v in (t, u, t + u))
        if not (apart[1] and other[1] and together[1]):
            return  # infinity and nan are conventions
        if not np.allclose(apart[0] + other[0], together[0], rtol=1e-3, atol=1e-3):
            return
    pytest.fail(f"{expression} is linear")
