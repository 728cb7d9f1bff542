"""getChat, getChatMember and their neighbours."""

from __future__ import annotations

from adapters.emulators.telegram.call import Call, to_integer
from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.rendering import member_object
from adapters.emulators.telegram.target import Access, find_chat, is_admin
from adapters.emulators.telegram.world import PRESENT, ChatType, Member, MemberStatus
from adapters.emulators.wire_json import JsonObject

GIFTS = ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels")


async def get_chat(platform: Platform, call: Call) -> JsonObject:
    """ChatFullInfo with what the emulator knows of the chat."""
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.READ)
    full = platform.chat_object(chat) | {
        "accent_color_id": abs(chat.id) % 7,
        "max_reaction_count": 11,
        "accepted_gift_types": dict.fromkeys(GIFTS, False),
    }
    if chat.reactions is not None:
        full["available_reactions"] = [{"type": "emoji", "emoji": emoji} for emoji in chat.reactions]
    return full


async def get_chat_member(platform: Platform, call: Call) -> JsonObject:
    """How somebody stands to a chat."""
    user = platform.world.users.get(_user_id(call))
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.READ)
    if user is None:
        raise bad_request("PARTICIPANT_ID_INVALID")
    member = chat.members.get(user.id)
    if chat.type is ChatType.PRIVATE:
        member = Member(status=MemberStatus.MEMBER) if user.id in (chat.id, call.bot.id) else None
    return member_object(user, member, chat)


def _user_id(call: Call) -> int:
    user = to_integer(call.text("user_id"))
    if user <= 0:
        raise bad_request("invalid user_id specified")
    return user


async def get_chat_administrators(platform: Platform, call: Call) -> list[JsonObject]:
    """Administrators of a group, other bots left out."""
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.READ)
    if chat.type is ChatType.PRIVATE:
        raise bad_request("there are no administrators in the private chat")
    people = [platform.world.user(user) for user in chat.members if is_admin(chat, user)]
    return [
        member_object(user, chat.members[user.id], chat) for user in people if not user.is_bot or user.id == call.bot.id
    ]


async def get_chat_member_count(platform: Platform, call: Call) -> int:
    """How many are in a chat."""
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.READ)
    if chat.type is ChatType.PRIVATE:
        return 2
    return sum(1 for member in chat.members.values() if member.status in PRESENT)


async def leave_chat(platform: Platform, call: Call) -> bool:
    """The bot goes."""
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.EDIT)
    if chat.type is ChatType.PRIVATE:
        raise bad_request("chat member status can't be changed in private chats")
    chat.members[call.bot.id] = Member(status=MemberStatus.LEFT)
    platform.show("left", chat, {"user_id": call.bot.id})
    return True
