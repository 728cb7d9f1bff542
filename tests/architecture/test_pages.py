"""The pages of the documentation say what is there: no more, no less, and no link leads nowhere."""

from __future__ import annotations

import inspect
import re
import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

from gateway.metrics import Metrics
from runtime.protocol import events, ops
from runtime.store import SqliteStore
from runtime.testing import FakeClock
from tests.architecture.sources import ROOT
from tests.support.intake import COMPONENTS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NO_EVENTS = {"Event", "ModelInfo"}


def rows(page: str, section: str) -> dict[str, str]:
    """The first two cells of each line of the table in a section."""
    text = (ROOT / "docs" / page).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {line[0].strip("| `"): line[1].rstrip(" |") for line in cells}


def first_lines(module: ModuleType) -> dict[str, str]:
    """What the classes of a module say of themselves."""
    found = {name: one for name, one in vars(module).items() if inspect.isclass(one)}
    return {
        name: (one.__doc__ or "").splitlines()[0]
        for name, one in found.items()
        if one.__module__ == module.__name__ and not name.startswith("_") and name not in NO_EVENTS
    }


@pytest.mark.parametrize(("module", "section"), [(ops, "Ops"), (events, "Events")], ids=["ops", "events"])
def test_every_op_and_event_has_its_entry(module: ModuleType, section: str) -> None:
    """docs/protocol.md lists each one in its own words, and none that is gone."""
    assert rows("protocol.md", section) == first_lines(module)


def test_every_metric_has_its_entry() -> None:
    """docs/operations.md lists each metric with its labels, and none that is gone."""
    collectors = Metrics().registry._collector_to_names
    names = {one._name + "_total" * (one._type == "counter"): ", ".join(one._labelnames) or "–" for one in collectors}
    assert rows("operations.md", "Health and numbers") == names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link and picture of a page is a file."""
    targets = re.findall(r"\]\(([^)\s#]+)", page.read_text())
    local = [one for one in targets if "://" not in one]
    assert [one for one in local if not (page.parent / one).exists()] == []


async def test_recipe_for_deletion_removes_a_person(tmp_path: Path) -> None:
    """The SQL of docs/operations.md runs on today's schema; the person is gone, others and the audit stay."""
    (recipe,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "operations.md").read_text(), re.DOTALL)
    file = tmp_path / "pilothouse.db"
    store = await SqliteStore.open(file, clock=FakeClock(), components=COMPONENTS)
    await store.aclose()
    with sqlite3.connect(file) as connection:
        for number, person in enumerate(("telegram:42", "telegram:43"), 1):
            _live(connection, number, person)
    connection.close()
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript(recipe)
    dump = "\n".join(connection.iterdump())
    assert "telegram:43" in dump
    assert "secret of telegram:43" in dump
    assert "secret of telegram:42" not in dump
    left = [line for line in dump.splitlines() if "telegram:42" in line]
    assert left
    assert all('INTO "audit"' in line for line in left)
    assert connection.execute("SELECT session_id FROM deliveries").fetchall() == [("s:2",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


def _live(connection: sqlite3.Connection, number: int, person: str) -> None:
    """Rows of a person: a conversation with words in it, what was shown, a file, and an entry of the audit trail."""
    session, words = f"s:{number}", f'{{"text": "secret of {person}"}}'
    for statement, values in (
        (
            "INSERT INTO inbound (id, platform, account, chat, thread, kind, principal, received_at_ms, state,"
            " session_id, payload) VALUES (?, 'telegram', 'a', 'c', '', 'message', ?, 1, 'stored', ?, ?)",
            (number, person, session, words),
        ),
        ("INSERT INTO inbound_keys VALUES ('telegram', 'a', ?, ?)", (f"k{number}", number)),
        ("INSERT INTO places VALUES (?, 'telegram', 'a', ?, '', '', ?, 1, 1)", (number, f"c{number}", session)),
        (
            "INSERT INTO place_sessions (session_id, place_id, generation, state, context, recipe, created_at_ms)"
            " VALUES (?, ?, 1, 'active', ?, '', 1)",
            (session, number, words),
        ),
        ("INSERT INTO people VALUES (?, 'name', 1)", (person,)),
        ("INSERT INTO session_files VALUES (?, 'f00', ?, 1, 1)", (session, person)),
        (
            "INSERT INTO sessions (number, session_id, sequence, save_id, version, context_epoch, context_length,"
            " event_sequence, created_at_ms, updated_at_ms, state, session_context, metadata)"
            " VALUES (?, ?, 1, 'x', 1, 1, 1, 1, 1, 1, '', ?, '')",
            (number, session, words),
        ),
        ("INSERT INTO context_items VALUES (?, ?, 1, 0, 'user', 1, ?)", (number, session, words)),
        (
            "INSERT INTO deliveries (source, surface, part, session_id, platform, account, chat, priority, view,"
            " digest, state, created_at_ms, updated_at_ms)"
            " VALUES (?, 'answer', 0, ?, 'telegram', 'a', 'c', 1, ?, '', 'sent', 1, 1)",
            (session, session, words.encode()),
        ),
        ("INSERT INTO receipts VALUES (?, ?, 1, ?)", (session, session, words)),
        (
            "INSERT INTO audit (at_ms, kind, principal, detail) VALUES (1, 'message', ?, '')",
            (person,),
        ),
    ):
        connection.execute(statement, values)
