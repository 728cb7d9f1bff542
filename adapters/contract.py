"""What the gateway and a platform adapter tell each other.

An adapter knows one platform and this file. It sees neither ops nor events nor storage. Everything here is a frozen
value that can be stored and read back (see `encode` and `decode`), but for the adapter itself.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from adapters.errors import Refused

# --------------------------------------------------------------------------------------------------------- places


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where on a platform. `account` is our own identity there (bot id; Slack app and team)."""

    platform: str
    account: str
    chat: str
    thread: str | None = None
    person: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRef:
    """One message on a platform."""

    platform: str
    account: str
    chat: str
    id: str
    thread: str | None = None


# --------------------------------------------------------------------------------------------------------- inbound


class InboundKind(StrEnum):
    """Everything that can arrive. Authorisation has a rule for each."""

    MESSAGE = "message"
    COMMAND = "command"
    PRESS = "press"
    FORM = "form"
    REACTION = "reaction"
    EDIT = "edit"
    DELETE = "delete"
    STOP = "stop"
    MEMBERSHIP = "membership"
    CHAT_MIGRATED = "chat_migrated"
    OTHER = "other"


class SenderKind(StrEnum):
    """Who speaks. Only a PERSON is ever authorised, unless a rule names that exact sender."""

    PERSON = "person"
    BOT = "bot"
    ANONYMOUS = "anonymous"
    CHANNEL = "channel"
    SYSTEM = "system"
    STRANGER = "stranger"  # somebody of another organisation in a shared channel


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The platform's own, unforgeable word on who did it. `name` is for display only and never compared."""

    kind: SenderKind
    id: str
    name: str
    tenant: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundFile:
    """A file that came along: a handle, never a URL. `size` in bytes as the platform declares it (do not trust it).

    The adapter that made it opens it: see `OpensFiles`.
    """

    id: str
    name: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """Somebody's earlier text that came along: data, not words of the sender."""

    source: Literal["reply", "quote", "forward", "history"]
    author: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One thing that happened on a platform.

    `keys` name it for ever: a second arrival under any of them is the same thing. `text` has no bot mention and no
    `@bot` suffix behind a command. `addressed`: said to us (private chat, mention, command of ours, reply to us).
    `token` is the opaque token of a control; `handle` is what `acknowledge` needs to answer a press or form.
    """

    kind: InboundKind
    keys: tuple[str, ...]
    place: Place
    sender: Sender
    chat_kind: Literal["private", "group", "channel"] = "private"
    chat_title: str | None = None
    sent_at_ms: int = 0
    ref: MessageRef | None = None
    text: str = ""
    command: str | None = None
    arguments: str = ""
    addressed: bool = True
    forwarded: bool = False
    files: tuple[InboundFile, ...] = ()
    quotes: tuple[Quote, ...] = ()
    reply_to: MessageRef | None = None
    album: str | None = None
    token: str | None = None
    handle: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    reaction: str | None = None
    stopped: tuple[str, ...] = ()
    joined: bool | None = None
    moved_to: str | None = None
    what: str = ""


Intake: TypeAlias = Callable[[Inbound], Awaitable[None]]
"""Takes one inbound. On return it is durable, or refused for good; if it raises, the platform must not be told that it
arrived, so that it sends it again."""


# --------------------------------------------------------------------------------------------------------- views


class Style(StrEnum):
    """How a control looks; colours only help, the words carry the meaning."""

    NEUTRAL = "neutral"
    PRIMARY = "primary"
    DANGER = "danger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A button. `token` is all that it carries. `confirm`: ask once more with this text, where the platform can."""

    label: str
    token: str
    style: Style = Style.NEUTRAL
    confirm: str | None = None


class RowState(StrEnum):
    """State of one row of a card."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    PLANNED = "planned"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a card: plain text, already redacted."""

    state: RowState
    text: str


class Phase(StrEnum):
    """Where a turn stands, in a word."""

    STARTING = "starting"
    THINKING = "thinking"
    WORKING = "working"
    WAITING = "waiting for approval"
    STOPPING = "stopping"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCard:
    """The one status surface of a turn; silent, replaced as a whole. Once the turn is over it is one line, and those of
    its rows that are given then: what a loop did, what was finished before a stop.

    `labels` (workspace and origin) are shown where they are given: in the first card of a session.
    """

    phase: Phase
    headline: str
    rows: tuple[Row, ...] = ()
    earlier_rows: int = 0
    queue: int = 0
    labels: tuple[str, ...] = ()
    footer: str = ""
    controls: tuple[Control, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbatim:
    """Text that is shown exactly, in a fixed-width block, with nothing in it interpreted. `title` is ours."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalCard:
    """A request to a person; notifies. `body` is shown as Verbatim is; `lines` are ours, plain.

    With an `outcome` it is one line with no controls. `repeat`: it may be there twice.
    """

    title: str
    lines: tuple[str, ...] = ()
    body: str = ""
    warning: str = ""
    controls: tuple[Control, ...] = ()
    mention: tuple[str, ...] = ()
    outcome: str | None = None
    repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Words of the agent in CommonMark, one part of them (see `Markup.split`); notifies. `repeat`: see ApprovalCard."""

    markdown: str
    reply_to: MessageRef | None = None
    footer: str = ""
    controls: tuple[Control, ...] = ()
    repeat: bool = False
    notify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Words of ours: plain text."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    reply_to: MessageRef | None = None
    controls: tuple[Control, ...] = ()
    notify: bool = False
    repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text as a file, where it is too long for messages."""

    name: str
    text: str
    caption: str = ""
    reply_to: MessageRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of any kind; notifies. Its content is had from `Environment.content(sha256)`; `size` in bytes."""

    name: str
    media_type: str
    size: int
    sha256: str
    caption: str = ""
    reply_to: MessageRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """A mark on a person's message; a platform that refuses it is not asked again."""

    ref: MessageRef
    mark: Literal["accepted", "steered", "queued", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Typing:
    """A sign of life of a few seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Text of the model while it comes, where `native_stream`; `closed` ends it."""

    stream_id: str
    markdown: str
    rows: tuple[Row, ...] = ()
    title: str = ""
    closed: bool = False
    controls: tuple[Control, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStatus:
    """The platform's own working state and title of a thread, where it has them."""

    state: Literal["processing", "suspended", "active", "closed"]
    title: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """Words for one person only, where `ephemeral`."""

    person: str
    text: str


View: TypeAlias = (
    TurnCard
    | Verbatim
    | ApprovalCard
    | Answer
    | Notice
    | Document
    | File
    | Reaction
    | Typing
    | Stream
    | ThreadStatus
    | Private
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Answer to a press: a short text (at most 200 characters), as an alert if it matters."""

    text: str
    alert: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Answer to a press: ask for a reason. What is filled in comes back as an inbound of kind FORM with `token`."""

    title: str
    label: str
    token: str
    presets: tuple[tuple[str, str], ...] = ()


Acknowledgement: TypeAlias = Text | Form | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A view is on the platform, as these messages."""

    refs: tuple[MessageRef, ...] = ()


# --------------------------------------------------------------------------------------------------------- adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a platform can do. Durations in seconds, sizes in `text_unit` or bytes."""

    can_edit: bool = True
    edit_interval: float = 1.0
    native_stream: Literal["none", "draft", "chunks"] = "none"
    stream_max_seconds: float | None = None
    stream_budget: int | None = None
    native_stop: bool = False
    threads: Literal["none", "topic", "thread", "forum"] = "none"
    can_create_thread: bool = False
    can_rename_thread: bool = False
    ephemeral: Literal["none", "press", "any"] = "none"
    forms: bool = False
    button_styles: bool = False
    max_text: int = 4096
    text_unit: Literal["utf16", "chars", "bytes"] = "chars"
    reactions: bool = False
    idempotent_send: Literal["none", "nonce", "lookup"] = "none"
    history_backfill: bool = False
    file_limits: tuple[int, int] = (0, 0)  # bytes in, bytes out
    sends_per_second: float = 1.0
    sends_per_minute: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether inbound really works. `last_contact_ms`: when the last poll or frame was completed (UTC)."""

    state: Literal["stopped", "connecting", "ready", "failing", "failed"]
    last_contact_ms: int | None = None
    detail: str = ""


class Markup(Protocol):
    """The platform's text, as pure functions."""

    def split(self, markdown: str) -> tuple[str, ...]:
        """Parts of CommonMark, each within one message once rendered; together they lose nothing. No part is blank."""
        ...

    def split_verbatim(self, text: str) -> tuple[str, ...]:
        """Parts of plain text, each within one Verbatim message; joined they are the text."""
        ...


class Adapter(Protocol):
    """One connection to one platform. Errors are those of `adapters.errors`."""

    @property
    def platform(self) -> str:
        """The platform's name: `telegram`, `slack`, `discord`, `terminal`, …"""
        ...

    @property
    def account(self) -> str:
        """Our own identity there; known once `start` has returned."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the platform can do."""
        ...

    @property
    def markup(self) -> Markup:
        """The platform's text."""
        ...

    @property
    def health(self) -> Health:
        """Whether inbound really works, now."""
        ...

    async def start(self, intake: Intake) -> None:
        """Connect and begin to feed `intake`, in the order of arrival per chat.

        On return the credentials are known to be good. BadCredentials: they are not. NotConnected: the platform could
        not be reached; the caller tries again.
        """
        ...

    async def stop(self) -> None:
        """Take nothing in any more; on return no task of the adapter runs."""
        ...

    async def send(self, place: Place, view: View, key: str, attempt: int) -> Sent:
        """Show `view` in `place`. `key` is the same for every attempt at the same delivery, `attempt` counts from 1.

        A platform with idempotent sends makes nothing twice under one key.
        """
        ...

    async def edit(self, ref: MessageRef, view: View) -> None:
        """Make the message show `view`; that it shows it already is success."""
        ...

    async def acknowledge(self, press: Inbound, answer: Acknowledgement) -> None:
        """Give the one answer to a press or form; one that comes too late is swallowed."""
        ...

    async def open_thread(self, place: Place, title: str, key: str, root: MessageRef | None = None) -> Place:
        """A thread in `place`, on `root` where the platform needs a message; the same one for the same key."""
        ...

    async def backfill(self, place: Place, since: MessageRef | None) -> tuple[Inbound, ...]:
        """What was said in `place` after `since`, oldest first; empty where the platform keeps no history for us."""
        ...


@runtime_checkable
class OpensFiles(Protocol):
    """An adapter that gives out what the files hold that come along with messages; without it they are not taken."""

    def open_file(self, file: InboundFile) -> AsyncGenerator[bytes]:
        """The content, in pieces, asked of the platform's own host by the file's id and never of an address that came
        with a message. Whoever reads counts: the size that was told need not be true.

        Refused: the platform does not give it (any more). NotConnected, OutcomeUnknown: it may if asked again.
        """
        ...


async def no_content(sha256: str) -> bytes:
    """For an environment that keeps no files."""
    raise Refused(f"the content of the file {sha256[:12]}… is not kept here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What an adapter is given of the world: UTC milliseconds, a sleep, and random bytes.

    `commands` are the gateway's own, by name with a description each, for platforms that show a menu of them.
    `content` gives the bytes of a `File` by their SHA-256; Refused, to be passed on, if they are not kept any more.
    """

    now_ms: Callable[[], int]
    sleep: Callable[[float], Awaitable[None]]
    random_bytes: Callable[[int], bytes]
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    content: Callable[[str], Awaitable[bytes]] = no_content


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that an adapter found out about its account, for `doctor`.

    `id` is stable and reads `platform.what`; `message` is a sentence, `remedy` where to repair it. An adapter that has
    a method `diagnose() -> Sequence[Diagnosis]` is asked; it needs no `start`, changes nothing on the platform, and
    raises BadCredentials or NotConnected.
    """

    id: str
    level: Literal["error", "warning", "note"]
    message: str
    remedy: str = ""


class AdapterFactory(Protocol):
    """What an entry point of the group `pilothouse.adapters` names."""

    def __call__(self, settings: Mapping[str, Any], environment: Environment) -> Adapter:
        """An adapter that is not connected yet. ValueError, naming the key and the remedy, on bad settings."""
        ...


# --------------------------------------------------------------------------------------------------------- storage

_VIEWS: dict[str, type[Any]] = {cls.__name__: cls for cls in View.__args__}  # type: ignore[attr-defined]


def encode_view(view: View) -> bytes:
    """The view as JSON bytes, with its kind."""
    return msgspec.json.encode([type(view).__name__, view])


def decode_view(data: bytes | str) -> View:
    """The view that `encode_view` wrote; fields that this version does not know are ignored."""
    kind, fields = msgspec.json.decode(data)
    return cast(View, msgspec.convert(fields, _VIEWS[kind]))


def encode_inbound(inbound: Inbound) -> bytes:
    """The inbound as JSON bytes."""
    return msgspec.json.encode(inbound)


def decode_inbound(data: bytes | str) -> Inbound:
    """The inbound that `encode_inbound` wrote."""
    return msgspec.json.decode(data, type=Inbound)
