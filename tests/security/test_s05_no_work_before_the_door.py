"""S-05: before somebody is let in, nothing is done for him."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import InboundFile, InboundKind, Notice
from gateway import access
from gateway.intake import QUIET_MS
from gateway.ledger.surfaces import Letter
from tests.support.intake import ANN_PRIVATE, EVE, person, stage

EVES = replace(ANN_PRIVATE, chat=EVE)
FILES = (
    InboundFile(id="v", name="voice.ogg", media_type="audio/ogg", size=1_000),
    InboundFile(id="d", name="big.pdf", media_type="application/pdf", size=20_000_000),
)


class Untouchable:
    """An adapter of which nothing may be called."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of the adapter was used for a stranger")


async def test_stranger_with_files_costs_no_call(tmp_path: Path) -> None:
    """Voice and a large document of a stranger are neither looked at nor kept; there is one audit row."""
    async with stage(tmp_path) as s:
        s.platforms.one = Untouchable()  # type: ignore[assignment]
        await s.say("", EVES, person(EVE, "Eve"), files=FILES)
        assert [row[0] for row in await s.audit()] == ["refused"]
        for table in ("inbound", "inbound_keys", "places", "place_sessions", "people", "surfaces"):
            assert await s.rows(f"SELECT count(*) FROM {table}") == [(0,)], table
        assert s.sessions.sessions == {}


async def test_refusals_do_not_amplify(tmp_path: Path) -> None:
    """However much a stranger sends, and of whatever kind, he gets at most one answer in an hour."""
    async with stage(tmp_path) as s:
        card = await s.card(EVES)
        for round in range(2):
            for kind in InboundKind:
                await s.intake(s.message("x", EVES, person(EVE, "Eve"), kind=kind, command="help", token="t"))
            await s.intake(s.press_on(card, Letter.APPROVE, EVES, "card", person(EVE, "Eve")))
            await s.settled()
            answers = len(await s.views()) + len(s.adapter.acknowledged)
            assert answers == round + 1
            s.clock.advance(QUIET_MS / 1000)


async def test_refusal_gives_nothing_away(tmp_path: Path) -> None:
    """The refusal is one fixed sentence: no name, no id, no place, no hint."""
    async with stage(tmp_path) as s:
        await s.say("who are you?", EVES, person(EVE, "Eve"))
        assert await s.views() == [Notice(text="You are not allowed to use this bot here.")]


def test_door_waits_for_nothing() -> None:
    """Deciding who is let in is no coroutine, and calls none: it has only the policy to look at."""
    tree = ast.parse(inspect.getsource(access))
    waits = [node for node in ast.walk(tree) if isinstance(node, ast.Await | ast.AsyncFunctionDef)]
    assert waits == []
    assert not inspect.iscoroutinefunction(access.authorize)


@pytest.mark.parametrize("name", ["text", "chat_title", "name", "quotes", "files"])
def test_door_reads_nothing_that_people_write(name: str) -> None:
    """The decision does not read what the sender can choose."""
    tree = ast.parse(inspect.getsource(access.authorize))
    assert name not in {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
