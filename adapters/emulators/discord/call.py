"""A call of the REST API after the transport: the operation, its parameters, and the files that came with it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from adapters.emulators.discord.bots import Bot
from adapters.emulators.discord.errors import ApiError, bad_request
from adapters.emulators.discord.schema import Operation
from adapters.emulators.wire_json import JsonObject, is_object

_FILE: Final = re.compile(r"files\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file part of a request."""

    filename: str
    content_type: str | None
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What came with a request. `strangers` are parts of a form that have no meaning."""

    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    uploads: Mapping[str, Upload] = field(default_factory=dict[str, Upload])
    """By the number in `files[n]`."""
    strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call by one bot; `number` is its entry in the journal."""

    bot: Bot
    operation: Operation
    path: Mapping[str, str]
    query: JsonObject
    body: Any
    uploads: Mapping[str, Upload]
    number: int

    @property
    def given(self) -> JsonObject:
        """The body as an object; empty if there is none."""
        return self.body if is_object(self.body) else {}


async def read_request(request: web.Request) -> Arguments:
    """What came with a request. Raises ApiError 400 or 413."""
    query = dict(request.query)
    try:
        match request.content_type:
            case "application/json":
                raw = await request.read()
                return Arguments(query=query, body=_json(raw) if raw else None)
            case "multipart/form-data":
                return await _form(request, query)
            case _:
                return Arguments(query=query, body=None)
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, 40005, "Request entity too large") from error


async def _form(request: web.Request, query: dict[str, str]) -> Arguments:
    body: Any = None
    uploads: dict[str, Upload] = {}
    strangers: list[str] = []
    for name, part in (await request.post()).items():
        numbered = _FILE.fullmatch(name)
        if numbered is not None and isinstance(part, web.FileField):
            content = part.file.read()
            uploads[numbered[1]] = Upload(filename=part.filename, content_type=part.content_type, content=content)
        elif name == "payload_json" and not isinstance(part, web.FileField):
            # Clients state its type, or do not; then it is text.
            body = _json(part if isinstance(part, str) else bytes(part))
        else:
            strangers.append(name)
    return Arguments(query=query, body=body, uploads=uploads, strangers=tuple(strangers))


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_request(50109, "The request body contains invalid JSON.") from error


def file_summary(uploads: Mapping[str, Upload]) -> JsonObject:
    """File parts for the journal."""
    return {
        number: {"filename": upload.filename, "content_type": upload.content_type, "size": len(upload.content)}
        for number, upload in uploads.items()
    }
