"""What exists on the emulated Telegram: people, chats, members, topics, messages, files.

Plain state with look-ups and number givers; no clock, no sockets, no rules of who may do what.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from adapters.emulators.errors import NotKnown
from adapters.emulators.telegram.entities import Entity
from adapters.emulators.wire_json import JsonObject

GROUP_ANONYMOUS_BOT: Final = 1087968824
CHANNEL_BOT: Final = 136817688
SERVICE_NOTIFICATIONS: Final = 777000
GENERAL_TOPIC: Final = 1
SUPERGROUP_BASE: Final = -1_000_000_000_000
ICON_COLORS: Final = (7322096, 16766590, 13338331, 9367192, 16749490, 16478047)


class ChatType(StrEnum):
    PRIVATE = "private"
    GROUP = "group"
    SUPERGROUP = "supergroup"
    CHANNEL = "channel"


class MemberStatus(StrEnum):
    CREATOR = "creator"
    ADMINISTRATOR = "administrator"
    MEMBER = "member"
    RESTRICTED = "restricted"
    LEFT = "left"
    KICKED = "kicked"


PRESENT: Final = frozenset(
    {MemberStatus.CREATOR, MemberStatus.ADMINISTRATOR, MemberStatus.MEMBER, MemberStatus.RESTRICTED}
)
ADMINS: Final = frozenset({MemberStatus.CREATOR, MemberStatus.ADMINISTRATOR})


@dataclass(slots=True, kw_only=True)
class User:
    """A person or a bot."""

    id: int
    first_name: str
    last_name: str | None = None
    username: str | None = None
    language_code: str | None = None
    is_bot: bool = False
    is_premium: bool = False
    deactivated: bool = False


@dataclass(slots=True, kw_only=True)
class Member:
    """How somebody stands to a chat; `rights` matter for administrators."""

    status: MemberStatus
    rights: frozenset[str] = frozenset()
    anonymous: bool = False
    title: str | None = None


@dataclass(slots=True, kw_only=True)
class Topic:
    """A forum topic or a topic of a private chat; its id is the id of the message that created it."""

    id: int
    name: str
    icon_color: int
    icon_emoji: str | None = None
    implicit: bool = False
    closed: bool = False


@dataclass(slots=True, kw_only=True)
class Draft:
    """A message that is being generated before the reader's eyes."""

    id: int
    thread: int | None
    text: str
    entities: tuple[Entity, ...]
    can_stop: bool
    expires_at: float


@dataclass(slots=True, kw_only=True)
class Message:
    """One message. `content` are the fields of the wire object that say what it shows."""

    id: int
    date: int
    content: JsonObject
    sender: int | None = None
    sender_chat: int | None = None
    thread: int | None = None
    in_topic: bool = False
    reply_to: int | None = None
    quote: JsonObject | None = None
    keyboard: JsonObject | None = None
    """The inline keyboard under it."""
    fixed_markup: bool = False
    """Sent with a reply keyboard or forced reply: such a message cannot be edited."""
    via_bot: int | None = None
    signature: str | None = None
    album: str | None = None
    forward_origin: JsonObject | None = None
    automatic_forward: bool = False
    protected: bool = False
    edit_date: int | None = None
    reactions: dict[int, list[JsonObject]] = field(default_factory=dict[int, list[JsonObject]])

    @property
    def is_service(self) -> bool:
        """Whether it tells of an event of the chat instead of carrying something that somebody wrote."""
        return not self.content.keys() & MEDIA_AND_TEXT


MEDIA_AND_TEXT: Final = frozenset(
    {
        "text",
        "document",
        "photo",
        "voice",
        "audio",
        "video",
        "animation",
        "sticker",
        "video_note",
        "contact",
        "location",
    }
)


@dataclass(slots=True)
class Counter:
    """Gives numbers in order."""

    last: int = 0

    def take(self) -> int:
        self.last += 1
        return self.last


@dataclass(slots=True, kw_only=True)
class Chat:
    """A chat as one account sees it; a private chat belongs to one bot and one person."""

    id: int
    type: ChatType
    title: str | None = None
    username: str | None = None
    is_forum: bool = False
    bot: int | None = None
    """The bot's side of a private chat."""
    opened: bool = True
    """Whether the person has started the bot."""
    blocked: bool = False
    counter: Counter = field(default_factory=Counter)
    members: dict[int, Member] = field(default_factory=dict[int, Member])
    topics: dict[int, Topic] = field(default_factory=dict[int, Topic])
    messages: dict[int, Message] = field(default_factory=dict[int, Message])
    drafts: dict[int, Draft] = field(default_factory=dict[int, Draft])
    stopped_drafts: set[int] = field(default_factory=set[int])
    reactions: tuple[str, ...] | None = None
    """Emoji that may be used as reactions; None for all."""
    migrated_to: int | None = None

    def status_of(self, user: int) -> MemberStatus:
        """How `user` stands to this chat; `left` for a stranger."""
        member = self.members.get(user)
        return member.status if member is not None else MemberStatus.LEFT

    def has_right(self, user: int, right: str) -> bool:
        """Whether `user` is the creator, or an administrator with that right."""
        member = self.members.get(user)
        if member is None:
            return False
        return member.status is MemberStatus.CREATOR or (member.status in ADMINS and right in member.rights)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file on the emulated servers."""

    id: str
    unique_id: str
    kind: str
    name: str | None
    mime_type: str | None
    content: bytes
    path: str


class World:
    """All of it. Group chats are found by id, private chats by bot and person."""

    def __init__(self) -> None:
        self.users: dict[int, User] = {}
        self.groups: dict[int, Chat] = {}
        self.private: dict[tuple[int, int], Chat] = {}
        self.files: dict[str, StoredFile] = {}
        self._private_counters: dict[int, Counter] = {}
        self._files_made = Counter()

    def user(self, user: int) -> User:
        """Raises NotKnown."""
        found = self.users.get(user)
        if found is None:
            raise NotKnown(f"no user {user}; there are {sorted(self.users) or 'none'}: call add_user first")
        return found

    def chat(self, chat: int, bot: int) -> Chat:
        """The chat that `bot` knows under that id. Raises NotKnown."""
        found = self.find_chat(chat, bot)
        if found is None:
            raise NotKnown(f"bot {bot} has no chat {chat}; it has {sorted(self.chat_ids(bot)) or 'none'}")
        return found

    def find_chat(self, chat: int, bot: int) -> Chat | None:
        """The chat that `bot` knows under that id."""
        return self.groups.get(chat) or self.private.get((bot, chat))

    def find_public(self, username: str) -> Chat | None:
        """A group or channel by its `@name`."""
        wanted = username.lstrip("@").lower()
        return next((chat for chat in self.groups.values() if (chat.username or "").lower() == wanted), None)

    def chat_ids(self, bot: int) -> Iterable[int]:
        return [*self.groups, *(user for owner, user in self.private if owner == bot)]

    def open_private(self, bot: int, user: int, *, opened: bool = True) -> Chat:
        """The private chat of a bot and a person, made if it was not there. One bot's private chats share numbers."""
        key = (bot, user)
        if key not in self.private:
            counter = self._private_counters.setdefault(bot, Counter())
            self.private[key] = Chat(id=user, type=ChatType.PRIVATE, bot=bot, opened=opened, counter=counter)
        return self.private[key]

    def message(self, chat: Chat, message: int) -> Message:
        """Raises NotKnown."""
        found = chat.messages.get(message)
        if found is None:
            raise NotKnown(f"no message {message} in chat {chat.id}; the newest are {list(chat.messages)[-10:]}")
        return found

    def store(self, kind: str, name: str | None, mime_type: str | None, content: bytes) -> StoredFile:
        """Keep a file; equal contents of one kind and name get one id."""
        digest = hashlib.sha256(b"\0".join((kind.encode(), (name or "").encode(), content))).hexdigest()
        identity = f"{FILE_PREFIXES.get(kind, 'BQAC')}AgIA{digest[:40]}"
        if identity not in self.files:
            suffix = f".{name.rpartition('.')[2]}" if name and "." in name else DEFAULT_SUFFIXES.get(kind, "")
            path = f"{FOLDERS.get(kind, 'documents')}/file_{self._files_made.take() - 1}{suffix}"
            self.files[identity] = StoredFile(
                id=identity,
                unique_id=f"AgAD{digest[:12]}",
                kind=kind,
                name=name,
                mime_type=mime_type,
                content=content,
                path=path,
            )
        return self.files[identity]

    def forget_traffic(self) -> None:
        """Drop messages, topics, drafts and files; keep people, chats and memberships."""
        for chat in [*self.groups.values(), *self.private.values()]:
            chat.messages.clear()
            chat.topics.clear()
            chat.drafts.clear()
            chat.stopped_drafts.clear()
            chat.counter.last = 0
        self.files.clear()


FILE_PREFIXES: Final[dict[str, str]] = {
    "photo": "AgAC",
    "voice": "AwAC",
    "audio": "CQAC",
    "video": "BAAC",
    "sticker": "CAAC",
}
FOLDERS: Final[dict[str, str]] = {
    "photo": "photos",
    "voice": "voice",
    "audio": "music",
    "video": "videos",
    "animation": "animations",
    "sticker": "stickers",
    "video_note": "video_notes",
}
DEFAULT_SUFFIXES: Final[dict[str, str]] = {"photo": ".jpg", "voice": ".oga", "video": ".mp4", "sticker": ".webp"}


def without_none(**fields: Any) -> JsonObject:
    """A wire object without the fields that are not there."""
    return {name: value for name, value in fields.items() if value is not None}
