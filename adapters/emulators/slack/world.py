"""What exists in the emulated workspace: people, channels, messages, streams, sessions, views and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from adapters.emulators.errors import NotKnown
from adapters.emulators.wire_json import JsonObject


class ChannelKind(StrEnum):
    """Kinds of conversation, named as `channel_type` of events names them."""

    PUBLIC = "channel"
    PRIVATE = "group"
    DIRECT = "im"
    GROUP_DIRECT = "mpim"


@dataclass(slots=True, kw_only=True)
class User:
    """A person or a bot user. `team` differs from the workspace's for guests of a shared channel."""

    id: str
    name: str
    real_name: str
    team: str
    is_bot: bool = False
    bot_id: str | None = None
    deleted: bool = False
    is_admin: bool = False
    locale: str = "en-US"
    tz: str = "Etc/UTC"


@dataclass(slots=True, kw_only=True)
class Stream:
    """A message that is being streamed. `ended` says by what; None while it takes more."""

    started_at: float
    uses_chunks: bool | None = None
    display_mode: str = "timeline"
    recipient: str | None = None
    parts: list[str] = field(default_factory=list[str])
    plan_title: str = ""
    tasks: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    blocks: list[JsonObject] = field(default_factory=list[JsonObject])
    ended: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(slots=True, kw_only=True)
class Message:
    """One message. `own` is true for those of the app under test; `only` names the reader of an ephemeral one."""

    ts: str
    user: str | None
    text: str = ""
    own: bool = False
    bot_id: str | None = None
    blocks: list[JsonObject] = field(default_factory=list[JsonObject])
    attachments: list[JsonObject] = field(default_factory=list[JsonObject])
    thread_ts: str | None = None
    subtype: str | None = None
    username: str | None = None
    icons: JsonObject | None = None
    metadata: JsonObject | None = None
    files: list[str] = field(default_factory=list[str])
    edited: JsonObject | None = None
    client_msg_id: str | None = None
    reactions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    only: str | None = None
    stream: Stream | None = None
    extra: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members that only some subtypes have."""
    unfurl_links: bool | None = None
    unfurl_media: bool | None = None

    @property
    def is_reply(self) -> bool:
        return self.thread_ts is not None and self.thread_ts != self.ts


@dataclass(slots=True, kw_only=True)
class Channel:
    """A conversation. `messages` are ordered by `ts`; ephemeral ones live apart because nothing reads them back."""

    id: str
    kind: ChannelKind
    created: int
    name: str = ""
    user: str | None = None
    creator: str | None = None
    members: dict[str, None] = field(default_factory=dict[str, None])
    archived: bool = False
    shared: bool = False
    messages: dict[str, Message] = field(default_factory=dict[str, Message])
    ephemeral: dict[str, Message] = field(default_factory=dict[str, Message])

    def replies(self, root: str) -> list[Message]:
        """Messages under `root`, oldest first."""
        return [one for one in self.messages.values() if one.thread_ts == root and one.ts != root]


@dataclass(slots=True, kw_only=True)
class View:
    """An open modal or a home tab."""

    id: str
    user: str
    body: JsonObject
    hash: str
    root: str
    previous: str | None = None
    values: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    errors: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True, kw_only=True)
class File:
    """A file; `content` is None until its bytes were uploaded."""

    id: str
    name: str
    user: str
    created: int
    mimetype: str
    length: int
    title: str = ""
    content: bytes | None = None
    complete: bool = False
    deleted: bool = False
    shares: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


@dataclass(slots=True, kw_only=True)
class Session:
    """An agent session of a thread."""

    channel: str
    thread_ts: str
    status: str
    set_at: float
    title: str = ""
    initiator: str | None = None


@dataclass(slots=True, kw_only=True)
class Trigger:
    """The right to open one view."""

    user: str
    expires_at: float
    used: bool = False
    view: str | None = None


@dataclass(slots=True, kw_only=True)
class ResponseLink:
    """A response_url."""

    channel: str
    user: str
    expires_at: float
    message: str | None = None
    thread_ts: str | None = None
    uses: int = 0


@dataclass(slots=True)
class World:
    """Everything by its id."""

    users: dict[str, User] = field(default_factory=dict[str, User])
    channels: dict[str, Channel] = field(default_factory=dict[str, Channel])
    views: dict[str, View] = field(default_factory=dict[str, View])
    files: dict[str, File] = field(default_factory=dict[str, File])
    sessions: dict[tuple[str, str], Session] = field(default_factory=dict[tuple[str, str], Session])
    statuses: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict[tuple[str, str], tuple[str, float]])
    prompts: dict[str, list[JsonObject]] = field(default_factory=dict[str, list[JsonObject]])
    triggers: dict[str, Trigger] = field(default_factory=dict[str, Trigger])
    responses: dict[str, ResponseLink] = field(default_factory=dict[str, ResponseLink])

    def user(self, user: str) -> User:
        """Raises NotKnown."""
        if user not in self.users:
            raise NotKnown(f"no user {user}; there are {', '.join(self.users) or 'none'}")
        return self.users[user]

    def channel(self, channel: str) -> Channel:
        """By id, or by name with or without `#`. Raises NotKnown."""
        if channel in self.channels:
            return self.channels[channel]
        for one in self.channels.values():
            if one.name and one.name == channel.removeprefix("#"):
                return one
        raise NotKnown(f"no channel {channel}; there are {', '.join(self.channels) or 'none'}")

    def message(self, channel: Channel, ts: str) -> Message:
        """An ordinary or ephemeral message. Raises NotKnown."""
        found = channel.messages.get(ts) or channel.ephemeral.get(ts)
        if found is None:
            raise NotKnown(f"no message {ts} in {channel.id}")
        return found

    def forget_traffic(self) -> None:
        """Keep people and channels with their members."""
        for channel in self.channels.values():
            channel.messages.clear()
            channel.ephemeral.clear()
        for table in (self.views, self.files, self.sessions, self.statuses, self.prompts, self.triggers):
            table.clear()
        self.responses.clear()


def without_none(**values: Any) -> JsonObject:
    """Members that have a value."""
    return {name: value for name, value in values.items() if value is not None}
