"""The loopback model server says what its script says, and its log is a witness that no client can forge."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ModelRefused
from runtime.models.base import ModelReply, ModelRequest
from runtime.models.provider import openai_compatible
from runtime.protocol.context import Context, TextPart, ToolCall, UserMessage
from tests.support import model_server
from tests.support.model_server import ModelServer, text

SCRIPT: dict[str, Any] = {
    "rules": [
        {"contains": "note", "times": 1, "reply": {"calls": [{"name": "write_file", "arguments": {"path": "a"}}]}},
        {"contains": "note", "role": "user", "reply": {"text": "{n}: {last}"}},
    ],
    "replies": [{"text": "first"}],
    "default": {"text": "always"},
}


async def ask(base_url: str, words: str) -> ModelReply:
    """One request, in a client of its own."""
    model = openai_compatible(base_url, "key", "tiny")
    try:
        request = ModelRequest(context=Context([UserMessage(id="m", author="Ann", text=words)]))
        return await model.step(request, lambda delta: None)
    finally:
        await model.aclose()


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str, Path]]:
    """The server as a process of its own, its address and its log."""
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps(SCRIPT))
    command = [sys.executable, model_server.__file__, "--script", str(script), "--log", str(log)]
    started = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert started.stdout is not None
    try:
        yield started, (await started.stdout.readline()).decode().strip(), log
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def test_a_process_follows_its_script_and_keeps_a_log(
    process: tuple[asyncio.subprocess.Process, str, Path],
) -> None:
    """Rules come first and run out, then the list, then the default; every request and its end stand in the log."""
    server, base_url, log = process
    words = ["note it", "note that", "note 3", "note 4", "hello", "hello again"]
    replies = [await ask(base_url, word) for word in words]
    assert [part for reply in replies for part in reply.parts] == [
        ToolCall(call_id="call_0", name="write_file", arguments={"path": "a"}),
        TextPart(text="2: note that"),
        TextPart(text="3: note 3"),
        TextPart(text="4: note 4"),
        TextPart(text="first"),
        TextPart(text="always"),
    ]
    server.terminate()
    assert await server.wait() == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["event"], line["n"]) for line in lines] == [
        (event, number) for number in range(1, 7) for event in ("request", "done")
    ]
    assert [line["body"]["messages"][-1]["content"] for line in lines[::2]] == words


async def test_the_log_has_a_request_before_it_is_answered(tmp_path: Path) -> None:
    """A client that dies while it waits has still been seen asking, and its disconnection is written down."""
    log = tmp_path / "log.jsonl"
    async with ModelServer([text("some words", hold=True)], log=log) as server:
        task = asyncio.create_task(ask(server.base_url, "hello"))
        await server.held.wait()
        assert [json.loads(line)["event"] for line in log.read_text().splitlines()] == ["request"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until_ended(1)
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()] == ["request", "disconnected"]


async def test_an_exhausted_script_is_an_error() -> None:
    """A request that the script did not foresee fails, and says which one it was."""
    async with ModelServer() as server:
        with pytest.raises(ModelRefused, match="the script has no reply for request 1"):
            await ask(server.base_url, "hello")


async def test_an_answer_in_one_piece() -> None:
    """A client that does not stream gets the same answer as one object."""
    import aiohttp

    wanted = model_server.calls(("f", {"n": 1}), text="look")
    async with ModelServer([wanted]) as server, aiohttp.ClientSession() as session:
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
        async with session.post(f"{server.base_url}/chat/completions", json=body) as response:
            whole = await response.json()
    message = whole["choices"][0]["message"]
    assert (message["content"], message["tool_calls"][0]["function"]) == (
        "look",
        {"name": "f", "arguments": '{"n": 1}'},
    )
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
