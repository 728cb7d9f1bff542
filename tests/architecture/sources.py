"""Reads the packages' source as trees, and tells which outside names each module uses, however it spells them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("runtime", "adapters", "gateway")


@dataclass(frozen=True, kw_only=True)
class SourceModule:
    """One module of the packages; `path` is relative to the checkout, with slashes."""

    path: str
    name: str
    tree: ast.Module


@cache
def source_modules(*packages: str) -> tuple[SourceModule, ...]:
    """Every module below the given packages, sorted by path."""
    files = sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))
    assert files, f"no source found below {packages}"
    return tuple(read_module(path) for path in files)


def read_module(path: Path) -> SourceModule:
    """Parse one file of the checkout."""
    relative = path.relative_to(ROOT)
    parts = relative.parts[:-1] if path.name == "__init__.py" else relative.with_suffix("").parts
    return SourceModule(path=relative.as_posix(), name=".".join(parts), tree=ast.parse(path.read_text(), str(path)))


def used_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each outside name a module uses, as (dotted name, line).

    Imports are resolved: `from time import time as now` followed by `now` gives `time.time`. A builtin
    that is called gives `builtins.<name>`, and a method of an object whose type is not known `?.<name>`. A call
    without arguments gives `<name>()` as well.
    """
    aliases = import_aliases(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((f"{module}.{alias.name}", node.lineno) for alias in names)
            case ast.Attribute(attr=attr):
                yield dotted_name(node, aliases) or f"?.{attr}", node.lineno
            case ast.Name(id=name) if name in aliases:
                yield aliases[name], node.lineno
            case ast.Call(func=ast.Name(id=name)) if name not in aliases:
                yield f"builtins.{name}", node.lineno
            case ast.Call(func=function, args=[], keywords=[]) if name := dotted_name(function, aliases):
                yield f"{name}()", node.lineno
            case _:
                pass


def import_aliases(tree: ast.Module) -> dict[str, str]:
    """What each imported local name stands for, wherever in the module it is imported."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                aliases[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return aliases


def dotted_name(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """`dt.datetime.now` as the import says it, or None where its start was not imported."""
    match node:
        case ast.Name(id=name):
            return aliases.get(name)
        case ast.Attribute(value=value, attr=attr):
            start = dotted_name(value, aliases)
            return f"{start}.{attr}" if start else None
        case _:
            return None


def uses_of(patterns: tuple[str, ...], tree: ast.Module) -> list[tuple[str, int]]:
    """The uses that match one of the patterns (shell style, on dotted names), by line, each once."""
    found = {(name, line) for name, line in used_names(tree) if any(fnmatchcase(name, p) for p in patterns)}
    return sorted(found, key=lambda use: (use[1], use[0]))


def offences(patterns: tuple[str, ...], allowed: dict[str, str], *packages: str) -> list[str]:
    """Uses outside the allowed files, as `path:line uses name`; allowed files without a use are named too."""
    found = {module.path: uses_of(patterns, module.tree) for module in source_modules(*packages)}
    wrong = [f"{path}:{line} uses {name}" for path, uses in found.items() if path not in allowed for name, line in uses]
    stale = [f"{path} is allowed but has no such use (any more): remove it" for path in allowed if not found.get(path)]
    return wrong + stale
