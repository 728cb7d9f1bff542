"""What Slack keeps of a channel: our own messages, found again by their delivery's key, and people's words."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

from adapters.contract import Inbound, MessageRef, Place
from adapters.errors import OutcomeUnknown
from adapters.payload import Payload, a_number, a_text, an_object, objects
from adapters.slack.identity import Me
from adapters.slack.inbound import read_history
from adapters.slack.outbound import EVENT_TYPE, Request

PAGE = 200
MOST_PAGES = 25
"""Pages of one thread that are read at most; apps of one's own may ask fifty times a minute."""
SHARE_LOOKS = 3


class History:
    """Reads the history of the channels that we are in."""

    def __init__(self, me: Me, call: Callable[[Request], Awaitable[Payload]]) -> None:
        self._me = me
        self._call = call
        self._caught_up: set[str] = set()

    async def with_key(self, place: Place, key: str) -> str | None:
        """Our message of that delivery, if there is one.

        OutcomeUnknown if there is more history than can be looked through: then nobody knows, and nothing is repeated.
        """
        async for message in self._messages(place, "0", whole=True):
            if self._is_ours(message) and key_in(message) == key:
                return a_text(message.get("ts"))
        return None

    async def with_file(self, place: Place, name: str, size: int) -> str | None:
        """Our message with a file of that name and size, which is all that a file can be known by."""
        async for message in self._messages(place, "0", whole=True):
            files = objects(message.get("files")) if self._is_ours(message) else []
            if any(a_text(one.get("name")) == name and a_number(one.get("size")) == size for one in files):
                return a_text(message.get("ts"))
        return None

    async def share_of(self, place: Place, file_id: str) -> str | None:
        """The message that shows a file, if Slack knows it yet."""
        info = await self._call(Request(method="files.info", fields={"file": file_id}))
        shares = an_object(an_object(info.get("file")).get("shares"))
        for kind in ("public", "private"):
            for share in objects(an_object(shares.get(kind)).get(place.chat)):
                return a_text(share.get("ts")) or None
        return None

    async def said_in(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        """What people said in a thread after `since`, oldest first.

        In a direct conversation every message begins a thread of its own; those that came while we were away belong to
        no thread that we know. They are told once after a start, with whichever thread is asked for first.
        """
        if place.thread is None:
            return ()
        after = since.id if since is not None else "0"
        found = [one async for one in self._messages(place, after)]
        if place.chat.startswith("D") and since is not None and place.chat not in self._caught_up:
            self._caught_up.add(place.chat)
            beside = Place(platform=place.platform, account=place.account, chat=place.chat)
            found += [one async for one in self._messages(beside, after)]
        by_number = {a_text(one.get("ts")): one for one in found if a_text(one.get("ts")) > after}
        said = (read_history(by_number[number], place, self._me) for number in sorted(by_number))
        return tuple(one for one in said if one is not None)

    async def _messages(self, place: Place, oldest: str, *, whole: bool = False) -> AsyncGenerator[Payload]:
        """Messages of a thread, or of a channel without threads. `whole`: an end that is not reached is an error."""
        method = "conversations.replies" if place.thread else "conversations.history"
        fields: Payload = {"channel": place.chat, "oldest": oldest, "limit": PAGE, "include_all_metadata": True}
        fields |= {"ts": place.thread} if place.thread else {}
        for _ in range(MOST_PAGES):
            page = await self._call(Request(method=method, fields=fields))
            for message in objects(page.get("messages")):
                yield message
            cursor = a_text(an_object(page.get("response_metadata")).get("next_cursor"))
            if not cursor:
                return
            fields["cursor"] = cursor
        if whole:
            raise OutcomeUnknown("there is more history than can be looked through")

    def _is_ours(self, message: Payload) -> bool:
        return message.get("bot_id") == self._me.bot or message.get("user") == self._me.user


def key_in(message: Payload) -> str:
    """The key of the delivery that made a message of ours; empty if it has none."""
    told = an_object(message.get("metadata"))
    return a_text(an_object(told.get("event_payload")).get("key")) if told.get("event_type") == EVENT_TYPE else ""
