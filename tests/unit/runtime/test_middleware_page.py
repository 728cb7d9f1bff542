"""The page on middleware: its table names every hook, and its example does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from runtime import Middleware, events, ops
from runtime.protocol import SystemMessage
from runtime.store import SqliteStore
from runtime.testing import ScriptedModel
from tests.support.sessions import agent_on, seen, stored

PAGE = (Path(__file__).parents[3] / "docs" / "middleware.md").read_text()
HOOKS = {name for name, value in vars(Middleware).items() if not name.startswith("_") and callable(value)}


def test_every_hook_is_in_the_table_and_no_other() -> None:
    """A hook that is added is documented, and one that is gone is not promised."""
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == HOOKS


async def test_the_example_works(store: SqliteStore) -> None:
    """A key is refused without a trace, the day is in the request alone, and the turn gets one more step."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/middleware.md", "exec"), names)
    model = ScriptedModel(["done", "yes, they pass"])
    async with agent_on(store, model, middleware=[names["House"]("Monday")]) as agent:
        await agent.submit(ops.Message(text="my key is sk-" + "a" * 20))
        assert "looks like a key" in (await seen(agent, events.TurnAborted)).reason
        assert len((await stored(store)).context) == 0
        await agent.submit(ops.Message(text="hello"))
        assert (await seen(agent, events.TurnComplete)).last_assistant_message == "yes, they pass"
    assert [list(request.reminders) for request in model.requests] == [["Today is Monday."]] * 2
    notes = [item.text for item in model.requests[1].context if isinstance(item, SystemMessage)]
    assert notes == ["Before you end: did you run the tests?"]
