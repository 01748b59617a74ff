"""The private names of JAX that the package uses, read off its source."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import strict_hijax

FILES = sorted(Path(strict_hijax.__file__).parent.glob("_jax*.py"))


def private_names() -> dict[str, bool]:
    """Each private name that the package uses, and whether the installed JAX has it."""
    sources = [path.read_text(encoding="utf-8") for path in FILES]
    names = sorted({name for source in sources for name in names_in(source)})
    return {name: is_there(name) for name in names}


def names_in(source: str) -> Iterator[str]:
    """Names of `jax._src` that a module imports, and their attributes that it uses."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jax._")
        for alias in node.names
    }
    yield from imported.values()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, *rest = ast.unparse(node).split(".")
            if root in imported and all(map(str.isidentifier, rest)):
                yield ".".join([imported[root], *rest])


def is_there(name: str) -> bool:
    """Whether a dotted name leads to something."""
    module, _, rest = name.partition(".")
    found: Any = importlib.import_module(module)
    for part in rest.split("."):
        module = f"{module}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(module)
            except ImportError:
                return False
    return True
