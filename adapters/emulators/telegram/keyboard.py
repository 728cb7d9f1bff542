"""Reply markup of a request: how it is read, and the limits that hold when the message is sent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from adapters.emulators.telegram.call import Call
from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.telegram.nested import read_object
from adapters.emulators.wire_json import JsonObject, is_array, is_object

MAX_CALLBACK_BYTES: Final = 64
MAX_PER_ROW: Final = 8
MAX_BUTTONS: Final = 100
"""Undocumented; registry: python-telegram-bot `constants.InlineKeyboardMarkupLimit`."""
MAX_COPY_TEXT: Final = 256
STYLES: Final = frozenset({"danger", "success", "primary"})
ACTIONS: Final = (
    "url",
    "callback_data",
    "callback_game",
    "pay",
    "switch_inline_query",
    "switch_inline_query_chosen_chat",
    "switch_inline_query_current_chat",
    "login_url",
    "web_app",
    "copy_text",
    "disabled",
)


class MarkupKind(StrEnum):
    INLINE = "inline"
    KEYBOARD = "keyboard"
    REMOVE = "remove"
    FORCE_REPLY = "force_reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyMarkup:
    """What was asked for; only inline keyboards become part of the message."""

    kind: MarkupKind
    wire: JsonObject

    @property
    def inline(self) -> JsonObject | None:
        return self.wire if self.kind is MarkupKind.INLINE else None

    @property
    def fixes_message(self) -> bool:
        """Whether a message sent with it can never be edited."""
        return self.kind is not MarkupKind.INLINE


def read_markup(call: Call) -> ReplyMarkup | None:
    """The `reply_markup` of a call. Raises ApiError 400 in the server's words."""
    value = call.json("reply_markup", "reply keyboard markup JSON object")
    if value is None:
        return None
    if not is_object(value):
        raise bad_request("Object expected as reply markup")
    _rows(value, "keyboard", 'Field "keyboard" must be an Array of Arrays')
    rows = _rows(
        value, "inline_keyboard", 'Field "inline_keyboard" of the InlineKeyboardMarkup must be an Array of Arrays'
    )
    for row in rows:
        for button in row:
            _check_button(button)
    return _kind(value, rows)


def _kind(value: JsonObject, rows: list[list[Any]]) -> ReplyMarkup | None:
    if value.get("keyboard"):
        return ReplyMarkup(kind=MarkupKind.KEYBOARD, wire=value)
    if rows:
        kept = [[read_object("InlineKeyboardButton", button) for button in row] for row in rows if row]
        wire = {"inline_keyboard": kept} | ({"force_reply": True} if value.get("force_reply") is True else {})
        return ReplyMarkup(kind=MarkupKind.INLINE, wire=wire) if kept else None
    if value.get("remove_keyboard"):
        return ReplyMarkup(kind=MarkupKind.REMOVE, wire=value)
    if value.get("force_reply"):
        return ReplyMarkup(kind=MarkupKind.FORCE_REPLY, wire=value)
    return None


def _rows(value: JsonObject, name: str, error: str) -> list[list[Any]]:
    rows = value.get(name)
    if rows is None:
        return []
    if not is_array(rows):
        raise bad_request(f'Field "{name}" must be of type Array')
    for row in rows:
        if not is_array(row):
            raise bad_request(error)
    return rows


def _check_button(button: Any) -> None:
    def wrong(problem: str) -> Exception:
        return bad_request(f"Can't parse inline keyboard button: {problem}")

    if not is_object(button):
        raise wrong("InlineKeyboardButton must be an Object")
    if "text" not in button:
        raise wrong('Can\'t find field "text"')
    if not isinstance(button["text"], str):
        raise wrong('Field "text" must be of type String')
    if not any(_is_given(button, action) for action in ACTIONS):
        raise wrong("Text buttons are unallowed in the inline keyboard")


def _is_given(button: JsonObject, action: str) -> bool:
    # The server skips an empty address or data and then finds no action at all.
    return bool(button.get(action)) if action in ("url", "callback_data") else action in button


def check_limits(markup: ReplyMarkup | None) -> None:
    """Limits that the platform checks when the message is sent. Raises ApiError 400."""
    if markup is None or markup.inline is None:
        return
    rows: list[list[JsonObject]] = markup.inline["inline_keyboard"]
    if any(len(row) > MAX_PER_ROW for row in rows) or sum(map(len, rows)) > MAX_BUTTONS:
        raise bad_request("REPLY_MARKUP_TOO_LONG")
    for button in (button for row in rows for button in row):
        _check_button_limits(button)


def _check_button_limits(button: JsonObject) -> None:
    if not button["text"].strip():
        raise bad_request("BUTTON_TEXT_INVALID")
    if len(str(button.get("callback_data", "")).encode()) > MAX_CALLBACK_BYTES:
        raise bad_request("BUTTON_DATA_INVALID")
    if "url" in button and "://" not in button["url"] and "." not in button["url"]:
        raise bad_request(f"inline keyboard button URL '{button['url']}' is invalid: Wrong HTTP URL")
    if "style" in button and button["style"] not in STYLES:
        raise bad_request("Can't parse inline keyboard button: Invalid button style specified")
    if "copy_text" in button and not 1 <= len(str(button["copy_text"].get("text", ""))) <= MAX_COPY_TEXT:
        raise bad_request("BUTTON_COPY_TEXT_INVALID")
