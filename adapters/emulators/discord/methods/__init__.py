"""The operations of the REST API, by the names that Discord publishes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adapters.emulators.discord.call import Call
from adapters.emulators.discord.methods import account, channels, commands, interactions, messages
from adapters.emulators.discord.platform import Platform

Handler = Callable[[Platform, Call], Any]
"""Returns the answer's JSON; None is 204. Raises ApiError."""

HANDLERS: dict[str, Handler] = {
    **account.HANDLERS,
    **messages.HANDLERS,
    **channels.HANDLERS,
    **commands.HANDLERS,
    **interactions.HANDLERS,
}
BY_TOKEN = frozenset(interactions.HANDLERS)
"""Operations that carry an interaction's token in their address and need no other."""
