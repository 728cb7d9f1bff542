"""Who and where, as the gateway's tables tell it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from adapters.contract import Inbound, InboundKind, MessageRef, Place, Sender, SenderKind
from gateway.delivery import Asking, Decider, Destination, LedgerDirectory
from gateway.ledger import inbound, people, places
from runtime.protocol.session import SessionContext
from tests.support.delivering import Bench, bench

PLACE = Place(platform="slack", account="A1", chat="C1", thread="17.5")


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Bench]:
    """A store with the gateway's tables."""
    async with bench(tmp_path, started=False) as made:
        yield made


def directory(on: Bench, *deciders: str) -> LedgerDirectory:
    return LedgerDirectory(on.store.database, lambda platform: deciders if platform == "slack" else ())


async def said(on: Bench, kind: Literal["private", "group"], key: str) -> str:
    """A message that was let in; its submission id."""
    arrived = Inbound(
        kind=InboundKind.MESSAGE,
        keys=(key,),
        place=PLACE,
        sender=Sender(kind=SenderKind.PERSON, id="U2", name="Bob"),
        chat_kind=kind,
        ref=MessageRef(platform="slack", account="A1", chat="C1", thread="17.5", id="18.1"),
        text="hi",
    )
    results = await on.store.database.write(inbound.store(arrived, "slack:T1:U2", 1))
    return inbound.submission_id(results[0].rows[0][0])


async def test_a_session_leads_to_its_place_and_labels(on: Bench) -> None:
    """As they were when it began; a session that no chat began leads nowhere."""
    context = SessionContext(workspace_label="Shop", origin_label="slack")
    await on.store.database.write(places.bind(PLACE, "s", context, {}, 1))
    found = await directory(on).destination("s")
    assert found == Destination(place=PLACE, workspace="Shop", origin="slack")
    assert await directory(on).destination("other") is None


async def test_a_submission_leads_to_the_message_that_asked(on: Bench) -> None:
    """With whether it was said in private, where nobody has to be pointed at."""
    ref = MessageRef(platform="slack", account="A1", chat="C1", thread="17.5", id="18.1")
    in_group, in_private = await said(on, "group", "k1"), await said(on, "private", "k2")
    assert await directory(on).asking(in_group) == Asking(ref=ref, text="hi")
    assert await directory(on).asking(in_private) == Asking(ref=ref, private=True, text="hi")
    for unknown in ("in:999", "cron:1", "in:x", ""):
        assert await directory(on).asking(unknown) is None


async def test_names_are_those_last_seen(on: Bench) -> None:
    """Somebody who was never seen is named by the principal itself."""
    await on.store.database.write([people.seen("slack:T1:U1", "Ann", 1)])
    assert await directory(on).name("slack:T1:U1") == "Ann"
    assert await directory(on).name("slack:T1:U9") == "slack:T1:U9"


async def test_deciders_have_a_name_and_the_platforms_own_id(on: Bench) -> None:
    """The id alone is what a mention needs; only so many are named."""
    await on.store.database.write([people.seen("slack:T1:U1", "Ann", 1)])
    many = tuple(f"slack:T1:U{n}" for n in range(1, 9))
    found = await directory(on, *many).deciders(PLACE)
    assert found[0] == Decider(name="Ann", id="U1")
    assert len(found) == 5
    assert await directory(on, *many).deciders(replace(PLACE, platform="telegram")) == ()
