"""A call of the Bot API after the transport: method, parameters as text, files; and how the server reads parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import MultipartReader, web
from aiohttp.multipart import BodyPartReader

from adapters.emulators.telegram.bots import Bot
from adapters.emulators.telegram.errors import ApiError, bad_request
from adapters.emulators.wire_json import JsonObject, is_object

NOT_UTF8: Final = "Strings must be encoded in UTF-8"
TRUE: Final = frozenset({"true", "yes", "1"})
_INTEGER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file part of a request."""

    name: str | None
    mime_type: str | None
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Parameters as text, the way the server keeps them, and file parts by their names."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    uploads: Mapping[str, Upload] = field(default_factory=dict[str, Upload])


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call by one bot; `number` is its entry in the journal."""

    bot: Bot
    method: str
    arguments: Arguments
    number: int

    def text(self, name: str) -> str:
        """A parameter as text; empty if absent."""
        return self.arguments.values.get(name, "")

    def has(self, name: str) -> bool:
        return name in self.arguments.values

    def integer(self, name: str, default: int = 0, low: int | None = None, high: int | None = None) -> int:
        """A parameter as the server reads numbers: what does not begin with one is 0; then clamped."""
        value = default if not self.text(name) else to_integer(self.text(name))
        value = value if low is None else max(low, value)
        return value if high is None else min(high, value)

    def flag(self, name: str) -> bool:
        """A parameter as the server reads booleans."""
        return self.text(name).strip().lower() in TRUE

    def json(self, name: str, what: str) -> Any:
        """A parameter as JSON; None if absent. Raises ApiError 400 naming `what`."""
        if not self.text(name):
            return None
        try:
            return json.loads(self.text(name))
        except ValueError as error:
            raise bad_request(f"Can't parse {what}") from error

    def lenient_json(self, name: str) -> Any:
        """A parameter as JSON; None if absent or unreadable, where the server does not complain."""
        try:
            return json.loads(self.text(name))
        except ValueError:
            return None

    def upload(self, name: str) -> Upload | None:
        """The file of a parameter: its own part, or the one it names by attach://."""
        return self.arguments.uploads.get(self.text(name).removeprefix("attach://") or name)


def to_integer(text: str) -> int:
    """The number at the beginning of a text, 0 if there is none (td::to_integer)."""
    found = _INTEGER.match(text)
    return int(found.group()) if found else 0


async def read_request(request: web.Request) -> Arguments:
    """Parameters from the query and from a JSON, urlencoded or multipart body. Raises ApiError 400 or 413."""
    values = dict(request.query)
    uploads: dict[str, Upload] = {}
    try:
        if request.content_type == "application/json":
            values |= _flat(await request.text())
        elif request.content_type in ("multipart/form-data", "application/x-www-form-urlencoded"):
            for name, part in (await request.post()).items():
                if isinstance(part, web.FileField):
                    content = part.file.read()
                    uploads[name] = Upload(name=part.filename, mime_type=part.content_type, content=content)
                else:
                    values[name] = part if isinstance(part, str) else bytes(part).decode()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, "Request Entity Too Large") from error
    except UnicodeDecodeError as error:
        raise bad_request(NOT_UTF8) from error
    return Arguments(values=values, uploads=uploads)


def read_json(text: str) -> Arguments:
    """Parameters of a JSON object."""
    return Arguments(values=_flat(text))


async def read_multipart(reader: MultipartReader) -> Arguments:
    """Parameters of a multipart body, as clients answer a webhook with."""
    values: dict[str, str] = {}
    uploads: dict[str, Upload] = {}
    async for part in reader:
        if not isinstance(part, BodyPartReader) or part.name is None:
            continue
        content = bytes(await part.read())
        if part.filename is None:
            values[part.name] = content.decode()
        else:
            mime_type = part.headers.get("Content-Type")
            uploads[part.name] = Upload(name=part.filename, mime_type=mime_type, content=content)
    return Arguments(values=values, uploads=uploads)


def _flat(body: str) -> dict[str, str]:
    """Top-level members as text: the server keeps every parameter as text, whatever it came as."""
    if not body:
        return {}
    try:
        parsed = json.loads(body)
    except ValueError as error:
        raise bad_request("Can't parse JSON object") from error
    if not is_object(parsed):
        raise bad_request("Object expected")
    return {name: _as_text(value) for name, value in parsed.items() if value is not None}


def _as_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # JSON can spell half a surrogate pair, which no text in UTF-8 contains.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise bad_request(NOT_UTF8)
    return text


def file_summary(uploads: Mapping[str, Upload]) -> JsonObject:
    """File parts for the journal."""
    return {
        name: {"name": upload.name, "mime_type": upload.mime_type, "size": len(upload.content)}
        for name, upload in uploads.items()
    }
