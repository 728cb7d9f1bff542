"""Objects of the API, made from what there is.

Files live under the real address for clients that speak to Discord's own host names, and under the emulator's for
others: `cdn` is that base.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from adapters.emulators.discord import permissions
from adapters.emulators.discord.components import led
from adapters.emulators.discord.world import (
    Attachment,
    Channel,
    ChannelType,
    Guild,
    Interaction,
    InteractionType,
    Member,
    Message,
    MessageType,
    Overwrite,
    Role,
    Tag,
    ThreadState,
    User,
    World,
)
from adapters.emulators.wire_json import JsonObject

NO_COLORS: Final = {"primary_color": 0, "secondary_color": None, "tertiary_color": None}
LINK_SIGNATURE: Final = "?ex=7fffffff&is=00000000&hm=emulated"
"""Links to files are signed; this one does not end."""


def date(seconds: float) -> str:
    """An instant as Discord writes it."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="microseconds")


def user_object(user: User) -> JsonObject:
    """A user as others see it."""
    return {
        "id": user.id,
        "username": user.username,
        "discriminator": "0000" if user.bot else "0",
        "global_name": user.global_name,
        "avatar": None,
        "banner": None,
        "accent_color": None,
        "avatar_decoration_data": None,
        "collectibles": None,
        "primary_guild": None,
        "public_flags": 0,
        "flags": 0,
        "bot": user.bot,
        "system": False,
    }


def own_user_object(user: User) -> JsonObject:
    """A bot as it sees itself."""
    private = {"verified": True, "mfa_enabled": False, "locale": "en-US", "premium_type": 0, "email": None}
    return user_object(user) | private


def member_object(member: Member, user: User | None = None) -> JsonObject:
    """A member; with the user in it, or without where the user stands beside it."""
    body: JsonObject = {
        "nick": member.nick,
        "avatar": None,
        "banner": None,
        "roles": list(member.roles),
        "joined_at": date(member.joined_at),
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "flags": 0,
        "pending": False,
        "communication_disabled_until": None,
    }
    return body if user is None else body | {"user": user_object(user)}


def role_object(role: Role) -> JsonObject:
    """A role."""
    body: JsonObject = {
        "id": role.id,
        "name": role.name,
        "description": None,
        "color": 0,
        "colors": dict(NO_COLORS),
        "hoist": False,
        "icon": None,
        "unicode_emoji": None,
        "position": role.position,
        "permissions": str(role.permissions),
        "managed": role.managed_by is not None,
        "mentionable": role.mentionable,
        "flags": 0,
    }
    return body if role.managed_by is None else body | {"tags": {"bot_id": role.managed_by}}


def guild_object(guild: Guild) -> JsonObject:
    """A guild without what is in it."""
    return {
        "id": guild.id,
        "name": guild.name,
        "icon": None,
        "description": None,
        "home_header": None,
        "splash": None,
        "discovery_splash": None,
        "features": [],
        "banner": None,
        "owner_id": guild.owner,
        "application_id": None,
        "region": "deprecated",
        "afk_channel_id": None,
        "afk_timeout": 300,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "widget_enabled": False,
        "widget_channel_id": None,
        "verification_level": 0,
        "roles": [role_object(role) for role in guild.roles.values()],
        "default_message_notifications": 0,
        "mfa_level": 0,
        "explicit_content_filter": 0,
        "max_presences": None,
        "max_members": 500_000,
        "max_stage_video_channel_users": 50,
        "max_video_channel_users": 25,
        "vanity_url_code": None,
        "premium_tier": 0,
        "premium_subscription_count": 0,
        "preferred_locale": "en-US",
        "rules_channel_id": None,
        "safety_alerts_channel_id": None,
        "public_updates_channel_id": None,
        "premium_progress_bar_enabled": False,
        "premium_progress_bar_enabled_user_updated_at": None,
        "nsfw": False,
        "nsfw_level": 0,
        "emojis": [],
        "stickers": [],
        "incidents_data": None,
    }


def overwrite_object(overwrite: Overwrite) -> JsonObject:
    """What a channel allows and denies to somebody."""
    return {
        "id": overwrite.id,
        "type": 1 if overwrite.is_member else 0,
        "allow": str(overwrite.allow),
        "deny": str(overwrite.deny),
    }


def tag_object(tag: Tag) -> JsonObject:
    """A tag of a forum."""
    return {
        "id": tag.id,
        "name": tag.name,
        "moderated": tag.moderated,
        "emoji_id": None,
        "emoji_name": tag.emoji_name,
    }


def emoji_object(emoji: str) -> JsonObject:
    """An emoji from how it stands in an address: a character, or `name:id`."""
    name, separator, number = unquote(emoji).partition(":")
    return {"id": number if separator else None, "name": name}


class Rendering:
    """The objects that need to look around."""

    def __init__(self, world: World) -> None:
        self._world = world

    # -- channels

    def channel(self, place: Channel, viewer: str | None = None) -> JsonObject:
        """A channel of any kind; a thread carries its member object if the viewer is in it."""
        common: JsonObject = {
            "id": place.id,
            "type": int(place.type),
            "last_message_id": place.last_message,
            "flags": 0,
        }
        if place.guild is None:
            recipient = self._world.users[str(place.recipient)]
            return common | {"recipients": [user_object(recipient)]}
        common |= {"guild_id": place.guild, "name": place.name, "parent_id": place.parent}
        common["rate_limit_per_user"] = place.rate_limit_per_user
        if place.thread is not None:
            return common | self._thread(place, place.thread, viewer)
        return common | _guild_channel(place)

    def _thread(self, place: Channel, state: ThreadState, viewer: str | None) -> JsonObject:
        metadata: JsonObject = {
            "archived": state.archived,
            "archive_timestamp": date(state.archived_at),
            "auto_archive_duration": state.auto_archive,
            "locked": state.locked,
            "create_timestamp": date(state.created_at),
        }
        if state.invitable is not None:
            metadata["invitable"] = state.invitable
        body: JsonObject = {
            "owner_id": state.owner,
            "thread_metadata": metadata,
            "message_count": state.count,
            "member_count": min(50, len(state.members)),
            "total_message_sent": state.sent,
        }
        if place.applied_tags or self._world.channels[str(place.parent)].type is ChannelType.FORUM:
            body["applied_tags"] = list(place.applied_tags)
        if viewer is not None and viewer in state.members:
            body["member"] = self.thread_member(place, viewer)
        return body

    def thread_member(self, place: Channel, user: str) -> JsonObject:
        """Somebody in a thread."""
        joined = place.thread.members[user] if place.thread is not None else 0.0
        return {"id": place.id, "user_id": user, "join_timestamp": date(joined), "flags": 1}

    # -- guilds

    def guild_create(self, guild: Guild, viewer: str) -> JsonObject:
        """All of a guild, as GUILD_CREATE tells it to one of its bots: active threads only, members all."""
        places = [one for one in self._world.channels.values() if one.guild == guild.id]
        visible = [one for one in places if self.permissions(one, viewer) & permissions.Permission.VIEW_CHANNEL]
        threads = [one for one in visible if one.thread is not None and not one.thread.archived]
        own = guild.members[viewer]
        return guild_object(guild) | {
            "joined_at": date(own.joined_at),
            "large": False,
            "unavailable": False,
            "member_count": len(guild.members),
            "voice_states": [],
            "members": [member_object(one, self._world.users[one.user]) for one in guild.members.values()],
            "channels": [self.channel(one, viewer) for one in places if one.thread is None],
            "threads": [self.channel(one, viewer) for one in threads],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }

    def permissions(self, place: Channel, user: str) -> int:
        """What somebody may do in a place."""
        if place.guild is None:
            return permissions.DIRECT if user in (place.bot, place.recipient) else 0
        return permissions.in_channel(self._world.guilds[place.guild], self._world.rules_of(place), user)

    # -- messages

    def message(
        self, message: Message, cdn: str, viewer: str | None = None, *, nested: bool = False, fresh: bool = False
    ) -> JsonObject:
        """A message; a reply carries the message it answers, unless nested itself.

        Its nonce is told to whoever sent it and in the event of its coming (`fresh`), and is not kept with it.
        """
        body: JsonObject = {
            "id": message.id,
            "type": int(message.type),
            "channel_id": message.channel,
            "author": user_object(self._world.users[message.author]),
            "content": message.content,
            "timestamp": date(message.at),
            "edited_timestamp": None if message.edited_at is None else date(message.edited_at),
            "tts": message.tts,
            "mention_everyone": message.mention_everyone,
            "mentions": [user_object(self._world.users[user]) for user in message.mentions],
            "mention_roles": list(message.mention_roles),
            "attachments": [attachment_object(one, cdn) for one in message.attachments],
            "embeds": list(message.embeds),
            "components": led(message.components, cdn),
            "pinned": message.pinned,
            "flags": message.flags,
        }
        if fresh and message.nonce is not None:
            body["nonce"] = message.nonce
        if message.reactions:
            body["reactions"] = [_reaction(emoji, users, viewer) for emoji, users in message.reactions.items()]
        if message.application is not None:
            body |= {"webhook_id": message.application, "application_id": message.application}
        if message.interaction is not None:
            body |= self._origin(message.interaction)
        if (thread := self._world.channels.get(message.id)) is not None and thread.parent == message.channel:
            body["thread"] = self.channel(thread, viewer)
        return body | self._reference(message, cdn, viewer, nested)

    def _reference(self, message: Message, cdn: str, viewer: str | None, nested: bool) -> JsonObject:
        if message.reference is None:
            return {}
        body: JsonObject = {"message_reference": message.reference}
        if nested or message.type not in (MessageType.REPLY, MessageType.THREAD_STARTER_MESSAGE):
            return body
        place = self._world.channels.get(message.reference["channel_id"])
        answered = place.messages.get(message.reference.get("message_id", "")) if place is not None else None
        shown = None if answered is None else self.message(answered, cdn, viewer, nested=True)
        return body | {"referenced_message": shown}

    def _origin(self, interaction: Interaction) -> JsonObject:
        user = user_object(self._world.users[interaction.user])
        metadata: JsonObject = {
            "id": interaction.id,
            "type": int(interaction.type),
            "user": user,
            "authorizing_integration_owners": owners(interaction),
        }
        match interaction.type:
            case InteractionType.COMPONENT if interaction.message is not None:
                return {"interaction_metadata": metadata | {"interacted_message_id": interaction.message.id}}
            case InteractionType.FORM if interaction.parent is not None:
                triggering = self._origin(interaction.parent)["interaction_metadata"]
                return {"interaction_metadata": metadata | {"triggering_interaction_metadata": triggering}}
            case _:
                name = interaction.data.get("name", "")
                old = {"id": interaction.id, "type": int(interaction.type), "name": name, "user": user}
                return {"interaction_metadata": metadata, "interaction": old}

    def message_event(self, message: Message, cdn: str, viewer: str, *, fresh: bool) -> JsonObject:
        """A message as an event tells it: with its guild and its author's member."""
        body = self.message(message, cdn, viewer, fresh=fresh)
        place = self._world.channels[message.channel]
        body["channel_type"] = int(place.type)
        if place.guild is None:
            return body
        guild = self._world.guilds[place.guild]
        body["guild_id"] = guild.id
        if message.author in guild.members and message.application is None:
            body["member"] = member_object(guild.members[message.author])
        for mentioned in body["mentions"]:
            if mentioned["id"] in guild.members:
                mentioned["member"] = member_object(guild.members[mentioned["id"]])
        return body


def owners(interaction: Interaction) -> JsonObject:
    """Who installed the application that was used: the guild, or in a direct message nobody in particular."""
    return {"0": interaction.guild or "0"}


def attachment_object(file: Attachment, cdn: str) -> JsonObject:
    """A file in a message."""
    address = f"{cdn}{quote(file.path)}{LINK_SIGNATURE}"
    optional: Mapping[str, Any] = {
        "content_type": file.content_type,
        "description": file.description,
        "title": file.title,
    }
    body: JsonObject = {
        "id": file.id,
        "filename": file.filename,
        "size": len(file.content),
        "url": address,
        "proxy_url": address.replace("cdn.discordapp.com", "media.discordapp.net"),
    }
    if file.ephemeral:
        body["ephemeral"] = True
    return body | {name: value for name, value in optional.items() if value is not None}


def _guild_channel(place: Channel) -> JsonObject:
    body: JsonObject = {
        "position": place.position,
        "permission_overwrites": [overwrite_object(one) for one in place.overwrites.values()],
        "nsfw": False,
        "topic": place.topic,
        "default_auto_archive_duration": place.default_auto_archive,
        "default_thread_rate_limit_per_user": 0,
    }
    if place.type is ChannelType.FORUM:
        body |= {
            "available_tags": [tag_object(tag) for tag in place.tags],
            "default_reaction_emoji": None,
            "default_sort_order": None,
            "default_forum_layout": 0,
        }
    if place.type is ChannelType.VOICE:
        body |= {"bitrate": 64_000, "user_limit": 0, "rtc_region": None}
    return body


def _reaction(emoji: str, users: list[str], viewer: str | None) -> JsonObject:
    return {
        "emoji": emoji_object(emoji),
        "count": len(users),
        "count_details": {"burst": 0, "normal": len(users)},
        "burst_colors": [],
        "me_burst": False,
        "me": viewer in users,
    }
