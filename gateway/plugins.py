"""Tools that other packages bring, through the entry-point group `pilothouse.tools`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from runtime.tools.base import Tool

log = logging.getLogger("pilothouse")

GROUP = "pilothouse.tools"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def tools_of_others(taken: Collection[str], found: Iterable[EntryPoint] | None = None) -> list[Tool]:
    """The tools of every entry point: a tool, several, or a function without arguments that returns either.

    What cannot be loaded, has no usable name, or a name that is `taken`, is not offered; the log says why and where.
    """
    names, offered = set(taken), list[Tool]()
    for entry in sorted(entry_points(group=GROUP) if found is None else found, key=lambda one: one.name):
        for tool in _loaded(entry):
            if not _NAME.fullmatch(tool.name):
                log.error("a tool of %s is not offered: %r is no name for a tool", _where(entry), tool.name)
            elif tool.name in names:
                log.error("the tool %s of %s is not offered: its name is taken; rename it", tool.name, _where(entry))
            else:
                names.add(tool.name)
                offered.append(tool)
    return offered


def _loaded(entry: EntryPoint) -> Iterator[Tool]:
    try:
        thing: object = entry.load()
        if callable(thing) and not isinstance(thing, Tool):
            thing = cast("Callable[[], object]", thing)()
        tools = [thing] if isinstance(thing, Tool) else list(cast("Iterable[object]", thing))
    except Exception:  # a stranger's code may raise anything, and the gateway goes on without it
        log.exception("the tools of %s are not offered: they could not be loaded", _where(entry))
        return
    for tool in tools:
        if isinstance(tool, Tool):
            yield tool
        else:
            log.error("something of %s is not offered: it is no tool but a %s", _where(entry), type(tool).__name__)


def _where(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "an unknown package"
    return f"{package} (entry point {entry.name} = {entry.value})"
