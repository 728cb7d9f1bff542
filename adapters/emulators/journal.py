"""Ordered record of everything that crossed an emulator: what was asked, answered, shown, delivered and broken.

Tests read it to judge the program under test from the outside; the control API streams it.
Tokens never enter it: an account is named by its public id.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from adapters.emulators.wire_json import JsonObject


class EntryKind(StrEnum):
    """What an entry is about."""

    REQUEST = "request"
    """A client called a method; `name` is the method, `data.params` the decoded parameters."""
    RESPONSE = "response"
    """What it was told; `request` is the number of the request's entry."""
    EVENT = "event"
    """The life of an event on its way to the client: `data.state` is queued, handed, refused (by a webhook), confirmed,
    expired, dropped, or unwanted (not among the allowed kinds)."""
    SCREEN = "screen"
    """A person would now see something else: message, edit, delete, reaction, draft, action, alert."""
    CONTROL = "control"
    """Somebody drove the emulator."""
    FAULT = "fault"
    """A prepared fault fired."""
    VIOLATION = "violation"
    """The client broke a rule of the platform; `name` is the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal. Numbers rise by one and are never reused."""

    number: int
    at: float
    kind: EntryKind
    name: str
    account: str
    data: Mapping[str, Any]
    request: int | None = None

    def to_json(self) -> JsonObject:
        """As the control API sends it."""
        body: JsonObject = {
            "number": self.number,
            "at": self.at,
            "kind": self.kind.value,
            "name": self.name,
            "account": self.account,
            "data": dict(self.data),
        }
        if self.request is not None:
            body["request"] = self.request
        return body

    @classmethod
    def from_json(cls, body: JsonObject) -> Entry:
        """The inverse of `to_json`."""
        return cls(
            number=body["number"],
            at=body["at"],
            kind=EntryKind(body["kind"]),
            name=body["name"],
            account=body["account"],
            data=body["data"],
            request=body.get("request"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One call of a client with what it was told; `answer` is None while it waits or after a cut connection."""

    call: Entry
    answer: Entry | None = None

    @property
    def method(self) -> str:
        return self.call.name

    @property
    def account(self) -> str:
        return self.call.account

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters by name, decoded by the platform's schema."""
        return self.call.data["params"]

    @property
    def ok(self) -> bool:
        return self.answer is not None and bool(self.answer.data.get("ok"))

    @property
    def status(self) -> int | None:
        return None if self.answer is None else self.answer.data.get("status")

    @property
    def result(self) -> Any:
        """What the platform returned; None for errors and cut connections."""
        return None if self.answer is None else self.answer.data.get("result")

    @property
    def error(self) -> str | None:
        return None if self.answer is None else self.answer.data.get("error")


@dataclass(slots=True)
class Journal:
    """The record, bounded to the newest `limit` entries if a limit is given."""

    now: Callable[[], float]
    limit: int | None = None
    _entries: deque[Entry] = field(init=False)
    _last: int = field(default=0, init=False)
    _grew: asyncio.Event | None = field(default=None, init=False)
    """Made by the first who waits; most entries have nobody waiting for them."""

    def __post_init__(self) -> None:
        self._entries = deque(maxlen=self.limit)

    def record(
        self,
        kind: EntryKind,
        name: str,
        data: Mapping[str, Any] | None = None,
        *,
        account: str = "",
        request: int | None = None,
    ) -> Entry:
        """Append one entry, wake whoever waits for the journal to grow, and return the entry."""
        self._last += 1
        entry = Entry(
            number=self._last,
            at=self.now(),
            kind=kind,
            name=name,
            account=account,
            data=data if data is not None else {},
            request=request,
        )
        self._entries.append(entry)
        if self._grew is not None:
            self._grew.set()
            self._grew = None
        return entry

    @property
    def last(self) -> int:
        """Number of the newest entry; 0 before the first."""
        return self._last

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def after(self, number: int) -> list[Entry]:
        """Entries newer than `number`, oldest first."""
        newer: list[Entry] = []
        for entry in reversed(self._entries):
            if entry.number <= number:
                break
            newer.append(entry)
        newer.reverse()
        return newer

    def of(self, kind: EntryKind, name: str | None = None) -> list[Entry]:
        """Entries of one kind, and of one name if given."""
        return [entry for entry in self._entries if entry.kind is kind and name in (None, entry.name)]

    def exchanges(self, *methods: str) -> list[Exchange]:
        """Calls with their answers in order of arrival, of the named methods only if any is named."""
        answers = {entry.request: entry for entry in self._entries if entry.kind is EntryKind.RESPONSE}
        return [
            Exchange(call=entry, answer=answers.get(entry.number))
            for entry in self._entries
            if entry.kind is EntryKind.REQUEST and (not methods or entry.name in methods)
        ]

    async def grown(self, after: int) -> None:
        """Return as soon as an entry newer than `after` exists."""
        while self._last <= after:
            self._grew = self._grew or asyncio.Event()
            await self._grew.wait()

    def clear(self) -> None:
        """Forget the entries; numbering goes on, so that a reader's position stays valid."""
        self._entries.clear()
