"""A call of the Web API after the transport, and how the server reads requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from aiohttp import web

from adapters.emulators.slack.catalogue import ARRAYS, OBJECTS
from adapters.emulators.slack.errors import ApiError, invalid_arguments
from adapters.emulators.slack.platform import Platform
from adapters.emulators.slack.world import Channel, ChannelKind, Message
from adapters.emulators.wire_json import JsonObject, depth_of, is_object

BEARER: Final = "Bearer "
DEEPEST: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call; `number` is its entry in the journal."""

    method: str
    params: JsonObject
    number: int
    platform: Platform

    def text(self, name: str) -> str:
        """A parameter as text; empty if absent."""
        value = self.params.get(name)
        return value if isinstance(value, str) else ""

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.params.get(name)
        return value if isinstance(value, bool) else default

    def number_of(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number within a range. Raises ApiError."""
        value = self.params.get(name, default)
        if not isinstance(value, int) or not low <= value <= high:
            raise invalid_arguments(f"must be between {low} and {high} [json-pointer:/{name}]")
        return value

    def has(self, name: str) -> bool:
        """Given, and not an empty text."""
        return self.params.get(name) not in (None, "")

    def violate(self, rule: str, **data: Any) -> None:
        """Record that this call broke a rule that Slack would let pass."""
        self.platform.violate(rule, {"method": self.method, **data}, self.number)

    def channel(self, name: str = "channel") -> Channel:
        """A conversation that the app can see. Raises ApiError."""
        given = self.text(name)
        if not given:
            raise ApiError("channel_not_found")
        platform = self.platform
        if given[0] in "UW" and given in platform.world.users:
            if not platform.world.users[given].deleted and given != platform.app.bot_user:
                return platform.direct(given)
            raise ApiError("channel_not_found")
        found = platform.world.channels.get(given)
        if found is None or (found.kind is not ChannelKind.PUBLIC and not platform.in_channel(found)):
            raise ApiError("channel_not_found")
        return found

    def joined(self, name: str = "channel") -> Channel:
        """A conversation that the app is in. Raises ApiError."""
        found = self.channel(name)
        if not self.platform.in_channel(found):
            raise ApiError("not_in_channel")
        return found

    def writable(self, name: str = "channel") -> Channel:
        """A conversation that takes messages of the app. Raises ApiError."""
        found = self.channel(name)
        if found.archived:
            raise ApiError("is_archived")
        if not self.platform.in_channel(found) and "chat:write.public" not in self.platform.app.scopes:
            raise ApiError("not_in_channel")
        return found

    def message(self, channel: Channel, name: str) -> Message:
        """A message of the conversation. Raises ApiError."""
        found = channel.messages.get(self.text(name))
        if found is None:
            raise ApiError("message_not_found")
        return found

    def object_of(self, message: Message, channel: Channel) -> JsonObject:
        """A message as this call returns it."""
        metadata = self.flag("include_all_metadata") or self.method.startswith("chat.")
        return self.platform.message_object(message, channel, metadata=metadata)


Handler: TypeAlias = Callable[[Call], JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What came over the wire. `unreadable`: names whose JSON could not be read."""

    values: JsonObject = field(default_factory=dict[str, Any])
    token: str = ""
    unreadable: tuple[str, ...] = ()


async def read_request(request: web.Request) -> Arguments:
    """Parameters from the query and from a JSON, urlencoded or multipart body. Raises ApiError."""
    values: JsonObject = dict(request.query)
    is_json = request.content_type == "application/json"
    try:
        if is_json:
            values |= read_json(await request.text())
        elif request.content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
            for name, part in (await request.post()).items():
                values[name] = part if isinstance(part, str) else "(file)"
    except (UnicodeDecodeError, LookupError) as error:
        raise ApiError("invalid_charset") from error
    except ValueError as error:
        # aiohttp's word for a multipart body without its boundary.
        raise ApiError("invalid_form_data") from error
    given = values.pop("token", "")
    header = request.headers.get("Authorization", "")
    token = header.removeprefix(BEARER) if header.startswith(BEARER) else ""
    # A token in a JSON body is not looked at.
    if not token and not is_json and isinstance(given, str):
        token = given
    values, unreadable = _structured(values)
    return Arguments(values=values, token=token, unreadable=unreadable)


def read_json(text: str) -> JsonObject:
    """A JSON object; an empty text is an empty one. Raises ApiError."""
    if not text:
        return {}
    try:
        parsed = _parsed(text)
    except ValueError as error:
        raise ApiError("invalid_json") from error
    if not is_object(parsed):
        raise ApiError("json_not_object")
    return parsed


def _parsed(text: str) -> Any:
    """Raises ValueError, for what is nested deeper than anything Slack takes as well."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if depth_of(value) > DEEPEST:
        raise ValueError("nested too deeply")
    return value


def _structured(values: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Forms carry arrays and objects as JSON in text; JSON bodies may do so too."""
    read: JsonObject = {}
    unreadable: list[str] = []
    for name, value in values.items():
        read[name] = value
        if name in ARRAYS | OBJECTS and isinstance(value, str) and value:
            try:
                read[name] = _parsed(value)
            except ValueError:
                unreadable.append(name)
    return read, tuple(unreadable)
