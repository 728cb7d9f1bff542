"""What there is in the emulated Discord: users, guilds, channels, threads, messages, files, interactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any, Final

from adapters.emulators.errors import NotKnown
from adapters.emulators.wire_json import JsonObject


class ChannelType(IntEnum):
    """The kinds of channels that are emulated, with Discord's numbers."""

    TEXT = 0
    DM = 1
    VOICE = 2
    CATEGORY = 4
    ANNOUNCEMENT = 5
    ANNOUNCEMENT_THREAD = 10
    PUBLIC_THREAD = 11
    PRIVATE_THREAD = 12
    FORUM = 15


THREADS: Final = frozenset({ChannelType.ANNOUNCEMENT_THREAD, ChannelType.PUBLIC_THREAD, ChannelType.PRIVATE_THREAD})
WRITABLE: Final = frozenset({ChannelType.TEXT, ChannelType.DM, ChannelType.VOICE, ChannelType.ANNOUNCEMENT, *THREADS})


class MessageType(IntEnum):
    """The kinds of messages that are emulated."""

    DEFAULT = 0
    CHANNEL_NAME_CHANGE = 4
    THREAD_CREATED = 18
    REPLY = 19
    CHAT_INPUT_COMMAND = 20
    THREAD_STARTER_MESSAGE = 21
    CONTEXT_MENU_COMMAND = 23


class MessageFlag(IntFlag):
    """Flags of a message."""

    SUPPRESS_EMBEDS = 1 << 2
    HAS_THREAD = 1 << 5
    EPHEMERAL = 1 << 6
    LOADING = 1 << 7
    SUPPRESS_NOTIFICATIONS = 1 << 12
    VOICE_MESSAGE = 1 << 13
    COMPONENTS_V2 = 1 << 15


class InteractionType(IntEnum):
    """What a person did."""

    COMMAND = 2
    COMPONENT = 3
    AUTOCOMPLETE = 4
    FORM = 5


class AnswerType(IntEnum):
    """How an application answered an interaction."""

    PONG = 1
    MESSAGE = 4
    DEFERRED_MESSAGE = 5
    DEFERRED_UPDATE = 6
    UPDATE = 7
    AUTOCOMPLETE = 8
    FORM = 9


@dataclass(slots=True, kw_only=True)
class User:
    """A person or a bot."""

    id: str
    username: str
    global_name: str | None = None
    bot: bool = False


@dataclass(slots=True, kw_only=True)
class Role:
    """A role of a guild; the one with the guild's id is @everyone."""

    id: str
    name: str
    permissions: int
    position: int = 0
    managed_by: str | None = None
    mentionable: bool = False


@dataclass(slots=True, kw_only=True)
class Member:
    """A user in a guild."""

    user: str
    joined_at: float
    nick: str | None = None
    roles: list[str] = field(default_factory=list[str])


@dataclass(slots=True, kw_only=True)
class Guild:
    """A server, as people call it."""

    id: str
    name: str
    owner: str
    created_at: float
    roles: dict[str, Role] = field(default_factory=dict[str, Role])
    members: dict[str, Member] = field(default_factory=dict[str, Member])


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """What a channel allows or denies to a role or a member."""

    id: str
    is_member: bool
    allow: int = 0
    deny: int = 0


@dataclass(slots=True, kw_only=True)
class ThreadState:
    """What a thread has beyond a channel. `auto_archive` is in minutes."""

    owner: str
    created_at: float
    archived_at: float
    auto_archive: int
    archived: bool = False
    locked: bool = False
    invitable: bool | None = None
    members: dict[str, float] = field(default_factory=dict[str, float])
    """User -> when they joined."""
    sent: int = 0
    """Messages ever; `count` goes down with deletions."""
    count: int = 0
    active_at: float = 0.0
    watched: bool = False
    """Whether somebody waits to archive it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A tag of a forum."""

    id: str
    name: str
    moderated: bool = False
    emoji_name: str | None = None


@dataclass(slots=True, kw_only=True)
class Channel:
    """A channel, a thread, or a direct message (`guild` is None, `recipient` and `bot` are its two sides)."""

    id: str
    type: ChannelType
    name: str = ""
    guild: str | None = None
    parent: str | None = None
    topic: str | None = None
    position: int = 0
    rate_limit_per_user: int = 0
    default_auto_archive: int = 1440
    overwrites: dict[str, Overwrite] = field(default_factory=dict[str, Overwrite])
    tags: list[Tag] = field(default_factory=list[Tag])
    applied_tags: list[str] = field(default_factory=list[str])
    recipient: str | None = None
    bot: str | None = None
    thread: ThreadState | None = None
    messages: dict[str, Message] = field(default_factory=lambda: dict[str, Message]())
    last_message: str | None = None
    renames: list[float] = field(default_factory=list[float])
    old_edits: list[float] = field(default_factory=list[float])


@dataclass(slots=True, kw_only=True)
class Attachment:
    """A file in a message."""

    id: str
    channel: str
    filename: str
    content: bytes
    content_type: str | None = None
    description: str | None = None
    title: str | None = None
    ephemeral: bool = False

    @property
    def path(self) -> str:
        """Where the file server has it."""
        return f"/{'ephemeral-' if self.ephemeral else ''}attachments/{self.channel}/{self.id}/{self.filename}"


@dataclass(slots=True, kw_only=True)
class Message:
    """A message. `visible_to` names the only person who sees an ephemeral one."""

    id: str
    channel: str
    author: str
    at: float
    type: MessageType = MessageType.DEFAULT
    content: str = ""
    edited_at: float | None = None
    embeds: list[JsonObject] = field(default_factory=list[JsonObject])
    components: list[JsonObject] = field(default_factory=list[JsonObject])
    attachments: list[Attachment] = field(default_factory=list[Attachment])
    flags: int = 0
    tts: bool = False
    nonce: str | int | None = None
    reference: JsonObject | None = None
    mentions: list[str] = field(default_factory=list[str])
    mention_roles: list[str] = field(default_factory=list[str])
    mention_everyone: bool = False
    reactions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Emoji as it is in an address -> users."""
    pinned: bool = False
    application: str | None = None
    interaction: Interaction | None = None
    visible_to: str | None = None

    @property
    def ephemeral(self) -> bool:
        return bool(self.flags & MessageFlag.EPHEMERAL)


@dataclass(slots=True, kw_only=True)
class Interaction:
    """What a person did to an application, and what came of it."""

    id: str
    token: str
    type: InteractionType
    bot: str
    user: str
    channel: str
    guild: str | None
    at: float
    data: JsonObject
    message: Message | None = None
    """The message that carries the pressed component."""
    parent: Interaction | None = None
    """The interaction that opened the form."""
    answer: JsonObject | None = None
    """The body of the first answer."""
    answered_at: float | None = None
    failed: bool = False
    """The deadline passed without an answer."""
    original: Message | None = None
    """What `@original` stands for."""


@dataclass(slots=True)
class World:
    """Everything that outlives a connection."""

    users: dict[str, User] = field(default_factory=dict[str, User])
    guilds: dict[str, Guild] = field(default_factory=dict[str, Guild])
    channels: dict[str, Channel] = field(default_factory=dict[str, Channel])
    interactions: dict[str, Interaction] = field(default_factory=dict[str, Interaction])
    """By token."""
    blocked: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(bot, person who blocked it)."""
    files: dict[str, Attachment] = field(default_factory=dict[str, Attachment])
    """By path."""

    def user(self, user: str) -> User:
        """Raises NotKnown."""
        return _found(self.users, user, "user")

    def guild(self, guild: str) -> Guild:
        """Raises NotKnown."""
        return _found(self.guilds, guild, "guild")

    def channel(self, channel: str) -> Channel:
        """Raises NotKnown."""
        return _found(self.channels, channel, "channel")

    def message(self, message: str, channel: str | None = None) -> Message:
        """A message by its id, which is unique. Raises NotKnown."""
        places = self.channels.values() if channel is None else [self.channel(channel)]
        for place in places:
            if message in place.messages:
                return place.messages[message]
        raise NotKnown(f"no message {message} {'anywhere' if channel is None else f'in channel {channel}'}")

    def direct(self, bot: str, user: str) -> Channel | None:
        """The direct channel of a bot with a person, if there is one."""
        return next((one for one in self.channels.values() if (one.bot, one.recipient) == (bot, user)), None)

    def rules_of(self, place: Channel) -> Channel:
        """The channel whose overwrites count: a thread's parent, else itself."""
        return self.channels[place.parent] if place.thread is not None and place.parent is not None else place

    def threads_of(self, channel: str) -> Iterator[Channel]:
        """Threads below a channel, oldest first."""
        return (one for one in self.channels.values() if one.parent == channel and one.thread is not None)

    def threads_in(self, guild: str) -> Iterator[Channel]:
        """All threads of a guild."""
        return (one for one in self.channels.values() if one.guild == guild and one.thread is not None)

    def forget_traffic(self) -> None:
        """Drop messages, threads, files and interactions; people, guilds and channels stay."""
        self.channels = {one.id: one for one in self.channels.values() if one.thread is None}
        for place in self.channels.values():
            place.messages.clear()
            place.last_message = None
            place.renames.clear()
            place.old_edits.clear()
        self.interactions.clear()
        self.files.clear()


def _found(table: dict[str, Any], wanted: str, what: str) -> Any:
    if wanted not in table:
        raise NotKnown(f"no {what} {wanted}; there are {', '.join(table) or 'none'}")
    return table[wanted]
