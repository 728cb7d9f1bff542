"""Views as requests of the Bot API; pure.

Nothing goes out with a parse mode: texts are plain, and what is more than plain is an entity whose range we count. No
link is previewed, since the fetch of a preview can carry a secret away. Only people named by id are mentioned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, assert_never
from zlib import crc32

from adapters.contract import (
    Answer,
    ApprovalCard,
    Control,
    Document,
    File,
    MessageRef,
    Notice,
    Place,
    Private,
    Reaction,
    Stream,
    Style,
    ThreadStatus,
    TurnCard,
    Typing,
    Verbatim,
    View,
)
from adapters.errors import Refused
from adapters.markdown import heal, units_utf16
from adapters.telegram.formatted import MENTION, Formatted, Run, formatted
from adapters.telegram.markup import MESSAGE_UNITS
from adapters.telegram.texts import REPEATED, Spoken, number, short, shown

MAX_CAPTION = 1024
MAX_ALERT = 200
MAX_DATA_BYTES = 64
BUTTONS_IN_A_ROW = 2
DRAFT_LENGTH = 1_500
"""Characters of a draft: more than a screen of it nobody reads while it moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call: the method's name and its parameters as JSON, beside at most one file to upload."""

    method: str
    fields: dict[str, Any]
    file: Upload | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file, sent as the value of a parameter."""

    parameter: str
    name: str
    content: bytes = field(repr=False)


# ----------------------------------------------------------------------------------------------------------- views


def send(place: Place, view: View) -> Request:
    """The request that shows a view in a place. Refused, naming the view, if Telegram or this adapter cannot."""
    match view:
        case Document():
            return _document(place, view.name, view.text.encode("utf-8", "replace"), view)
        case File():
            raise Refused("a file is sent by `file`, which takes its content")
        case Reaction():
            return _reaction(view)
        case Typing():
            # In General, the server wants no thread for messages and shows typing without one there.
            return Request(method="sendChatAction", fields={**_where(place), "action": "typing"})
        case Private(person=person, text=text):
            if place.chat != person:
                raise Refused("Telegram shows words to one person only in the private chat with that person")
            return message(place, formatted([Run(text)]))
        case Stream():
            return _draft(place, view)
        case ThreadStatus():
            raise Refused("Telegram has no state of a thread that a bot could set")
        case ApprovalCard(mention=mention) if mention and not place.chat.startswith("-"):
            return send(place, replace(view, mention=()))  # who is alone with us is notified anyway
        case _:
            silent = _is_silent(view)
            return message(place, shown(view), reply_to=_reply_to(view), controls=_controls(view), silent=silent)


def _draft(place: Place, view: Stream) -> Request:
    """What is being written, as the draft of a private chat: the end of it, where it grows.

    A draft lasts for 30 s and gives way to the next message (https://core.telegram.org/bots/api#sendmessagedraft).
    """
    if place.chat.startswith("-"):
        raise Refused("Telegram shows drafts in private chats only: send an Answer")
    text = _draft_text(view.markdown)
    fields: dict[str, Any] = {**_where(place), "draft_id": crc32(view.stream_id.encode()) or 1, "text": text.text}
    if text.entities:
        fields["entities"] = [entity.wire() for entity in text.entities]
    return Request(method="sendMessageDraft", fields=fields)


def _draft_text(markdown: str) -> Formatted:
    end = markdown if len(markdown) <= DRAFT_LENGTH else f"…{markdown[-DRAFT_LENGTH:]}"
    try:
        return shown(Answer(markdown=heal(end)))
    except Refused:
        return formatted([Run(short(end, MESSAGE_UNITS))])


def edit(ref: MessageRef, view: View) -> Request:
    """The request that makes a message show a view; buttons that the view does not have go."""
    if not isinstance(view, TurnCard | ApprovalCard | Answer | Notice | Verbatim):
        raise Refused(f"a message cannot be edited into a {type(view).__name__}")
    where = {"chat_id": number(ref.chat, "chat"), "message_id": number(ref.id, "message")}
    return Request(method="editMessageText", fields={**where, **body(shown(view), _controls(view))})


def plain(request: Request, view: View) -> Request | None:
    """The same without any markup, for a server that could not read ours; None if there was none."""
    if not isinstance(view, Answer) or not request.fields.get("entities"):
        return None
    lines = [REPEATED] * view.repeat + [view.markdown.strip(), view.footer]
    source = "\n\n".join(filter(None, lines))
    text = source if units_utf16(source) <= MESSAGE_UNITS else request.fields["text"]
    fields = {name: value for name, value in request.fields.items() if name != "entities"}
    return Request(method=request.method, fields={**fields, "text": _without_mentions(text)})


# -------------------------------------------------------------------------------------------------------- requests


def message(
    place: Place,
    text: Formatted,
    *,
    reply_to: MessageRef | None = None,
    controls: Sequence[Control] = (),
    silent: bool = False,
) -> Request:
    """A new message."""
    fields = {**_where(place), **body(text, controls), **_reply(place, reply_to)}
    return Request(method="sendMessage", fields={**fields, "disable_notification": True} if silent else fields)


def body(text: Formatted, controls: Sequence[Control]) -> dict[str, Any]:
    """Text, entities and buttons as sends and edits both take them."""
    fields: dict[str, Any] = {"text": text.text, "link_preview_options": {"is_disabled": True}}
    if text.entities:
        fields["entities"] = [entity.wire() for entity in text.entities]
    if controls:
        fields["reply_markup"] = {"inline_keyboard": keyboard(controls)}
    return fields


def _where(place: Place) -> dict[str, Any]:
    chat: dict[str, Any] = {"chat_id": number(place.chat, "chat")}
    return chat if place.thread is None else {**chat, "message_thread_id": number(place.thread, "thread")}


def _reply(place: Place, to: MessageRef | None) -> dict[str, Any]:
    """An answer to a message that may be gone by now. One in another chat (the group has moved) is not named."""
    if to is None or to.chat != place.chat:
        return {}
    known = number(to.id, "message")
    return {"reply_parameters": {"message_id": known, "allow_sending_without_reply": True}}


def keyboard(controls: Sequence[Control]) -> list[list[dict[str, Any]]]:
    """Rows of buttons. Refused if a token is longer than the 64 bytes that a button carries."""
    buttons = iter([_button(control) for control in controls])
    return list(iter(lambda: list(islice(buttons, BUTTONS_IN_A_ROW)), []))


def _button(control: Control) -> dict[str, Any]:
    if not 1 <= len(control.token.encode()) <= MAX_DATA_BYTES:
        raise Refused(f"the control {control.label!r} has a token that is not of 1 to {MAX_DATA_BYTES} bytes")
    button = {"text": control.label, "callback_data": control.token}
    match control.style:
        case Style.PRIMARY:
            return {**button, "style": "success"}
        case Style.DANGER:
            return {**button, "style": "danger"}
        case Style.NEUTRAL:
            return button
        case _:
            assert_never(control.style)


def _controls(view: Spoken) -> tuple[Control, ...]:
    if isinstance(view, Verbatim) or (isinstance(view, ApprovalCard) and view.outcome is not None):
        return ()
    return view.controls


def _reply_to(view: Spoken) -> MessageRef | None:
    return view.reply_to if isinstance(view, Answer | Notice) else None


def _is_silent(view: Spoken) -> bool:
    match view:
        case TurnCard() | Verbatim():
            return True
        case Answer(notify=notify) | Notice(notify=notify):
            return not notify
        case ApprovalCard():
            return view.outcome is not None
        case _:
            assert_never(view)


def file(place: Place, view: File, content: bytes) -> Request:
    """The request that sends a file; as a document, so that Telegram changes nothing of a picture."""
    return _document(place, view.name, content, view)


def _document(place: Place, name: str, content: bytes, document: Document | File) -> Request:
    if not content:
        raise Refused(f"the document {name!r} is empty, which Telegram does not take")
    caption = formatted([Run(short(document.caption, MAX_CAPTION))]) if document.caption else Formatted(text="")
    fields: dict[str, Any] = {
        **_where(place),
        **_reply(place, document.reply_to),
        "disable_content_type_detection": True,
    }
    if caption.text:
        fields["caption"] = caption.text
    if caption.entities:
        fields["caption_entities"] = [entity.wire() for entity in caption.entities]
    upload = Upload(parameter="document", name=name, content=content)
    return Request(method="sendDocument", fields=fields, file=upload)


# A bot may set one of a fixed list (https://core.telegram.org/bots/api#reactiontypeemoji).
_MARKS = {"accepted": "👀", "steered": "👌", "queued": "✍", "none": ""}


def _reaction(view: Reaction) -> Request:
    emoji = _MARKS[view.mark]
    fields = {
        "chat_id": number(view.ref.chat, "chat"),
        "message_id": number(view.ref.id, "message"),
        "reaction": [{"type": "emoji", "emoji": emoji}] if emoji else [],
    }
    return Request(method="setMessageReaction", fields=fields)


def delete(ref: MessageRef) -> Request:
    """Take a message of ours away."""
    fields = {"chat_id": number(ref.chat, "chat"), "message_id": number(ref.id, "message")}
    return Request(method="deleteMessage", fields=fields)


def alert(handle: str, text: str = "", *, is_alert: bool = False) -> Request:
    """The answer to a press: words, or just the end of the waiting sign."""
    words: dict[str, Any] = {"text": short(text, MAX_ALERT), "show_alert": is_alert} if text else {}
    return Request(method="answerCallbackQuery", fields={"callback_query_id": handle, **words})


def _without_mentions(text: str) -> str:
    """The text with what looks like a mention taken apart by a sign that is not seen."""
    return MENTION.sub(lambda found: f"@\u2060{found.group()[1:]}", text)
