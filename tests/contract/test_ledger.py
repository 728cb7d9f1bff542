"""What the gateway's tables promise to whoever writes them: inbound, places, people and audit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.contract import Inbound, InboundKind, MessageRef, Place
from gateway.ledger import audit, inbound, people, places
from gateway.ledger.audit import Subject
from gateway.ledger.inbound import StoredRoute
from gateway.ledger.places import SessionState
from runtime.errors import CheckpointError, StaleCheckpoint
from runtime.protocol.session import SessionContext
from runtime.store import SqliteStore
from runtime.store.sqlite import Database
from runtime.store.writer import Statement
from runtime.testing import FakeClock
from tests.support.intake import COMPONENTS, person

HOME = Place(platform="telegram", account="bot", chat="42")
LABELS = SessionContext(workspace_id="w", workspace_label="W", origin_label="telegram")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A fresh database with the gateway's tables."""
    store = await SqliteStore.open(tmp_path / "x.db", clock=FakeClock(), components=COMPONENTS)
    yield store.database
    await store.aclose()


def said(*keys: str, place: Place = HOME, **fields: Any) -> Inbound:
    """Words under these keys."""
    ref = MessageRef(platform=place.platform, account=place.account, chat=place.chat, id=f"m{keys[0]}")
    return Inbound(
        **{"kind": InboundKind.MESSAGE, "keys": keys, "place": place, "sender": person(), "ref": ref, **fields}
    )


async def store(database: Database, *keys: str, now_ms: int = 1, **fields: Any) -> int | None:
    """Store words; the row's id, or None if they were known."""
    results = await database.write(inbound.store(said(*keys, **fields), "telegram:42", now_ms))
    return results[0].rows[0][0] if results[0].rows else None


# -------------------------------------------------------------------------------------------------------- inbound


async def test_row_comes_back_as_it_was(database: Database) -> None:
    """What was stored is read back whole, in order of arrival, until it is done."""
    first = said("1", text="hi", fields={"a": "b"}, stopped=("x",))
    await database.write(inbound.store(first, "telegram:42", 5))
    await store(database, "2")
    one, two = await inbound.unfinished(database, 0)
    assert (one.id, one.inbound, one.principal, one.received_at_ms, one.route) == (1, first, "telegram:42", 5, None)
    assert [row.id for row in await inbound.unfinished(database, one.id)] == [two.id]
    assert [row.id for row in await inbound.unfinished(database, 0, limit=1)] == [one.id]
    await database.write([inbound.done([one.id], "turn", 9)])
    assert await inbound.row(database, one.id) is None
    assert await inbound.unfinished(database, 0) == [two]


async def test_known_key_stores_nothing(database: Database) -> None:
    """One known key is enough, and the others become known with it."""
    assert await store(database, "a", "b") == 1
    assert await store(database, "b", "c") is None
    assert await store(database, "c") is None
    assert await store(database, "d") == 2


async def test_many_at_once_store_one(database: Database) -> None:
    """Fifty simultaneous arrivals of one thing are one row; they may share a commit."""
    ids = await asyncio.gather(*(store(database, "k", f"own {n}") for n in range(50)))
    assert [id for id in ids if id is not None] == [1]
    assert await database.read("SELECT count(*) FROM inbound_keys") == [(51,)]
    assert await database.read("SELECT DISTINCT inbound_id FROM inbound_keys") == [(1,)]


async def test_keys_of_different_things_in_one_commit(database: Database) -> None:
    """Different things that are stored in one commit get keys that point at themselves."""
    ids = await asyncio.gather(*(store(database, f"a{n}", f"b{n}") for n in range(30)))
    assert sorted(filter(None, ids)) == list(range(1, 31))
    for number, id in enumerate(ids):
        assert await database.read(
            "SELECT inbound_id FROM inbound_keys WHERE event_key IN (?, ?)", (f"a{number}", f"b{number}")
        ) == [(id,), (id,)]


async def test_route_is_fixed_once(database: Database) -> None:
    """A row is routed once; a second attempt changes nothing of its transaction."""
    await store(database, "1")
    route = StoredRoute(session_id="s", submission_id="in:1", detail={"turn_id": "t"})
    await database.write(inbound.routed([1], HOME.chat, route))
    other = StoredRoute(session_id="other", submission_id="in:1")
    with pytest.raises(inbound.Moved):
        await database.write([people.seen("p", "P", 1), *inbound.routed([1], HOME.chat, other)])
    row = await inbound.row(database, 1)
    assert row is not None
    assert row.route == route
    assert await people.name_of(database, "p") is None


async def test_parts_follow_their_leader(database: Database) -> None:
    """Parts are routed and done with the row that leads, in one transaction."""
    for key in "123":
        await store(database, key)
    await database.write(inbound.routed([1, 2, 3], HOME.chat, StoredRoute(session_id="s", submission_id="in:1")))
    assert [row.id for row in await inbound.parts_of(database, 1)] == [2, 3]
    assert await inbound.has_parts(database, 1)
    await database.write([inbound.done([1, 2, 3], "turn", 9)])
    with pytest.raises(CheckpointError):
        await database.write([inbound.done([1, 2, 3], "turn", 9)])


async def test_forgotten_words_leave_their_key_only(database: Database) -> None:
    """What is none of our business is not kept; that it arrived is."""
    await store(database, "1", text="private matter")
    await database.write([inbound.done([1], "not_for_us", 9, forget=True)])
    assert await database.read("SELECT payload FROM inbound") == [("",)]
    assert await store(database, "1") is None


async def test_origin_of_a_submission(database: Database) -> None:
    """From a submission, or from a message, one finds the other."""
    await store(database, "1")
    assert await inbound.by_message(database, HOME, "m1") is None
    await database.write(inbound.routed([1], HOME.chat, StoredRoute(session_id="s", submission_id="in:1")))
    origin = await inbound.origin_of(database, "in:1")
    assert origin is not None
    assert (origin.session_id, origin.ref, origin.principal) == ("s", said("1").ref, "telegram:42")
    assert await inbound.by_message(database, HOME, "m1") == origin
    assert await inbound.by_message(database, replace(HOME, chat="43"), "m1") is None
    for other in ("in:2", "in:x", "cron:1", "1", ""):
        assert await inbound.origin_of(database, other) is None


async def test_pruning_forgets_old_things_and_never_reuses_an_id(database: Database) -> None:
    """Old rows go with their keys, but none behind something unfinished; ids go on."""
    for key in "123":
        await store(database, key, now_ms=1)
    await database.write([inbound.done([1], "turn", 2)])
    assert await inbound.prune(database, 100) == 1
    await database.write([inbound.done([2, 3], "turn", 2)])
    assert await inbound.prune(database, 2) == 0
    assert await inbound.prune(database, 100) == 2
    assert await database.read("SELECT count(*) FROM inbound_keys") == [(0,)]
    assert await store(database, "9") == 4


async def test_oldest_unfinished(database: Database) -> None:
    """Health can say how long the oldest row has waited."""
    assert await inbound.oldest_unfinished_ms(database) is None
    await store(database, "1", now_ms=7)
    await store(database, "2", now_ms=8)
    assert await inbound.oldest_unfinished_ms(database) == 7


# --------------------------------------------------------------------------------------------------------- places


async def bind(database: Database, place: Place, session_id: str) -> None:
    """Give a place its first session."""
    await database.write(places.bind(place, session_id, LABELS, {"version": 1}, 1))


async def test_place_has_one_session(database: Database) -> None:
    """A place is bound once; another place has a session of its own."""
    await bind(database, HOME, "a")
    with pytest.raises(CheckpointError):
        await bind(database, HOME, "b")
    with pytest.raises(CheckpointError):
        await bind(database, replace(HOME, chat="43"), "a")
    await bind(database, replace(HOME, thread="1"), "c")
    found = await places.find(database, HOME)
    assert found is not None
    assert (found.session_id, found.generation, found.place) == ("a", 1, HOME)
    assert await places.session(database, "b") is None
    session = await places.session(database, "c")
    assert session is not None
    assert (session.context, session.recipe, session.place) == (LABELS, {"version": 1}, replace(HOME, thread="1"))


async def test_rebinding_is_a_compare_and_set(database: Database) -> None:
    """Two who rebind the same place: one wins, and nothing of the other's transaction stays."""
    await bind(database, HOME, "a")
    row = await places.find(database, HOME)
    assert row is not None

    async def rebind(session_id: str) -> None:
        unit = places.rebind(row, session_id, LABELS, {}, retired_by="p", retirement="in:1", now_ms=2)
        await database.write([people.seen(session_id, session_id, 1), *unit])

    results = await asyncio.gather(rebind("b"), rebind("c"), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), StaleCheckpoint]
    found = await places.find(database, HOME)
    assert found is not None
    assert (found.session_id, found.generation) == ("b", 2)
    assert await people.name_of(database, "c") is None
    [old] = await places.retiring(database)
    assert (old.session_id, old.state, old.retired_by, old.retirement) == ("a", SessionState.RETIRING, "p", "in:1")
    await database.write([places.retired("a")])
    assert await places.retiring(database) == ()


async def test_chat_moves_with_its_places(database: Database) -> None:
    """Every place of a chat moves; one that exists under the new id already stays what it is."""
    topic = replace(HOME, thread="1")
    await bind(database, HOME, "a")
    await bind(database, topic, "b")
    await bind(database, replace(HOME, chat="new"), "c")
    await database.write([places.move_chat(HOME, "new")])
    moved = await places.find(database, replace(topic, chat="new"))
    assert moved is not None
    assert moved.session_id == "b"
    kept = await places.find(database, replace(HOME, chat="new"))
    assert kept is not None
    assert kept.session_id == "c"


async def test_sessions_of_a_thread(database: Database) -> None:
    """Everybody's sessions of a thread are found, and nobody's of another one."""
    for id in "12":
        await bind(database, replace(HOME, person=id), f"s{id}")
    await bind(database, replace(HOME, thread="t", person="1"), "other")
    rows = await places.in_thread(database, HOME)
    assert [row.session_id for row in rows] == ["s1", "s2"]
    assert {one.session_id for one in await places.sessions_of(database, rows)} == {"s1", "s2"}
    assert [row.session_id for row in await places.threads(database, "telegram", "bot")] == ["other", "s2", "s1"]


# ---------------------------------------------------------------------------------------------------------- audit


async def write_audit(database: Database, count: int, start: int = 0) -> None:
    """Add that many rows."""
    for number in range(start, start + count):
        subject = Subject(place=HOME, session_id="s", request_id=f"r{number}", workspace_label="W")
        statement = audit.audit_statement(number, "pressed", principal="p", subject=subject, detail={"n": number})
        await database.write([statement])


async def test_chain_is_whole(database: Database) -> None:
    """Rows are sealed in order, in several goes and beyond a batch; a second sealing finds nothing."""
    await write_audit(database, 3)
    assert await audit.seal(database) == 3
    await database.write([audit.audit_statement(1, "x") for _ in range(600)])
    assert await audit.seal(database) == 600
    assert await audit.seal(database) == 0
    assert await audit.broken_at(database) is None
    [(kind, detail, labels)] = await database.read("SELECT kind, detail, workspace_label FROM audit WHERE id = 2")
    assert (kind, json.loads(detail), labels) == ("pressed", {"n": 1}, "W")


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM audit", "UPDATE audit SET principal = 'x' WHERE id = 2", "UPDATE audit SET hash = 'x' WHERE id = 2"],
)
async def test_rows_stay_as_they_are(database: Database, change: str) -> None:
    """The database refuses to remove or change an audit row, sealed or not."""
    await write_audit(database, 2)
    if "hash" in change:
        await audit.seal(database)
    with pytest.raises(CheckpointError):
        await database.write([Statement(change)])


TAMPERING = [
    ("DELETE FROM audit WHERE id = 2", 2),
    ("DELETE FROM audit WHERE id = 4", 4),
    ("DELETE FROM audit WHERE id = 5", 5),
    ("UPDATE audit SET detail = '{}' WHERE id = 3", 3),
    ("UPDATE audit SET principal = NULL WHERE id = 1", 1),
    ("UPDATE audit SET prev = hash WHERE id = 2", 2),
]


@pytest.mark.parametrize(("tampering", "found"), TAMPERING)
async def test_tampering_shows(database: Database, tampering: str, found: int) -> None:
    """Whoever gets around the database is found out, at the first row that is wrong; also at the end of the chain."""
    await write_audit(database, 4)
    await audit.seal(database)
    await write_audit(database, 1, start=4)
    triggers = [Statement(f"DROP TRIGGER {name}") for name in ("audit_rows_stay", "audit_rows_do_not_change")]
    await database.write([*triggers, Statement(tampering)])
    assert await audit.broken_at(database) == found


async def test_refusal_is_written_once_in_its_time(database: Database) -> None:
    """The same principal is written down once in the quiet time; others are not kept from it."""

    async def refuse(at_ms: int, who: str) -> bool:
        statement = audit.refused_statement(at_ms, who, Subject(), {}, quiet_ms=100)
        return bool((await database.write([statement]))[0].rows)

    assert [await refuse(at, who) for at, who in ((0, "a"), (99, "a"), (99, "b"), (100, "a"))] == [
        True,
        False,
        True,
        True,
    ]


async def test_sealer_goes_on(database: Database) -> None:
    """The sealer seals now and then, until it is cancelled."""
    clock = FakeClock()
    sealing = asyncio.create_task(audit.Sealer(database, clock).run())
    await write_audit(database, 2)
    while await database.read("SELECT 1 FROM audit WHERE hash IS NULL"):
        clock.advance(audit.SEAL_SECONDS)
        await asyncio.sleep(0)
    sealing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sealing


# ---------------------------------------------------------------------------------------------------------- people


async def test_claim_is_made_once(database: Database) -> None:
    """There is at most one owner by code, until the claim is given up."""
    await database.write([people.claim("a", "A", 1)])
    with pytest.raises(people.AlreadyClaimed):
        await database.write([people.claim("b", "B", 1)])
    assert await people.claimed_owners(database) == {"a"}
    await database.write([people.give_up_claims()])
    assert await people.claimed_owners(database) == frozenset()


PARTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.sampled_from(
    [":", "/", "|", "%", "\0", "a:b"]
)


@given(st.lists(st.tuples(PARTS, PARTS, PARTS, st.none() | PARTS, st.none() | PARTS), unique=True, max_size=8))
@settings(max_examples=60)
def test_keys_of_places_never_meet(parts: list[tuple[str, str, str, str | None, str | None]]) -> None:
    """Different places have different keys, whatever their ids are made of."""
    keys = {places.key(Place(platform=p, account=a, chat=c, thread=t, person=who)) for p, a, c, t, who in parts}
    assert len(keys) == len(parts)


async def test_row_of_a_chat_that_moved_is_not_routed_to_the_old_one(database: Database) -> None:
    """Whoever read a row before its chat moved cannot route it as it was."""
    await store(database, "1")
    await database.write([inbound.move_chat(HOME, "new")])
    route = StoredRoute(session_id="s", submission_id="in:1")
    with pytest.raises(inbound.Moved):
        await database.write(inbound.routed([1], HOME.chat, route))
    await database.write(inbound.routed([1], "new", route))
    row = await inbound.row(database, 1)
    assert row is not None
    assert row.inbound.place.chat == "new"
