"""What an exception of the user's own code says, and where it was raised."""

from __future__ import annotations

import contextlib
import dis
import linecache
from pathlib import Path

from . import _jax


def shortened(filename: str) -> str:
    """The path as the user would type it: relative to here, where it is below here."""
    with contextlib.suppress(ValueError, OSError):
        return str(Path(filename).relative_to(Path.cwd()))
    return filename


def users_frame(error: BaseException) -> tuple[str, int, str] | None:
    """File, line and function of the innermost frame of the user's own code."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _jax.is_users_file(code.co_filename):
            found = code.co_filename, traceback.tb_lineno, code.co_name
        traceback = traceback.tb_next
    return found


def raised_at(error: BaseException) -> str | None:
    """The place in the user's code; with what stands there, if the error has no text.

    None where no frame is the user's.
    """
    frame = users_frame(error)
    if frame is None:
        return None
    filename, line, function = frame
    place = f"raised at {shortened(filename)}:{line} in {function}"
    source = "" if has_text(error) else linecache.getline(filename, line).strip()
    return f"{place}: {source}" if source else place


def has_text(error: BaseException) -> bool:
    """Whether an exception says anything: `raise ValueError` does not."""
    return bool(str(error).strip())


def declines(error: BaseException) -> bool:
    """Whether a rule says that it is not for these types, or not for this transform.

    It does so by a NotImplementedError of its own, or of a library that it calls. One
    from inside JAX says that what the rule does can never be differentiated, batched
    or lowered.
    """
    return isinstance(error, NotImplementedError) and not is_raised_by_jax(error)


def is_raised_by_jax(error: BaseException) -> bool:
    """Whether the innermost frame of an exception is one of JAX."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    name: str = traceback.tb_frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == "jax"


def is_raised_by_user(error: BaseException) -> bool:
    """Whether a `raise` or `assert` of the user's code made it, who may decline so."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None or isinstance(error, AttributeError | NameError):
        return False
    code = traceback.tb_frame.f_code
    raises = code.co_code[traceback.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return raises and _jax.is_users_file(code.co_filename)


def in_short(error: BaseException) -> str:
    """Class and first line of an exception; without a text, where it was raised."""
    kind = type(error).__name__
    if has_text(error):
        return f"{kind}: {str(error).strip().splitlines()[0][:200]}"
    place = raised_at(error)
    return kind if place is None else f"{kind}, {place}"
