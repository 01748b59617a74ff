"""What a class statement says, and what any class with rules has in common."""

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


class Facts:
    """What is known of any class with rules, and the words to speak of it."""

    cls: type
    location: Location | None

    @property
    def subject(self) -> str:
        return qualified_name(self.cls)

    def where(self, rule: str) -> Location | None:
        """Where a rule is written, or else the class."""
        raise NotImplementedError

    def class_line(self, keywords: str) -> str:
        """The class statement with more keywords."""
        bases = ", ".join(base.__name__ for base in self.cls.__bases__)
        return f"class {self.cls.__name__}({bases}, {keywords}): ..."

    def finding(self, code: str, sentence: str, **fields: Any) -> Finding:
        """A finding about this class; the sentence goes on after its name.

        It is located at the rule that it is about, if it is about one.
        """
        rule = fields.get("rule")
        fields.setdefault("location", self.where(rule) if rule else self.location)
        return Finding(
            code=code,
            subject=self.subject,
            headline=f"`{self.subject}` {sentence}",
            **fields,
        )


def names_beside(
    cls: type, rules: Iterable[str], foundation: frozenset[type]
) -> dict[str, Any]:
    """What stands in a class and its bases above the foundation, and is no rule."""
    return {
        name: value
        for base in reversed(cls.__mro__)
        if base not in foundation
        for name, value in vars(base).items()
        if name not in rules
    }


def unwrapped(function: Any) -> Any:
    """The function that a decorator was given, as far as `__wrapped__` tells."""
    for _ in range(16):
        function = getattr(function, "__wrapped__", function)
    return function


def qualified_name(cls: type) -> str:
    """Module and qualified name of a class, without the module where it is main."""
    if cls.__module__ in ("__main__", "builtins"):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"
