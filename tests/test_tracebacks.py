"""Frames of strict_hijax and of JAX stay out of what a user is shown."""

import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import strict_hijax
from strict_hijax import StrictHijaxError, StrictHiPrim, check, checked_custom_vjp

OURS = str(Path(strict_hijax.__file__).parent)
JAX = str(Path(jax.__file__).parent)


def define_class():
    class Square(StrictHiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return x * x

        def vjp_fwd(self, nzs_in, x):
            return self(x), x

        def vjp_bwd(self, x, g, x_acc):
            pass

        @classmethod
        def examples(cls):
            yield cls(jax.typeof(1.0))


def define_function():
    @checked_custom_vjp(example_args=(jnp.ones(3),))
    def square(x):
        return x * x

    square.defvjp(lambda x: (square(x), x), lambda x, g: 2 * x * g)


def check_function():
    square = jax.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (square(x), x), lambda x, g: 2 * x * g)
    check(square, 1.0)


@pytest.mark.parametrize("define", [define_class, define_function, check_function])
def test_only_the_users_frames_are_shown(define):
    with pytest.raises(StrictHijaxError) as caught:
        define()
    files = [f.filename for f in traceback.extract_tb(caught.value.__traceback__)]
    assert files
    assert not [name for name in files if name.startswith((OURS, JAX))]
