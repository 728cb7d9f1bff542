"""sendMessage, deleteMessage(s), setMessageReaction."""

from __future__ import annotations

from typing import Any, Final

from adapters.emulators.telegram.call import Call, to_integer
from adapters.emulators.telegram.entities import FormattedText
from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.telegram.keyboard import check_limits
from adapters.emulators.telegram.nested import read_object
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.rendering import entity_objects
from adapters.emulators.telegram.target import (
    Access,
    Envelope,
    Placement,
    find_chat,
    find_message,
    place,
    read_envelope,
)
from adapters.emulators.telegram.text import accept_text, read_text
from adapters.emulators.telegram.world import Chat, ChatType, Message, without_none
from adapters.emulators.wire_json import JsonObject, is_array, is_integer, is_object

_EMOJI = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤\u200d🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 "
    "🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨\u200d💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 "
    "🤷\u200d♂ 🤷 🤷\u200d♀ 😡"
)
REACTIONS: Final = frozenset(_EMOJI.split())
"""Documented at ReactionTypeEmoji."""
MAX_DELETED: Final = 100


async def send_message(platform: Platform, call: Call) -> JsonObject:
    """A new text message; returns it."""
    parsed, preview = read_message_text(call)
    envelope = read_envelope(call)
    placement = place(platform, call, envelope)
    content = text_content(platform, accept_text(parsed), preview)
    check_limits(envelope.markup)
    return send(platform, call, placement, envelope, content)


def read_message_text(call: Call) -> tuple[FormattedText, JsonObject | None]:
    """Text and preview options, in the server's order of checks."""
    preview = call.json("link_preview_options", "link preview options JSON object")
    if preview is not None:
        if not is_object(preview):
            raise bad_request("Object expected as link preview options")
        preview = read_object("LinkPreviewOptions", preview)
    elif call.flag("disable_web_page_preview"):
        preview = {"is_disabled": True}
    if not call.text("text"):
        raise bad_request("Message text is empty")
    return read_text(call.text("text"), call.text("parse_mode"), call.lenient_json("entities")), preview


def text_content(platform: Platform, text: FormattedText, preview: JsonObject | None) -> JsonObject:
    """The fields of a text message."""
    entities = entity_objects(_known(platform, text), platform.world)
    return without_none(text=text.text, entities=entities, link_preview_options=preview or None)


def caption_content(platform: Platform, caption: FormattedText) -> JsonObject:
    """The caption fields of a message with a file."""
    entities = entity_objects(_known(platform, caption), platform.world)
    return without_none(caption=caption.text or None, caption_entities=entities)


def _known(platform: Platform, text: FormattedText) -> list[Any]:
    """Mentions of people whom the bot does not know stay plain text."""
    users = platform.world.users
    return [one for one in text.entities if one.type != "text_mention" or to_integer(one.argument) in users]


def send(
    platform: Platform,
    call: Call,
    placement: Placement,
    envelope: Envelope,
    content: JsonObject,
    *,
    album: str | None = None,
) -> JsonObject:
    """Put a bot's message into its chat; returns it. A real message takes the chat's drafts away."""
    chat = placement.chat
    drop_drafts(platform, chat, placement.thread)
    message = Message(
        id=chat.counter.take(),
        date=platform.date(),
        content=content,
        sender=None if chat.type is ChatType.CHANNEL else call.bot.id,
        sender_chat=chat.id if chat.type is ChatType.CHANNEL else None,
        thread=placement.thread,
        in_topic=placement.in_topic,
        reply_to=placement.reply_to,
        quote=placement.quote,
        keyboard=envelope.markup.inline if envelope.markup is not None else None,
        fixed_markup=envelope.markup is not None and envelope.markup.fixes_message,
        album=album,
        protected=envelope.protected,
    )
    platform.post(chat, message)
    _tell_other_bots(platform, call, message, chat)
    return platform.message_object(message, chat)


def _tell_other_bots(platform: Platform, call: Call, message: Message, chat: Chat) -> None:
    # Bots read bots only where that was allowed (Bot API 10.0); here: bots without privacy mode.
    for bot in platform.bots.values():
        if bot is not call.bot and bot.reads_all and chat.type is not ChatType.PRIVATE:
            platform.publish_message("message", message, chat, only=bot)


def drop_drafts(platform: Platform, chat: Chat, thread: int | None) -> None:
    """A message from the bot replaces what it was writing there."""
    for draft in [draft for draft in chat.drafts.values() if draft.thread == thread]:
        del chat.drafts[draft.id]
        platform.show("draft_gone", chat, {"draft_id": draft.id, "thread": thread}, account=str(chat.bot))


async def delete_message(platform: Platform, call: Call) -> bool:
    """Remove one message."""
    chat, message = find_message(platform, call, Access.WRITE, "message to delete")
    _check_deletable(platform, call, chat, message)
    _delete(platform, chat, message)
    return True


async def delete_messages(platform: Platform, call: Call) -> bool:
    """Remove several messages; those that cannot be found are passed over."""
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.WRITE)
    identifiers = call.json("message_ids", "message identifiers JSON object")
    if not is_array(identifiers) or not identifiers:
        raise bad_request("Message identifiers are not specified")
    if len(identifiers) > MAX_DELETED:
        raise bad_request("Too many message identifiers specified")
    found = [chat.messages[one] for one in identifiers if is_integer(one) and one in chat.messages]
    for message in found:
        _check_deletable(platform, call, chat, message)
    for message in found:
        _delete(platform, chat, message)
    return True


def _check_deletable(platform: Platform, call: Call, chat: Chat, message: Message) -> None:
    if "forum_topic_created" in message.content:
        raise bad_request("message can't be deleted")
    own = message.sender == call.bot.id
    allowed = own or chat.type is ChatType.PRIVATE or chat.has_right(call.bot.id, "can_delete_messages")
    if not allowed:
        raise bad_request("message can't be deleted")
    if platform.clock.now() > message.date + platform.knobs.delete_window and not chat.has_right(
        call.bot.id, "can_delete_messages"
    ):
        raise bad_request("message can't be deleted for everyone")


def _delete(platform: Platform, chat: Chat, message: Message) -> None:
    del chat.messages[message.id]
    platform.show("delete", chat, {"message_id": message.id, "thread": message.thread})


async def set_message_reaction(platform: Platform, call: Call) -> bool:
    """Set the bot's reaction on a message; an empty list takes it away."""
    reactions = _read_reactions(call)
    chat, message = find_message(platform, call, Access.READ, "message to react")
    if len(reactions) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    for reaction in reactions:
        emoji = str(reaction.get("emoji"))
        allowed = chat.reactions is None or emoji in chat.reactions
        if reaction.get("type") == "emoji" and not (emoji in REACTIONS and allowed):
            raise bad_request("REACTION_INVALID")
    message.reactions[call.bot.id] = reactions
    platform.show("reaction", chat, {"message_id": message.id, "user_id": call.bot.id, "reaction": reactions})
    return True


def _read_reactions(call: Call) -> list[JsonObject]:
    value = call.json("reaction", "reaction types JSON object")
    if value is None:
        return []
    if not is_array(value):
        raise bad_request("Expected an Array of ReactionType")
    for one in value:
        if not is_object(one) or "type" not in one:
            raise bad_request("Can't parse ReactionType: Can't find field \"type\"")
        if one["type"] not in ("emoji", "custom_emoji", "paid"):
            raise bad_request("Can't parse ReactionType: invalid reaction type specified")
        if one["type"] == "paid":
            raise bad_request("REACTION_INVALID")
    return value
