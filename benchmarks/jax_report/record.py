"""The record of one JAX version, and what differs between two.

A record is small and sorted, so that a difference between two files can be read. It
holds names and outcomes, and nothing of the machine on which it was made.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from .interface import interface
from .names import private_names
from .programs import programs
from .raises import raises

FOLDER = Path(__file__).parent
SECTIONS = ("private names", "interface", "raises", "programs")

type Record = dict[str, Any]


class Change(NamedTuple):
    """Something that is not as it was; None where it is not there."""

    section: str
    name: str
    before: Any
    now: Any

    @property
    def kind(self) -> str:
        """New, gone, or changed."""
        if self.before is None:
            return "new"
        return "gone" if self.now in (None, False) else "changed"


def of_installed() -> Record:
    """The record of the installed JAX; it takes half a minute."""
    return {
        "jax": jax.__version__,
        "private names": private_names(),
        "interface": interface(),
        "raises": raises(),
        "programs": programs(),
    }


def changes(before: Record, now: Record) -> list[Change]:
    """What differs, section by section."""
    return [change for section in SECTIONS for change in _changes(section, before, now)]


def _changes(section: str, before: Record, now: Record) -> Iterator[Change]:
    old, new = before[section], now[section]
    names = old.keys() | new.keys()
    if section == "programs":  # the others are new here, not in JAX
        names = old.keys() & new.keys()
    elif section == "private names":  # that we use now
        names = new.keys() - ({*new} - {*old} if before["jax"] == now["jax"] else set())
    for name in sorted(names):
        was = old.get(name, True if section == "private names" else None)
        if was != new.get(name):
            yield Change(section, name, was, new.get(name))


def not_compared(before: Record, now: Record) -> int:
    """How many programs of now are not in the record."""
    return len(now["programs"].keys() - before["programs"].keys())


# --- files ----------------------------------------------------------------------------


def recorded(folder: Path = FOLDER) -> list[str]:
    """The versions that are recorded, oldest first."""
    return sorted((path.stem for path in folder.glob("*.json")), key=_parts)


def newest_until(version: str, folder: Path = FOLDER) -> str | None:
    """The newest version recorded that is not newer than this one."""
    fitting = [v for v in recorded(folder) if _parts(v) <= _parts(version)]
    return fitting[-1] if fitting else None


def _parts(version: str) -> tuple[int, ...]:
    numbers = (part for part in version.split(".") if part.isdecimal())
    return tuple(map(int, numbers))


def load(version: str, folder: Path = FOLDER) -> Record:
    record = json.loads((folder / f"{version}.json").read_text(encoding="utf-8"))
    groups = record["programs"].items()
    flat = {f"{group}: {n}": v for group, found in groups for n, v in found.items()}
    return record | {"programs": flat}


def save(record: Record, folder: Path = FOLDER) -> Path:
    """Write a record, the programs of one group together."""
    groups: dict[str, dict[str, str]] = {}
    for name, found in record["programs"].items():
        group, _, last = name.rpartition(": ")
        groups.setdefault(group, {})[last] = found
    path = folder / f"{record['jax']}.json"
    text = json.dumps(record | {"programs": groups}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path
