"""checked_custom_jvp: `jax.custom_jvp` whose rule is checked before it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

import jax

from . import _jax
from ._custom_derivatives import CheckedFunction, CheckOptions, Unfinished


class checked_custom_jvp[ReturnValue](CheckedFunction, jax.custom_jvp[ReturnValue]):
    """A drop-in for `jax.custom_jvp` whose rule is checked when it is defined.

    Signatures are checked at `defjvp` and `defjvps`. With `example_args`, or `dims` and
    jaxtyping annotations, the rule is traced there as well, so that a wrong one fails
    the import. Without, it is traced when the first call with new types has returned,
    forward-only calls included: the rule may then be called once more than JAX calls
    it, for each combination of types, and not at all with `eager=False`; the function
    itself is not. Whenever JAX calls the rule its result is held to the contract of
    `jax.custom_jvp.defjvp`.

    A rule that is traced must be linear in its tangents. That is read off its
    operations, and said only where it is certain: JAX gives a rule with `t + 1` a wrong
    `jvp` and a right `grad`, without a word. Nothing is left of it in the compiled
    program.

    Args:
      fun: the function, or an existing `jax.custom_jvp`, whose rule is then taken and
        checked at once. Without it, the result is a decorator.
      nondiff_argnums, nondiff_argnames: as in `jax.custom_jvp`.
      example_args: all positional arguments of one call: arrays or
        `jax.ShapeDtypeStruct`s of any shape and dtype, and static values.
      dims: sizes of the axes that the annotations name, such as {"b": 8, "d": 128}.
      axes: axis names, with sizes, to have in scope when rules are traced at `defjvp`.
      effects: what side effects primal and rule may have: "jax" (what JAX allows in
        custom derivatives), "remat" (also under `jax.checkpoint`), "pure" (none), or an
        iterable of effect types.
      ignore: codes of checks to leave out, such as ("SH440",) or, of one, "SH440".
      eager: False leaves only the checks where JAX calls the rule; also for the
        process, with STRICT_HIJAX_EAGER=0 in the environment.

    Raises:
      SignatureError, DefinitionError: at `defjvp`, for a rule that JAX cannot call.
      RuleTypeError, RuleValueError, UntraceableRuleError, EffectError: for a rule that
        breaks its contract.
      UsageError: an argument of `checked_custom_jvp` itself cannot be used.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from strict_hijax import checked_custom_jvp
      >>> @checked_custom_jvp(example_args=(jax.ShapeDtypeStruct((3,), jnp.float32),))
      ... def square(x):
      ...     return x * x
      >>> @square.defjvp
      ... def square_jvp(primals, tangents):
      ...     (x,), (x_dot,) = primals, tangents
      ...     return square(x), 2 * x * x_dot
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
            self: checked_custom_jvp[Unfinished],
            *,
            nondiff_argnums: Sequence[int] = (),
            nondiff_argnames: Sequence[str] = (),
            **options: Unpack[CheckOptions],
        ) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        @overload
        def __call__[R](
            self: checked_custom_jvp[Unfinished], fun: Callable[..., R], /
        ) -> checked_custom_jvp[R]: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> ReturnValue: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    _stock = "custom_jvp"

    @_jax.user_boundary
    def defjvp[Rule: Callable[..., tuple[Any, Any]]](
        self, jvp: Rule, symbolic_zeros: bool = False
    ) -> Rule:
        """Define the rule and check it; as `jax.custom_jvp.defjvp`, also a decorator.

        Args:
          jvp: the rule, called as `jvp(*nondiff_args, primals, tangents)`. It returns
            the output and its tangent.
          symbolic_zeros: whether tangents that are zero are given as `SymbolicZero`.

        Returns:
          The rule.
        """
        self._define(super().defjvp, jvp, symbolic_zeros)
        return jvp

    @_jax.user_boundary
    def defjvps(self, *jvps: Callable[..., ReturnValue] | None) -> None:
        """Define a rule for each argument; as `jax.custom_jvp.defjvps`, and checked.

        Args:
          *jvps: one for each argument, called as `jvp(tangent, primal_out, *primals)`;
            None where the derivative is zero.
        """
        self._define(super().defjvps, *jvps)
