"""A headless Chromium, driven over its own protocol: no driver program, no library."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 120.0
FLAGS = (
    "--headless=new", "--remote-debugging-port=0", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--disable-default-apps", "--no-proxy-server", "--hide-scrollbars", "--lang=en",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=1500,950",
)  # fmt: skip


def chromium() -> str:
    """The program. Without one the test is skipped on a developer's machine, and fails where everything must run."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium here; `.ci/run` installs it as root on Debian: apt-get install chromium")
        pytest.skip("needs Chromium: apt-get install chromium")
    return found


class Browser:
    """One page. Whatever it asks the network for is in `requests`, whatever went wrong in it in `problems`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requests: list[str] = []
        self.problems: list[str] = []

    async def listen(self) -> None:
        """Take in what the browser says, until it is gone."""
        async for message in self._socket:
            body = json.loads(message.data)
            if "id" in body:
                self._waiting.pop(body["id"]).set_result(body)
            elif body["method"] == "Network.requestWillBeSent":
                self.requests.append(body["params"]["request"]["url"])
            elif body["method"] == "Runtime.exceptionThrown":
                self.problems.append(str(body["params"]["exceptionDetails"]))
            elif body["method"] == "Log.entryAdded" and body["params"]["entry"]["source"] == "security":
                self.problems.append(body["params"]["entry"]["text"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the protocol and its answer."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
        async with asyncio.timeout(PATIENCE):
            body = await answer
        assert "error" not in body, (method, body)
        return body["result"]

    async def open(self, address: str) -> None:
        """Go there."""
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=address)

    async def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    async def until(self, condition: str) -> Any:
        """The value of an expression in the page once it is true; failing that, what the page shows."""
        asking = f"""new Promise((done) => {{
            const look = () => {{ const value = {condition}; if (value) done(value); else setTimeout(look, 40); }};
            look();
        }})"""
        try:
            return await self.run(asking)
        except TimeoutError:
            shown = await self.run("document.body.innerText")
            raise AssertionError(f"never came true: {condition}\n{shown}") from None

    async def type(self, words: str) -> None:
        """Write into what has the focus, and press Enter."""
        await self.call("Input.insertText", text=words)
        await self.key("Enter")

    async def key(self, name: str, *, alt: bool = False) -> None:
        """Press and release a key."""
        codes = {"Enter": 13, "Escape": 27, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(name, "")
        known = {"key": name, "windowsVirtualKeyCode": codes.get(name, ord(name[0])), "modifiers": 1 if alt else 0}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **known, **({"text": text} if text else {}))
        await self.call("Input.dispatchKeyEvent", type="keyUp", **known)


@asynccontextmanager
async def browser(folder: Path) -> AsyncGenerator[Browser]:
    """A fresh browser whose profile is in the folder; it is gone on the way out."""
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    process = await asyncio.create_subprocess_exec(
        chromium(), *FLAGS, *sandbox, f"--user-data-dir={folder}", "about:blank",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        process_group=0,
    )  # fmt: skip
    assert process.stderr is not None
    draining = None
    try:
        async with aiohttp.ClientSession(trust_env=False) as session, asyncio.timeout(None):
            port = await _port(process.stderr)
            draining = asyncio.ensure_future(_drain(process.stderr))
            async with session.ws_connect(await _page(session, port), max_msg_size=0) as socket:
                made = Browser(socket)
                listening = asyncio.ensure_future(made.listen())
                try:
                    yield made
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
    finally:
        if draining is not None:
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)
        if process.returncode is None:
            os.killpg(process.pid, 9)
        await process.wait()


async def _port(output: asyncio.StreamReader) -> int:
    async with asyncio.timeout(PATIENCE):
        async for line in output:
            if b"DevTools listening on ws://" in line:
                return int(line.split(b"127.0.0.1:")[1].split(b"/")[0])
    raise AssertionError("Chromium ended before it listened")


async def _drain(output: asyncio.StreamReader) -> None:
    """Read on, so that the browser never waits for us to read what it complains about."""
    while await output.readline():
        pass


async def _page(session: aiohttp.ClientSession, port: int) -> str:
    async with asyncio.timeout(PATIENCE):
        while True:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            if pages:
                return pages[0]["webSocketDebuggerUrl"]
            await asyncio.sleep(0.05)
