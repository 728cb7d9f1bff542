"""How often we may speak: limits per chat and per platform, shared by sends, edits and typing.

Nothing here waits. A caller asks how long it has to wait, waits, asks again, and takes. Instants and waits are
milliseconds. Less urgent work leaves a reserve, so that progress never starves an answer, nor an answer an approval.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from adapters.contract import Capabilities, Place

MAX_CHATS = 4096
"""Chats that are remembered at most; a chat with nothing to remember is forgotten first."""

BURST = 3
"""Messages that a chat takes at once, within the time that its limit gives them. Telegram allows "short bursts"."""

PLATFORM_PER_SECOND = 30
"""Telegram's limit over all chats of one bot; Slack's and Discord's are per method or route and answer with 429."""


class Priority(IntEnum):
    """Who goes first: approval, stop and failure; then answers; then everything that a later state replaces."""

    CONTROL = 0
    ANSWER = 1
    PROGRESS = 2


_BURST_RESERVE = {Priority.CONTROL: 0, Priority.ANSWER: 0, Priority.PROGRESS: 1}
_SHARE_RESERVE = {Priority.CONTROL: 0.0, Priority.ANSWER: 0.1, Priority.PROGRESS: 0.3}


@dataclass(slots=True)
class Window:
    """At most `limit` requests in any `span_ms`: a limit holds for every such span, not on average."""

    limit: int
    span_ms: int
    taken: deque[int] = field(default_factory=deque[int])

    def settle(self, now_ms: int) -> int:
        """How many were taken within the span that ends now; what a corrected clock makes future was just now."""
        if self.taken and self.taken[-1] > now_ms:
            self.taken = deque(min(at_ms, now_ms) for at_ms in self.taken)
        while self.taken and self.taken[0] <= now_ms - self.span_ms:
            self.taken.popleft()
        return len(self.taken)

    def wait_ms(self, now_ms: int, reserve: int) -> int:
        """How long until one more is within the limit, of which `reserve` is left to others."""
        allowed = max(1, self.limit - reserve)
        excess = self.settle(now_ms) - allowed
        return 0 if excess < 0 else self.taken[excess] + self.span_ms - now_ms

    def take(self, now_ms: int) -> None:
        """One more."""
        self.taken.append(now_ms)


@dataclass(slots=True)
class _Chat:
    burst: Window
    minute: Window
    banned_until_ms: int = 0
    next_edit_ms: int = 0

    def idle(self, now_ms: int) -> bool:
        spent = self.burst.settle(now_ms) + self.minute.settle(now_ms)
        return not spent and now_ms >= self.banned_until_ms and now_ms >= self.next_edit_ms


class Budget:
    """The budget of one account on one platform."""

    def __init__(self, capabilities: Capabilities, now_ms: Callable[[], int]) -> None:
        self._capabilities = capabilities
        self._now_ms = now_ms
        self._all = Window(PLATFORM_PER_SECOND, 1000)
        self._out_until_ms = 0
        self._chats: OrderedDict[str, _Chat] = OrderedDict()

    def wait_ms(self, place: Place, priority: Priority, *, live_edit: bool = False) -> int:
        """How long until this may go out; 0 means now. During a ban nothing may, whatever its priority.

        `live_edit`: an edit of a running card, which also keeps the platform's interval between edits.
        """
        now = self._now_ms()
        chat = self._chat(place.chat, now)
        share = _SHARE_RESERVE[priority]
        reserve = _BURST_RESERVE[priority]
        waits = (
            self._out_until_ms - now,
            chat.banned_until_ms - now,
            chat.next_edit_ms - now if live_edit else 0,
            self._all.wait_ms(now, math.ceil(share * self._all.limit)),
            chat.burst.wait_ms(now, reserve),
            chat.minute.wait_ms(now, math.ceil(share * chat.minute.limit)),
        )
        return max(0, *waits)

    def of_one_person(self, place: Place) -> None:
        """The chat is private. A limit per minute is one of groups; a private chat has the one per second alone.

        https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
        """
        per_second = self._capabilities.sends_per_second
        chat = self._chat(place.chat, self._now_ms())
        chat.minute.limit = max(self._capabilities.sends_per_minute, round(60 * per_second))

    def take(self, place: Place, *, live_edit: bool = False, every_seconds: float | None = None) -> None:
        """One request goes out now. `every_seconds`: the interval that this live edit keeps instead of the usual."""
        now = self._now_ms()
        chat = self._chat(place.chat, now)
        self._all.take(now)
        chat.burst.take(now)
        chat.minute.take(now)
        if live_edit:
            interval = self._capabilities.edit_interval if every_seconds is None else every_seconds
            chat.next_edit_ms = now + round(interval * 1000)

    def ban(self, place: Place, until_ms: int) -> None:
        """The platform asked for patience: nothing goes to this chat before `until_ms`."""
        chat = self._chat(place.chat, self._now_ms())
        chat.banned_until_ms = max(chat.banned_until_ms, until_ms)

    def out_of_order(self, until_ms: int) -> None:
        """The platform cannot be reached: nothing goes to any chat before `until_ms`."""
        self._out_until_ms = max(self._out_until_ms, until_ms)

    def in_order(self) -> None:
        """The platform was reached."""
        self._out_until_ms = 0

    def _chat(self, name: str, now_ms: int) -> _Chat:
        chat = self._chats.get(name)
        if chat is None:
            chat = self._chats[name] = self._fresh()
            self._forget_idle(now_ms)
        self._chats.move_to_end(name)
        return chat

    def _fresh(self) -> _Chat:
        per_second, per_minute = self._capabilities.sends_per_second, self._capabilities.sends_per_minute
        burst = max(BURST, round(per_second))
        return _Chat(
            burst=Window(burst, round(burst / per_second * 1000)),
            minute=Window(per_minute, 60_000),
        )

    def _forget_idle(self, now_ms: int) -> None:
        if len(self._chats) <= MAX_CHATS:
            return
        name, chat = next(iter(self._chats.items()))
        if chat.idle(now_ms):
            del self._chats[name]
        else:
            self._chats.move_to_end(name)
