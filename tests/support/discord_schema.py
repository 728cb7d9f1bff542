"""Does what the Discord emulator answered look as Discord's API is published?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adapters.emulators.discord import DiscordEmulator
from adapters.emulators.discord.schema import Problem, discord_api


def malformed_answers(emulator: DiscordEmulator) -> list[tuple[str, Problem]]:
    """Problems of all answers in the journal, by operation."""
    schema = discord_api()
    by_name = {one.id: one for one in schema.operations}
    found: list[tuple[str, Problem]] = []
    for call in emulator.calls():
        operation = by_name.get(call.method)
        if not call.ok or operation is None or operation.answer is None or call.result is None:
            continue
        checked = schema.check(operation.answer, call.result, numbers_as_ids=False)
        found += [(call.method, problem) for problem in checked.problems]
    return found


EVENTS = {
    "MESSAGE_CREATE": "MessageResponse",
    "MESSAGE_UPDATE": "MessageResponse",
    "THREAD_CREATE": "ThreadResponse",
    "THREAD_UPDATE": "ThreadResponse",
    "CHANNEL_CREATE": "GuildChannelResponse",
    "CHANNEL_UPDATE": "GuildChannelResponse",
    "CHANNEL_DELETE": "GuildChannelResponse",
    "GUILD_CREATE": "GuildResponse",
    "GUILD_MEMBER_ADD": "GuildMemberResponse",
}
"""The published object that an event carries; it may have more."""


def malformed_events(payloads: Iterable[dict[str, Any]]) -> list[tuple[str, Problem]]:
    """Problems of the objects that the gateway told of, by event."""
    schema = discord_api()
    found: list[tuple[str, Problem]] = []
    for payload in payloads:
        event, body = payload["t"], payload.get("d")
        if event == "INTERACTION_CREATE" and "message" in body:
            event, body = "MESSAGE_CREATE", body["message"]
        if event in EVENTS:
            found += [(event, problem) for problem in schema.check_named(EVENTS[event], body).problems]
    return found
