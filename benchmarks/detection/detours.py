"""Expressions that a tangent may be sent through: linear in it, and equal to it.

Each has `{t}`, an array with a tangent, and `{x}`, an input of the function.
"""

from __future__ import annotations

_ORDER = "jnp.argsort(fit({x}, {t}.shape, 'float32').ravel())"
_POSITIVE = "jnp.real(fit({x}, {t}.shape, {t}.dtype)) > 0"

DETOURS = {
    "branches": "jax.lax.cond(jnp.real(jnp.sum({x})) > 0, lambda t: t, "
    "lambda t: t + t - t, {t})",
    "norm of a primal": "{t} * (lambda n: n / n)(jnp.sqrt(1 + jnp.sum(jnp.abs({x}) "
    "** 2))).astype({t}.dtype)",
    "softmax of a primal": "{t} * jax.nn.softmax(jnp.real({x}).ravel()).sum().astype("
    "{t}.dtype)",
    "order of a primal": "(lambda t, o: t.ravel()[o][jnp.argsort(o)].reshape(t.shape))("
    f"{{t}}, {_ORDER})",
    "masks": f"jnp.where({_POSITIVE}, {{t}}, 0) + jnp.where({_POSITIVE}, 0, {{t}})",
    "noise": "{t} * (lambda n: n / n)(2 + jax.random.uniform(jax.random.key(0)))"
    ".astype({t}.dtype)",
    "scan": "jax.lax.scan(lambda t, s: (t * s.astype(t.dtype), None), {t}, "
    "jnp.ones(3))[0]",
    "loop": "jax.lax.fori_loop(0, 2, lambda i, t: -t, {t})",
    "fft": "fit(jnp.fft.ifft(jnp.fft.fft({t}.astype('complex64').ravel()))"
    ".reshape({t}.shape), {t}.shape, {t}.dtype)",
    "cumsum": "jnp.diff(jnp.cumsum({t}.ravel()), prepend=0).reshape({t}.shape)",
    "another dtype": "fit(fit({t}, {t}.shape, 'complex64'), {t}.shape, {t}.dtype)",
    "solve": "jax.lax.custom_linear_solve(lambda v: 2 * v, 2 * {t}, "
    "lambda _, b: b / 2, symmetric=True)",
    "jit": "jax.jit(jax.jit(lambda x, t: (x, t)))({x}, {t})[1]",
    "checkpoint": "jax.checkpoint(lambda t: -t)(-{t})",
}
