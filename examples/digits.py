"""A classifier of handwritten digits, every custom rule of which is strict.

A small network on scikit-learn's digits (1,797 images of 8 by 8): its normalisation,
activation, loss and gradient clipping are the primitives of this folder.
`python -m examples.digits` trains it, in some seconds on a laptop.
"""

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .clip_gradient import clip_gradient
from .cross_entropy import cross_entropy
from .log1pexp import log1pexp
from .rms_norm import rms_norm

WIDTHS = (64, 128, 128)
CLASSES = 10
HELD_OUT = 360  # images
BATCH = 64
EPOCHS = 15
RATE, MOMENTUM, MAX_NORM = 0.2, 0.5, 1.0


class Data(NamedTuple):
    images: Any  # float32[..., 64], from 0 to 1
    labels: Any  # int32[...]


class State(NamedTuple):
    params: Any
    velocity: Any


class Epoch(NamedTuple):
    """The mean loss in training, and the accuracy on held-out images afterwards."""

    number: int
    loss: float
    accuracy: float
    seconds: float


def load(seed: int = 0) -> tuple[Data, Data]:
    """The images in random order, for training and held out. Nothing is downloaded."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    data = Data((images[order] / 16).astype(np.float32), labels[order].astype(np.int32))
    held_out, training = (
        Data(*(x[part] for x in data))
        for part in (slice(HELD_OUT), slice(HELD_OUT, None))
    )
    return training, held_out


def initial_state(seed: int = 0) -> State:
    random = np.random.default_rng(seed)

    def weights(inputs: int, outputs: int) -> jax.Array:
        drawn = random.normal(scale=inputs**-0.5, size=(inputs, outputs))
        return jnp.asarray(drawn, jnp.float32)

    params = {
        "hidden": [
            {"weights": weights(*sizes), "scale": jnp.ones(sizes[1])}
            for sizes in itertools.pairwise(WIDTHS)
        ],
        "out": weights(WIDTHS[-1], CLASSES),
    }
    return State(params, jax.tree.map(jnp.zeros_like, params))


def logits(params: Any, images: jax.Array) -> jax.Array:
    x = images
    for layer in params["hidden"]:
        x = log1pexp(rms_norm(x @ layer["weights"], layer["scale"]))
    return x @ params["out"]


def loss(params: Any, batch: Data) -> jax.Array:
    """The mean loss on a batch; its gradient is clipped."""
    params = clip_gradient(params, MAX_NORM)
    return jnp.mean(cross_entropy(logits(params, batch.images), batch.labels))


def step(state: State, batch: Data, rate: Any = RATE) -> tuple[State, jax.Array]:
    """One step of gradient descent with momentum."""
    value, gradient = jax.value_and_grad(loss)(state.params, batch)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, state.velocity, gradient)
    params = jax.tree.map(lambda p, v: p - rate * v, state.params, velocity)
    return State(params, velocity), value


@partial(jax.jit, donate_argnums=0)
def train_epoch(state: State, batches: Data, rate: Any) -> tuple[State, jax.Array]:
    state, values = lax.scan(partial(step, rate=rate), state, batches)
    return state, jnp.mean(values)


@jax.jit
def accuracy(params: Any, data: Data) -> jax.Array:
    return jnp.mean(jnp.argmax(logits(params, data.images), axis=-1) == data.labels)


def train(
    epochs: int = EPOCHS,
    seed: int = 0,
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Epoch]:
    """Train from scratch; `report` is called after each epoch."""
    training, held_out = load(seed)
    state, random = initial_state(seed), np.random.default_rng(seed)
    count = len(training.labels) // BATCH
    history = []
    for number in range(1, epochs + 1):
        start = time.perf_counter()
        rate = RATE * (1 - (number - 1) / epochs)
        order = random.permutation(len(training.labels))[: count * BATCH]
        batches = Data(*(x[order.reshape(count, BATCH)] for x in training))
        state, mean_loss = train_epoch(state, batches, rate)
        correct = float(accuracy(state.params, held_out))
        seconds = time.perf_counter() - start
        history.append(Epoch(number, float(mean_loss), correct, seconds))
        report(history[-1])
    return history


def print_epoch(epoch: Epoch) -> None:
    print(
        f"epoch {epoch.number:2}   loss {epoch.loss:.4f}   "
        f"accuracy {epoch.accuracy:6.2%}   {epoch.seconds:.2f} s"
    )


if __name__ == "__main__":
    train(report=print_epoch)
