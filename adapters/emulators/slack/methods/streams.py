"""chat.*Stream: a message that grows while it is written, for a few minutes at most."""

from __future__ import annotations

from typing import Final

from adapters.emulators.slack.blocks import MESSAGE_BLOCKS
from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.content import (
    MARKDOWN_TEXT,
    check_blocks,
    read_blocks,
    read_look,
    read_metadata,
    read_thread,
)
from adapters.emulators.slack.errors import ApiError, invalid_arguments
from adapters.emulators.slack.methods.sessions import STATUSES, set_status_of
from adapters.emulators.slack.world import Channel, ChannelKind, Message, Stream
from adapters.emulators.wire_json import JsonObject, is_array, is_object

TASK_TEXT: Final = 256
"""Documented for title, details and output of a task; reports say that more is taken."""
TASK_STATUSES: Final = ("pending", "in_progress", "complete", "error")
MODES: Final = ("timeline", "plan", "dense")
STOPPED: Final = "stopped_by_user"
_MEMBERS: Final = {
    "markdown_text": ({"text"}, frozenset[str]()),
    "plan_update": ({"title"}, frozenset[str]()),
    "task_update": ({"id", "title", "status"}, frozenset({"details", "output", "sources"})),
    "blocks": ({"blocks"}, frozenset[str]()),
}


def start(call: Call) -> JsonObject:
    """Begin a streamed reply."""
    channel = call.writable()
    thread = read_thread(call, channel)
    _check_recipient(call, channel)
    mode = call.text("task_display_mode") or "timeline"
    if mode not in MODES:
        raise invalid_arguments("must be a valid enum value [json-pointer:/task_display_mode]")
    stream = Stream(
        started_at=call.platform.clock.now(), display_mode=mode, recipient=call.text("recipient_user_id") or None
    )
    _take(call, stream)
    app, look = call.platform.app, read_look(call)
    message = Message(
        ts=call.platform.new_ts(),
        user=app.bot_user,
        own=True,
        bot_id=app.bot_id,
        text=stream.text,
        thread_ts=thread,
        stream=stream,
        username=look.username,
        icons=look.icons,
        unfurl_links=False,
        unfurl_media=False,
    )
    call.platform.post(channel, message)
    return {"channel": channel.id, "ts": message.ts}


def _check_recipient(call: Call, channel: Channel) -> None:
    if channel.kind is ChannelKind.DIRECT:
        return
    if not call.has("recipient_user_id"):
        raise ApiError("missing_recipient_user_id")
    if not call.has("recipient_team_id"):
        raise ApiError("missing_recipient_team_id")
    if call.text("recipient_user_id") not in channel.members:
        raise ApiError("user_not_found")


def append(call: Call) -> JsonObject:
    """Let a stream grow."""
    channel, message, stream = _streaming(call)
    if not call.has("markdown_text") and not call.has("chunks"):
        raise ApiError("markdown_text_or_chunks_required")
    _take(call, stream)
    _show(call, channel, message, stream)
    return {"channel": channel.id, "ts": message.ts}


def stop(call: Call) -> JsonObject:
    """End a stream; the blocks go to its bottom. Only now its whole size is looked at."""
    channel, message, stream = _streaming(call)
    blocks, metadata = read_blocks(call), read_metadata(call)
    status = call.text("session_status") or "active"
    if status not in STATUSES:
        raise invalid_arguments("must be a valid enum value [json-pointer:/session_status]")
    previous = call.platform.message_object(message, channel)
    _take(call, stream)
    if weight(stream) > call.platform.knobs.stream_budget:
        raise ApiError("msg_too_long")
    if not stream.text and not stream.tasks and not stream.blocks and not stream.plan_title and not blocks:
        raise ApiError("no_text")
    stream.ended = "stopped"
    message.text = stream.text
    message.blocks = [*_rendered(call, stream), *(blocks or [])]
    message.metadata = metadata or message.metadata
    call.platform.changed(channel, message, previous)
    if message.thread_ts is not None:
        set_status_of(call.platform, channel, message.thread_ts, status)
    return {"channel": channel.id, "ts": message.ts, "message": call.object_of(message, channel)}


def _streaming(call: Call) -> tuple[Channel, Message, Stream]:
    channel = call.channel()
    if channel.archived:
        raise ApiError("is_archived")
    message = call.message(channel, "ts")
    if not message.own:
        raise ApiError("message_not_owned_by_app")
    stream = message.stream
    if stream is not None and stream.ended == STOPPED and call.method == "chat.appendStream":
        raise ApiError(STOPPED)
    if stream is None or not call.platform.live(stream):
        raise ApiError("message_not_in_streaming_state")
    return channel, message, stream


def _take(call: Call, stream: Stream) -> None:
    """What a call adds, all or nothing."""
    markdown, chunks = call.text("markdown_text"), call.params.get("chunks")
    if markdown and chunks:
        raise ApiError("cannot_provide_both_markdown_text_and_chunks")
    if not markdown and not chunks:
        return
    if stream.uses_chunks not in (None, bool(chunks)):
        raise ApiError("streaming_mode_mismatch")
    if len(markdown) > MARKDOWN_TEXT:
        raise ApiError("msg_too_long")
    pieces = [] if not chunks else _checked(call, stream, chunks)
    stream.uses_chunks = bool(chunks)
    if markdown:
        stream.parts.append(markdown)
    for piece in pieces:
        _add(stream, piece)


def _checked(call: Call, stream: Stream, chunks: object) -> list[JsonObject]:
    if not is_array(chunks):
        raise ApiError("invalid_chunks")
    pieces: list[JsonObject] = []
    for chunk in chunks:
        if not is_object(chunk) or chunk.get("type") not in _MEMBERS:
            raise ApiError("invalid_chunks")
        _check_members(chunk)
        _check_values(call, chunk)
        if chunk["type"] == "blocks":
            chunk = {**chunk, "blocks": check_blocks(call, chunk["blocks"])}
        pieces.append(chunk)
    added = sum(len(piece["blocks"]) for piece in pieces if piece["type"] == "blocks")
    if len(stream.blocks) + added > MESSAGE_BLOCKS:
        raise ApiError("msg_blocks_too_many")
    return pieces


def _check_members(chunk: JsonObject) -> None:
    required, optional = _MEMBERS[chunk["type"]]
    given = {name for name, value in chunk.items() if value is not None} - {"type"}
    if required - given or given - required - optional:
        raise ApiError("invalid_chunks")
    if chunk["type"] == "blocks":
        if not is_array(chunk["blocks"]):
            raise ApiError("invalid_chunks")
    elif not all(isinstance(chunk[name], str) for name in given - {"sources"}):
        raise ApiError("invalid_chunks")


def _check_values(call: Call, chunk: JsonObject) -> None:
    if chunk["type"] == "markdown_text" and len(chunk["text"]) > MARKDOWN_TEXT:
        raise ApiError("msg_too_long")
    if chunk["type"] != "task_update":
        return
    if chunk["status"] not in TASK_STATUSES:
        raise ApiError("invalid_chunks")
    for name in ("title", "details", "output"):
        if len(chunk.get(name) or "") > TASK_TEXT:
            call.violate("task_text_too_long", where=name, length=len(chunk[name]), limit=TASK_TEXT)


def _add(stream: Stream, piece: JsonObject) -> None:
    match piece["type"]:
        case "markdown_text":
            stream.parts.append(piece["text"])
        case "plan_update":
            stream.plan_title = piece["title"]
        case "task_update":
            task = {name: value for name, value in piece.items() if name != "type" and value is not None}
            stream.tasks[piece["id"]] = stream.tasks.get(piece["id"], {}) | task
        case _:
            stream.blocks.extend(piece["blocks"])


def weight(stream: Stream) -> int:
    """Weighted bytes of a stream: details and output of tasks count twice."""
    total = _bytes(stream.text) + _bytes(stream.plan_title)
    for task in stream.tasks.values():
        total += _bytes(task["title"]) + 2 * sum(_bytes(task.get(name, "")) for name in ("details", "output"))
    return total


def _bytes(text: str) -> int:
    # JSON can spell half a surrogate pair, which no text in UTF-8 contains.
    return len(text.encode(errors="surrogatepass"))


def _show(call: Call, channel: Channel, message: Message, stream: Stream) -> None:
    message.text = stream.text
    message.blocks = _rendered(call, stream)
    # No event: apps are not told of every piece of a stream.
    call.platform.show_message("stream", message, channel)


def _rendered(call: Call, stream: Stream) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    tasks = [_task_card(task) for task in stream.tasks.values()]
    if tasks and stream.display_mode == "plan":
        blocks.append({"type": "plan", "title": stream.plan_title or "Plan", "tasks": tasks})
    else:
        blocks.extend(tasks)
    if stream.text:
        blocks.append({"type": "markdown", "text": stream.text})
    given = [*blocks, *stream.blocks]
    return [{"block_id": call.platform.new_block_id(), **block} for block in given]


def _task_card(task: JsonObject) -> JsonObject:
    card: JsonObject = {"type": "task_card", "task_id": task["id"], "title": task["title"], "status": task["status"]}
    for name in ("details", "output"):
        if task.get(name):
            section = {"type": "rich_text_section", "elements": [{"type": "text", "text": task[name]}]}
            card[name] = {"type": "rich_text", "elements": [section]}
    if task.get("sources"):
        card["sources"] = task["sources"]
    return card


HANDLERS: dict[str, Handler] = {
    "chat.startStream": start,
    "chat.appendStream": append,
    "chat.stopStream": stop,
}
