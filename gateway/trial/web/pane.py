"""What a pane shows: one thread of any platform in one shape, which the page draws without knowing platforms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Style: TypeAlias = Literal["bold", "italic", "code", "strike", "under", "link", "mention"]
BlockKind: TypeAlias = Literal["text", "code", "quote", "small", "heading", "rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Some words in one look. `target` is where a link leads: it is shown, never followed."""

    text: str
    styles: tuple[Style, ...] = ()
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A paragraph or the like."""

    kind: BlockKind = "text"
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """A control under a message; `data` is what presses it."""

    label: str
    data: str
    style: Literal["plain", "good", "bad"] = "plain"
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it is shown now. `only`: nobody but the person sees it; `writing`: it still grows."""

    id: str
    who: str
    mine: bool
    at: float
    blocks: tuple[Block, ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    files: tuple[str, ...] = ()
    reactions: tuple[str, ...] = ()
    liked: bool = False
    edited: bool = False
    writing: bool = False
    only: bool = False
    inside: bool = False
    """It stands in a thread below the place that the pane shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Something to fill in: one of some options (value and label), or words."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...] = ()
    required: bool = False
    longest: int = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form that the platform opened before the person."""

    id: str
    title: str
    submit: str = "Send"
    fields: tuple[Field, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pane:
    """Everything that one pane shows. `where` is where the next words go; `working` what the bot says it does."""

    platform: str
    where: str
    messages: tuple[Message, ...] = ()
    form: Form | None = None
    answering: str = ""
    alert: str = ""
    working: str = ""
    connected: bool = False
    armed: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Talk:
    """What the page of one person remembers of a platform beyond what the platform itself shows."""

    thread: str = ""
    """Where the next words go; empty for a new one."""
    opened: str = ""
    """The press that may have opened a form."""
    answering: int | None = None
    """Telegram: the message that asked for an answer in words."""
    asked: set[int] = field(default_factory=set[int])
    reactions: dict[int, dict[int, str]] = field(default_factory=dict[int, dict[int, str]])
    typing_until: float = 0.0
    alert: str = ""
    listens: bool = False
