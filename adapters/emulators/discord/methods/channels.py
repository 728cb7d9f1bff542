"""Operations about channels and threads."""

from __future__ import annotations

import datetime as dt
from typing import Final

from adapters.emulators.discord.access import guild_of, has, message_of, place_of, require_awake
from adapters.emulators.discord.call import Call
from adapters.emulators.discord.errors import (
    bad_request,
    forbidden,
    invalid_field,
    missing_permissions,
    too_many_requests,
    unknown,
)
from adapters.emulators.discord.methods.messages import shown
from adapters.emulators.discord.permissions import Permission
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.posting import changed, compose, post
from adapters.emulators.discord.rules import check_message
from adapters.emulators.discord.threads import (
    add_member,
    announce,
    open_thread,
    remove_member,
    set_archived,
    updated,
    watch,
)
from adapters.emulators.discord.world import Channel, ChannelType, MessageFlag, MessageType
from adapters.emulators.wire_json import JsonObject, items_of

WITH_THREADS: Final = frozenset({ChannelType.TEXT, ChannelType.ANNOUNCEMENT})
NOT_HERE: Final = "Cannot execute action on this channel type"


def get_channel(platform: Platform, call: Call) -> JsonObject:
    return platform.render.channel(place_of(platform, call.bot, call.path["channel_id"]), call.bot.id)


# -- changing


def update_channel(platform: Platform, call: Call) -> JsonObject:
    place = place_of(platform, call.bot, call.path["channel_id"])
    if place.guild is None:
        raise forbidden(50003, "Cannot execute action on a DM channel")
    if place.thread is None:
        _update_guild_channel(platform, call, place)
    else:
        _update_thread(platform, call, place)
    return platform.render.channel(place, call.bot.id)


def _update_guild_channel(platform: Platform, call: Call, place: Channel) -> None:
    place_of(platform, call.bot, place.id, Permission.MANAGE_CHANNELS)
    given = call.given
    if given.get("name", place.name) != place.name or given.get("topic", place.topic) != place.topic:
        _count_rename(platform, place)
    place.name = given.get("name") or place.name
    place.topic = given.get("topic", place.topic)
    place.rate_limit_per_user = given.get("rate_limit_per_user") or place.rate_limit_per_user
    place.default_auto_archive = given.get("default_auto_archive_duration") or place.default_auto_archive
    for name in given.keys() - {"name", "topic", "rate_limit_per_user", "default_auto_archive_duration"}:
        platform.violate(call.bot, "not_emulated", {"method": call.operation.id, "where": name}, call.number)
    platform.show("channel_edit", place.id, {"channel": platform.render.channel(place)})
    platform.tell("CHANNEL_UPDATE", place, platform.render.channel(place))


def _update_thread(platform: Platform, call: Call, place: Channel) -> None:
    state, given = place.thread, call.given
    assert state is not None
    manages = has(platform, call.bot, place, Permission.MANAGE_THREADS)
    if not manages and not _owner_may(given, state.owner == call.bot.id, state.locked):
        raise missing_permissions()
    if state.archived and given.get("archived") is not False:
        raise bad_request(50083, "Thread is archived")
    if given.get("name", place.name) != place.name:
        _count_rename(platform, place)
        place.name = given["name"]
    if "applied_tags" in given:
        place.applied_tags = _tags(platform, place, items_of(given, "applied_tags"))
    state.auto_archive = given.get("auto_archive_duration") or state.auto_archive
    state.locked = bool(given.get("locked", state.locked))
    place.rate_limit_per_user = given.get("rate_limit_per_user") or place.rate_limit_per_user
    state.invitable = given.get("invitable", state.invitable)
    set_archived(platform, place, bool(given.get("archived", state.archived)))
    watch(platform, place)
    updated(platform, place)


def _owner_may(given: JsonObject, owns: bool, locked: bool) -> bool:
    """Whoever opened a thread may name, tag, archive and, unless it is locked, wake it."""
    allowed = {"name", "archived", "auto_archive_duration", "applied_tags", "rate_limit_per_user"}
    return owns and not locked and not given.keys() - allowed


def _count_rename(platform: Platform, place: Channel) -> None:
    now = platform.clock.now()
    limit, seconds = platform.knobs.renames
    place.renames = [at for at in place.renames if at > now - seconds]
    if len(place.renames) >= limit:
        raise too_many_requests(place.renames[0] + seconds - now, scope="shared")
    place.renames.append(now)


def _tags(platform: Platform, thread: Channel, given: list[str]) -> list[str]:
    known = {tag.id for tag in platform.world.channels[str(thread.parent)].tags}
    wanted = [str(tag) for tag in given]
    if set(wanted) - known:
        raise unknown(10087)
    return wanted


def delete_channel(platform: Platform, call: Call) -> JsonObject:
    place = place_of(platform, call.bot, call.path["channel_id"])
    if place.guild is None:
        return platform.render.channel(place)  # it is closed, and opens again with the next message
    needed = Permission.MANAGE_CHANNELS if place.thread is None else Permission.MANAGE_THREADS
    place_of(platform, call.bot, place.id, needed)
    body = platform.render.channel(place)
    remove_channel(platform, place)
    return body


def remove_channel(platform: Platform, place: Channel) -> None:
    """Take a channel or a thread away, with everything in it."""
    for thread in [] if place.thread is not None else list(platform.world.threads_of(place.id)):
        remove_channel(platform, thread)
    body = platform.render.channel(place)
    if place.thread is None:
        platform.tell("CHANNEL_DELETE", place, body)
    else:
        gone = {name: body[name] for name in ("id", "guild_id", "parent_id", "type")}
        platform.tell("THREAD_DELETE", place, gone)
    platform.show("channel_delete", place.id, {"channel": body})
    del platform.world.channels[place.id]


# -- opening threads


def create_thread_from_message(platform: Platform, call: Call) -> JsonObject:
    message = message_of(platform, call.bot, call.path["channel_id"], call.path["message_id"])
    parent = platform.world.channels[message.channel]
    if parent.type not in WITH_THREADS:
        raise bad_request(50024, NOT_HERE)
    place_of(platform, call.bot, parent.id, Permission.CREATE_PUBLIC_THREADS)
    if message.id in platform.world.channels:
        raise bad_request(160004, "A thread has already been created for this message")
    given = call.given
    kind = ChannelType.ANNOUNCEMENT_THREAD if parent.type is ChannelType.ANNOUNCEMENT else ChannelType.PUBLIC_THREAD
    thread = open_thread(
        platform,
        parent,
        given["name"],
        call.bot.id,
        id=message.id,
        type=kind,
        auto_archive=given.get("auto_archive_duration"),
    )
    message.flags |= MessageFlag.HAS_THREAD
    announce(platform, thread)
    changed(platform, message, edited=False)
    reference: JsonObject = {
        "type": 0,
        "channel_id": parent.id,
        "message_id": message.id,
        "guild_id": parent.guild,
    }
    post(
        platform,
        compose(platform, thread, message.author, {}, type=MessageType.THREAD_STARTER_MESSAGE, reference=reference),
    )
    return platform.render.channel(thread, call.bot.id)


def create_thread(platform: Platform, call: Call) -> JsonObject:
    parent = place_of(platform, call.bot, call.path["channel_id"])
    if parent.type is ChannelType.FORUM:
        return _create_post(platform, call, parent)
    if parent.type not in WITH_THREADS:
        raise bad_request(50024, NOT_HERE)
    given = call.given
    if "message" in given:
        platform.violate(call.bot, "unknown_field", {"method": call.operation.id, "where": "message"}, call.number)
    # Documented: without a type the thread is private.
    kind = ChannelType(given["type"] if given.get("type") is not None else ChannelType.PRIVATE_THREAD)
    private = kind is ChannelType.PRIVATE_THREAD
    needed = Permission.CREATE_PRIVATE_THREADS if private else Permission.CREATE_PUBLIC_THREADS
    place_of(platform, call.bot, parent.id, needed)
    thread = open_thread(
        platform,
        parent,
        given["name"],
        call.bot.id,
        type=kind,
        auto_archive=given.get("auto_archive_duration"),
        invitable=given.get("invitable", True) if private else None,
    )
    announce(platform, thread)
    if not private:
        _note_thread(platform, parent, thread, call.bot.id)
    return platform.render.channel(thread, call.bot.id)


def _note_thread(platform: Platform, parent: Channel, thread: Channel, author: str) -> None:
    """The line in a channel that says that somebody has opened a thread."""
    reference: JsonObject = {"type": 0, "channel_id": thread.id, "guild_id": parent.guild}
    body: JsonObject = {"content": thread.name}
    note = compose(platform, parent, author, body, type=MessageType.THREAD_CREATED, reference=reference)
    post(platform, note)


def _create_post(platform: Platform, call: Call, forum: Channel) -> JsonObject:
    place_of(platform, call.bot, forum.id, Permission.SEND_MESSAGES)
    given = call.given
    if "message" not in given:
        raise invalid_field(["message"], "BASE_TYPE_REQUIRED", "This field is required")
    check_message(given["message"], call.uploads, platform.knobs)
    number = platform.ids.next()
    thread = open_thread(
        platform,
        forum,
        given["name"],
        call.bot.id,
        id=number,
        auto_archive=given.get("auto_archive_duration"),
    )
    try:
        thread.applied_tags = _tags(platform, thread, items_of(given, "applied_tags"))
    except Exception:
        del platform.world.channels[thread.id]
        raise
    announce(platform, thread)
    # A post's first message has the thread's id.
    first = compose(platform, thread, call.bot.id, given["message"], call.uploads, id=number)
    post(platform, first)
    return platform.render.channel(thread, call.bot.id) | {"message": shown(platform, call.bot, first)}


# -- listing threads


def get_active_guild_threads(platform: Platform, call: Call) -> JsonObject:
    guild = guild_of(platform, call.bot, call.path["guild_id"])
    threads = [
        one
        for one in platform.world.threads_in(guild.id)
        if one.thread is not None and not one.thread.archived and platform.sees(call.bot, one)
    ]
    return _listed(platform, call, threads) | {"has_more": False}


def list_public_archived_threads(platform: Platform, call: Call) -> JsonObject:
    return _archived(platform, call, {ChannelType.PUBLIC_THREAD, ChannelType.ANNOUNCEMENT_THREAD})


def list_private_archived_threads(platform: Platform, call: Call) -> JsonObject:
    place_of(platform, call.bot, call.path["channel_id"], Permission.MANAGE_THREADS)
    return _archived(platform, call, {ChannelType.PRIVATE_THREAD})


def list_my_private_archived_threads(platform: Platform, call: Call) -> JsonObject:
    return _archived(platform, call, {ChannelType.PRIVATE_THREAD}, mine=True)


def _archived(platform: Platform, call: Call, kinds: set[ChannelType], *, mine: bool = False) -> JsonObject:
    place = place_of(platform, call.bot, call.path["channel_id"], Permission.READ_MESSAGE_HISTORY)
    limit = int(call.query.get("limit", 50))
    threads = [
        one
        for one in platform.world.threads_of(place.id)
        if one.thread is not None
        and one.thread.archived
        and one.type in kinds
        and (not mine or call.bot.id in one.thread.members)
        and _is_before(one, call.query.get("before"))
    ]
    threads.sort(key=lambda one: one.thread.archived_at if one.thread is not None else 0.0, reverse=True)
    return _listed(platform, call, threads[:limit]) | {"has_more": len(threads) > limit}


def _is_before(thread: Channel, before: str | None) -> bool:
    if before is None or thread.thread is None:
        return True
    if before.isdecimal():
        return int(thread.id) < int(before)
    return thread.thread.archived_at < dt.datetime.fromisoformat(before).timestamp()


def _listed(platform: Platform, call: Call, threads: list[Channel]) -> JsonObject:
    mine = [one for one in threads if one.thread is not None and call.bot.id in one.thread.members]
    return {
        "threads": [platform.render.channel(one, call.bot.id) for one in threads],
        "members": [platform.render.thread_member(one, call.bot.id) for one in mine],
    }


# -- members of threads


def join_thread(platform: Platform, call: Call) -> None:
    add_member(platform, _awake_thread(platform, call), call.bot.id)


def leave_thread(platform: Platform, call: Call) -> None:
    remove_member(platform, _awake_thread(platform, call), call.bot.id)


def add_thread_member(platform: Platform, call: Call) -> None:
    thread = _awake_thread(platform, call)
    user = call.path["user_id"]
    if user not in platform.world.users:
        raise unknown(10013)
    place_of(platform, call.bot, thread.id, Permission.SEND_MESSAGES_IN_THREADS)
    add_member(platform, thread, user)


def delete_thread_member(platform: Platform, call: Call) -> None:
    thread = _awake_thread(platform, call)
    place_of(platform, call.bot, thread.id, Permission.MANAGE_THREADS)
    remove_member(platform, thread, call.path["user_id"])


def list_thread_members(platform: Platform, call: Call) -> list[JsonObject]:
    thread = _thread(platform, call)
    state = thread.thread
    return [] if state is None else [platform.render.thread_member(thread, user) for user in state.members]


def get_thread_member(platform: Platform, call: Call) -> JsonObject:
    thread = _thread(platform, call)
    user = call.bot.id if call.path["user_id"] == "@me" else call.path["user_id"]
    if thread.thread is None or user not in thread.thread.members:
        raise unknown(10007)
    return platform.render.thread_member(thread, user)


def _thread(platform: Platform, call: Call) -> Channel:
    place = place_of(platform, call.bot, call.path["channel_id"])
    if place.thread is None:
        raise bad_request(50024, NOT_HERE)
    return place


def _awake_thread(platform: Platform, call: Call) -> Channel:
    thread = _thread(platform, call)
    require_awake(thread)
    return thread


HANDLERS = {
    "get_channel": get_channel,
    "update_channel": update_channel,
    "delete_channel": delete_channel,
    "create_thread_from_message": create_thread_from_message,
    "create_thread": create_thread,
    "get_active_guild_threads": get_active_guild_threads,
    "list_public_archived_threads": list_public_archived_threads,
    "list_private_archived_threads": list_private_archived_threads,
    "list_my_private_archived_threads": list_my_private_archived_threads,
    "join_thread": join_thread,
    "leave_thread": leave_thread,
    "add_thread_member": add_thread_member,
    "delete_thread_member": delete_thread_member,
    "list_thread_members": list_thread_members,
    "get_thread_member": get_thread_member,
}
