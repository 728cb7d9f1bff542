"""Names of people, which most payloads leave out; for display only."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace

from adapters.contract import Inbound, SenderKind
from adapters.errors import AdapterError
from adapters.payload import Payload, a_text, an_object
from adapters.slack.outbound import Request

REMEMBERED = 2000
KEPT_MS = 3_600_000
PATIENCE_SECONDS = 1.0
"""An event has to be acknowledged within three seconds: without a name it does as well."""


class Names:
    """Asks for each person once an hour at most."""

    def __init__(self, call: Callable[[Request], Awaitable[Payload]], now_ms: Callable[[], int]) -> None:
        self._call = call
        self._now_ms = now_ms
        self._known: OrderedDict[str, tuple[str, int]] = OrderedDict()

    async def named(self, inbound: Inbound) -> Inbound:
        """The inbound with its sender's name, if that can be had at once."""
        sender = inbound.sender
        if sender.kind not in (SenderKind.PERSON, SenderKind.STRANGER) or sender.name not in ("", sender.id):
            return inbound
        name = await self._name(sender.id)
        return replace(inbound, sender=replace(sender, name=name)) if name else inbound

    async def _name(self, user: str) -> str:
        name, asked_at_ms = self._known.get(user, ("", None))
        if asked_at_ms is not None and self._now_ms() - asked_at_ms < KEPT_MS:
            return name
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                told = await self._call(Request(method="users.info", fields={"user": user}))
            name = name_in(an_object(told.get("user")))
        except (AdapterError, TimeoutError):
            pass  # the last one that was known, or none
        self._known[user] = (name, self._now_ms())
        self._known.move_to_end(user)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return name


def name_in(user: Payload) -> str:
    """The name that a person chose to be seen under."""
    profile = an_object(user.get("profile"))
    return (
        a_text(profile.get("display_name"))
        or a_text(profile.get("real_name"))
        or a_text(user.get("real_name"))
        or a_text(user.get("name"))
    )
