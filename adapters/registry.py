"""Finding adapters by name: ours, and those that other distributions bring as entry points."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from adapters.contract import AdapterFactory

GROUP = "pilothouse.adapters"

# Also what is used when the package is not installed, as in a checkout. Nobody else can take these names.
_OURS = {
    "telegram": "adapters.telegram:create",
    "slack": "adapters.slack:create",
    "discord": "adapters.discord:create",
    "terminal": "adapters.terminal:create",
}


def names() -> tuple[str, ...]:
    """Every adapter there is a name for, sorted; none of them is imported."""
    return tuple(sorted({*_OURS, *(entry.name for entry in entry_points(group=GROUP))}))


def factory_of(name: str) -> AdapterFactory:
    """What makes the adapter of that name. Its module is imported now, which may take seconds.

    LookupError, telling what there is, if there is no such adapter or it cannot be loaded.
    """
    entry = _entry(name)
    try:
        return _loaded(entry)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"the adapter {name!r} ({entry.value}) cannot be loaded: {error}") from error


def _entry(name: str) -> EntryPoint:
    if name in _OURS:
        return EntryPoint(name=name, value=_OURS[name], group=GROUP)
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        raise LookupError(
            f"there is no adapter {name!r}, but {', '.join(names())}; install the package that brings it, or correct "
            "the name"
        )
    if len({entry.value for entry in found}) > 1:
        brought = ", ".join(sorted(entry.value for entry in found))
        raise LookupError(f"several packages bring an adapter {name!r} ({brought}); remove all but one")
    return found[0]


def _loaded(entry: EntryPoint) -> AdapterFactory:
    factory: AdapterFactory = getattr(import_module(entry.module), entry.attr)
    return factory
