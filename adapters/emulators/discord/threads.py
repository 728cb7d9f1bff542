"""Threads: how they open, sleep and wake. Source: docs.discord.com, "Threads"."""

from __future__ import annotations

from typing import Final

from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.world import Channel, ChannelType, Message, MessageType, ThreadState
from adapters.emulators.wire_json import JsonObject

MINUTE: Final = 60.0
SYSTEM: Final = frozenset({MessageType.THREAD_STARTER_MESSAGE, MessageType.THREAD_CREATED})
"""Messages that do not count."""


def open_thread(
    platform: Platform,
    parent: Channel,
    name: str,
    owner: str,
    *,
    id: str | None = None,
    type: ChannelType = ChannelType.PUBLIC_THREAD,
    auto_archive: int | None = None,
    tags: list[str] | None = None,
    invitable: bool | None = None,
) -> Channel:
    """Make a thread below a channel, with its owner in it. Nobody is told yet."""
    now = platform.clock.now()
    state = ThreadState(
        owner=owner,
        created_at=now,
        archived_at=now,
        auto_archive=auto_archive or parent.default_auto_archive,
        invitable=invitable,
        active_at=now,
        members={owner: now},
    )
    thread = Channel(
        id=id if id is not None else platform.ids.next(),
        type=type,
        name=name,
        guild=parent.guild,
        parent=parent.id,
        thread=state,
        applied_tags=tags or [],
    )
    platform.world.channels[thread.id] = thread
    return thread


def announce(platform: Platform, thread: Channel) -> None:
    """Show a new thread, tell the bots, and see to it that it is archived when nothing happens in it."""
    platform.show("thread", str(thread.parent), {"thread": platform.render.channel(thread)})
    platform.tell(
        "THREAD_CREATE", thread, lambda bot: platform.render.channel(thread, bot.id) | {"newly_created": True}
    )
    watch(platform, thread)


def updated(platform: Platform, thread: Channel) -> None:
    """Show a thread that was changed, and tell the bots."""
    platform.show("thread_edit", str(thread.parent), {"thread": platform.render.channel(thread)})
    platform.tell("THREAD_UPDATE", thread, lambda bot: platform.render.channel(thread, bot.id))


def set_archived(platform: Platform, thread: Channel, archived: bool) -> None:
    """Archive a thread or wake it. Nobody is told yet."""
    state = thread.thread
    if state is None or state.archived is archived:
        return
    state.archived = archived
    state.archived_at = state.active_at = platform.clock.now()
    if not archived:
        watch(platform, thread)


def watch(platform: Platform, thread: Channel) -> None:
    """Archive the thread once nothing has happened in it for so long."""
    if thread.thread is not None and not thread.thread.watched:
        thread.thread.watched = True
        platform.spawn(_archive_in_time(platform, thread, thread.thread))


async def _archive_in_time(platform: Platform, thread: Channel, state: ThreadState) -> None:
    while (left := state.active_at + state.auto_archive * MINUTE - platform.clock.now()) > 0:
        await platform.clock.sleep(left)
        if state.archived or platform.world.channels.get(thread.id) is not thread:
            state.watched = False
            return
    state.watched = False
    set_archived(platform, thread, True)
    updated(platform, thread)


def note_activity(platform: Platform, place: Channel, message: Message) -> None:
    """A message comes into a place: a thread counts it, wakes, and takes its author in."""
    state = place.thread
    if state is None:
        return
    state.active_at = platform.clock.now()
    if message.type in SYSTEM:
        return
    state.sent += 1
    state.count += 1
    if state.archived:
        set_archived(platform, place, False)
        updated(platform, place)
    add_member(platform, place, message.author)


def add_member(platform: Platform, thread: Channel, user: str) -> None:
    """Take somebody into a thread and tell the bots."""
    state = thread.thread
    if state is None or user in state.members:
        return
    state.members[user] = platform.clock.now()
    _members_changed(platform, thread, added=[platform.render.thread_member(thread, user)])


def remove_member(platform: Platform, thread: Channel, user: str) -> None:
    """Take somebody out of a thread and tell the bots."""
    state = thread.thread
    if state is not None and state.members.pop(user, None) is not None:
        _members_changed(platform, thread, removed=[user])


def _members_changed(
    platform: Platform, thread: Channel, *, added: list[JsonObject] | None = None, removed: list[str] | None = None
) -> None:
    count = len(thread.thread.members) if thread.thread is not None else 0
    body: JsonObject = {"id": thread.id, "guild_id": thread.guild, "member_count": min(50, count)}
    if added:
        body["added_members"] = added
    if removed:
        body["removed_member_ids"] = removed
    platform.tell("THREAD_MEMBERS_UPDATE", thread, body)
