"""Every state that a kill can leave, with no kill: the first k transactions of a conversation, and a start from there.

The transactions are recorded once; a process that dies leaves some prefix of them on disk, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import AgentStopped, CheckpointError
from runtime.store import SqliteStore
from runtime.testing import FaultyStore
from tests.durability.scenarios import SCENARIOS, SESSION, Conversation, lines, note, problems

pytestmark = pytest.mark.timeout(400)


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one save was given, and what had happened outside until then."""

    checkpoint: Any
    delta: Any
    fields: dict[str, Any]
    effects: tuple[str, ...]
    acknowledged: tuple[str, ...]


class RecordingStore:
    """Notes every save that was kept, with what had happened outside before it."""

    def __init__(self, store: SqliteStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.transactions: list[Transaction] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def save(self, checkpoint: Any, delta: Any = None, **fields: Any) -> Any:
        """Save, and note it."""
        saved = await self.store.save(checkpoint, delta, **fields)
        fields.pop("lease", None)
        effects, acknowledged = lines(self.folder / "effects.log"), lines(self.folder / "acknowledged.log")
        self.transactions.append(Transaction(checkpoint, delta, fields, tuple(effects), tuple(acknowledged)))
        return saved


async def record(name: str, folder: Path) -> list[Transaction]:
    store = await SqliteStore.open(folder / "sessions.db")
    recording = RecordingStore(store, folder)
    await Conversation(name, recording, folder).go_on()
    await store.aclose()
    return recording.transactions


async def replay(name: str, prefix: list[Transaction], effects: tuple[str, ...], folder: Path) -> list[str]:
    """Build the disk as the prefix leaves it, go on from there, and say what does not hold."""
    folder.mkdir()
    store = await SqliteStore.open(folder / "sessions.db")
    try:
        for transaction in prefix:
            await store.save(transaction.checkpoint, transaction.delta, **transaction.fields)
        for effect in effects:
            note(folder / "effects.log", effect)
        for acknowledged in prefix[-1].acknowledged if prefix else ():
            note(folder / "acknowledged.log", acknowledged)
        conversation = Conversation(name, store, folder)
        await conversation.go_on()
        found = await problems(conversation)
        before = await store.load(SESSION), (await store.event_page(SESSION)).latest_sequence
        await Conversation(name, store, folder).go_on()
        if (await store.load(SESSION), (await store.event_page(SESSION)).latest_sequence) != before:
            found.append("a second restart changed something")
        return found
    finally:
        await store.aclose()


@pytest.mark.parametrize("name", SCENARIOS)
async def test_from_every_prefix_of_the_transactions_the_conversation_ends_well(name: str, tmp_path: Path) -> None:
    """Whatever had happened outside until the next transaction: nothing is lost, nothing happens twice."""
    (tmp_path / "recorded").mkdir()
    transactions = await record(name, tmp_path / "recorded")
    assert len(transactions) >= 4
    whole = tuple(lines(tmp_path / "recorded" / "effects.log"))
    states = 0
    for k in range(len(transactions) + 1):
        prefix = transactions[:k]
        before = prefix[-1].effects if prefix else ()
        after = transactions[k].effects if k < len(transactions) else whole
        # A kill may fall before or after each effect that lies between two transactions.
        for happened in range(len(before), len(after) + 1):
            found = await replay(name, prefix, after[:happened], tmp_path / f"{k}-{happened}")
            assert found == [], f"after {k} transactions and {happened} effects"
            states += 1
    print(f"commit prefixes: {states} states of {name}")


async def disturbed(name: str, at: int, commit_first: bool, folder: Path) -> bool:
    """The n-th save fails; whether there was an n-th. Everything must hold once the disk works again."""
    folder.mkdir()
    store = await SqliteStore.open(folder / "sessions.db")
    try:
        faulty = FaultyStore(store, at=at, commit_first=commit_first)
        conversation = Conversation(name, faulty, folder)
        with contextlib.suppress(CheckpointError, AgentStopped):  # it says so, and ends
            await asyncio.wait_for(conversation.go_on(), 90)
        again = Conversation(name, store, folder)
        await asyncio.wait_for(again.go_on(), 90)
        when = "after" if commit_first else "before"
        assert await problems(again, save_failed=True) == [], f"save {at}, {when} its commit"
        return faulty.fired
    finally:
        await store.aclose()


@pytest.mark.parametrize("commit_first", [False, True])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_whichever_save_fails_nothing_is_acknowledged_that_is_not_stored(
    name: str, commit_first: bool, tmp_path: Path
) -> None:
    """Before or after its commit: the agent ends and says so, or adopts what was kept; a later start goes on."""
    at = 1
    while await disturbed(name, at, commit_first, tmp_path / str(at)):
        at += 1
    assert at > 4
    print(f"disk errors: {at - 1} saves of {name}")
