"""What a class statement says: where it stands, its names, its keywords."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ._errors import Finding, Location
from ._names import nearest

NO_USERS_CODE = (
    __name__.partition(".")[0],
    "jax",
    "abc",
    "types",
    "dataclasses",
    "typing",
)
"""The modules whose frames are never the user's class statement."""


def users_frame() -> types.FrameType:
    """The frame of the user's code that is making a class just now."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None:
        module: str = frame.f_globals.get("__name__", "")
        metaclass = frame.f_code.co_name == "__new__"  # one that derives from ours
        if module.partition(".")[0] not in NO_USERS_CODE and not metaclass:
            break
        frame = frame.f_back
    return frame


def class_statement(
    name: str, bases: tuple[type, ...], said: Mapping[str, object]
) -> tuple[Location, str]:
    """Where the class statement that is being executed stands, and in which module."""
    frame = users_frame()
    listed = [getattr(base, "__name__", str(base)) for base in bases]
    defaults = {"supports": None, "abstract": False, "ignore": (), "effects": None}
    listed += [f"{k}={v!r:.60}" for k, v in said.items() if v is not defaults[k]]
    text = f"class {name}({', '.join(listed)})"
    return (
        Location(frame.f_code.co_filename, frame.f_lineno, text),
        frame.f_globals.get("__name__", "__main__"),
    )


def name_to_be(namespace: dict[str, Any], name: str) -> str:
    """The qualified name of a class that does not exist yet."""
    module, name = namespace["__module__"], namespace.get("__qualname__", name)
    return name if module in ("__main__", "builtins") else f"{module}.{name}"


def is_abstract(subject: str, abstract: object) -> bool:
    """Whether the class statement says that this is an intermediate base."""
    if isinstance(abstract, bool):
        return abstract
    raise Finding(
        code="SH117",
        subject=subject,
        headline=f"`{subject}`: abstract={abstract!r:.60} is no bool.",
        path="abstract",
        expected="True or False",
        got=f"{abstract!r:.60}",
        remedies=("abstract=True",),
    ).error()


_OF_FUNCTIONS = frozenset({"eager", "example_args", "dims", "axes"})


def refuse_unknown_keywords(
    subject: str,
    bases: tuple[type, ...],
    kwargs: dict[str, Any],
    ours: Sequence[str],
) -> None:
    """Refuse what no `__init_subclass__` of the bases takes."""
    hooks = {base.__init_subclass__ for base in bases} if kwargs else set()
    if not kwargs or any(hasattr(hook, "__func__") for hook in hooks):
        return
    name = next(iter(kwargs))
    near = nearest(name, ours)
    listed = ", ".join(f"{keyword}=" for keyword in ours)
    of_functions = name in _OF_FUNCTIONS
    raise Finding(
        code="SH117",
        subject=subject,
        headline=f"`{subject}`: there is no class keyword {name!r}"
        + (f"; did you mean {near!r}?" if near else ".")
        + (" It is for `checked_custom_vjp`." if of_functions else ""),
        path=name,
        expected=f"{listed}, or what an `__init_subclass__` takes",
        got=f"{name}={kwargs[name]!r:.60}",
        remedies=(f"{near}=...",)
        if near
        else (f"# delete `{name}=`: a class is checked by its `examples`",)
        if of_functions
        else (f"def __init_subclass__(cls, *, {name}, **kwargs): ...   # in a base",),
    ).error()


class Promises(NamedTuple):
    """What `supports=` may name.

    Attributes:
      known: the names.
      default: what is promised where no class says anything.
      one: what a name is the name of, such as "transform".
      other_words: what else people call them.
    """

    known: tuple[str, ...]
    default: frozenset[str]
    one: str
    other_words: Mapping[str, str] = types.MappingProxyType({})

    def read(
        self, subject: str, supports: object, inherited: Sequence[frozenset[str]]
    ) -> frozenset[str]:
        """What a class promises: what it says, or else what its bases do."""
        if supports is None:
            return frozenset[str]().union(*inherited) if inherited else self.default
        if isinstance(supports, str | bytes) or not isinstance(supports, Iterable):
            raise self._wrong(subject, supports, "is no tuple of names").error()
        names: list[object] = list(supports)
        for name in names:
            if not isinstance(name, str) or name not in self.known:
                raise self._wrong(subject, name, f"names no {self.one}").error()
        return frozenset(map(str, names))

    def _wrong(self, subject: str, value: object, what: str) -> Finding:
        name = self.other_words.get(value, value) if isinstance(value, str) else ""
        near = nearest(name, self.known)
        return Finding(
            code="SH117",
            subject=subject,
            headline=f"`{subject}`: {value!r:.60} in supports= {what}"
            + (f"; did you mean {near!r}?" if near and value != near else "."),
            path="supports",
            expected=f"a tuple with any of: {', '.join(self.known)}",
            got=f"{value!r:.60}",
            remedies=(f'supports=("{near or self.known[0]}",)',),
        )
