"""Stand-in while the package is being written: the public names, checking nothing."""
import jax
from jax.experimental.hijax import HiPrim


class StrictHiPrim(HiPrim):
    def __init_subclass__(cls, *, supports=("grad",), abstract=False, ignore=(), **kw):
        super().__init_subclass__(**kw)


class checked_custom_vjp(jax.custom_vjp):
    def __new__(cls, fun=None, *args, example_args=None, dims=None, **kw):
        if fun is None:
            return lambda f: jax.custom_vjp(f)
        return super().__new__(cls)


def check(*args, **kw): ...
