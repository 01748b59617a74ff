"""The page of each code: what is wrong, what stock JAX does, and what to write.

Pages are Markdown, in `pages/`, one file a family and one section a code. `explain`
prints them, the documentation shows them, and the tests run the code in them: the
first block of a page is wrong, the second is right.
"""

from __future__ import annotations

import functools
import importlib.resources

from ._codes import CODES, Code

_HEADING = "## "


@functools.cache
def pages() -> dict[str, str]:
    """The Markdown under each code's heading, by code."""
    found: dict[str, str] = {}
    folder = importlib.resources.files(__package__) / "pages"
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not entry.name.endswith(".md"):
            continue
        for section in entry.read_text("utf-8").split(f"\n{_HEADING}")[1:]:
            code, _, body = section.partition("\n")
            found[code.strip()] = body.strip()
    return found


def page_of(code: str) -> str:
    """What `explain` prints for a code: its title, its error, and its page."""
    row = CODES[code]
    title = f"{row.name}: {row.title}"
    body = pages().get(code, "")
    return f"{title}\n{'=' * len(title)}\n\n{body}\n\n{_how_it_shows(row)}\n"


def _how_it_shows(row: Code) -> str:
    """How a user meets the code, and how to turn it off."""
    if row.is_advice:
        return "Advice: it stands in the reports of `check`, and is never raised."
    raised = f"Raised as `{row.error}`."
    if not row.can_be_ignored:
        return f"{raised} It cannot be turned off."
    places = "".join(f"    {line}\n" for line in _where_ignored(row.name))
    return (
        f"{raised} To turn it off:\n\n{places}"
        f'    with strict_hijax.ignore("{row.name}"): ...   # in a block\n'
        f"    STRICT_HIJAX_IGNORE={row.name}   # in the environment of the process\n\n"
        "A block covers what is defined and traced inside of it. Around a class\n"
        "statement or a decorator alone it does not cover later checks, when JAX\n"
        "calls the rules."
    )


def _where_ignored(code: str) -> list[str]:
    """The lines that turn a check off, for a class or a function."""
    of_class = f'class P(StrictHiPrim, ignore=("{code}",)): ...'
    of_function = f'@checked_custom_vjp(ignore=("{code}",))'
    family = code.removeprefix("SH")[0]
    return {"4": [of_function], "5": [of_class, of_function]}.get(family, [of_class])
