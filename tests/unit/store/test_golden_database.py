"""A whole database that version 1 left behind still opens, and holds what it held.

`golden/v1.sql` is the dump of such a file. A later schema adds a dump of its own and keeps this one; it is written by
`python -m tests.unit.store.test_golden_database <file>`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.protocol import Checkpoint, Event
from runtime.store.sqlite import SqliteStore
from runtime.testing import FakeClock
from tests.support.checkpoints import EVENTS, GRANT, RECEIPTS, RECORD, following, full_checkpoint, grown, text_item

GOLDEN = Path(__file__).parent / "golden"
AT = 1_700_000_000_000
IDLE = replace(Checkpoint.empty("idle"), model_route="small", context=full_checkpoint().context)


async def fill(path: Path) -> None:
    """A database with something in every table."""
    store = await SqliteStore.open(path, clock=FakeClock(AT), new_id=lambda: "an-id")
    await store.save(full_checkpoint(), events=EVENTS, submission_id="message-1", receipts=RECEIPTS, grants=[GRANT])
    await store.save(IDLE, execution=RECORD)
    await store.save_state("agent", "key", {"a": [1, None]})
    await store.database.write([store.cursor_statement("delivery", "s", 3)])
    await store.aclose()


@pytest.mark.parametrize("dump", sorted(GOLDEN.glob("*.sql")), ids=lambda path: path.stem)
async def test_a_database_of_every_version_opens(tmp_path: Path, dump: Path) -> None:
    """Sessions, journals, receipts, grants, state and cursors come back, and the sessions go on."""
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    store = await SqliteStore.open(path, clock=FakeClock(AT))
    assert await store.load("s") == full_checkpoint()
    assert await store.load("idle") == IDLE
    page = await store.event_page("s", after=0)
    known = {type(event.msg): event for event in page.events}
    assert list(known.values()) == list(page.events)
    assert page.events[0] == Event(sequence=1, submission_id="message-1", recorded_at_ms=AT, msg=EVENTS[0])
    assert tuple([await store.receipt(receipt.submission_id) for receipt in RECEIPTS]) == RECEIPTS
    assert (await store.execution_page("idle")).executions == (RECORD,)
    assert await store.grants("s") == (GRANT,)
    assert await store.load_state("agent", "key") == {"a": [1, None]}
    assert await store.cursor("delivery", "s") == 3
    after, delta = grown(full_checkpoint(), (text_item(1),), pending_messages=())
    await store.save(after, delta)
    await store.save(following(IDLE))
    assert await store.load("s") == after
    assert await store.database.read("PRAGMA integrity_check") == [("ok",)]
    await store.aclose()


def test_there_is_a_dump() -> None:
    """The test above has something to open."""
    assert (GOLDEN / "v1.sql").exists()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(Path(folder) / "s.db"))
        with sqlite3.connect(Path(folder) / "s.db") as filled:
            Path(sys.argv[1]).write_text("\n".join(filled.iterdump()) + "\n", encoding="utf-8")
