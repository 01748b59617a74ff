"""StrictHiPrim, the base class of checked primitives."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import _jax
from ._calls import call_findings, call_fits
from ._checked import is_checked, original_of, strict_copy
from ._construction import construction_findings, early_init_finding
from ._definition import ClassFacts
from ._ignoring import raise_findings
from ._metaclass import StrictMeta

# To type checkers the metaclass is `ABCMeta`, so that rules may be overridden freely
# and class keywords are those of `__init_subclass__`.
if TYPE_CHECKING:
    _Meta = abc.ABCMeta
else:
    _Meta = StrictMeta


class StrictHiPrim(_jax.HiPrim, metaclass=_Meta):
    """A `HiPrim` whose rules are checked at definition and wherever JAX calls them.

    Subclass it in place of `jax.experimental.hijax.HiPrim`. A rule that is missing,
    misspelt or has a wrong signature fails the class statement; with `examples`, so
    does one that returns a wrong structure, shape or dtype. Otherwise that is said at
    construction, at the call, or when JAX first calls the rule. All checks run while
    JAX traces: compiled programs are the same as with `HiPrim`.

    Class keywords:
      supports: the transforms that the class promises: any of "grad", "jvp",
        "linearize", "vmap", "transpose", "remat". A promise without its rules fails
        the definition. Inherited; `("grad",)` where no class says anything. Use
        `supports=()` for what is not differentiable.
      abstract: whether this is an intermediate base, whose rules may be missing.
      ignore: codes of checks that are off for this class and its subclasses, such as
        ("SH316",) or, of one, "SH316".
      effects: what side effects `vjp_fwd` and the backward rules may have besides those
        that an instance declares: "jax" (what JAX allows in custom derivatives, the
        default), "remat" (also under `jax.checkpoint`), "pure" (none), or an iterable
        of effect types. Inherited.

    Attributes (set in `__init__`, before `super().__init__()`):
      in_avals: a tuple with the type of each input, such as `jax.typeof(x)`; an entry
        may be a pytree of types.
      out_aval: the type of the output, or a pytree of types.
      params: a dict of static values that can be hashed; JAX sets each as attribute.

    A class may define `examples`, a classmethod that returns or yields instances.
    They are checked abstractly as soon as the class exists.

    Raises:
      StrictHijaxError: a fault; its subclasses and codes say which.

    Warns:
      AdviceWarning: what may be meant: SH906, where "remat" is promised.

    The contracts are those of `jax._src.hijax.HiPrim`.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from strict_hijax import StrictHiPrim
      >>> class Sin(StrictHiPrim):
      ...     def __init__(self, aval):
      ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
      ...         super().__init__()
      ...     def expand(self, x):
      ...         return jnp.sin(x)
      ...     def vjp_fwd(self, nzs_in, x):
      ...         return self(x), x
      ...     def vjp_bwd(self, x, g, x_acc):
      ...         x_acc.accum(g * jnp.cos(x))
      ...     @classmethod
      ...     def examples(cls):
      ...         yield cls(jax.typeof(1.0))
      >>> print(jax.grad(lambda x: Sin(jax.typeof(x))(x))(0.0))
      1.0
    """

    if TYPE_CHECKING:
        in_avals: Any
        out_aval: Any
        params: Any
        expand: Callable[..., Any]
        vjp_fwd: Callable[..., Any]
        vjp_bwd: Callable[..., Any]
        vjp_bwd_retval: Callable[..., Any]
        vjp_bwd_retval_logs: Callable[..., Any]
        jvp: Callable[..., Any]
        lin: Callable[..., Any]
        linearized: Callable[..., Any]
        transpose: Callable[..., Any]
        batch: Callable[..., Any]
        batch_dim_rule: Callable[..., Any]
        dce: Callable[..., Any]
        remat: Callable[..., Any]
        check: Callable[..., Any]

        def __init_subclass__(
            cls,
            *,
            supports: Iterable[str] | None = None,
            abstract: bool = False,
            ignore: Iterable[str] = (),
            effects: str | Iterable[type] | None = None,
            **kwargs: Any,
        ) -> None: ...

    def __init__(self) -> None:
        cls: Any = type(self)
        facts: ClassFacts = cls._facts
        try:
            super().__init__()
        except Exception as error:
            if isinstance(error, AttributeError):
                for name in ("in_avals", "out_aval", "params"):
                    if not hasattr(self, name):
                        raise_findings([early_init_finding(facts, name)], cls._ignored)
                        raise
            raise_findings(construction_findings(facts, self), cls._ignored)
            raise

    def __call__(self, *args: Any) -> Any:
        if is_checked(self):
            return super().__call__(*args)
        cls: Any = type(self)
        try:
            if cls._examples_waiting:
                cls._check_examples_again()
            if not call_fits(self, args):
                raise_findings(call_findings(cls._facts, self, args), cls._ignored)
            return _jax.HiPrim.__call__(strict_copy(self), *args)
        except Exception as error:
            _jax.hide_frames(error)
            raise

    def __reduce_ex__(self, protocol: Any, /) -> Any:
        # What JAX holds is copied and pickled as the instance that it stands for.
        original = original_of(self)
        if original is self:
            return super().__reduce_ex__(protocol)
        return original.__reduce_ex__(protocol)
