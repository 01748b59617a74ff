"""transforms: which a primitive supports, and what is missing for the others."""

from __future__ import annotations

from ._errors import Finding
from ._functions.families import family_of
from ._jax import HiPrim, HiType, user_boundary
from ._transforms_of import facts_of_class, transforms_of
from ._types import describe_value


@user_boundary
def transforms(cls: object) -> dict[str, str]:
    """Says for every transform whether a primitive provides, derives or misses it.

    Args:
      cls: a subclass of `HiPrim`, strict or not.

    Returns:
      A dict from the transform's name to "provided (rules)", "derived (from what)" or
      "missing (what is missing)".

    Raises:
      UsageError: `cls` is no subclass of `HiPrim`.

    Example:
      >>> from strict_hijax import StrictHiPrim, transforms
      >>> class Lookup(StrictHiPrim, supports=()):
      ...     def expand(self, x):
      ...         return x
      >>> transforms(Lookup)["vmap"].split(" (")[0]
      'missing'
    """
    if not isinstance(cls, type) or not issubclass(cls, HiPrim):
        raise _no_class(cls).error()
    return transforms_of(facts_of_class(cls))


def _no_class(given: object) -> Finding:
    if isinstance(given, HiPrim):
        remedy = "transforms(type(prim))"
    elif isinstance(given, HiType):
        remedy = "check(ty, value).transforms   # of a hijax type"
    elif isinstance(given, type) and issubclass(given, HiType):
        remedy = f"check({given.__name__}(...), value).transforms   # of a hijax type"
    elif callable(given) and not isinstance(given, type):
        remedy = f"{_call_of_check(given)}.transforms   # of {_kind_of(given)}"
    else:
        remedy = "transforms(MyPrim)   # a subclass of HiPrim"
    return Finding(
        code="SH122",
        subject="strict_hijax.transforms",
        headline="`strict_hijax.transforms` is given no subclass of HiPrim.",
        got=repr(given) if isinstance(given, type) else describe_value(given),
        expected="a class, such as transforms(MyPrim)",
        remedies=(remedy,),
    )


def _kind_of(function: object) -> str:
    family = family_of(function)
    return f"a {'custom_vjp' if family is None else family.stock} function"


def _call_of_check(function: object) -> str:
    """A call of `check` with a function, in the function's own names."""
    name = str(getattr(function, "__name__", "f"))
    return f"check({name if name.isidentifier() else 'f'}, *args)"
