"""StrictHiPrim and its metaclass."""

from __future__ import annotations

import abc
import difflib
import sys
from collections.abc import Iterable
from typing import Any

from . import _jax
from ._checked import Twin, make_twin_class, twin_of
from ._construction import (
    call_findings,
    call_fits,
    construction_findings,
    early_init_finding,
    effects_finding,
    is_well_formed,
    no_init_finding,
    shape_findings,
)
from ._definition import ClassFacts, definition_findings, facts_of, qualified_name
from ._errors import Finding, Location, parse_codes, raise_findings
from ._rules import RULES, TRANSFORMS

_jax.hide_from_tracebacks(__file__)

_DEFAULT_SUPPORTS = frozenset({"grad"})
_OURS = __name__.partition(".")[0]


class StrictMeta(abc.ABCMeta):
    """Validates each subclass of `StrictHiPrim` when it is defined."""

    _facts: ClassFacts
    _ignored: frozenset[str]
    _twin_class: type | None
    _shapes_seen: dict[tuple[int, bool], bool]
    _examples_pending: bool

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        supports: Iterable[str] | None = None,
        abstract: bool = False,
        ignore: Iterable[str] = (),
        **kwargs: Any,
    ) -> StrictMeta:
        location, module = _class_statement(name)
        namespace.setdefault("__module__", module)
        cls = super().__new__(mcs, name, bases, namespace, **kwargs)
        strict_bases = [base for base in bases if isinstance(base, StrictMeta)]
        inherited_codes = (base._ignored for base in strict_bases)
        codes = parse_codes(ignore, f"{qualified_name(cls)}, ignore=")
        cls._ignored = codes.union(*inherited_codes)
        cls._twin_class = None
        cls._shapes_seen = {}
        cls._facts = facts_of(
            cls,
            _promises(cls, supports, strict_bases),
            _is_abstract(cls, abstract),
            location,
            _FOUNDATION | {base for base in cls.__mro__ if _is_root(base)},
        )
        cls._examples_pending = False
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: Any, /, **_: Any):
        super().__init__(name, bases, namespace)
        if _is_root(cls):
            return
        raise_findings(definition_findings(cls._facts), cls._ignored)
        if not cls._facts.abstract and hasattr(cls, "examples"):
            from ._check import check_examples_at_definition

            cls._examples_pending = not check_examples_at_definition(cls)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        prim = super().__call__(*args, **kwargs)
        if "in_tree" not in prim.__dict__:
            raise_findings([no_init_finding(cls._facts)], cls._ignored)
        if cls._examples_pending:
            from ._check import check_examples_at_first_use

            check_examples_at_first_use(cls)
        return prim

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in RULES:  # a rule that is patched later is the one to check
            cls._forget_twins()

    def _forget_twins(cls) -> None:
        old = cls._facts
        foundation = frozenset(cls.__mro__) - set(old.owners.values()) - {cls}
        super().__setattr__(
            "_facts",
            facts_of(cls, old.supports, old.abstract, old.location, foundation),
        )
        super().__setattr__("_twin_class", None)
        for subclass in cls.__subclasses__():
            subclass._forget_twins()

    def __subclasses__(cls) -> list[Any]:
        return [c for c in super().__subclasses__() if not issubclass(c, Twin)]


def _is_root(cls: type) -> bool:
    """Whether a class is `StrictHiPrim` itself."""
    strict = isinstance(cls, StrictMeta)
    return strict and not any(isinstance(base, StrictMeta) for base in cls.__bases__)


def _class_statement(name: str) -> tuple[Location | None, str]:
    """Where the class statement that is being executed stands, and in which module."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in (_OURS, "abc", "types", "dataclasses"):
            break
        frame = frame.f_back
    module = frame.f_globals.get("__name__", "__main__")
    place = Location(frame.f_code.co_filename, frame.f_lineno, f"class {name}")
    return place, module


def _promises(cls: type, supports: Any, bases: list[StrictMeta]) -> frozenset[str]:
    """What a class promises: what it says, or else what its bases do."""
    if supports is None:
        if not bases:
            return _DEFAULT_SUPPORTS
        return frozenset[str]().union(*(base._facts.supports for base in bases))
    names = (supports,) if isinstance(supports, str) else supports
    if isinstance(supports, str) or not isinstance(names, Iterable):
        raise _wrong_supports(cls, supports, "is no tuple of names").error()
    given = frozenset(names)
    for name in given:
        if name not in TRANSFORMS:
            raise _wrong_supports(cls, name, "names no transform").error()
    return given


def _wrong_supports(cls: type, value: object, what: str) -> Finding:
    near = difflib.get_close_matches(str(value), TRANSFORMS, n=1, cutoff=0.3)
    return Finding(
        code="SH117",
        subject=qualified_name(cls),
        headline=f"`{qualified_name(cls)}`: {value!r} in supports= {what}"
        + (f"; did you mean {near[0]!r}?" if near else "."),
        path="supports",
        expected=f"a tuple with any of: {', '.join(TRANSFORMS)}",
        got=repr(value),
        remedies=(f'supports=("{near[0] if near else "grad"}",)',),
    )


def _is_abstract(cls: type, abstract: object) -> bool:
    if not isinstance(abstract, bool):
        raise Finding(
            code="SH117",
            subject=qualified_name(cls),
            headline=f"`{qualified_name(cls)}`: abstract={abstract!r} is no bool.",
            path="abstract",
            expected="True or False",
            got=repr(abstract),
            remedies=("abstract=True",),
        ).error()
    return abstract or bool(getattr(cls, "__abstractmethods__", ()))


_FOUNDATION = frozenset(_jax.HiPrim.__mro__)


class StrictHiPrim(_jax.HiPrim, metaclass=StrictMeta):
    """A `HiPrim` whose rules are checked when it is defined and wherever JAX calls them.

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
      ignore: codes of checks that are off for this class and its subclasses.

    Attributes (set in `__init__`, before `super().__init__()`):
      in_avals: a tuple with the type of each input, such as `jax.typeof(x)`; an entry
        may be a pytree of types.
      out_aval: the type of the output, or a pytree of types.
      params: a dict of static values that can be hashed; JAX sets each as attribute.

    A class may define `examples`, a classmethod that returns or yields instances.
    They are checked abstractly as soon as the class exists.

    Raises:
      StrictHijaxError: a fault; its subclasses and codes say which.

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

    def __init__(self) -> None:
        cls = type(self)
        facts, ignored = cls._facts, cls._ignored
        try:
            super().__init__()
        except AttributeError:
            for name in ("in_avals", "out_aval", "params"):
                if not hasattr(self, name):
                    raise_findings([early_init_finding(facts, name)], ignored)
            raise_findings(construction_findings(facts, self), ignored)
            raise
        except Exception:
            raise_findings(construction_findings(facts, self), ignored)
            raise
        if not is_well_formed(self):
            raise_findings(construction_findings(facts, self), ignored)
        shape = len(self.in_avals), bool(self.out_avals_flat)
        if shape not in cls._shapes_seen:
            raise_findings(shape_findings(facts, self), ignored)
            cls._shapes_seen[shape] = True
        if self.effects and (wrong := effects_finding(facts, self)) is not None:
            raise_findings([wrong], ignored)

    def __call__(self, *args: Any) -> Any:
        cls = type(self)
        if isinstance(self, Twin):
            return super().__call__(*args)
        if not call_fits(self, args):
            raise_findings(call_findings(cls._facts, self, args), cls._ignored)
        twin_class = cls._twin_class
        if twin_class is None:
            twin_class = make_twin_class(cls._facts, cls._ignored)
            cls._twin_class = twin_class
        return _jax.HiPrim.__call__(twin_of(self, twin_class), *args)
