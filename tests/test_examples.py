"""The examples are right: against plain references, under every transform they take."""

import functools
import inspect
import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.hijax import HiPrim
from jax.test_util import check_grads

import examples
from examples import digits, registry
from examples.clip_gradient import ClipGradient, clip_gradient
from examples.cross_entropy import CrossEntropy, cross_entropy
from examples.fixed_point import AdjointStep, fixed_point
from examples.flash_attention import attend, flash_attention
from examples.log1pexp import Log1pExp, log1pexp
from examples.pallas_softmax import Softmax, SoftmaxProduct, pallas_softmax
from examples.plain import plain_module, plain_twin
from examples.quantized_matmul import QuantizedMatmul, quantized_matmul
from examples.registry import CHECKPOINT, JVP, Example
from examples.rms_norm import RMSNorm, rms_norm
from strict_hijax import StrictHijaxError, StrictHiPrim

FOLDER = Path(examples.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
PRIMITIVES = [
    ClipGradient,
    Log1pExp,
    QuantizedMatmul,
    RMSNorm,
    Softmax,
    SoftmaxProduct,
    CrossEntropy,
]


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    """Compilation takes most of the time here, and its quality is no matter."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


# --- the same functions without custom rules ------------------------------------------


def widened(tree):
    """Floating-point leaves in float32: what is computed with them is a reference."""
    return jax.tree.map(lambda x: x.astype(jnp.float32) if is_floating(x) else x, tree)


def is_floating(x) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def kepler_by_iterating(mean_anomaly, eccentricity):
    """As a scan, which JAX differentiates; unrolled, it takes a minute to compile."""
    params = mean_anomaly, eccentricity
    step = functools.partial(registry.kepler_step, params)
    return lax.fori_loop(0, 60, lambda _, anomaly: step(anomaly), mean_anomaly)


def rms_norm_reference(x, scale):
    return x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def straight_through(x, axis):
    unit = jnp.max(jnp.abs(x), axis=axis, keepdims=True) / 127
    return x + lax.stop_gradient(jnp.round(x / unit) * unit - x)


def quantized_matmul_reference(x, w):
    return straight_through(x, 1) @ straight_through(w, 0)


def cross_entropy_reference(logits, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -chosen[:, 0]


def digits_reference(params, batch):
    """The loss; that its gradient is clipped is a matter of its own."""
    x = batch.images
    for layer in params["hidden"]:
        x = rms_norm_reference(x @ layer["weights"], layer["scale"])
        x = jnp.logaddexp(x, 0)
    return jnp.mean(cross_entropy_reference(x @ params["out"], batch.labels))


causal_attention = functools.partial(jax.nn.dot_product_attention, is_causal=True)

REFERENCES = {
    "log1pexp": lambda x: jnp.logaddexp(x, 0),
    "clip_gradient": lambda tree: tree,
    "fixed_point": kepler_by_iterating,
    "rms_norm": rms_norm_reference,
    "flash_attention": jax.nn.dot_product_attention,
    "flash_attention causal bfloat16": causal_attention,
    "quantized_matmul": quantized_matmul_reference,
    "pallas_softmax": functools.partial(jax.nn.softmax, axis=-1),
    "safe_norm": functools.partial(jnp.linalg.norm, axis=-1),
    "cross_entropy": cross_entropy_reference,
    "digits": digits_reference,
}

CLIPPING = {"clip_gradient": 1.0, "digits": digits.MAX_NORM}
"""To what the gradient of a first argument is clipped; no reference says so."""

NOT_DIFFERENTIABLE = {"quantized_matmul", "clip_gradient", "digits"}
"""Their gradients are no limits of differences, on purpose."""


BY_NAME = {example.name: example for example in registry.ALL}


def family(example: Example) -> str:
    return example.name.partition(" ")[0]


def reference_of(example: Example):
    name = example.name if example.name in REFERENCES else family(example)
    return REFERENCES[name]


def tolerance_of(example: Example) -> float:
    narrow = any(s.dtype == jnp.bfloat16 for s in jax.tree.leaves(example.specs))
    return 3e-2 if narrow else 2e-5


# --- losses, and gradients with respect to all floating-point leaves ------------------


def loss_of(function):
    """`function` made a number whose gradient weighs every output differently."""

    def loss(*args):
        total = jnp.float32(0)
        for leaf in jax.tree.leaves(function(*args)):
            phase = jnp.linspace(0.3, 2.0, leaf.size).reshape(leaf.shape)
            total += jnp.sum(jnp.sin(widened(leaf) + phase))
        return total

    return loss


def floats(tree) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(tree) if is_floating(leaf)]


def with_floats(tree, leaves):
    """`tree` with its floating-point leaves replaced."""
    leaves = iter(leaves)
    return jax.tree.map(lambda x: next(leaves) if is_floating(x) else x, tree)


def gradient_of(function):
    """The gradient of a scalar function, a list: one for each floating-point leaf."""

    def gradient(*args):
        return jax.grad(lambda x: function(*with_floats(args, x)))(floats(args))

    return gradient


def clipped_as(example: Example, gradient):
    """The gradient of the reference of an example, clipped as the example does it."""
    max_norm = CLIPPING.get(family(example))
    if max_norm is None:
        return gradient
    count = len(floats(example.specs[0]))
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in widened(gradient[:count])))
    factor = jnp.where(norm > max_norm, max_norm / norm, 1)
    return [g * factor for g in gradient[:count]] + gradient[count:]


def assert_close(got, expected, tolerance: float) -> None:
    """Leaf by leaf, relative to the largest entry of a leaf or to 1."""
    got, expected = jax.tree.leaves(got), jax.tree.leaves(expected)
    assert len(got) == len(expected) > 0
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert np.all(np.isfinite(a))
        limit = tolerance * max(1.0, np.max(np.abs(b), initial=0))
        np.testing.assert_allclose(a, b, rtol=0, atol=limit)


def arguments_of(example: Example, seed: int = 0):
    """Its arguments in NumPy, in which what is computed with them is not compiled."""
    return jax.device_get(example.arguments(seed))


def stacked(rows):
    """Several arguments, along a new first axis of each leaf."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(rows))


@functools.cache
def jitted_gradient(name: str):
    """The loss and gradient of an example: compiled once, and what others must match.

    It is held against the reference by a test of its own.
    """
    return jax.jit(loss_and_gradient_of(BY_NAME[name].function))


@functools.cache
def jitted_reference(name: str):
    return jax.jit(loss_and_gradient_of(reference_of(BY_NAME[name])))


def loss_and_gradient_of(function):
    loss = loss_of(function)
    return lambda *args: (loss(*args), gradient_of(loss)(*args))


def loss_and_gradient(example: Example, args):
    return jitted_gradient(example.name)(*args)


def reference_loss_and_gradient(example: Example, args):
    """Those of the reference, in float32 and not clipped."""
    return jitted_reference(example.name)(*widened(args))


# --- every example --------------------------------------------------------------------


def named(examples):
    assert examples
    return [pytest.param(example, id=example.name) for example in examples]


def each_of(examples):
    return pytest.mark.parametrize("example", named(list(examples)))


def is_narrow(example: Example) -> bool:
    return any(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(example.specs))


def is_primitive(example: Example) -> bool:
    return family(example) not in FUNCTIONS


FUNCTIONS = {"fixed_point", "flash_attention"}
"""What is made with `checked_custom_vjp`; everything else is made of primitives."""

WIDE = [example for example in registry.ALL if not is_narrow(example)]

SMALL = [example for example in WIDE if family(example) != "digits"]

each_example = each_of(registry.ALL)


@each_example
def test_value_and_gradient_are_those_of_the_reference(example: Example):
    args = arguments_of(example)
    loss, gradient = reference_loss_and_gradient(example, args)
    expected = loss, clipped_as(example, gradient)
    assert_close(loss_and_gradient(example, args), expected, tolerance_of(example))


@each_example
def test_gradient_has_exactly_the_types_of_the_arguments(example: Example):
    args = arguments_of(example)
    _, gradient = loss_and_gradient(example, args)
    types = [(leaf.shape, leaf.dtype) for leaf in floats(args)]
    assert [(leaf.shape, leaf.dtype) for leaf in gradient] == types


@each_of(SMALL)
def test_eager_gradient_is_the_jitted_one(example: Example):
    args = example.arguments()
    _, expected = loss_and_gradient(example, args)
    gradient = gradient_of(loss_of(example.function))(*args)
    assert_close(gradient, expected, tolerance_of(example))


@each_example
def test_vmap_of_the_gradient_is_a_loop(example: Example):
    rows = [arguments_of(example, seed) for seed in range(3)]
    got = jax.jit(jax.vmap(gradient_of(loss_of(example.function))))(*stacked(rows))
    expected = stacked([loss_and_gradient(example, args)[1] for args in rows])
    assert_close(got, expected, tolerance_of(example))


def batches(example: Example):
    """Which arguments `vmap` maps, in every combination, and along which axis."""
    choices = itertools.product((0, None), repeat=len(example.specs))
    yield from (axes for axes in choices if any(axis == 0 for axis in axes))
    if all(spec.shape for spec in jax.tree.leaves(example.specs)):
        yield (-1,) * len(example.specs)


@pytest.mark.parametrize(
    ("example", "axes"),
    [
        pytest.param(example, axes, id=f"{example.name}-{axes}")
        for example in filter(is_primitive, WIDE)
        for axes in batches(example)
    ],
)
def test_gradient_of_vmap_is_a_loop(example: Example, axes: tuple[int | None, ...]):
    shared = arguments_of(example)
    rows = [
        tuple(
            mine if axis is not None else all_have
            for mine, all_have, axis in zip(args, shared, axes, strict=True)
        )
        for args in [arguments_of(example, seed) for seed in range(3)]
    ]

    def put(axis: int | None, mapped):
        return jax.tree.map(lambda x: np.moveaxis(x, 0, axis or 0), mapped)

    def total(*args):
        return jnp.sum(jax.vmap(loss_of(example.function), axes)(*args))

    together = tuple(
        all_have if axis is None else put(axis, mapped)
        for all_have, mapped, axis in zip(shared, stacked(rows), axes, strict=True)
    )
    got = with_floats(together, jax.jit(gradient_of(total))(*together))
    each = stacked(
        [with_floats(args, loss_and_gradient(example, args)[1]) for args in rows]
    )
    for mine, mapped, axis in zip(got, each, axes, strict=True):
        if axis is None:
            mapped = jax.tree.map(lambda x: np.sum(x, axis=0), mapped)
        if floats(mine):
            expected = floats(put(axis, mapped) if axis is not None else mapped)
            assert_close(floats(mine), expected, 3 * tolerance_of(example))


def added(total, loss):
    """A sum in which each term weighs differently, by what was before it."""
    return total + (1 + jnp.sin(total / 64)) * loss


@jax.jit
@jax.grad
def gradient_of_sum(losses):
    return functools.reduce(added, losses, jnp.float32(0))


@each_example
def test_gradient_of_a_scan_in_company(example: Example):
    """The arguments have another use beside, so cotangents are added up.

    One of a wrong type would not even trace here, for JAX refuses to add it.
    """

    def beside(*args):
        return sum(jnp.sum(jnp.sin(widened(x))) for x in floats(args))

    def step(total, row):
        loss = loss_of(example.function)(*row) + beside(*row)
        return added(total, loss), None

    def by_scan(*args):
        return jax.lax.scan(step, jnp.float32(0), args)[0]

    rows = [arguments_of(example, seed) for seed in range(3)]
    got = jax.jit(gradient_of(by_scan))(*stacked(rows))
    single = [reference_loss_and_gradient(example, args) for args in rows]
    wide = [widened(floats(args)) for args in rows]
    losses = [
        loss + sum(np.sum(np.sin(x)) for x in leaves)
        for (loss, _), leaves in zip(single, wide, strict=True)
    ]
    expected = []
    weights = jax.device_get(gradient_of_sum(losses))
    for weight, (_, gradient), leaves in zip(weights, single, wide, strict=True):
        gradient = [weight * g for g in jax.device_get(gradient)]
        pairs = zip(clipped_as(example, gradient), leaves, strict=True)
        expected.append([g + weight * np.cos(x) for g, x in pairs])
    assert_close(got, stacked(expected), 3 * tolerance_of(example))


@each_of(WIDE)
def test_an_output_without_influence_gives_zero(example: Example):
    """The rules are called with a symbolic zero for the cotangent of the output."""

    @jax.custom_vjp
    def forget(x):
        return jnp.float32(0) * x

    forget.defvjp(lambda x: (forget(x), None), lambda _, ct: (None,))
    args = arguments_of(example)

    def loss(*args):
        forgotten = jax.tree.map(forget, example.function(*args))
        return sum(jnp.sum(x) for x in jax.tree.leaves(forgotten))

    gradient = jax.jit(gradient_of(loss))(*args)
    assert_close(gradient, [jnp.zeros_like(x) for x in floats(args)], 0)


@each_of(SMALL)
def test_second_order_is_that_of_the_reference(example: Example):
    args = arguments_of(example)

    def twice(function, clipped):
        def along(*args):
            gradient = clipped(gradient_of(loss_of(function))(*args))
            return sum(jnp.sum(jnp.cos(g)) for g in gradient)

        return jax.jit(lambda *args: clipped(gradient_of(along)(*args)))

    got = twice(example.function, lambda gradient: gradient)(*args)
    clipped = functools.partial(clipped_as, example)
    expected = twice(reference_of(example), clipped)(*args)
    assert_close(got, expected, 10 * tolerance_of(example))


@each_of(filter(is_narrow, registry.ALL))
def test_second_order_has_exactly_the_types_of_the_arguments(example: Example):
    def along(*args):
        gradient = gradient_of(loss_of(example.function))(*args)
        return sum(jnp.sum(jnp.cos(widened(g))) for g in gradient)

    gradient = jax.eval_shape(gradient_of(along), *example.specs)
    types = [(leaf.shape, leaf.dtype) for leaf in floats(example.specs)]
    assert [(leaf.shape, leaf.dtype) for leaf in gradient] == types


@each_of(e for e in WIDE if family(e) not in NOT_DIFFERENTIABLE)
def test_derivatives_are_limits_of_differences(example: Example):
    args = arguments_of(example)
    modes = ["fwd", "rev"] if JVP in example.tags else ["rev"]
    loss = jax.jit(loss_of(example.function))

    def of_floats(leaves):
        return loss(*with_floats(args, leaves))

    check_grads(
        of_floats, (floats(args),), order=1, modes=modes, eps=1e-2, atol=1e-2, rtol=1e-2
    )


@each_of(e for e in registry.ALL if JVP in e.tags)
def test_tangent_is_that_of_the_reference(example: Example):
    args = arguments_of(example)
    leaves = floats(args)
    directions = [np.cos(leaf) for leaf in leaves]

    def pushed(function, args, leaves, directions):
        def of_floats(leaves):
            return function(*with_floats(args, leaves))

        return jax.jvp(of_floats, (leaves,), (directions,))

    args = args, leaves, directions
    got = jax.jit(functools.partial(pushed, example.function))(*args)
    expected = jax.jit(functools.partial(pushed, reference_of(example)))(*widened(args))
    assert_close(got, expected, tolerance_of(example))
    assert got[0].dtype == got[1].dtype


@each_of(e for e in WIDE if JVP in e.tags)
def test_jacobians_in_both_modes_agree(example: Example):
    args = arguments_of(example)

    def of_floats(leaves):
        return example.function(*with_floats(args, leaves))

    forward = jax.jit(jax.jacfwd(of_floats))(floats(args))
    backward = jax.jit(jax.jacrev(of_floats))(floats(args))
    assert_close(forward, backward, tolerance_of(example))


@each_of(e for e in registry.ALL if CHECKPOINT in e.tags)
def test_gradient_of_checkpoint_is_the_gradient(example: Example):
    args = arguments_of(example)
    got = jax.jit(gradient_of(jax.checkpoint(loss_of(example.function))))(*args)
    _, expected = loss_and_gradient(example, args)
    assert_close(got, expected, tolerance_of(example))


@pytest.fixture
def new_remat():
    """The implementation of `jax.checkpoint` that is to be the default one day."""
    jax.config.update("jax_remat3", True)
    yield
    jax.config.update("jax_remat3", False)


@each_of(SMALL)
@pytest.mark.usefixtures("new_remat")
def test_gradient_of_the_new_checkpoint_is_the_gradient(example: Example):
    """It calls the reverse rules, so it takes every example."""
    args = arguments_of(example)
    got = jax.jit(gradient_of(jax.checkpoint(loss_of(example.function))))(*args)
    _, expected = loss_and_gradient(example, args)
    assert_close(got, expected, tolerance_of(example))


# --- what is particular to one --------------------------------------------------------


@pytest.mark.parametrize("x", [-1e4, -100.0, 100.0, 1e4])
def test_log1pexp_has_a_derivative_where_jax_alone_has_none(x: float):
    assert jax.grad(log1pexp)(x) == (x > 0)
    assert jax.grad(jax.grad(log1pexp))(x) == 0
    if x > 0:
        assert np.isnan(jax.grad(lambda x: jnp.log1p(jnp.exp(x)))(x))


def test_log1pexp_takes_numbers_and_integers():
    assert log1pexp(0) == pytest.approx(np.log(2))
    assert log1pexp(jnp.arange(3)).dtype == jnp.float32


def test_a_small_gradient_is_not_clipped():
    x = jnp.array([0.3, -0.4])
    gradient = jax.grad(lambda x: jnp.sum(clip_gradient(x, 10.0) ** 2))(x)
    np.testing.assert_array_equal(gradient, 2 * x)


def test_a_clipped_gradient_has_the_norm_of_all_leaves_together():
    tree = {"a": jnp.full((3, 4), 5.0), "b": (jnp.full(2, -7.0), jnp.arange(3))}

    def loss(leaves):
        whole = clip_gradient({"a": leaves[0], "b": (leaves[1], tree["b"][1])}, 0.5)
        return jnp.sum(whole["a"] ** 2) + jnp.sum(whole["b"][0] ** 3)

    leaves = [tree["a"], tree["b"][0]]
    gradient = jax.grad(loss)(leaves)
    norm = np.sqrt(sum(np.sum(np.square(g)) for g in gradient))
    assert norm == pytest.approx(0.5, rel=1e-5)
    assert_close(gradient[0] / gradient[1][0], jnp.full((3, 4), 10 / 147), 1e-5)


def test_clipping_counts_only_what_is_differentiated_and_used():
    def loss(x, y):
        x, y, _ = clip_gradient((x, y, jnp.ones(3)), 1.0)
        return 3 * x + jnp.sum(lax.stop_gradient(y))

    x_ct, y_ct = jax.grad(loss, (0, 1))(2.0, jnp.ones(2))
    assert x_ct == pytest.approx(1)
    np.testing.assert_array_equal(y_ct, jnp.zeros(2))


def test_a_zero_gradient_stays_zero_and_has_derivatives():
    def loss(x):
        return jnp.sum(clip_gradient(x, 1.0) ** 2)

    along = jax.grad(lambda x: jnp.sum(jax.grad(loss)(x)))
    np.testing.assert_array_equal(jax.grad(loss)(jnp.zeros(2)), jnp.zeros(2))
    assert np.all(np.isfinite(along(jnp.zeros(2))))


def test_shared_parameters_are_clipped_for_each_example():
    """As in a loop over the examples; the sum of clipped gradients is not clipped."""
    xs = jnp.array([3.0, 4.0, -5.0])

    def loss(w, x):
        return clip_gradient(w, 1.0) * x

    def by_vmap(w):
        return jnp.sum(jax.vmap(loss, (None, 0))(w, xs))

    def with_closure(w):
        return jnp.sum(jax.vmap(lambda x: loss(w, x))(xs))

    for total in (by_vmap, with_closure):
        assert jax.grad(total)(2.0) == pytest.approx(1 + 1 - 1)
    each = jax.vmap(jax.grad(loss), (None, 0))(2.0, xs)
    np.testing.assert_allclose(each, [1, 1, -1], rtol=1e-6)


def test_clipping_by_nothing_is_refused():
    with pytest.raises(ValueError, match="max_norm must be positive"):
        clip_gradient(jnp.ones(3), 0.0)


def test_checkpoint_refuses_what_it_would_not_clip():
    """With a tangent rule the default checkpoint would return an unclipped gradient."""

    def loss(x):
        return jnp.sum(clip_gradient(x, 1.0) ** 2)

    with pytest.raises(NotImplementedError, match="jvp"):
        jax.grad(jax.checkpoint(loss))(jnp.ones(3))


def test_a_gradient_accumulates_in_a_ref():
    x, scale = BY_NAME["rms_norm"].arguments()
    ct = jnp.ones_like(x)
    out, vjp = jax.vjp(
        lambda x, scale: clip_gradient(rms_norm(x, scale), 1.0), x, scale
    )
    expected = vjp(ct)
    refs = jax.tree.map(lambda x: jax.new_ref(jnp.ones_like(x)), (x, scale))
    vjp.with_refs(*refs)(ct)
    got = [ref[...] - 1 for ref in refs]
    assert_close(got, expected, 1e-5)
    assert out.shape == ct.shape


@pytest.mark.parametrize("function", [rms_norm, log1pexp, pallas_softmax])
def test_a_stack_of_bfloat16_layers_in_a_scan(function):
    """The carry keeps its type in the backward pass too, or this does not trace."""
    x = jnp.linspace(-1, 1, 32, dtype=jnp.bfloat16).reshape(4, 8)
    rest = (jnp.ones(8),) if function is rms_norm else ()

    def stack(x):
        layer = lambda x, _: (function(x, *rest) + x, None)  # noqa: E731
        return jnp.sum(lax.scan(layer, x, None, length=3)[0][:, :3])

    def unrolled(x):
        for _ in range(3):
            x = function(x, *rest) + x
        return jnp.sum(x[:, :3])

    gradient = jax.jit(jax.grad(stack))(x)
    assert gradient.dtype == jnp.bfloat16
    assert_close(gradient, jax.grad(unrolled)(x), 3e-2)


def residuals_of(function, *args):
    """What is kept for the backward pass: the shape and dtype of each array."""
    kept = jax.tree.leaves(
        jax.eval_shape(lambda *args: jax.vjp(function, *args)[1], *args)
    )
    return [(leaf.shape, leaf.dtype.name) for leaf in kept]


def test_rms_norm_keeps_nothing_but_its_inputs():
    x, scale = jnp.ones((4, 8), jnp.bfloat16), jnp.ones(8)
    kept = residuals_of(rms_norm, x, scale)
    assert set(kept) == {((4, 8), "bfloat16"), ((8,), "float32")}


def test_cross_entropy_keeps_the_logits_in_their_own_type():
    logits, labels = jnp.ones((4, 10), jnp.bfloat16), jnp.arange(4)
    kept = residuals_of(lambda logits: cross_entropy(logits, labels), logits)
    assert ((4, 10), "float32") not in kept
    assert ((4, 10), "bfloat16") in kept


def test_flash_attention_keeps_no_scores():
    q, k, v = (jnp.ones((1, 64, 1, 4)) for _ in range(3))
    kept = residuals_of(functools.partial(flash_attention, block=8), q, k, v)
    assert kept
    assert max(np.prod(shape) for shape, _ in kept) <= q.size
    plain = residuals_of(jax.nn.dot_product_attention, q, k, v)
    assert max(np.prod(shape) for shape, _ in plain) >= 64 * 64


@pytest.mark.parametrize("block", [1, 7, 128])
def test_blocks_of_any_size_give_the_same(block: int):
    q, k, v = BY_NAME["flash_attention"].arguments()
    loss = loss_of(functools.partial(flash_attention, causal=True, block=block))
    expected = loss_of(causal_attention)
    got = jax.jit(gradient_of(loss))(q, k, v)
    assert_close(got, jax.jit(gradient_of(expected))(q, k, v), 2e-5)


def test_the_log_of_the_sum_of_exponentials_has_a_gradient():
    q, k, v = (x[0, :, 0] for x in BY_NAME["flash_attention"].arguments())

    def got(q, k):
        return attend(q, k, v, False, 3)[1]

    def expected(q, k):
        return jax.nn.logsumexp(q @ k.T / 2, axis=-1)

    got, expected = (jax.jit(gradient_of(loss_of(f))) for f in (got, expected))
    assert_close(got(q, k), expected(q, k), 2e-5)


def test_attention_over_parts_of_the_keys_can_be_merged():
    q, k, v = (x[0, :, 0] for x in BY_NAME["flash_attention"].arguments())

    def merged(q, k, v):
        parts = [
            attend(q, k[part], v[part], False, 2)
            for part in (slice(0, 4), slice(4, None))
        ]
        out, log_total = (jnp.stack(x) for x in zip(*parts, strict=True))
        return jnp.sum(jax.nn.softmax(log_total, axis=0)[..., None] * out, axis=0)

    def whole(q, k, v):
        return attend(q, k, v, False, 4)[0]

    got, expected = (jax.jit(gradient_of(loss_of(f))) for f in (merged, whole))
    assert_close(got(q, k, v), expected(q, k, v), 2e-5)


def newton_step(f):
    def step(params, x):
        return x - f(params, x) / jax.grad(f, argnums=1)(params, x)

    return step


def test_newton_differentiates_a_root():
    step = newton_step(lambda a, x: x**3 - a)

    def cube_root(a):
        return fixed_point(step, a, 1.0)

    assert cube_root(8.0) == pytest.approx(2, rel=1e-6)
    assert jax.grad(cube_root)(8.0) == pytest.approx(1 / 12, rel=1e-5)
    assert jax.grad(jax.grad(cube_root))(8.0) == pytest.approx(-1 / 144, rel=1e-4)


def test_a_fixed_point_of_pytrees_is_a_linear_solve():
    random = np.random.default_rng(0)
    matrix = jnp.asarray(random.uniform(-0.1, 0.1, (4, 4)), jnp.float32)
    offset = {"b": jnp.asarray(random.normal(size=4), jnp.float32), "n": jnp.arange(4)}

    def step(params, x):
        matrix, offset = params
        return {"x": matrix @ x["x"] + offset["b"]}

    def iterated(matrix, b):
        start = {"x": jnp.zeros(4)}
        return fixed_point(step, (matrix, offset | {"b": b}), start)["x"]

    def solved(matrix, b):
        return jnp.linalg.solve(jnp.eye(4) - matrix, b)

    args = matrix, offset["b"]
    assert_close(iterated(*args), solved(*args), 1e-5)
    got, expected = (
        jax.jit(gradient_of(loss_of(f)))(*args) for f in (iterated, solved)
    )
    assert_close(got, expected, 1e-5)


def test_where_the_search_begins_has_no_influence():
    params, start = (jnp.array([1.0]), jnp.array([0.4])), jnp.array([0.7])
    gradient = jax.grad(
        lambda start: jnp.sum(fixed_point(registry.kepler_step, params, start))
    )
    np.testing.assert_array_equal(gradient(start), jnp.zeros(1))


def test_a_search_without_end_ends():
    assert fixed_point(lambda params, x: x + params, 1.0, 0.0, 1e-6, 25) == 25


def test_the_adjoint_step_is_equal_for_equal_steps():
    assert AdjointStep(jnp.add) == AdjointStep(jnp.add)
    assert len({AdjointStep(jnp.add), AdjointStep(jnp.add), AdjointStep(jnp.dot)}) == 2


def test_quantized_matmul_is_within_the_precision_of_8_bits():
    x, w = BY_NAME["quantized_matmul"].arguments()
    unit = np.abs(x).max(1, keepdims=True) * np.abs(w).max(0) / 127
    error = np.abs(quantized_matmul(x, w) - x @ w)
    assert error.max() > 0
    assert np.all(error <= x.shape[1] * unit * (1 + 1 / 254))


def test_quantized_matmul_multiplies_integers():
    text = jax.jit(quantized_matmul).lower(*BY_NAME["quantized_matmul"].specs).as_text()
    assert "(tensor<4x8xi8>, tensor<8x3xi8>) -> tensor<4x3xi32>" in text


def test_quantized_matmul_of_zeros():
    x, w = jnp.zeros((4, 8)), jnp.ones((8, 3))
    x_ct, w_ct = jax.grad(lambda x, w: jnp.sum(quantized_matmul(x, w)), (0, 1))(x, w)
    assert_close((x_ct, w_ct), (jnp.full((4, 8), 3.0), jnp.zeros((8, 3))), 1e-6)


def test_quantized_matmul_keeps_only_what_the_perturbed_factor_needs():
    x, w = jnp.ones((5, 8)), jnp.ones((8, 3))
    kept = [shape for shape, _ in residuals_of(lambda x: quantized_matmul(x, w), x)]
    assert (8, 3) in kept
    assert (5, 8) not in kept


def test_quantized_matmul_linearizes():
    x, w = BY_NAME["quantized_matmul"].arguments()
    out, along = jax.linearize(quantized_matmul, x, w)
    expected = jax.jvp(quantized_matmul, (x, w), (w[:4, :1] + x, w))
    assert_close((out, along(w[:4, :1] + x, w)), expected, 1e-6)


def test_the_softmax_product_is_its_own_transpose():
    y = jax.nn.softmax(jnp.arange(12.0).reshape(3, 4) / 7)
    product = functools.partial(SoftmaxProduct(jax.typeof(y), jax.typeof(y), True), y)
    ct = jnp.cos(y)
    (transposed,) = jax.linear_transpose(product, y)(ct)
    assert_close(transposed, product(ct), 1e-6)


def test_cross_entropy_of_a_large_logit_is_finite():
    logits = jnp.array([[1e4, 0.0, -1e4]])
    value, gradient = jax.value_and_grad(
        lambda x: jnp.sum(cross_entropy(x, jnp.array([1])))
    )(logits)
    assert value == pytest.approx(1e4)
    np.testing.assert_allclose(gradient, [[1, -1, 0]])


def test_cross_entropy_distinguishes_more_classes_than_its_labels_can_count():
    logits = jnp.zeros((1, 300)).at[0, 44].set(9.0)
    labels = jnp.array([44], jnp.uint8)  # 300 - 256: an arange of uint8 has it twice
    gradient = jax.grad(lambda x: jnp.sum(cross_entropy(x, labels)))(logits)
    assert_close(gradient, jax.nn.softmax(logits) - jax.nn.one_hot(labels, 300), 1e-6)


# --- the classifier -------------------------------------------------------------------


@pytest.fixture(scope="module")
def history() -> list[digits.Epoch]:
    return digits.train()


def test_the_classifier_learns(history: list[digits.Epoch]):
    assert history[-1].accuracy > 0.95
    assert history[-1].loss < 0.1 < 1 < history[0].loss
    assert sum(epoch.seconds for epoch in history) < 45


def test_the_plain_classifier_learns_the_very_same(history: list[digits.Epoch]):
    train = plain_twin(digits.train)
    assert train is not digits.train
    plain = train(epochs=3)
    strict = digits.train(epochs=3)
    assert [e[:3] for e in plain] == [e[:3] for e in strict]
    assert len(history) == digits.EPOCHS


def test_each_epoch_is_reported(capsys: pytest.CaptureFixture[str]):
    digits.train(epochs=2, report=digits.print_epoch)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed] == [["epoch", "1"], ["epoch", "2"]]
    assert all("loss" in line and "%" in line for line in printed)


# --- the modules ----------------------------------------------------------------------


def test_no_import_initialises_a_backend(clean_process):
    code = """
import importlib, sys
from jax._src import xla_bridge
for name in sys.argv[1:]:
    importlib.import_module("examples." + name)
    print(name, sorted(xla_bridge._backends))
"""
    done = clean_process(args=("-c", code, *MODULES))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{name} []" for name in MODULES]


MISTAKES = [
    ("log1pexp", "x_dot * jax.nn.sigmoid(x)", "jnp.sum(x_dot)", "SH324"),
    ("clip_gradient", "(ct * scale).astype(ct.dtype)", "ct * scale", "SH316"),
    ("rms_norm", "y_ct - along * y)).astype(x.dtype)", "y_ct - along * y))", "SH316"),
    ("cross_entropy", "ct.astype(logits.dtype), None", "ct, None", "SH316"),
    ("quantized_matmul", "* w_scale).astype(x.dtype)", "* w_scale)", "SH325"),
    ("pallas_softmax", "(y, instantiate_zeros(ct)),)", "(y, ct)[0],)", "SH315"),
    ("flash_attention", "[: k.shape[0]]", "", "SH416"),
]


@pytest.mark.parametrize(("name", "right", "wrong", "code"), MISTAKES)
def test_a_mistake_fails_the_import(name: str, right: str, wrong: str, code: str):
    """No check of an example waits for its first use, for want of a name."""
    path = FOLDER / f"{name}.py"
    source = path.read_text("utf-8")
    assert source.count(right) == 1
    mistaken = compile(source.replace(right, wrong), path, "exec")
    variables = {"__name__": f"examples.{name}", "__package__": "examples"}
    with pytest.raises(StrictHijaxError, match=code):
        exec(mistaken, variables)


@pytest.mark.parametrize("name", ["clip_gradient", "flash_attention", "registry"])
def test_a_module_can_be_the_first_to_be_imported(name: str, clean_process):
    done = clean_process(f"import examples.{name}")
    assert done.returncode == 0, done.stderr


def test_the_readme_names_every_module():
    text = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in MODULES if f"{name}.py" not in text] == []


@pytest.mark.parametrize("prim", PRIMITIVES, ids=lambda prim: prim.__name__)
def test_every_primitive_has_examples(prim):
    made = list(prim.examples())
    assert made
    assert all(isinstance(example, prim) for example in made)


# --- plain twins ----------------------------------------------------------------------


def test_a_plain_twin_differs_in_its_base_alone():
    twin = plain_twin(RMSNorm)
    assert not issubclass(twin, StrictHiPrim)
    assert issubclass(twin, HiPrim)
    assert twin is plain_twin(RMSNorm)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        assert getattr(twin, name) == getattr(RMSNorm, name)
    for name in ("expand", "vjp_fwd", "vjp_bwd", "jvp", "batch"):
        codes = [inspect.unwrap(getattr(c, name)).__code__ for c in (twin, RMSNorm)]
        assert codes[0] == codes[1]


def test_a_plain_function_is_a_custom_vjp_and_no_subclass_of_it():
    assert type(plain_twin(fixed_point)) is jax.custom_vjp


def test_the_twin_of_a_partial_holds_twins():
    twin = plain_twin(functools.partial(jax.vmap, log1pexp))
    assert twin.func is jax.vmap
    assert twin.args == (plain_twin(log1pexp),)
    assert twin.args != (log1pexp,)


def test_what_comes_from_elsewhere_is_its_own_twin():
    assert plain_twin(jnp.sin) is jnp.sin
    assert plain_twin(3) == 3


def test_the_strict_modules_stay_in_place():
    plain_module("examples.digits")
    assert digits.rms_norm is rms_norm
    assert plain_module("examples.digits").rms_norm is plain_twin(rms_norm)
    assert plain_twin(rms_norm) is not rms_norm
