"""Threads that we open ourselves, each a surface: `planned → opening → open`, or the parent chat where that is no way.

What is to go into a thread that is not open yet is planned for a place that stands for it (`new_thread`), together with
the session that is to have it. Once it is open, all of that moves there in one transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from adapters.contract import MessageRef, Place, View
from gateway.budget import Priority
from gateway.ledger import deliveries
from gateway.ledger.database import Database, Row
from gateway.ledger.surfaces import NewSurface
from runtime.store.writer import Statement

Stage: TypeAlias = Literal["planned", "opening", "open", "parent", "unknown"]

ROOT = "thread"
"""The surface under which the root message of a thread is planned."""

_NEW = "new:"


def new_thread(place: Place, source: str) -> Place:
    """The place that stands for the thread that `source` opens in `place`; the same one each time.

    ValueError if `place` is a thread itself: no platform has threads in threads.
    """
    if place.thread is not None:
        raise ValueError(f"a thread cannot be opened in a thread: {place!r}")
    return replace(place, thread=_NEW + hashlib.sha256(source.encode()).hexdigest()[:24])


def is_new(place: Place) -> bool:
    """Whether the place stands for a thread that was not open when it was written down."""
    return place.thread is not None and place.thread.startswith(_NEW)


def parent_of(place: Place) -> Place:
    """The chat of a thread."""
    return replace(place, thread=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A thread of ours. `place` stands for it; `root` is its first message, once that is on the platform."""

    surface_id: int
    place: Place
    title: str
    stage: Stage
    root: MessageRef | None
    opened: str | None

    @property
    def settled(self) -> bool:
        """It is known where what is planned for it goes."""
        return self.stage not in ("planned", "opening")

    @property
    def target(self) -> Place:
        """Where that is: the thread, or its parent chat."""
        return replace(self.place, thread=self.opened)

    @property
    def key(self) -> str:
        """Under which the platform is asked for it, each time."""
        return (self.place.thread or "").removeprefix(_NEW)


# ------------------------------------------------------------------------------------------------------ statements


def plan(
    *,
    source: str,
    place: Place,
    title: str,
    root: View,
    priority: Priority,
    now_ms: int,
    session_id: str | None = None,
) -> list[Statement]:
    """The statements that plan a new thread in `place`, with `root` as its first message; for the caller's transaction.

    Planning again under the same source changes nothing. Plan what is to go into the thread for
    `new_thread(place, source)`, and bind its session there. After the commit, tell the outbox: `Outbox.wake(place)`.
    """
    fresh = new_thread(place, source)
    token = fresh.thread or ""
    return [
        *deliveries.plan(
            source=source, surface=ROOT, place=fresh, views=[root], priority=priority, now_ms=now_ms,
            session_id=session_id, new_surface=NewSurface(token=token, kind="thread", session_id=session_id),
        ),
        Statement(
            "UPDATE surfaces SET thread = NULL, stage = 'planned', title = ? WHERE token = ? AND stage IS NULL",
            (title, token),
        ),
    ]  # fmt: skip


def opening(surface_id: int, now_ms: int) -> Statement:
    """The platform is about to be asked."""
    return _stage(surface_id, "opening", now_ms)


def put_off(surface_id: int, now_ms: int) -> Statement:
    """The platform did nothing, and is asked again later."""
    return _stage(surface_id, "planned", now_ms)


def _stage(surface_id: int, stage: Stage, now_ms: int) -> Statement:
    return Statement(
        "UPDATE surfaces SET stage = ?, updated_at_ms = ? WHERE id = ? AND stage IN ('planned', 'opening')",
        (stage, now_ms, surface_id),
    )


def settled(thread: Opening, now_ms: int) -> tuple[Statement, ...]:
    """It is known where the thread is: what waits for it, with its controls, goes there. The root stays where it is.

    Doing it again moves what was planned meanwhile.
    """
    place = thread.place
    waiting = "platform = ? AND account = ? AND chat = ? AND thread = ? AND state IN ('planned', 'sending')"
    where = (place.platform, place.account, place.chat, place.thread)
    return (
        Statement(
            "UPDATE surfaces SET stage = ?, opened = ?, state = 'open', updated_at_ms = ? WHERE id = ?",
            (thread.stage, thread.opened, now_ms, thread.surface_id),
        ),
        Statement(
            "UPDATE surfaces SET thread = ?, updated_at_ms = ? WHERE stage IS NULL"  # noqa: S608
            f" AND id IN (SELECT surface_id FROM deliveries WHERE {waiting})",
            (thread.opened, now_ms, *where),
        ),
        Statement(
            f"UPDATE deliveries SET thread = ?, updated_at_ms = ? WHERE {waiting}",  # noqa: S608
            (thread.opened, now_ms, *where),
        ),
        Statement(
            "UPDATE deliveries SET thread = NULL WHERE surface_id = ? AND state NOT IN ('planned', 'sending')",
            (thread.surface_id,),
        ),
    )


# --------------------------------------------------------------------------------------------------------- queries

_COLUMNS = "id, token, platform, account, chat, person, title, stage, message_id, opened"


def _row(row: Row) -> Opening:
    platform, account, chat = row[2:5]
    parent = MessageRef(platform=platform, account=account, chat=chat, id=row[8] or "")
    return Opening(
        surface_id=row[0],
        place=Place(platform=platform, account=account, chat=chat, thread=row[1], person=row[5]),
        title=row[6] or "",
        stage=row[7],
        root=None if row[8] is None else parent,
        opened=row[9],
    )


async def named(database: Database, names: Collection[str]) -> tuple[Opening, ...]:
    """The threads that these names stand for, as far as they are known."""
    marks = ", ".join("?" * len(names))
    sql = f"SELECT {_COLUMNS} FROM surfaces WHERE token IN ({marks}) AND stage IS NOT NULL"  # noqa: S608
    return tuple(_row(row) for row in await database.read(sql, tuple(names)))


async def unsettled(database: Database) -> tuple[Opening, ...]:
    """Every thread that is still to be opened, or of which nobody knows."""
    sql = f"SELECT {_COLUMNS} FROM surfaces WHERE stage IN ('planned', 'opening') ORDER BY id"  # noqa: S608
    return tuple(_row(row) for row in await database.read(sql))


async def target_of(database: Database, place: Place) -> Place:
    """Where what is said to `place` goes now; `place` itself while its thread is not open yet."""
    if not is_new(place):
        return place
    found = await named(database, [place.thread or ""])
    if not found:
        return parent_of(place)  # forgotten by now
    return found[0].target if found[0].settled else place
