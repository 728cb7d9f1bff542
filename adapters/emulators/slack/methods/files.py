"""files.*: an upload is asked for, made, and completed; only then there is a file."""

from __future__ import annotations

import mimetypes
from typing import Final

from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.content import read_thread
from adapters.emulators.slack.errors import ApiError, invalid_arguments
from adapters.emulators.slack.rendering import file_object
from adapters.emulators.slack.world import Channel, File, Message
from adapters.emulators.wire_json import JsonObject, is_array, is_object

LARGEST: Final = 1 << 30
"""Documented: one gigabyte."""
MOST: Final = 100
UPLOAD_PATH: Final = "/upload/v1/"
BINARY: Final = "application/octet-stream"


def upload_address(call: Call) -> JsonObject:
    """Where the bytes go."""
    length = call.number_of("length", 0, 0, 1 << 40)
    name = call.text("filename")
    if not name or length <= 0:
        raise invalid_arguments("filename and a length above 0 are required")
    if length > LARGEST:
        raise ApiError("file_upload_size_restricted")
    file = File(
        id=call.platform.new_id("F"),
        name=name,
        user=call.platform.app.bot_user,
        created=int(call.platform.clock.now()),
        mimetype=mimetypes.guess_type(name)[0] or BINARY,
        length=length,
    )
    call.platform.world.files[file.id] = file
    return {"upload_url": f"{call.platform.url}{UPLOAD_PATH}{file.id}", "file_id": file.id}


def complete(call: Call) -> JsonObject:
    """Make files of what was uploaded, and share them in a channel if one is given."""
    files = _uploaded(call)
    channel = call.writable("channel_id") if call.has("channel_id") else None
    if call.has("channels") or call.has("blocks"):
        call.violate("not_emulated", where="channels or blocks")
    thread = read_thread(call, channel) if channel is not None else None
    for file in files:
        file.complete = True
    if channel is not None:
        _share(call, files, channel, thread)
    return {"files": [file_object(file, call.platform.app, call.platform.url) for file in files]}


def _uploaded(call: Call) -> list[File]:
    given = call.params.get("files")
    if not is_array(given) or not 1 <= len(given) <= MOST:
        raise invalid_arguments("must be from 1 to 100 files [json-pointer:/files]")
    files: list[File] = []
    for one in given:
        identity = one.get("id") if is_object(one) else None
        file = call.platform.world.files.get(identity) if isinstance(identity, str) else None
        if file is None or file.content is None or file.complete:
            raise ApiError("file_not_found")
        if len(file.content) != file.length:
            raise ApiError("file_update_failed")
        title = one.get("title")
        file.title = title if isinstance(title, str) else file.name
        files.append(file)
    return files


def _share(call: Call, files: list[File], channel: Channel, thread: str | None) -> None:
    app = call.platform.app
    message = Message(
        ts=call.platform.new_ts(),
        user=app.bot_user,
        own=True,
        bot_id=app.bot_id,
        text=call.text("initial_comment"),
        subtype="file_share",
        thread_ts=thread,
        files=[file.id for file in files],
    )
    for file in files:
        file.shares.setdefault(channel.id, []).append(message.ts)
    call.platform.post(channel, message)


def info(call: Call) -> JsonObject:
    """One file."""
    file = _find(call)
    body = file_object(file, call.platform.app, call.platform.url)
    body["shares"] = {"public": {channel: [{"ts": ts} for ts in all_ts] for channel, all_ts in file.shares.items()}}
    body["channels"] = list(file.shares)
    return {"file": body, "comments": [], "response_metadata": {"next_cursor": ""}}


def delete(call: Call) -> JsonObject:
    """Remove an own file; messages that had it keep an empty place."""
    file = _find(call)
    if file.user != call.platform.app.bot_user:
        raise ApiError("cant_delete_file")
    file.deleted, file.content = True, b""
    return {}


def _find(call: Call) -> File:
    file = call.platform.world.files.get(call.text("file"))
    if file is None or not file.complete:
        raise ApiError("file_not_found")
    if file.deleted:
        raise ApiError("file_deleted")
    return file


HANDLERS: dict[str, Handler] = {
    "files.getUploadURLExternal": upload_address,
    "files.completeUploadExternal": complete,
    "files.info": info,
    "files.delete": delete,
}
