"""What a channel is: a direct message, a thread, or a place in which threads can be opened; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from adapters.discord.payload import a_number, a_text, an_id

ChannelKind = Literal["dm", "group_dm", "thread", "text", "forum", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel as far as it matters here. `parent` is that of a thread; `kind` "text": messages can get threads."""

    id: str
    kind: ChannelKind
    parent: str | None = None
    name: str = ""

    @property
    def chat(self) -> str:
        """The chat of the contract: of a thread its parent."""
        return self.parent or self.id

    @property
    def thread(self) -> str | None:
        """The thread of the contract."""
        return self.id if self.kind == "thread" else None


def channel_of(value: Mapping[str, Any]) -> Channel | None:
    """The channel that an object of the API describes; None if it does not tell enough."""
    number, kind = an_id(value.get("id")), value.get("type")
    if not number or not isinstance(kind, int):
        return None
    parent = an_id(value.get("parent_id")) or None
    shown = _kind(a_number(kind))
    if shown == "thread" and parent is None:
        return None
    return Channel(id=number, kind=shown, parent=parent if shown == "thread" else None, name=a_text(value.get("name")))


def _kind(number: int) -> ChannelKind:
    """https://discord.com/developers/docs/resources/channel#channel-object-channel-types"""
    match number:
        case 1:
            return "dm"
        case 3:
            return "group_dm"
        case 10 | 11 | 12:
            return "thread"
        case 0 | 5:
            return "text"
        case 15 | 16:
            return "forum"
        case _:
            return "other"
