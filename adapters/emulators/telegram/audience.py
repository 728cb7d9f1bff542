"""Which bots get to read a message: membership, privacy mode, administrators. Pure."""

from __future__ import annotations

from adapters.emulators.telegram.bots import Bot
from adapters.emulators.telegram.world import ADMINS, PRESENT, Chat, ChatType, Message
from adapters.emulators.wire_json import JsonObject


def reads(bot: Bot, message: Message, chat: Chat) -> bool:
    """Whether the platform shows `message` to `bot`.

    In groups a bot in privacy mode sees service messages, commands, mentions of it and replies to it; an administrator
    and a bot without privacy mode sees everything (core.telegram.org/bots/features#privacy-mode). Nobody gets updates
    about own messages.
    """
    if message.sender == bot.id and message.sender_chat is None:
        return False
    if chat.type is ChatType.PRIVATE:
        return chat.bot == bot.id
    if chat.status_of(bot.id) not in PRESENT:
        return False
    if chat.type is ChatType.CHANNEL:
        return True
    return bot.reads_all or chat.status_of(bot.id) in ADMINS or _is_meant_for(bot, message, chat)


def _is_meant_for(bot: Bot, message: Message, chat: Chat) -> bool:
    if message.is_service or message.via_bot == bot.id:
        return True
    answered = chat.messages.get(message.reply_to) if message.reply_to is not None else None
    if answered is not None and answered.sender == bot.id:
        return True
    return any(_names(bot, part, message) for part in _marked(message))


def _marked(message: Message) -> list[tuple[str, str]]:
    """Type and covered text of each entity."""
    text = str(message.content.get("text") or message.content.get("caption") or "")
    units = text.encode("utf-16-le")
    entities: list[JsonObject] = message.content.get("entities") or message.content.get("caption_entities") or []
    return [
        (one["type"], units[2 * one["offset"] : 2 * (one["offset"] + one["length"])].decode("utf-16-le"))
        for one in entities
    ]


def _names(bot: Bot, part: tuple[str, str], message: Message) -> bool:
    kind, text = part
    own = f"@{bot.user.username}".lower()
    if kind == "mention":
        return text.lower() == own
    if kind == "bot_command":
        _, separator, addressee = text.partition("@")
        return not separator or f"@{addressee}".lower() == own
    return False
