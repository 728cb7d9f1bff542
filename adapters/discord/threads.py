"""Threads that are opened when the first thing is said in them, and their names.

What is said in a channel belongs to the thread with the message's id. Whether that thread exists is learned when we
send there: if it does not, it is opened on the message, which Discord does once. So nothing is remembered, and a crash
at any point is repaired by sending again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from adapters.contract import Place
from adapters.discord import outbound
from adapters.discord.outbound import Request
from adapters.discord.payload import a_text, an_object
from adapters.discord.refusals import (
    MISSING_ACCESS,
    MISSING_PERMISSIONS,
    THREAD_ARCHIVED,
    THREAD_EXISTS,
    UNKNOWN_CHANNEL,
    Gone,
    code_of,
)
from adapters.discord.words import plain_words
from adapters.errors import Refused, TargetGone

log = logging.getLogger("pilothouse.discord")

RENAMES = 2
RENAME_WINDOW_MS = 10 * 60 * 1000
"""A channel may be renamed twice in ten minutes; the client would wait for longer than anybody."""

REMEMBERED = 1000
Result = TypeVar("Result")
Call = Callable[[Request], Awaitable[Any]]


class Threads:
    """The threads of one bot."""

    def __init__(self, call: Call, now_ms: Callable[[], int]) -> None:
        self._call = call
        self._now_ms = now_ms
        self._beside: OrderedDict[str, str] = OrderedDict()
        self._named: OrderedDict[str, str] = OrderedDict()
        self._renamed: OrderedDict[str, list[int]] = OrderedDict()

    def channel_of(self, chat: str, thread: str | None) -> str:
        """Where to write: the thread, or its parent where it could not be opened."""
        if thread is None:
            return chat
        return self._beside.get(thread, thread)

    async def within(self, place: Place, work: Callable[[str], Awaitable[Result]], opened: str | None = None) -> Result:
        """Do the work in the place's channel; a thread that is not there yet is opened first, and once."""
        if place.thread is not None:
            outbound.snowflake(place.thread, "thread")
        channel = opened or self.channel_of(place.chat, place.thread)
        try:
            return await self.awake(channel, lambda: work(channel))
        except TargetGone as error:
            if place.thread is None or channel != place.thread:
                raise
            if code_of(error) == MISSING_PERMISSIONS:  # in the parent it may be there
                raise Gone(str(error), code_of(error), thread_only=True) from None
            if code_of(error) != UNKNOWN_CHANNEL or opened is not None:
                raise
            return await self.within(place, work, await self._opened(place.chat, place.thread))

    async def awake(self, channel: str, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do the work; an archived thread is brought back for it. TargetGone if it is locked."""
        try:
            return await work()
        except TargetGone as error:
            if code_of(error) != THREAD_ARCHIVED:
                raise
        path, ids = "/channels/{channel_id}", {"channel_id": channel}
        try:
            await self._call(Request(verb="PATCH", path=path, ids=ids, body={"archived": False}))
        except TargetGone as error:
            raise Gone(str(error), code_of(error), thread_only=True) from None
        return await work()

    async def _opened(self, chat: str, thread: str) -> str:
        """The thread, now that it is open; its parent if we may not open it."""
        try:
            root = an_object(await self._call(outbound.fetch(chat, thread)))
        except TargetGone as error:
            gone = code_of(error) not in (UNKNOWN_CHANNEL, MISSING_ACCESS)
            raise Gone(str(error), code_of(error), thread_only=gone) from None
        except Refused as error:  # a forum has no messages of its own: its thread was deleted
            raise Gone(str(error), code_of(error), thread_only=True) from None
        try:
            await self.open(chat, thread, plain_words(a_text(root.get("content"))))
        except (TargetGone, Refused) as error:
            log.warning("no thread can be opened in channel %s, so we answer in the channel itself: %s", chat, error)
            _remember(self._beside, thread, chat)
            return chat
        return thread

    async def open(self, chat: str, message: str, title: str) -> None:
        """A thread on a message; that it is open is success. TargetGone or Refused if it cannot be opened."""
        name = outbound.thread_name(title)
        try:
            await self._call(outbound.thread_on(chat, message, name))
        except Refused as error:
            if code_of(error) != THREAD_EXISTS:
                raise
        else:
            _remember(self._named, message, name)

    async def rename(self, place: Place, title: str | None) -> None:
        """Give a thread that we opened another name, but not more often than Discord allows, and no person's name.

        What is left out does no harm: a name is no place for news.
        """
        thread = place.thread
        if thread is None or not title or outbound.thread_name(title) == self._named.get(thread):
            return
        recent = [at for at in self._renamed.get(thread, []) if self._now_ms() - at < RENAME_WINDOW_MS]
        if len(recent) >= RENAMES:
            return
        _remember(self._renamed, thread, [*recent, self._now_ms()])
        there = an_object(
            await self._call(Request(verb="GET", path="/channels/{channel_id}", ids={"channel_id": thread}))
        )
        if a_text(there.get("name")) == self._named.get(thread):
            await self._call(outbound.rename(thread, title))
            _remember(self._named, thread, outbound.thread_name(title))


def _remember(memory: OrderedDict[str, Any], key: str, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)
