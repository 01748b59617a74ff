"""Which transforms a primitive supports, and what is missing for the others."""

from __future__ import annotations

from ._definition import ClassFacts, facts_of
from ._definition.presence import needs_of
from ._errors import Finding
from ._jax import HiPrim, HiType, user_boundary
from ._rules import TRANSFORMS, derived_half
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
    from ._functions.families import family_of

    family = family_of(function)
    return f"a {'custom_vjp' if family is None else family.stock} function"


def _call_of_check(function: object) -> str:
    """A call of `check` with a function, in the function's own names."""
    name = str(getattr(function, "__name__", "f"))
    return f"check({name if name.isidentifier() else 'f'}, *args)"


def facts_of_class(cls: type) -> ClassFacts:
    """What is known of a class, strict or not."""
    known = getattr(cls, "_facts", None)
    if isinstance(known, ClassFacts):
        return known
    return facts_of(cls, frozenset(), False, None, frozenset(HiPrim.__mro__))


def transforms_of(facts: ClassFacts) -> dict[str, str]:
    """The same, from the facts about a class."""
    return {name: _status(facts, name) for name in TRANSFORMS}


def _status(facts: ClassFacts, transform: str) -> str:
    used: list[str] = []
    for group in TRANSFORMS[transform]:
        there = [name for name in group if facts.provides(name)]
        if not there:
            needs = needs_of(transform)
            needs += " unless jax_remat3 is on" if transform == "remat" else ""
            return f"missing (needs {needs})"
        used.append(there[0])
    halves = [derived_half(facts.rules[name]) for name in used]
    derived = sorted({half[0].name for half in halves if half is not None})
    if derived:
        return f"derived ({', '.join(derived)})"
    return f"provided ({', '.join(used)})"
