"""The one door to JAX's internals, and the only place that knows JAX versions.

Everything else in the package imports what it needs of JAX's private modules from
here. A JAX that this module does not know fails the import with one sentence.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import jax
import numpy as np

OLDEST_SUPPORTED = (0, 11, 2)
NEWEST_TESTED = "0.12.1"
VERSION = jax.__version__


def _unsupported(reason: str) -> ImportError:
    oldest = ".".join(map(str, OLDEST_SUPPORTED))
    return ImportError(
        f"strict_hijax does not support jax {jax.__version__}: {reason}. "
        f"It supports jax {oldest} and newer, and is tested up to {NEWEST_TESTED}. "
        "To mend it, run: pip install --upgrade jax strict_hijax"
    )


if jax.__version_info__[:3] < OLDEST_SUPPORTED:
    raise _unsupported("it is too old (`HiPrim` first came with 0.11.2)")

try:
    from jax._src import api as _api
    from jax._src import api_util as api_util
    from jax._src import config as _config
    from jax._src import core as core
    from jax._src import linear_util as linear_util
    from jax._src import mesh as mesh
    from jax._src import source_info_util as source_info_util
    from jax._src import traceback_util as _traceback_util
    from jax._src import tree_util as _tree_util
    from jax._src import xla_bridge as _xla_bridge
    from jax._src.ad_util import SymbolicZero as SymbolicZero
    from jax._src.ad_util import Zero as Zero
    from jax._src.api_util import fun_sourceinfo as fun_sourceinfo
    from jax._src.api_util import resolve_kwargs as resolve_kwargs
    from jax._src.array import ArrayImpl as ArrayImpl
    from jax._src.callback import IOEffect as IOEffect
    from jax._src.callback import OrderedIOEffect as OrderedIOEffect
    from jax._src.core import AbstractValue as AbstractValue
    from jax._src.core import InternalMutableArrayEffect as InternalMutableArrayEffect
    from jax._src.core import NamedAxisEffect as NamedAxisEffect
    from jax._src.core import Ref as Ref
    from jax._src.core import ShapedArray as ShapedArray
    from jax._src.core import Tracer as Tracer
    from jax._src.core import typematch as typematch
    from jax._src.core import typeof as typeof
    from jax._src.custom_derivatives import CustomVJPPrimal as CustomVJPPrimal
    from jax._src.custom_derivatives import (
        _check_for_returned_refs,  # pyright: ignore[reportPrivateUsage]
    )
    from jax._src.custom_derivatives import custom_jvp as _CustomJVP
    from jax._src.custom_derivatives import custom_vjp as _CustomVJP
    from jax._src.debugging import DebugEffect as DebugEffect
    from jax._src.effects import Effect as Effect
    from jax._src.effects import (
        custom_derivatives_allowed_effects as custom_derivatives_allowed_effects,
    )
    from jax._src.effects import remat_allowed_effects as remat_allowed_effects
    from jax._src.hijax import HiPrim as HiPrim
    from jax._src.hijax import HiType as HiType
    from jax._src.hijax import call_hi_primitive_p as call_hi_primitive_p
    from jax._src.hijax import custom_jvp3 as custom_jvp3
    from jax._src.hijax import custom_vjp3 as custom_vjp3
    from jax._src.hijax import flatten_user_linearized as flatten_user_linearized
    from jax._src.hijax import jvp_from_lin as jvp_from_lin
    from jax._src.hijax import linearize_from_jvp as linearize_from_jvp
    from jax._src.hijax import vjp_from_jvp as vjp_from_jvp
    from jax._src.hijax import vjp_from_lin as vjp_from_lin
    from jax._src.interpreters import ad as ad
    from jax._src.interpreters import batching as batching
    from jax._src.interpreters import mlir as mlir
    from jax._src.interpreters import partial_eval as partial_eval
    from jax._src.interpreters import remat as _remat
    from jax._src.interpreters.ad import JVPTracer as JVPTracer
    from jax._src.interpreters.ad import LinearizeTracer as LinearizeTracer
    from jax._src.interpreters.ad import NullAccum as NullAccum
    from jax._src.interpreters.ad import RefAccum as RefAccum
    from jax._src.interpreters.ad import ValAccum as ValAccum
    from jax._src.layout import AutoLayout as _AutoLayout
    from jax._src.sharding_impls import SingleDeviceSharding as _SingleDeviceSharding
    from jax._src.state.types import AbstractRef as AbstractRef
    from jax._src.state.types import ReadEffect as ReadEffect
    from jax._src.state.types import RefEffect as RefEffect
    from jax._src.util import fun_name as fun_name

    # How JAX calls the rules of a primitive, and takes apart what they return.
    batching_rule: Any = batching.fancy_primitive_batchers[call_hi_primitive_p]
    jvp_rule: Any = ad.primitive_jvps[call_hi_primitive_p]
    linearization_rule: Any = ad.primitive_linearizations[call_hi_primitive_p]

    tracing_registry: Any = _tree_util.tracing_registry
    keystr = _tree_util.keystr
    flatten_one_level_with_keys = _tree_util.flatten_one_level_with_keys
    broadcast_prefix = _tree_util.broadcast_prefix
except (ImportError, AttributeError, KeyError) as error:
    raise _unsupported(f"a private name of it has changed ({error})") from error

OneDevice = _SingleDeviceSharding  # its public name warns since 0.12.1
CustomVJP = _CustomVJP
CustomJVP = _CustomJVP

# Our frames stay out of JAX's filtered tracebacks, and of the source locations in
# compiled programs, as JAX's own do.
_FOLDER = os.path.dirname(__file__) + os.sep
_traceback_util.register_exclusion(_FOLDER)
source_info_util.register_exclusion(_FOLDER)

# In 0.11.2, with `jax_custom_vjp3` on, `jax.custom_vjp(...)` is an instance of
# another class. Remove with 0.11.2.
CUSTOM_VJP_HAS_NEW = "__new__" in CustomVJP.__dict__

# What `HiPrim.remat` returns; 0.11.2 has no residuals. Remove with 0.11.2.
_KEEPS_RESIDUALS = jax.__version_info__[:2] > (0, 11)
REMAT_RETURNS = ("out", "res", "rem") if _KEEPS_RESIDUALS else ("out", "rem")

# `dce` is told which inputs are live; not so in 0.11.2. Remove with 0.11.2.
DCE_TAKES_LIVE_INPUTS = jax.__version_info__[:2] > (0, 11)


def user_boundary[**P, R](fun: Callable[P, R]) -> Callable[P, R]:
    """Keep frames of JAX and of ours out of what `fun` raises, as JAX's entries do."""
    return _traceback_util.api_boundary(fun)


@user_boundary
def _raise_again(error: Exception) -> None:
    raise error


def hide_frames(error: Exception) -> None:
    """Do to a caught exception what `user_boundary` does, before it is raised again.

    For functions that are called too often to be wrapped: a bare `raise` after this
    adds no frame.
    """
    try:
        _raise_again(error)
    except Exception:
        traceback = error.__traceback__  # this frame, and those that are left
        error.__traceback__ = traceback.tb_next if traceback is not None else None


def bwd_checks_disabled() -> bool:
    """Whether the user turned cotangent checks off (`jax_disable_bwd_checks`)."""
    return bool(_config.disable_bwd_checks.value)


def check_returned_refs(
    fwd: Any, result: Any, args: Sequence[Any], outputs: int
) -> None:
    """Raise ValueError for Refs that fwd may not return, if JAX looks at them."""
    if _config.mutable_array_checks.value:
        _check_for_returned_refs(fwd, result, "fwd", args, outputs)


def custom_vjp3_enabled() -> bool:
    """Whether `jax.custom_vjp` is run by its hijax implementation."""
    return bool(_config.custom_vjp3.value)


def custom_jvp3_enabled() -> bool:
    """Whether `jax.custom_jvp` is run by its hijax implementation."""
    return bool(_config.custom_jvp3.value)


def configuration_key() -> Any:
    """What, besides types, changes the result of a trace."""
    return (_config.trace_context(), bwd_checks_disabled())


def initialised_backends() -> frozenset[str]:
    """The XLA backends that this process has initialised so far."""
    return frozenset(_xla_bridge._backends)  # pyright: ignore[reportPrivateUsage]


def mirrored(treedef: Any, leaves: Sequence[Any]) -> Any:
    """A tree of leaves, as JAX hands flags, dimensions and accumulators to a rule."""
    if jax.__version_info__[:3] < (0, 12, 1):  # remove with 0.12.0.1
        return _tree_util.tree_unflatten(treedef, leaves)
    return _api.mirror_tree_map(lambda leaf: leaf, treedef, leaves)


def tuptree_flags(flags: Any, treedef: Any, name: str) -> list[bool]:
    """One bool for each leaf, from flags that may be a tree of bools or one bool."""
    return list(_api.tuptree_flags(flags, treedef, name, name))


def axis_of_size(size: int) -> Any:
    """What a `batch` rule is told of the axis of a `vmap` of this size."""
    return batching.AxisData(core.no_axis_name, size, None, None)


def is_jaxs_linearization(frame: types.FrameType) -> bool:
    """Whether this is the frame in which JAX calls `linearized` for `jax.linearize`.

    Derived rules call it too, and do not look at `nzs_out`.
    """
    return frame.f_code is flatten_user_linearized.__code__


def with_mapped_axis(aval: Any, size: int, axis: int) -> Any:
    """The type of a value that is mapped along this axis, from that of one example."""
    return core.unmapped_aval(size, axis, aval)


def rematerialized(fun: Callable[..., Any], *args: Any) -> Any:
    """`fun(*args)`, and once more by its `remat` rules; what the second gives."""
    policy = jax.checkpoint_policies.nothing_saveable
    transform = cast(Callable[..., tuple[Any, Any]], _remat.remat_transform)
    _, again = transform(policy, fun, *args, custom_vjp_rules=True)
    return again(*args)


def as_before_pickling(aval: Any) -> Any:
    """A type whose layout is free, as one that was never pickled.

    What says so is one object of JAX's, of which pickling makes another.
    """
    if type(getattr(aval, "layout", None)) is type(_AutoLayout):
        return aval.update(layout=_AutoLayout)
    return aval


def is_batching_spec(dim: Any) -> bool:
    """Whether a batch dimension is one of JAX's or a hijax type's own kinds."""
    return type(dim) in batching.spec_types


def definitely_equal_shape(a: Any, b: Any) -> bool:
    """Whether two shapes are equal; sizes may be symbolic, as under `jax.export`."""
    return bool(core.definitely_equal_shape(a, b))


def is_users_file(filename: str) -> bool:
    """Whether code is the user's: not of JAX, of ours, or of the standard library."""
    if filename.startswith("<frozen"):
        return False
    return source_info_util.is_user_filename(filename)


def user_frame(source_info: Any) -> tuple[str, int] | None:
    """File and line of the user's frame that made an equation."""
    frame = source_info_util.user_frame(source_info.traceback)
    return None if frame is None else (frame.file_name, frame.start_line)


# --- custom derivatives ---------------------------------------------------------------


def inner_jaxprs(params: dict[str, Any]) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    return core.jaxprs_in_params(params)


def is_traced_from(jaxpr: Any, module: str) -> bool:
    """Whether a jaxpr is that of a function in this module of JAX's."""
    info = getattr(getattr(jaxpr, "jaxpr", jaxpr), "debug_info", None)
    source = str(getattr(info, "func_src_info", "")).replace("\\", "/")
    return f"/jax/_src/{module}" in source


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """How many operands of a scan are constants, and how many are carried."""
    consts, carry, _ = params["ft_in"].unpack()
    return len(list(consts)), len(list(carry))


def zeros_of_float0(aval: Any) -> Any:
    """What JAX gives a backward rule as the cotangent of an integer output."""
    return np.zeros(aval.shape, jax.dtypes.float0)
