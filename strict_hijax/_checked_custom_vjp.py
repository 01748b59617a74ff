"""checked_custom_vjp: `jax.custom_vjp` whose rules are checked before they train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

import jax

from . import _jax
from ._custom_derivatives import CheckedFunction, CheckOptions, Unfinished


class checked_custom_vjp[ReturnValue](CheckedFunction, jax.custom_vjp[ReturnValue]):
    """A drop-in for `jax.custom_vjp` whose rules are checked when they are defined.

    Signatures are checked at `defvjp`. With `example_args`, or `dims` and jaxtyping
    annotations, fwd and bwd are traced at `defvjp` as well, so that a wrong cotangent
    fails the import. Without, they are traced when the first call with new types has
    returned, forward-only calls included: each rule may then be called once more than
    JAX calls it, for each combination of types, and not at all with `eager=False`; the
    function itself is not. What a rule raises waits, then, until JAX calls the rule.
    Whenever JAX calls a rule its result is held to the contract of
    `jax.custom_vjp.defvjp`.
    Nothing is left of it in the compiled program.

    Args:
      fun: the function, or an existing `jax.custom_vjp`, whose rules are then taken
        and checked at once. Without it, the result is a decorator.
      nondiff_argnums, nondiff_argnames: as in `jax.custom_vjp`.
      example_args: all positional arguments of one call: arrays or
        `jax.ShapeDtypeStruct`s of any shape and dtype, and static values.
      dims: sizes of the axes that the annotations name, such as {"b": 8, "d": 128}.
      axes: axis names, with sizes, to have in scope when rules are traced at `defvjp`.
      effects: what side effects primal, fwd and bwd may have: "jax" (what JAX allows
        in custom derivatives), "remat" (also under `jax.checkpoint`), "pure" (none), or
        an iterable of effect types.
      ignore: codes of checks to leave out, such as ("SH417",) or, of one, "SH417".
      eager: False leaves only the checks where JAX calls a rule; also for the process,
        with STRICT_HIJAX_EAGER=0 in the environment.

    Raises:
      SignatureError, DefinitionError: at `defvjp`, for rules that JAX cannot call.
      RuleTypeError, RuleValueError, UntraceableRuleError, EffectError: for rules that
        break their contract.
      UsageError: an argument of `checked_custom_vjp` itself cannot be used.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from strict_hijax import checked_custom_vjp
      >>> @checked_custom_vjp(example_args=(jax.ShapeDtypeStruct((3,), jnp.float32),))
      ... def square(x):
      ...     return x * x
      >>> square.defvjp(lambda x: (square(x), x), lambda x, ct: (2 * x * ct,))
      >>> print(jax.grad(lambda x: square(x).sum())(jnp.arange(3.0)))
      [0. 2. 4.]
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            fun: Callable[..., ReturnValue],
            nondiff_argnums: Sequence[int] = (),
            nondiff_argnames: Sequence[str] = (),
            **options: Unpack[CheckOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: checked_custom_vjp[Unfinished],
            *,
            nondiff_argnums: Sequence[int] = (),
            nondiff_argnames: Sequence[str] = (),
            **options: Unpack[CheckOptions],
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        @overload
        def __call__[R](
            self: checked_custom_vjp[Unfinished], fun: Callable[..., R], /
        ) -> checked_custom_vjp[R]: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> ReturnValue: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    _stock = "custom_vjp"

    @_jax.user_boundary
    def defvjp(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., tuple[Any, ...]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define the rules and check them; arguments as of `jax.custom_vjp.defvjp`."""
        self._define(super().defvjp, fwd, bwd, *args, **kwargs)

    @_jax.user_boundary
    def defvjp_with_logs(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., tuple[tuple[Any, ...], dict[str, Any] | None]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define a bwd that logs; as `jax.custom_vjp.defvjp_with_logs`, and checked."""
        self._define(super().defvjp_with_logs, fwd, bwd, *args, **kwargs)

    @_jax.user_boundary
    def defvjp_with_accums(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define a bwd that takes accumulators, and check the rules."""
        self._define(super().defvjp_with_accums, fwd, bwd, *args, **kwargs)

    @_jax.user_boundary
    def defremat(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        rem: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., tuple[Any, ...]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define rematerialization rules; as `jax.custom_vjp.defremat`, and checked."""
        self._define(super().defremat, fwd, rem, bwd, *args, **kwargs)

    @_jax.user_boundary
    def defremat_with_logs(
        self,
        fwd: Callable[..., tuple[ReturnValue, Any]],
        rem: Callable[..., tuple[ReturnValue, Any]],
        bwd: Callable[..., tuple[tuple[Any, ...], dict[str, Any] | None]],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Define rematerialization rules that log, and check them."""
        self._define(super().defremat_with_logs, fwd, rem, bwd, *args, **kwargs)


for _name in ("defvjp_with_accums", "defremat", "defremat_with_logs"):
    if not hasattr(_jax.CustomVJP, _name):  # 0.11.2
        delattr(checked_custom_vjp, _name)
