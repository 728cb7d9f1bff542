"""Methods of the Web API, by topic."""

from __future__ import annotations

from adapters.emulators.slack.call import Handler
from adapters.emulators.slack.methods import (
    apps,
    chat,
    conversations,
    files,
    people,
    reactions,
    sessions,
    streams,
    views,
)

HANDLERS: dict[str, Handler] = {
    **apps.HANDLERS,
    **chat.HANDLERS,
    **conversations.HANDLERS,
    **files.HANDLERS,
    **people.HANDLERS,
    **reactions.HANDLERS,
    **sessions.HANDLERS,
    **streams.HANDLERS,
    **views.HANDLERS,
}
"""By name; `apps.connections.open` belongs to the wire, which owns the sockets."""
