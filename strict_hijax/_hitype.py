"""StrictHiType, the base class of checked hijax types, and its metaclass."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import abc
import dataclasses
import dis
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _jax
from ._class_statements import (
    Promises,
    class_statement,
    is_abstract,
    name_to_be,
    refuse_unknown_keywords,
    users_frame,
)
from ._errors import Location
from ._hitypes.facts import (
    DEFAULT_USES,
    FOUNDATION,
    USES,
    TypeFacts,
    type_facts,
)
from ._ignoring import parse_codes, raise_findings

_PROMISES = Promises(tuple(USES), DEFAULT_USES, "use of a type")
_KEYWORDS = ("supports", "abstract", "ignore")


class StrictTypeMeta(abc.ABCMeta):
    """Validates each subclass of `StrictHiType` when it is defined."""

    _facts: TypeFacts
    _ignored: frozenset[str]
    _complete: bool  # no decorator is to add to it
    _unfinished: bool  # no instance was made yet, to judge it by

    @_jax.user_boundary
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
    ) -> StrictTypeMeta:
        said: dict[str, object] = {
            "supports": supports,
            "abstract": abstract,
            "ignore": ignore,
        }
        location, module = class_statement(name, bases, said)
        namespace = {"__module__": module, **namespace}
        subject = name_to_be(namespace, name)
        setup = namespace.get("_setup")
        if not isinstance(setup, _Setup):  # it is, where dataclass makes a class again
            strict = [base for base in bases if isinstance(base, StrictTypeMeta)]
            setup = _Setup(
                _PROMISES.read(
                    subject, supports, [base._facts.supports for base in strict]
                ),
                is_abstract(subject, abstract),
                parse_codes(ignore, f"{subject}, ignore=").union(
                    *(base._ignored for base in strict)
                ),
                location,
            )
        namespace["_setup"] = setup
        refuse_unknown_keywords(subject, bases, kwargs, _KEYWORDS)
        cls = super().__new__(mcs, name, bases, namespace, **kwargs)
        cls._complete = not _has_bare_fields(namespace) and _is_stored_next()
        return cls

    @_jax.user_boundary
    def __init__(cls, name: str, bases: tuple[type, ...], namespace: Any, /, **_: Any):
        super().__init__(name, bases, namespace)
        if getattr(cls, "__abstractmethods__", ()):
            cls._facts = dataclasses.replace(cls._facts, abstract=True)
        if not _is_root(cls):
            from ._hitypes.definition import findings_at_definition

            found = findings_at_definition(cls._facts, cls._complete)
            raise_findings(found, cls._ignored)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        ty: Any = super().__call__(*args, **kwargs)
        if isinstance(ty, cls):  # else its `__new__` gave something of its own
            _check_instance(type(ty), ty)
        return ty

    def _read_again(cls) -> TypeFacts:
        """The facts of a class as it is now, with what its decorators have added."""
        old = cls._facts
        cls._facts = _facts(cls, old.supports, old.abstract, old.location)
        return cls._facts


class _Setup:
    """Gives a new class its attributes, before `__init_subclass__` hears of it.

    It stands in the class body: Python calls `__set_name__` first. It stays there, so
    that a class which is made again from its own body keeps its keywords.
    """

    def __init__(
        self,
        supports: frozenset[str],
        abstract: bool,
        ignored: frozenset[str],
        location: Location | None,
    ) -> None:
        self.supports = supports
        self.abstract = abstract
        self.ignored = ignored
        self.location = location

    def __set_name__(self, cls: StrictTypeMeta, name: str) -> None:
        cls._ignored = self.ignored
        cls._unfinished = True
        cls._facts = _facts(cls, self.supports, self.abstract, self.location)


def _facts(
    cls: type, supports: frozenset[str], abstract: bool, location: Location | None
) -> TypeFacts:
    roots = {base for base in cls.__mro__ if _is_root(base)}
    return type_facts(cls, supports, abstract, location, FOUNDATION | roots)


def _is_root(cls: type) -> bool:
    """Whether a class is `StrictHiType` itself."""
    strict = isinstance(cls, StrictTypeMeta)
    return strict and not any(
        isinstance(base, StrictTypeMeta) for base in cls.__bases__
    )


def _check_instance(cls: Any, ty: Any) -> None:
    if cls._unfinished:
        from ._hitypes.definition import findings_once_complete
        from ._hitypes.equality import equality_findings

        raise_findings(findings_once_complete(cls._read_again()), cls._ignored)
        raise_findings(equality_findings(cls._facts, ty), cls._ignored)
        cls._unfinished = False
    if cls.__hash__ is None:  # it was told, and is ignored
        return
    try:
        hash(ty)
    except TypeError as error:
        from ._hitypes.equality import hash_finding

        raise_findings([hash_finding(cls._facts, ty, error)], cls._ignored)
    except Exception:  # a type may decline to be hashed
        return


# --- what a class statement says ------------------------------------------------------


def _has_bare_fields(namespace: dict[str, Any]) -> bool:
    """Whether there are fields and no `__init__`: `dataclass` may be applied later."""
    annotated = ("__annotations__", "__annotate__", "__annotate_func__")
    return "__init__" not in namespace and any(a in namespace for a in annotated)


def _is_stored_next() -> bool:
    """Whether the class that is being made is stored as it is: it has no decorator.

    A decorator, such as `dataclass`, may add what is missing. What is about to happen
    to the class stands in the code of the frame that makes it.
    """
    frame = users_frame()
    code, index = frame.f_code.co_code, frame.f_lasti + 2
    while index < len(code) and dis.opname[code[index]] in ("CACHE", "EXTENDED_ARG"):
        index += 2
    return index < len(code) and dis.opname[code[index]].startswith("STORE_")


# --- the base class -------------------------------------------------------------------

# To type checkers the metaclass is `ABCMeta`, so that class keywords are those of
# `__init_subclass__`. The base is unknown to them: that of JAX is annotated so that its
# `__eq__` never returns, and `to_tangent_aval` gives no array type.
if TYPE_CHECKING:
    _HiType = Any
    _Meta = abc.ABCMeta
else:
    _HiType = _jax.HiType
    _Meta = StrictTypeMeta


class StrictHiType(_HiType, metaclass=_Meta):
    """A `HiType` whose methods are checked when it is defined, and by `check`.

    Subclass it in place of `jax.experimental.hijax.HiType`. A method that is missing,
    misspelt or has a wrong signature fails the class statement. What a decorator such
    as `@dataclass(frozen=True)` may still add, `__eq__` and `__hash__`, is looked for
    when the first instance is made. `check(ty)` and `check(ty, value)` hold what the
    methods return to the type. Compiled programs are the same as with `HiType`.

    Class keywords:
      supports: what the type can be used in: any of "jit", "grad", "vmap", "scan",
        "shard_map". A promise without its methods fails the definition. Inherited;
        `("jit", "grad")` where no class says anything. Use `supports=("jit",)` for
        what has no tangents.
      abstract: whether this is an intermediate base, whose methods may be missing.
      ignore: codes of checks that are off for this class and its subclasses.

    Raises:
      StrictHijaxError: a fault; its subclasses and codes say which.

    The contracts are those of `jax._src.hijax.HiType`.

    Example:
      >>> import dataclasses, jax, jax.numpy as jnp
      >>> from jax.experimental.hijax import ShapedArray, register_hitype
      >>> from strict_hijax import StrictHiType, check
      >>> @dataclasses.dataclass(frozen=True)
      ... class Box:
      ...     content: jax.Array
      >>> @dataclasses.dataclass(frozen=True)
      ... class BoxType(StrictHiType):
      ...     shape: tuple[int, ...]
      ...     def lo_ty(self):
      ...         return [ShapedArray(self.shape, jnp.dtype("float32"))]
      ...     def lower_val(self, box):
      ...         return [box.content]
      ...     def raise_val(self, content):
      ...         return Box(content)
      ...     def to_tangent_aval(self):
      ...         return ShapedArray(self.shape, jnp.dtype("float32"))
      >>> register_hitype(Box, lambda box: BoxType(box.content.shape))
      >>> print(check(BoxType((3,)), Box(jnp.ones(3))).rules[1].name)
      lower_val
    """

    if TYPE_CHECKING:

        def __init_subclass__(
            cls,
            *,
            supports: Iterable[str] | None = None,
            abstract: bool = False,
            ignore: Iterable[str] = (),
            **kwargs: Any,
        ) -> None: ...
