"""The world's things as objects of the Bot API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from adapters.emulators.errors import NotKnown
from adapters.emulators.telegram.entities import Entity
from adapters.emulators.telegram.world import (
    Chat,
    ChatType,
    Member,
    MemberStatus,
    Message,
    StoredFile,
    Topic,
    User,
    World,
    without_none,
)
from adapters.emulators.wire_json import JsonObject

ADMIN_FLAGS: Final = (
    "can_manage_chat",
    "can_delete_messages",
    "can_manage_video_chats",
    "can_restrict_members",
    "can_promote_members",
    "can_change_info",
    "can_invite_users",
    "can_post_stories",
    "can_edit_stories",
    "can_delete_stories",
    "can_send_welcome_messages",
)
TOPIC_FLAGS: Final = ("can_pin_messages", "can_manage_topics")
RESTRICTED_FLAGS: Final = (
    "can_send_messages",
    "can_send_audios",
    "can_send_documents",
    "can_send_photos",
    "can_send_videos",
    "can_send_video_notes",
    "can_send_voice_notes",
    "can_send_polls",
    "can_send_other_messages",
    "can_add_web_page_previews",
    "can_react_to_messages",
    "can_edit_tag",
    "can_change_info",
    "can_invite_users",
    "can_pin_messages",
    "can_manage_topics",
)


def user_object(user: User) -> JsonObject:
    """User."""
    return without_none(
        id=user.id,
        is_bot=user.is_bot,
        first_name=user.first_name,
        last_name=user.last_name,
        username=user.username,
        language_code=user.language_code,
        is_premium=True if user.is_premium else None,
    )


def chat_object(chat: Chat, world: World) -> JsonObject:
    """Chat."""
    person = world.users.get(chat.id) if chat.type is ChatType.PRIVATE else None
    return without_none(
        id=chat.id,
        type=chat.type.value,
        title=chat.title,
        username=person.username if person is not None else chat.username,
        first_name=person.first_name if person is not None else None,
        last_name=person.last_name if person is not None else None,
        is_forum=True if chat.is_forum else None,
    )


def message_object(message: Message, chat: Chat, world: World, *, with_reply: bool = True) -> JsonObject:
    """Message; the message it replies to is included once, without its own."""
    reply = _reply(message, chat, world) if with_reply else None
    sender_chat = world.groups.get(message.sender_chat) if message.sender_chat is not None else None
    return without_none(
        **{"from": _maybe_user(message.sender, world)},
        message_id=message.id,
        message_thread_id=message.thread,
        sender_chat=None if sender_chat is None else chat_object(sender_chat, world),
        date=message.date,
        chat=chat_object(chat, world),
        forward_origin=message.forward_origin,
        is_topic_message=True if message.in_topic else None,
        is_automatic_forward=True if message.automatic_forward else None,
        reply_to_message=reply,
        quote=message.quote,
        via_bot=_maybe_user(message.via_bot, world),
        edit_date=message.edit_date,
        has_protected_content=True if message.protected else None,
        media_group_id=message.album,
        author_signature=message.signature,
        reply_markup=message.keyboard,
        **message.content,
    )


def _reply(message: Message, chat: Chat, world: World) -> JsonObject | None:
    # A message in a topic that answers nothing in particular answers the topic's first message.
    target = message.reply_to or (message.thread if message.in_topic else None)
    original = chat.messages.get(target) if target is not None and target != message.id else None
    return None if original is None else message_object(original, chat, world, with_reply=False)


def _maybe_user(user: int | None, world: World) -> JsonObject | None:
    return None if user is None else user_object(world.user(user))


def inaccessible_object(chat: Chat, message: int, world: World) -> JsonObject:
    """InaccessibleMessage: what a button's update carries when the message is gone."""
    return {"chat": chat_object(chat, world), "message_id": message, "date": 0}


def member_object(user: User, member: Member | None, chat: Chat) -> JsonObject:
    """ChatMember of whichever kind."""
    status = member.status if member is not None else MemberStatus.LEFT
    base: JsonObject = {"status": status.value, "user": user_object(user)}
    rights = member.rights if member is not None else frozenset[str]()
    match status:
        case MemberStatus.CREATOR:
            anonymous = member is not None and member.anonymous
            return base | {"is_anonymous": anonymous} | _title(member)
        case MemberStatus.ADMINISTRATOR:
            anonymous = member is not None and member.anonymous
            flags = {flag: flag in rights for flag in (*ADMIN_FLAGS, *_group_flags(chat))}
            return base | {"can_be_edited": False, "is_anonymous": anonymous} | flags | _title(member)
        case MemberStatus.RESTRICTED:
            return base | {"is_member": True, "until_date": 0} | {flag: flag in rights for flag in RESTRICTED_FLAGS}
        case MemberStatus.KICKED:
            return base | {"until_date": 0}
        case MemberStatus.MEMBER | MemberStatus.LEFT:
            return base


def _title(member: Member | None) -> JsonObject:
    return without_none(custom_title=member.title if member is not None else None)


def _group_flags(chat: Chat) -> tuple[str, ...]:
    return TOPIC_FLAGS if chat.type in (ChatType.GROUP, ChatType.SUPERGROUP) else ()


def topic_object(topic: Topic) -> JsonObject:
    """ForumTopic."""
    return without_none(
        message_thread_id=topic.id,
        name=topic.name,
        icon_color=topic.icon_color,
        icon_custom_emoji_id=topic.icon_emoji,
        is_name_implicit=True if topic.implicit else None,
    )


def entity_objects(entities: Iterable[Entity], world: World) -> list[JsonObject] | None:
    """Array of MessageEntity; None when there is none, because the field is then absent."""
    objects = [
        one.to_wire() | ({"user": _mentioned(one, world)} if one.type == "text_mention" else {}) for one in entities
    ]
    return objects or None


def _mentioned(entity: Entity, world: World) -> JsonObject:
    try:
        return user_object(world.user(int(entity.argument)))
    except NotKnown:
        # Only drafts get here; in messages such a mention was dropped before.
        return {"id": int(entity.argument), "is_bot": False, "first_name": ""}


def file_fields(file: StoredFile) -> JsonObject:
    """What all kinds of file have in common."""
    return {"file_id": file.id, "file_unique_id": file.unique_id, "file_size": len(file.content)}
