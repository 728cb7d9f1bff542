"""Files out and in: sendDocument and its kin, albums, getFile."""

from __future__ import annotations

from typing import Any, Final

from adapters.emulators.telegram.call import Call, Upload
from adapters.emulators.telegram.entities import FormattedText
from adapters.emulators.telegram.errors import ApiError, bad_request
from adapters.emulators.telegram.images import image_size
from adapters.emulators.telegram.keyboard import check_limits
from adapters.emulators.telegram.methods.messages import caption_content, send
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.rendering import file_fields
from adapters.emulators.telegram.target import Envelope, place, read_envelope
from adapters.emulators.telegram.text import MAX_CAPTION, accept_text, read_text
from adapters.emulators.telegram.world import StoredFile, without_none
from adapters.emulators.wire_json import JsonObject, is_array, is_object

MAX_DOWNLOAD: Final = 20 << 20
MAX_UPLOAD: Final = 50 << 20
MAX_PHOTO: Final = 10 << 20
MAX_PHOTO_SIDES: Final = 10_000
ALBUM: Final = range(2, 11)
ALBUM_KINDS: Final = frozenset({"photo", "video", "document", "audio", "live_photo"})
APART: Final = frozenset({"document", "audio"})
"""Kinds that make an album only among themselves."""


async def send_document(platform: Platform, call: Call) -> JsonObject:
    """Send a file of any kind."""
    return await _send_one(platform, call, "document")


async def send_photo(platform: Platform, call: Call) -> JsonObject:
    """Send a picture."""
    return await _send_one(platform, call, "photo")


async def send_voice(platform: Platform, call: Call) -> JsonObject:
    """Send a voice note."""
    return await _send_one(platform, call, "voice")


async def send_audio(platform: Platform, call: Call) -> JsonObject:
    """Send music."""
    return await _send_one(platform, call, "audio")


async def send_video(platform: Platform, call: Call) -> JsonObject:
    """Send a video."""
    return await _send_one(platform, call, "video")


async def _send_one(platform: Platform, call: Call, kind: str) -> JsonObject:
    if not call.text(kind) and call.upload(kind) is None:
        raise bad_request(f"There is no {kind} in the request")
    caption = read_text(call.text("caption"), call.text("parse_mode"), call.lenient_json("caption_entities"))
    envelope = read_envelope(call)
    placement = place(platform, call, envelope)
    content = _content(platform, call, kind, call.text(kind) or kind, caption)
    check_limits(envelope.markup)
    return send(platform, call, placement, envelope, content)


def _content(platform: Platform, call: Call, kind: str, reference: str, caption: FormattedText) -> JsonObject:
    accepted = accept_text(caption, limit=MAX_CAPTION, allow_empty=True)
    file = _file(platform, call, kind, reference)
    return media_object(kind, file) | caption_content(platform, accepted)


def _file(platform: Platform, call: Call, kind: str, reference: str) -> StoredFile:
    """The file that a parameter means: a part of the request, or one the server has. Raises ApiError 400 or 413."""
    upload = call.arguments.uploads.get(reference.removeprefix("attach://"))
    if upload is not None:
        return _keep(platform, kind, upload)
    if reference in platform.world.files:
        return platform.world.files[reference]
    if reference.startswith(("http://", "https://")):
        # Nothing leaves this machine, so no address can be fetched.
        raise bad_request("failed to get HTTP URL content")
    raise bad_request("wrong file identifier/HTTP URL specified")


def _keep(platform: Platform, kind: str, upload: Upload) -> StoredFile:
    if not upload.content:
        raise bad_request("file must be non-empty")
    if len(upload.content) > MAX_UPLOAD:
        raise ApiError(413, "Request Entity Too Large")
    if kind == "photo":
        _check_photo(upload.content)
    return platform.world.store(kind, upload.name, upload.mime_type, upload.content)


def _check_photo(content: bytes) -> None:
    if len(content) > MAX_PHOTO:
        raise bad_request("file is too big")
    size = image_size(content)
    if size is None:
        raise bad_request("IMAGE_PROCESS_FAILED")
    width, height = size
    if not width or not height or width + height > MAX_PHOTO_SIDES or max(size) > 20 * min(size):
        raise bad_request("PHOTO_INVALID_DIMENSIONS")


def media_object(kind: str, file: StoredFile) -> JsonObject:
    """The field of a message that carries a file."""
    base = file_fields(file)
    named = without_none(file_name=file.name, mime_type=file.mime_type)
    if kind == "photo":
        width, height = image_size(file.content) or (90, 90)
        return {"photo": [base | {"width": width, "height": height}]}
    extra: dict[str, JsonObject] = {
        "voice": {"duration": 1, "mime_type": file.mime_type or "audio/ogg"},
        "audio": {"duration": 1} | named,
        "video": {"duration": 1, "width": 640, "height": 480} | named,
        "sticker": {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False},
    }
    return {kind: base | extra.get(kind, named)}


async def send_media_group(platform: Platform, call: Call) -> list[JsonObject]:
    """Send an album; returns its messages."""
    envelope = read_envelope(call)
    items = _read_album(call)
    placement = place(platform, call, envelope)
    contents = [_content(platform, call, kind, reference, caption) for kind, reference, caption in items]
    album = str(platform.album_ids.take())
    bare = Envelope(thread=envelope.thread, reply=envelope.reply, markup=None, protected=envelope.protected)
    return [send(platform, call, placement, bare, content, album=album) for content in contents]


def _read_album(call: Call) -> list[tuple[str, str, FormattedText]]:
    value = call.json("media", "media JSON object")
    if not is_array(value):
        raise bad_request("Expected an Array of InputMedia")
    if len(value) not in ALBUM:
        raise bad_request("Wrong number of messages in an album: must include 2-10 items")
    items = [_read_item(one) for one in value]
    kinds = {kind for kind, _, _ in items}
    if len(kinds) > 1 and kinds & APART:
        raise bad_request("Media can't be mixed in an album: documents and audio stand alone")
    return items


def _read_item(value: Any) -> tuple[str, str, FormattedText]:
    if not is_object(value):
        raise bad_request("Can't parse InputMedia: expected an Object")
    caption = read_text(str(value.get("caption", "")), str(value.get("parse_mode", "")), value.get("caption_entities"))
    if not value.get("media"):
        raise bad_request("Can't parse InputMedia: media not found")
    kind = str(value.get("type"))
    if kind not in ALBUM_KINDS:
        raise bad_request(f"Can't parse InputMedia: type \"{kind}\" can't be used in sendMediaGroup")
    return kind, str(value["media"]), caption


async def get_file(platform: Platform, call: Call) -> JsonObject:
    """Where a file can be downloaded for the next hour; files over 20 MB cannot."""
    identity = call.text("file_id")
    if not identity:
        raise bad_request("file_id not specified")
    file = platform.world.files.get(identity)
    if file is None:
        raise bad_request("wrong file_id or the file is temporarily unavailable")
    if len(file.content) > MAX_DOWNLOAD:
        raise bad_request("file is too big")
    platform.file_links[file.path] = platform.clock.now() + platform.knobs.file_link_life
    return file_fields(file) | {"file_path": file.path}
