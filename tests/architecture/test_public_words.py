"""Public names explain themselves, and files are named after what they hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.architecture.sources import PACKAGES, ROOT, SourceModule, read_module, source_modules

# Names that say where things gathered and not what they are.
EMPTY_WORDS = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"}

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def exported(module: SourceModule) -> list[str]:
    """The names in the module's `__all__`."""
    for node in module.tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                return list(ast.literal_eval(value))
            case _:
                pass
    return []


def undocumented(modules: tuple[SourceModule, ...]) -> Iterator[str]:
    """Exported classes and functions without a docstring, where they are defined.

    A package that exports a name from another module answers for it: the name is followed to its definition.
    """
    by_name = {module.name: module for module in modules}
    wanted = {(module.name, name) for module in modules for name in exported(module)}
    seen: set[tuple[str, str]] = set()
    while wanted:
        place = wanted.pop()
        if place in seen or place[0] not in by_name:
            continue
        seen.add(place)
        module, name = by_name[place[0]], place[1]
        for node in module.tree.body:
            match node:
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                    if not ast.get_docstring(node):
                        yield f"{module.path}:{node.lineno} {name}"
                case ast.ImportFrom(module=str(source), names=names, level=0):
                    wanted |= {(source, alias.name) for alias in names if (alias.asname or alias.name) == name}
                case _:
                    pass


def test_exported_names_have_docstrings() -> None:
    """Every class and function that a module exports says what it promises."""
    assert sorted(set(undocumented(source_modules(*PACKAGES)))) == []


def test_missing_docstring_is_found_through_a_package() -> None:
    """An undocumented class is reported where it is defined, also when only its package exports it."""
    package = SourceModule(path="p/__init__.py", name="p", tree=ast.parse("from p.a import A\n__all__ = ['A']"))
    inner = SourceModule(path="p/a.py", name="p.a", tree=ast.parse("class A:\n    x = 1"))
    assert list(undocumented((package, inner))) == ["p/a.py:1 A"]


def test_names_say_what_a_file_holds() -> None:
    """No module is called after a place where things gather."""
    words = {
        module.path: EMPTY_WORDS & set("_".join(PurePosixPath(module.path).with_suffix("").parts).split("_"))
        for module in source_modules(*PACKAGES)
    }
    assert {path: found for path, found in words.items() if found} == {}


def test_every_test_says_what_must_hold() -> None:
    """Each test has a docstring: the sentence that is false when it fails."""
    silent = [
        f"{module.path}:{node.lineno} {node.name}"
        for module in map(read_module, sorted((ROOT / "tests").rglob("test_*.py")))
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []
