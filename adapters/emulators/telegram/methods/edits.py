"""editMessageText, editMessageCaption, editMessageReplyMarkup."""

from __future__ import annotations

from typing import Final

from adapters.emulators.telegram.call import Call
from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.telegram.keyboard import ReplyMarkup, check_limits, read_markup
from adapters.emulators.telegram.methods.messages import caption_content, read_message_text, text_content
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.target import Access, brake, find_message
from adapters.emulators.telegram.text import MAX_CAPTION, accept_text, read_text
from adapters.emulators.telegram.world import Chat, ChatType, Message
from adapters.emulators.wire_json import JsonObject

NOT_MODIFIED: Final = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current "
    "content and reply markup of the message"
)


async def edit_message_text(platform: Platform, call: Call) -> JsonObject:
    """Replace a text and its inline keyboard; without `reply_markup` the keyboard goes."""
    parsed, preview = read_message_text(call)
    markup = read_markup(call)
    chat, message = _find_editable(platform, call)
    if "text" not in message.content:
        raise bad_request("there is no text in the message to edit")
    content = text_content(platform, accept_text(parsed), preview)
    return _edit(platform, call, chat, message, content, markup)


async def edit_message_caption(platform: Platform, call: Call) -> JsonObject:
    """Replace a caption and the inline keyboard."""
    markup = read_markup(call)
    parsed = read_text(call.text("caption"), call.text("parse_mode"), call.lenient_json("caption_entities"))
    chat, message = _find_editable(platform, call)
    if "text" in message.content or message.is_service:
        raise bad_request("there is no caption in the message to edit")
    kept = {name: item for name, item in message.content.items() if not name.startswith("caption")}
    caption = accept_text(parsed, limit=MAX_CAPTION, allow_empty=True)
    return _edit(platform, call, chat, message, kept | caption_content(platform, caption), markup)


async def edit_message_reply_markup(platform: Platform, call: Call) -> JsonObject:
    """Replace or remove the inline keyboard."""
    markup = read_markup(call)
    chat, message = _find_editable(platform, call)
    return _edit(platform, call, chat, message, message.content, markup)


def _find_editable(platform: Platform, call: Call) -> tuple[Chat, Message]:
    if not call.text("chat_id") and not call.integer("message_id"):
        if call.text("inline_message_id"):
            raise bad_request("MESSAGE_ID_INVALID")
        raise bad_request("message identifier is not specified")
    chat, message = find_message(platform, call, Access.EDIT, "message to edit")
    own = message.sender == call.bot.id or (
        chat.type is ChatType.CHANNEL and chat.has_right(call.bot.id, "can_edit_messages")
    )
    if not own or message.fixed_markup or message.is_service:
        raise bad_request("message can't be edited")
    return chat, message


def _edit(
    platform: Platform, call: Call, chat: Chat, message: Message, content: JsonObject, markup: ReplyMarkup | None
) -> JsonObject:
    if markup is not None and markup.inline is None:
        # The server's wording for a reply keyboard in an edit.
        raise bad_request("inline keyboard expected")
    check_limits(markup)
    keyboard = _keyboard(message, markup)
    if content == message.content and keyboard == message.keyboard:
        raise bad_request(NOT_MODIFIED)
    brake(platform, call.bot, chat)
    message.content = content
    message.keyboard = keyboard
    message.edit_date = platform.date()
    platform.show_message("edit", message, chat)
    return platform.message_object(message, chat)


def _keyboard(message: Message, markup: ReplyMarkup | None) -> JsonObject | None:
    """`force_reply` of an inline keyboard cannot be changed by an edit (Bot API 10.3)."""
    keyboard = markup.inline if markup is not None else None
    if keyboard is None:
        return None
    forced = {} if message.keyboard is None else {k: v for k, v in message.keyboard.items() if k == "force_reply"}
    return {"inline_keyboard": keyboard["inline_keyboard"]} | forced
