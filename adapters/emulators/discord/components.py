"""Components of a message as the API shows them: numbered, with their defaults, and with links that lead somewhere."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from adapters.emulators.discord.world import Attachment, Message
from adapters.emulators.wire_json import JsonObject, is_array, is_object

LINKS: Final = ("url", "proxy_url")
CHILDREN: Final = ("components", "component", "accessory")
DEFAULTS: Final[dict[int, JsonObject]] = {
    3: {"min_values": 1, "max_values": 1, "options": []},
    5: {"min_values": 1, "max_values": 1},
    6: {"min_values": 1, "max_values": 1},
    7: {"min_values": 1, "max_values": 1},
    8: {"min_values": 1, "max_values": 1},
    11: {"description": None, "spoiler": False},
    13: {"name": None, "size": None, "spoiler": False},
    14: {"divider": True, "spacing": 1},
    17: {"accent_color": None, "spoiler": False},
}
"""By type: what the API adds where nothing was given."""


def shown_components(given: Iterable[JsonObject], message: Message) -> list[JsonObject]:
    """The components of a message from what was sent; `attachment://` becomes the path of a file of the message."""
    made: list[JsonObject] = without_nulls(copy.deepcopy(list(given)))
    taken = {node["id"] for node in nodes_of(made) if node.get("id")}
    numbers = (number for number in itertools.count(1) if number not in taken)
    for node in nodes_of(made):
        node["id"] = node.get("id") or next(numbers)
        for name, value in DEFAULTS.get(node["type"], {}).items():
            node.setdefault(name, value)
        _resolve(node, message)
    return made


def _resolve(node: JsonObject, message: Message) -> None:
    match node["type"]:
        case 11:
            node["media"] = _media(node["media"], message)
        case 12:
            for item in node["items"]:
                item["media"] = _media(item["media"], message)
                item.setdefault("description", None)
                item.setdefault("spoiler", False)
        case 13:
            file = _file_of(node["file"], message)
            node["file"] = _media(node["file"], message)
            node |= {"name": file.filename, "size": len(file.content)} if file is not None else {}
        case _:
            return


def _file_of(media: JsonObject, message: Message) -> Attachment | None:
    name = str(media.get("url", "")).removeprefix("attachment://")
    return next((file for file in message.attachments if file.filename == name), None)


def _media(media: JsonObject, message: Message) -> JsonObject:
    file = _file_of(media, message)
    address = media["url"] if file is None else file.path
    body: JsonObject = {"id": message.id, "url": address, "proxy_url": address}
    return body | ({"attachment_id": file.id, "content_type": file.content_type} if file is not None else {})


def led(components: list[JsonObject], cdn: str) -> list[JsonObject]:
    """The same with links to the message's files below `cdn`."""
    return [_led(node, cdn) for node in components]


def _led(value: Any, cdn: str) -> Any:
    if is_array(value):
        return [_led(one, cdn) for one in value]
    if not is_object(value):
        return value
    links = {name: f"{cdn}{quote(value[name])}" for name in LINKS if str(value.get(name, "")).startswith("/")}
    return {name: _led(one, cdn) for name, one in value.items()} | links


def nodes_of(members: Any) -> Iterable[JsonObject]:
    """Every component below, parents first."""
    if is_array(members):
        for member in members:
            yield from nodes_of(member)
    elif is_object(members) and "type" in members:
        yield members
        for name in CHILDREN:
            yield from nodes_of(members.get(name))


def without_nulls(value: Any) -> Any:
    """The same without members that are null: Discord takes them for absent."""
    if is_array(value):
        return [without_nulls(one) for one in value]
    if is_object(value):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return value
