"""Adapters are found by name: ours without an installation, others by their entry points."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

import adapters.telegram
import adapters.terminal
from adapters import registry
from adapters.registry import factory_of, names


def test_ours_are_found_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout there are no entry points, and our adapters are there all the same."""
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints())
    assert factory_of("telegram") is adapters.telegram.create
    assert factory_of("terminal") is adapters.terminal.create
    assert {"telegram", "terminal", "slack", "discord"} <= set(names())


def brought(*values: str, name: str = "matrix") -> EntryPoints:
    return EntryPoints(EntryPoint(name=name, value=value, group=registry.GROUP) for value in values)


def test_others_are_found_by_their_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that brings an adapter is enough; its name is listed."""
    monkeypatch.setattr(registry, "entry_points", lambda group: brought("adapters.terminal:create"))
    assert factory_of("matrix") is adapters.terminal.create
    assert "matrix" in names()


def test_nobody_takes_our_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point that calls itself `telegram` does not get our users' tokens."""
    monkeypatch.setattr(registry, "entry_points", lambda group: brought("evil:create", name="telegram"))
    assert factory_of("telegram") is adapters.telegram.create


def test_unknown_name_tells_what_there_is() -> None:
    """A misspelt name is answered with the names that exist."""
    with pytest.raises(LookupError, match="telegram"):
        factory_of("telegam")


def test_broken_and_doubled_adapters_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that cannot be loaded, and two that bring one name, are told by what they are."""
    monkeypatch.setattr(registry, "entry_points", lambda group: brought("nowhere.to.be.found:create"))
    with pytest.raises(LookupError, match=r"nowhere\.to\.be\.found"):
        factory_of("matrix")
    monkeypatch.setattr(registry, "entry_points", lambda group: brought("a:create", "b:create"))
    with pytest.raises(LookupError, match="several packages"):
        factory_of("matrix")


def test_looking_for_one_loads_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are listed and one adapter is loaded without importing the others."""
    monkeypatch.setattr(registry, "entry_points", lambda group: brought("heavy.other:create", name="other"))
    names()
    factory_of("terminal")
    assert "heavy" not in sys.modules
