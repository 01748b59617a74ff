"""Traces of JAX: those that we make, and those that a rule is run in.

A part of the one door to JAX's internals: what it needs of them comes through `_jax`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from ._jax import (
    AbstractRef,
    JVPTracer,
    LinearizeTracer,
    RefEffect,
    Tracer,
    ValAccum,
    initialised_backends,
    typeof,
)
from ._jax import ad as _ad
from ._jax import api_util as _api_util
from ._jax import batching as _batching
from ._jax import core as _core
from ._jax import linear_util as _linear_util
from ._jax import mesh as _mesh
from ._jax import mlir as _mlir
from ._jax import partial_eval as _partial_eval
from ._jax import source_info_util as _source_info_util

_Tracing: Any = _partial_eval.DynamicJaxprTrace


def trace_to_jaxpr(
    fun: Callable[..., Sequence[Any]], in_avals: Sequence[Any], name: str
) -> Any:
    """The jaxpr of a function of flat inputs to flat outputs, on JAX types.

    Its inputs are those of the function; what that closes over is among its constants.
    Unlike `jax.make_jaxpr` it takes types as `typeof` gives them: Refs, shardings,
    varying axes, weak types and hijax types. What does not depend on the inputs is
    computed, where it is small and a backend is there to compute it.
    """

    def folding(*leaves: Any) -> Sequence[Any]:
        trace = _core.trace_ctx.trace
        if initialised_backends() and type(trace) is _Tracing:
            trace.__class__ = _Folding
        return fun(*leaves)

    info = _api_util.debug_info(name, fun, tuple(in_avals), {})
    wrapped = _linear_util.wrap_init(folding, debug_info=info)
    jaxpr, _, consts = _partial_eval.trace_to_jaxpr_dynamic(wrapped, list(in_avals))
    return jaxpr.with_consts(consts)


# A constant of a larger size is traced, and not computed: what is kept from one call to
# the next, such as a table or a key, is smaller, and zeros for a cotangent may be huge.
_MOST_BYTES_COMPUTED = 2**24


class _Folding(_Tracing):
    """A trace to a jaxpr in which values that no input has a part in come out concrete.

    A rule that is run outside of any trace, as in an eager gradient, may keep such a
    value for later calls: a table in an `lru_cache`, a weight that is made lazily. In a
    trace of ours it would keep a tracer. `jax_eager_constant_folding` does the same,
    and effects and large values too, and for the inside of each `jit`, which would then
    be traced for us alone.
    """

    __slots__ = ()

    def stage_value(self, val: Any) -> Any:
        if isinstance(val, Tracer):
            return super().stage_value(val)
        return _core.eval_trace.stage_value(val)

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        if _is_constant(tracers) and _can_be_computed(primitive, tracers, params):
            return _core.eval_trace.process_primitive(primitive, tracers, params)
        return super().process_primitive(primitive, tracers, params)

    def process_custom_jvp_call(
        self, prim: Any, fun: Any, jvp: Any, tracers: Any, /, **params: Any
    ) -> Any:
        trace: Any = _core.eval_trace if _is_constant(tracers) else super()
        return trace.process_custom_jvp_call(prim, fun, jvp, tracers, **params)

    def process_custom_vjp_call(
        self, prim: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **params: Any
    ) -> Any:
        trace: Any = _core.eval_trace if _is_constant(tracers) else super()
        return trace.process_custom_vjp_call(prim, fun, fwd, bwd, tracers, **params)


def _is_constant(values: Sequence[Any]) -> bool:
    return not any(isinstance(value, Tracer) for value in values)


def _can_be_computed(primitive: Any, args: Sequence[Any], params: Any) -> bool:
    """Whether an operation has no effect, is of values as XLA knows them, and small."""
    if primitive is _known_call_p or primitive.ref_allocating:
        return False
    avals = [typeof(arg) for arg in args]
    if any(aval.is_high for aval in avals) or primitive.is_high(*avals, **params):
        return False
    outs, effects = primitive.abstract_eval(*avals, **params)
    outs = outs if primitive.multiple_results else [outs]
    return not effects and sum(map(_bytes_of, outs)) <= _MOST_BYTES_COMPUTED


def _bytes_of(aval: Any) -> float:
    """Bytes of a value; of symbolic sizes more than any limit."""
    try:
        return int(aval.size) * aval.dtype.itemsize
    except Exception:  # of JAX's own, for sizes that are not known
        return float("inf")


@contextlib.contextmanager
def clean_context() -> Generator[None]:
    """Trace outside of any trace, axis name and mesh that happens to be active."""
    context = _core.trace_ctx
    trace, axis_env = context.trace, context.axis_env
    abstract_mesh = _mesh.abstract_mesh_context_manager.swap_local(
        _mesh.empty_abstract_mesh
    )
    device_mesh = _mesh.device_context.swap_local(_mesh.empty_concrete_mesh)
    context.set_trace(_core.eval_trace)
    context.set_axis_env(_core.top_axis_env)
    try:
        yield
    finally:
        context.set_trace(trace)
        context.set_axis_env(axis_env)
        _mesh.abstract_mesh_context_manager.set_local(abstract_mesh)
        _mesh.device_context.set_local(device_mesh)


def extended_axes(axes: dict[str, int]) -> contextlib.AbstractContextManager[None]:
    """Axis names in scope, as inside of a `vmap` with these names and sizes."""
    return _core.extend_axis_env_nd(list(axes.items()))


def is_differentiated(value: Any) -> bool:
    """Whether a value carries a tangent, so that JAX is about to run reverse rules."""
    while isinstance(value, _batching.BatchTracer):
        value = value.val
    return isinstance(value, JVPTracer | LinearizeTracer)


def is_out_of_place(tracer: Any) -> bool:
    """Whether a tracer cannot be used here: its trace has ended, or was left.

    JAX leaves a trace to run a rule outside of it.
    """
    around = list(_with_outer(_core.trace_ctx.trace))
    its_own = list(_with_outer(tracer._trace))
    if any(_is_same(trace, its_own[0]) for trace in around):
        return False
    # A thunk of JAX's may be traced without a word of what is around it.
    all_known = isinstance(around[-1], _core.EvalTrace)
    left = any(trace is around[0] for trace in its_own)
    return all_known or left or _has_ended(its_own[0])


def when_a_tracer_is_lowered(look: Callable[[Any], None]) -> None:
    """Have a tracer that JAX meets as a constant looked at, before JAX refuses it.

    `look` may raise something better than what JAX raises for it.
    """

    def refuse(val: Any, aval: Any) -> Any:
        look(val)
        if jax.__version_info__[:3] < (0, 12, 1):  # remove with 0.12.0.1
            raise TypeError(f"No constant handler for type: {type(val)}")
        raise _core.escaped_tracer_error(val)

    _mlir.register_constant_handler(Tracer, refuse)


def _is_same(a: Any, b: Any) -> bool:
    """JAX makes a trace anew within a rule, with the same tag (as under `vmap`)."""
    tag = getattr(a, "tag", None)
    return a is b or (tag is not None and tag is getattr(b, "tag", None))


def _with_outer(trace: Any) -> Iterator[Any]:
    while trace is not None:
        yield trace
        trace = getattr(trace, "parent_trace", None)


def _has_ended(trace: Any) -> bool:
    """Whether a trace is over; one to a jaxpr drops its weak table of constants."""
    frame = getattr(trace, "frame", None)
    return not trace.is_valid() or type(getattr(frame, "constid_to_tracer", 0)) is dict


def fresh_accumulator(leaf: Any) -> Any:
    """Another accumulator of the same type; anything else as it is."""
    return ValAccum(leaf.aval) if isinstance(leaf, _ad.GradAccum) else leaf


_known_call_p = _core.Primitive("known_call")
_known_call_p.multiple_results = True


@_known_call_p.def_abstract_eval  # type: ignore[untyped-decorator]
def _known_call_types(*_: Any, avals: tuple[Any, ...], **__: Any) -> tuple[Any, ...]:
    return avals


def active_trace() -> Any:
    """The trace that records or runs operations now."""
    return _core.trace_ctx.trace


def values_of_known_call(
    leaves: Sequence[Any], avals: tuple[Any, ...], make_jaxpr: Callable[[], Any]
) -> list[Any]:
    """Tracers of these types, in place of those that a call would give.

    Only for a trace of ours that is thrown away: what makes them cannot be lowered.
    `make_jaxpr` gives what is called, or None, for who reads it there.
    """
    return _known_call_p.bind(*leaves, avals=avals, make_jaxpr=make_jaxpr)


def equations_so_far() -> int:
    """How many equations the active trace has recorded, if it records any."""
    frame = getattr(_core.trace_ctx.trace, "frame", None)
    return len(getattr(frame, "tracing_eqns", ()))


def effectful_equations_since(count: int) -> list[Any]:
    """The equations with effects that the active trace has recorded after `count`.

    Those that only read and write Refs which were made since then are left out.
    """
    frame = getattr(_core.trace_ctx.trace, "frame", None)
    recorded = getattr(frame, "tracing_eqns", ())[count:]
    eqns = [eqn for eqn in recorded if getattr(eqn, "effects", None)]
    own = {id(var) for eqn in eqns for var in eqn.outvars}
    return [eqn for eqn in eqns if not _is_about_own_refs(eqn, own)]


def _is_about_own_refs(eqn: Any, own: set[int]) -> bool:
    if not all(isinstance(effect, RefEffect) for effect in eqn.effects):
        return False
    refs = [t for t in eqn.in_tracers if isinstance(t.aval, AbstractRef)]
    return all(id(ref.val) in own for ref in refs)


def is_zeros(value: Any) -> bool:
    """Whether a value is seen to be zeros: an array, or one filled in a trace."""
    if not isinstance(value, Tracer):
        return not np.any(value)
    var = getattr(value, "val", None)
    frame = getattr(_core.trace_ctx.trace, "frame", None)
    for eqn in getattr(frame, "tracing_eqns", ()):
        if any(out is var for out in getattr(eqn, "outvars", ())):
            filled = eqn.primitive.name == "broadcast_in_dim"
            return filled and is_zeros(eqn.in_tracers[0])
    literal = getattr(var, "val", None)
    return literal is not None and not np.any(literal)


def knows_the_line() -> bool:
    """Whether an equation that is recorded now has the line of the code that runs.

    When JAX transposes or lowers an equation, it gives what it records the line of
    that equation.
    """
    return not _source_info_util._source_info_context.context.traceback  # pyright: ignore[reportPrivateUsage]
