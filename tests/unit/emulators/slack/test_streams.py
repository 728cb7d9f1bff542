"""Streams and agent sessions: their limits, their end, and the Stop of the person."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators.errors import NotPossible
from adapters.emulators.slack import SlackEmulator
from tests.unit.emulators.slack.raw_app import ALICE, BOB, TEAM, RawApp, section


def words(text: str) -> dict[str, Any]:
    """A chunk of text."""
    return {"type": "markdown_text", "text": text}


def task(number: str, status: str, **more: str) -> dict[str, Any]:
    """A chunk about a task."""
    return {"type": "task_update", "id": number, "title": f"Task {number}", "status": status, **more}


@pytest.fixture
async def where(emulator: SlackEmulator) -> dict[str, str]:
    """A thread in Alice's direct messages."""
    asked = await emulator.say(ALICE, "question")
    return {"channel": asked["channel"], "thread_ts": asked["ts"]}


async def begin(app: RawApp, where: dict[str, str], **content: Any) -> dict[str, str]:
    """Start a stream; where it is."""
    started = await app.result("chat.startStream", **where, **content)
    return {"channel": where["channel"], "ts": started["ts"]}


async def test_stream_of_chunks(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """Text adds up, tasks change in place, and the blocks of the end stand at the bottom."""
    stream = await begin(app, where, task_display_mode="plan", chunks=[{"type": "plan_update", "title": "Plan A"}])
    await app.result("chat.appendStream", **stream, chunks=[task("1", "in_progress"), words("Hel")])
    await app.result("chat.appendStream", **stream, chunks=[task("1", "complete", output="done"), words("lo")])
    assert emulator.messages(ALICE)[-1]["streaming_state"] == "in_progress"
    ended = await app.result("chat.stopStream", **stream, chunks=[], blocks=[section("footer")])
    blocks = ended["message"]["blocks"]
    assert [one["type"] for one in blocks] == ["plan", "markdown", "section"]
    assert (blocks[0]["title"], [one["status"] for one in blocks[0]["tasks"]]) == ("Plan A", ["complete"])
    assert (ended["message"]["text"], ended["message"]["streaming_state"]) == ("Hello", "completed")
    assert await app.error("chat.appendStream", **stream, chunks=[words("x")]) == "message_not_in_streaming_state"
    await app.result("chat.update", **stream, text="after")
    emulator.assert_clean()


async def test_stream_ends_after_five_minutes(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """The server closes a stream five minutes after its start, appends or not; then it can be updated."""
    stream = await begin(app, where, markdown_text="a")
    await emulator.advance(299)
    await app.result("chat.appendStream", **stream, markdown_text="b")
    assert await app.error("chat.update", **stream, text="x") == "streaming_state_conflict"
    await emulator.advance(2)
    assert await app.error("chat.appendStream", **stream, markdown_text="c") == "message_not_in_streaming_state"
    assert await app.error("chat.stopStream", **stream) == "message_not_in_streaming_state"
    await app.result("chat.update", **stream, text="abc")
    assert emulator.messages(ALICE)[-1]["text"] == "abc"


async def test_modes_do_not_mix(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """A stream of text takes no chunks, one of chunks no text, and no call both."""
    both = {"markdown_text": "x", "chunks": [words("y")]}
    assert await app.error("chat.startStream", **where, **both) == "cannot_provide_both_markdown_text_and_chunks"
    text = await begin(app, where, markdown_text="x")
    assert await app.error("chat.appendStream", **text, chunks=[words("y")]) == "streaming_mode_mismatch"
    chunks = await begin(app, where, chunks=[words("x")])
    assert await app.error("chat.stopStream", **chunks, markdown_text="y") == "streaming_mode_mismatch"
    assert await app.error("chat.appendStream", **chunks) == "markdown_text_or_chunks_required"


CHUNKS: list[tuple[Any, str]] = [
    ([{"type": "song"}], "invalid_chunks"),
    ([{"type": "markdown_text"}], "invalid_chunks"),
    ([{"type": "markdown_text", "text": "x", "colour": "red"}], "invalid_chunks"),
    ([{"type": "task_update", "id": "1", "title": "x", "status": "maybe"}], "invalid_chunks"),
    ("nonsense", "invalid_chunks"),
    ([words("x" * 12_001)], "msg_too_long"),
    ([{"type": "blocks", "blocks": [section("x" * 3001)]}], "invalid_blocks"),
    ([{"type": "blocks", "blocks": [section("x")] * 26}] * 2, "msg_blocks_too_many"),
]


@pytest.mark.parametrize(("chunks", "error"), CHUNKS, ids=[f"{one[1]}-{n}" for n, one in enumerate(CHUNKS)])
async def test_refused_chunks(
    emulator: SlackEmulator, app: RawApp, where: dict[str, str], chunks: Any, error: str
) -> None:
    """Chunks that Slack does not know or that are too big change nothing."""
    stream = await begin(app, where, chunks=[words("kept")])
    assert await app.error("chat.appendStream", **stream, chunks=chunks) == error
    assert emulator.messages(ALICE)[-1]["text"] == "kept"


async def test_budget_is_looked_at_when_it_stops(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """Too much text is taken piece by piece and refused at the end; details of tasks count twice."""
    stream = await begin(app, where, chunks=[words("x" * 10_000)])
    await app.result("chat.appendStream", **stream, chunks=[task("1", "complete", details="y" * 250)])
    await app.result("chat.appendStream", **stream, chunks=[task("2", "complete", details="y" * 250)])
    assert await app.error("chat.stopStream", **stream) == "msg_too_long"
    emulator.assert_clean()
    await app.result("chat.appendStream", **stream, chunks=[task("3", "complete", details="y" * 257)])
    assert [entry.name for entry in emulator.violations] == ["task_text_too_long"]


async def test_channels_need_a_recipient(emulator: SlackEmulator, app: RawApp) -> None:
    """In a channel a stream is for one person."""
    root = (await emulator.say(ALICE, "x", chat=TEAM))["ts"]
    where = {"channel": TEAM, "thread_ts": root}
    assert await app.error("chat.startStream", **where) == "missing_recipient_user_id"
    assert await app.error("chat.startStream", **where, recipient_user_id=ALICE) == "missing_recipient_team_id"
    recipient = {"recipient_user_id": "U0NONE", "recipient_team_id": emulator.app.team}
    assert await app.error("chat.startStream", **where, **recipient) == "user_not_found"
    await app.result("chat.startStream", **where, **{**recipient, "recipient_user_id": ALICE})
    assert await app.error("chat.appendStream", channel=TEAM, ts=root, markdown_text="x") == "message_not_owned_by_app"
    assert await app.error("chat.appendStream", channel=TEAM, ts="1.000001", markdown_text="x") == "message_not_found"


async def test_empty_stream_cannot_stop(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """A message needs something in it."""
    stream = await begin(app, where)
    assert await app.error("chat.stopStream", **stream) == "no_text"
    await app.result("chat.stopStream", **stream, markdown_text="x")


async def test_session_and_native_stop(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """Stop is there while the session is processing; it ends the streams of the thread and tells the app."""
    socket = await app.connect()
    thread = {"channel_id": where["channel"], "thread_ts": where["thread_ts"]}
    with pytest.raises(NotPossible):
        await emulator.stop_generation(ALICE, where["thread_ts"])
    await app.result("agents.sessions.setStatus", **thread, status="processing", title="Work", initiator_user_id=ALICE)
    stream = await begin(app, where, chunks=[words("x")])
    await socket.take()
    await emulator.stop_generation(ALICE, where["thread_ts"])
    event = await socket.event()
    assert (event["type"], event["user"], event["streaming_message_ts"]) == (
        "agent_session_stopped",
        ALICE,
        [stream["ts"]],
    )
    assert await app.error("chat.appendStream", **stream, chunks=[words("y")]) == "stopped_by_user"
    assert await app.error("chat.stopStream", **stream) == "message_not_in_streaming_state"
    # Slack leaves the status as it is.
    assert [one["status"] for one in emulator.sessions()] == ["processing"]
    await app.result("agents.sessions.setStatus", **thread, status="active", title="ignored")
    assert [(one["status"], one["title"]) for one in emulator.sessions()] == [("active", "Work")]


async def test_session_falls_back_after_an_hour(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """A session that says nothing for an hour is not processing any more."""
    thread = {"channel_id": where["channel"], "thread_ts": where["thread_ts"]}
    await app.result("agents.sessions.setStatus", **thread, status="processing")
    await emulator.advance(3599)
    assert emulator.sessions()[0]["status"] == "processing"
    await emulator.advance(2)
    assert emulator.sessions()[0]["status"] == "active"


async def test_stop_sets_the_session(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """The end of a stream makes the session active, or what it asks for."""
    thread = {"channel_id": where["channel"], "thread_ts": where["thread_ts"]}
    await app.result("agents.sessions.setStatus", **thread, status="processing")
    await app.result("chat.stopStream", **await begin(app, where, markdown_text="x"), session_status="suspended")
    assert emulator.sessions()[0]["status"] == "suspended"
    await app.result("chat.stopStream", **await begin(app, where, markdown_text="x"))
    assert emulator.sessions()[0]["status"] == "active"


async def test_sessions_are_refused(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """Wrong status, no thread, a stranger as initiator, an app that is no agent: each has its error."""
    call, thread = "agents.sessions.setStatus", {"channel_id": where["channel"], "thread_ts": where["thread_ts"]}
    assert await app.error(call, **thread, status="busy") == "invalid_status"
    assert await app.error(call, channel_id=where["channel"], status="active") == "thread_ts_required"
    assert await app.error(call, **thread, status="active", initiator_user_id=BOB) == "user_not_found"
    assert await app.error("agents.sessions.rename", **thread, title="x") == "session_not_found"
    emulator.subscribe(["message.im"])
    assert "warning" in await app.result(call, **thread, status="processing")
    await app.result("agents.sessions.rename", **thread, title="x")
    assert emulator.sessions()[0]["title"] == "x"
    emulator.app.agent = False
    assert await app.error(call, **thread, status="active") == "not_authorized"


async def test_older_status_shares_the_place(emulator: SlackEmulator, app: RawApp, where: dict[str, str]) -> None:
    """The free text clears itself after two minutes and goes when the session says something."""
    thread = {"channel_id": where["channel"], "thread_ts": where["thread_ts"]}
    await app.result("assistant.threads.setStatus", **thread, status="is thinking…")
    assert emulator.status(where["channel"], where["thread_ts"]) == "is thinking…"
    await emulator.advance(121)
    assert emulator.status(where["channel"], where["thread_ts"]) == ""
    await app.result("assistant.threads.setStatus", **thread, status="again")
    await app.result("agents.sessions.setStatus", **thread, status="processing")
    assert emulator.status(where["channel"], where["thread_ts"]) == ""
    prompts = [{"title": "a", "message": "b"}] * 5
    assert await app.error("assistant.threads.setSuggestedPrompts", channel_id=where["channel"], prompts=prompts)
