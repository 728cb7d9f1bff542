"""The examples of the documentation do what the pages say, and stay short enough to be read."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import Adapter
from adapters.testing import CONTRACT, Check, Failure
from runtime.testing import ScriptedModel
from tests.contract.adapter_worlds import ENVIRONMENT
from tests.support.sessions import agent_on, call, open_store, results, stored, talk

DOCS = Path(__file__).parents[2] / "docs"
LONGEST = 60


def example(page: str, marker: str) -> dict[str, Any]:
    """What the one Python example of a page with this in it defines."""
    found = [one for one in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL) if marker in one]
    assert len(found) == 1, f"{page} has {len(found)} examples with {marker}"
    lines = [line for line in found[0].splitlines() if line.strip()]
    assert len(lines) <= LONGEST, f"the example of {page} has {len(lines)} lines, more than {LONGEST}"
    names: dict[str, Any] = {}
    exec(compile(found[0], f"docs/{page}", "exec"), names)
    return names


class FolderWorld:
    """The person who puts files into the folder of the example, and reads what comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = example("adapters.md", "class FolderAdapter")
        self.place, self.person = self._names["PLACE"], "me"
        self._count = itertools.count(1)

    def adapter(self) -> Adapter:
        return self._names["FolderAdapter"](self.folder, ENVIRONMENT)

    async def say(self, text: str) -> None:
        self._put(text)

    async def press(self, token: str) -> None:
        for text in await self.shown():
            for line in text.splitlines():
                if line.endswith(f" {token}"):
                    self._put(line.partition("] ")[2])
                    return
        raise AssertionError(f"nobody sees a button {token}")

    def _put(self, text: str) -> None:
        name = f"{next(self._count):06}"
        draft = self.folder / "in" / f"{name}.draft"
        draft.write_text(text)
        draft.rename(draft.with_suffix(".txt"))

    async def shown(self) -> Sequence[str]:
        files = sorted((self.folder / "out").iterdir(), key=lambda file: file.stat().st_mtime_ns)
        return [file.read_text() for file in files]

    async def fail_next(self, failure: Failure) -> bool:
        return False


@asynccontextmanager
async def folder_world(folder: Path) -> AsyncGenerator[FolderWorld]:
    """A folder of its own."""
    yield FolderWorld(folder)


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
async def test_adapter_of_the_page_keeps_the_contract(tmp_path: Path, check: Check) -> None:
    """Who begins with the example of docs/adapters.md begins with an adapter that works."""
    async with folder_world(tmp_path) as world:
        await check(world)


async def test_tool_of_the_page_works(tmp_path: Path) -> None:
    """The tool of docs/tools.md runs without asking anybody, and says what was wrong with its arguments."""
    dice = example("tools.md", "async def dice")["dice"]
    calls = [call("good", "dice", sides=6, seed=1), call("bad", "dice", sides=1, seed=1)]
    store = await open_store(tmp_path)
    async with agent_on(store, ScriptedModel([calls, "done"]), tools=[dice]) as agent:
        await talk(agent, "roll")
    told = results(await stored(store))
    await store.aclose()
    assert told["good"] in "123456"
    assert "at least 2 sides" in told["bad"]
