"""The state of agent sessions, which Slack shows with its own Stop; and their titles, which people may change."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from adapters.contract import Place, ThreadStatus
from adapters.errors import AdapterError, Refused
from adapters.payload import Payload, an_object, texts
from adapters.slack import outbound
from adapters.slack.outbound import Request

log = logging.getLogger("pilothouse.slack")

AGAIN_MS = 50 * 60_000
"""Slack falls back from `processing` after an hour (docs.slack.dev, agents.sessions.setStatus)."""
REMEMBERED = 1000
NO_STOP = "missing_agent_session_stopped_event_subscription"


class Sessions:
    """The sessions of one app, as this process knows them."""

    def __init__(self, call: Callable[[Request], Awaitable[Payload]], now_ms: Callable[[], int]) -> None:
        self._call = call
        self._now_ms = now_ms
        self._working: dict[Place, int] = {}
        self._titles: OrderedDict[Place, str] = OrderedDict()
        self._warned = False

    async def set(self, place: Place, view: ThreadStatus) -> None:
        """Show the state. A title is set once, where the session begins, and again only if it is another one."""
        if place.thread is None:
            raise Refused("sessions of Slack are threads")
        answer = await self._call(outbound.status(place, view))
        self._heed_warnings(answer)
        self._working.pop(place, None)
        if view.state == "processing":
            self._working[place] = self._now_ms()
        await self._entitle(place, view.title)

    async def _entitle(self, place: Place, title: str | None) -> None:
        """A person who renamed the session keeps his title: `keep_title`."""
        known = self._titles.get(place)
        if not title or title == known or known == "":
            return
        if known is not None:
            await self._call(outbound.rename(place, title))
        self._titles[place] = title
        while len(self._titles) > REMEMBERED:
            self._titles.popitem(last=False)

    def keep_title(self, place: Place) -> None:
        """A person has named the session; it is never named by us again."""
        self._titles[place] = ""

    def _heed_warnings(self, answer: Payload) -> None:
        told = texts(an_object(answer.get("response_metadata")).get("warnings"))
        if NO_STOP in told and not self._warned:
            self._warned = True
            log.warning("Slack shows no Stop button: the app is not subscribed to the event agent_session_stopped")

    async def keep_alive(self) -> None:
        """Say once more that we work where we said so long ago."""
        now = self._now_ms()
        for place, since in list(self._working.items()):
            if now - since >= AGAIN_MS:
                self._working[place] = now
                try:
                    await self._call(outbound.status(place, ThreadStatus(state="processing")))
                except AdapterError as error:
                    log.warning("the state of a session could not be kept: %s", error)
