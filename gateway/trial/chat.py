"""The chat as a person sees it: messages, edits, buttons with numbers. Pure: made from what the emulator shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

_COUNTERS = re.compile(r"[\d:.,…\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """A button under a message. `number` is what a person types to press it; it stays while the button stays."""

    number: int
    label: str
    data: str
    style: str = ""


@dataclass(slots=True, kw_only=True)
class Message:
    """What one message shows now. `entities` are Telegram's, in UTF-16 units."""

    id: int
    mine: bool
    at: int
    text: str = ""
    entities: Sequence[Mapping[str, Any]] = ()
    file: str = ""
    quotes: str = ""
    buttons: tuple[Button, ...] = ()
    edited: bool = False
    gone: bool = False
    reaction: str = ""

    @property
    def substance(self) -> str:
        """The text without what only counts up: two cards that differ in the seconds say the same."""
        return _COUNTERS.sub(" ", self.text).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line of ours among the messages. A `whole` one is there to be copied: it is broken nowhere but at the edge."""

    text: str
    tone: Literal["plain", "good", "bad", "dim"] = "plain"
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What just happened to a message. `before` is the substance and the labels it had."""

    kind: Literal["new", "edit", "gone", "reaction"]
    message: Message
    before: tuple[str, tuple[str, ...]] = ("", ())

    @property
    def matters(self) -> bool:
        """Whether a person who reads line by line has to be told."""
        return self.kind != "edit" or self.before != looks(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What the bot answered to a press, to the presser alone."""

    text: str


Timeline: TypeAlias = "list[Message | Note]"


def looks(message: Message) -> tuple[str, tuple[str, ...]]:
    """What matters of a message to somebody who sees it again."""
    return message.substance, tuple(button.label for button in message.buttons)


@dataclass(slots=True)
class Chat:
    """One private chat, seen by its person."""

    person: int
    timeline: Timeline = field(default_factory=list["Message | Note"])
    _by_id: dict[int, Message] = field(default_factory=dict[int, Message])
    _last_number: int = 0

    @property
    def messages(self) -> list[Message]:
        """Every message that is still there, oldest first."""
        return [one for one in self.timeline if isinstance(one, Message) and not one.gone]

    @property
    def buttons(self) -> dict[int, tuple[Message, Button]]:
        """Every button that can be pressed now, by its number."""
        return {button.number: (message, button) for message in self.messages for button in message.buttons}

    def note(self, text: str, tone: Literal["plain", "good", "bad", "dim"] = "plain", *, whole: bool = False) -> Note:
        """Put a line of ours at the end."""
        note = Note(text=text, tone=tone, whole=whole)
        self.timeline.append(note)
        return note

    def apply(self, name: str, data: Mapping[str, Any]) -> Change | Alert | None:
        """Take over one thing that the emulator shows; None for what this chat does not show."""
        match name:
            case "message":
                return self._appeared(data["message"])
            case "edit":
                return self._edited(data["message"])
            case "delete":
                return self._gone(int(data["message_id"]))
            case "reaction":
                return self._reacted(data)
            case "callback_answer" if data.get("text"):
                return Alert(text=str(data["text"]))
            case _:
                return None

    def _appeared(self, body: Mapping[str, Any]) -> Change:
        sender = body.get("from", {})
        message = Message(id=int(body["message_id"]), mine=sender.get("id") == self.person, at=int(body["date"]))
        reply = body.get("reply_to_message")
        message.quotes = _first_line(reply) if reply else ""
        self._show(message, body)
        self._by_id[message.id] = message
        self.timeline.append(message)
        return Change(kind="new", message=message)

    def _edited(self, body: Mapping[str, Any]) -> Change | None:
        message = self._by_id.get(int(body["message_id"]))
        if message is None:
            return None
        before = looks(message)
        message.edited = True
        self._show(message, body)
        return Change(kind="edit", message=message, before=before)

    def _gone(self, message_id: int) -> Change | None:
        message = self._by_id.get(message_id)
        if message is None:
            return None
        message.gone, message.buttons = True, ()
        return Change(kind="gone", message=message)

    def _reacted(self, data: Mapping[str, Any]) -> Change | None:
        message = self._by_id.get(int(data["message_id"]))
        if message is None or data.get("user_id") == self.person:
            return None
        message.reaction = "".join(str(one.get("emoji", "")) for one in data["reaction"])
        return Change(kind="reaction", message=message)

    def _show(self, message: Message, body: Mapping[str, Any]) -> None:
        message.text = str(body.get("text") or body.get("caption") or "")
        message.entities = body.get("entities") or body.get("caption_entities") or ()
        document = body.get("document")
        message.file = f"{document.get('file_name', 'file')} ({document.get('file_size', 0)} bytes)" if document else ""
        message.buttons = self._numbered(message, body.get("reply_markup") or {})

    def _numbered(self, message: Message, markup: Mapping[str, Any]) -> tuple[Button, ...]:
        """Numbers stay with their buttons, and begin at 1 again once no button is left: nobody presses what moved."""
        old = {button.data: button.number for button in message.buttons}
        message.buttons = ()
        if not old and not self.buttons:
            self._last_number = 0
        wanted = [one for row in markup.get("inline_keyboard", ()) for one in row if one.get("callback_data")]
        return tuple(
            Button(
                number=old.get(one["callback_data"]) or self._next_number(),
                label=str(one["text"]),
                data=str(one["callback_data"]),
                style=str(one.get("style", "")),
            )
            for one in wanted
        )

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number


def _first_line(body: Mapping[str, Any]) -> str:
    text = str(body.get("text") or body.get("caption") or "")
    line = text.partition("\n")[0]
    return f"{line[:47]}…" if len(line) > 48 or line != text else line
