"""Operations about the bot itself, and about users and guilds as a whole."""

from __future__ import annotations

from typing import Any

from adapters.emulators.discord.access import guild_of
from adapters.emulators.discord.call import Call
from adapters.emulators.discord.errors import bad_request, unknown
from adapters.emulators.discord.intents import Intent
from adapters.emulators.discord.permissions import in_guild
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.rendering import (
    guild_object,
    member_object,
    own_user_object,
    role_object,
    user_object,
)
from adapters.emulators.discord.world import Channel, ChannelType
from adapters.emulators.errors import NotKnown
from adapters.emulators.wire_json import JsonObject

DAY_MS = 86_400_000


def get_my_user(platform: Platform, call: Call) -> JsonObject:
    return own_user_object(call.bot.user)


def get_user(platform: Platform, call: Call) -> JsonObject:
    try:
        return user_object(platform.world.user(call.path["user_id"]))
    except NotKnown as error:
        raise unknown(10013) from error


def get_my_application(platform: Platform, call: Call) -> JsonObject:
    bot = call.bot
    owner = next((guild.owner for guild in platform.world.guilds.values() if bot.id in guild.members), bot.id)
    return {
        "id": bot.id,
        "name": bot.user.username,
        "icon": None,
        "description": "",
        "summary": "",
        "type": None,
        "bot": user_object(bot.user),
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "0" * 64,
        "flags": bot.flags,
        "flags_new": str(bot.flags),
        "max_participants": None,
        "tags": [],
        "hook": True,
        "redirect_uris": [],
        "interactions_endpoint_url": bot.endpoint,
        "role_connections_verification_url": None,
        "event_webhooks_url": None,
        "event_webhooks_status": 1,
        "event_webhooks_types": [],
        "owner": user_object(platform.world.user(owner)),
        "team": None,
        "approximate_guild_count": sum(bot.id in guild.members for guild in platform.world.guilds.values()),
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
        "explicit_content_filter": 0,
        "eligible_oauth2_scopes": [],
    }


def get_gateway(platform: Platform, call: Call) -> JsonObject:
    return {"url": platform.gateway_url(call.bot)}


def get_bot_gateway(platform: Platform, call: Call) -> JsonObject:
    used = len(call.bot.identified)
    limit = platform.knobs.identify_limit
    start = {"total": limit, "remaining": max(0, limit - used), "reset_after": DAY_MS, "max_concurrency": 1}
    return {"url": platform.gateway_url(call.bot), "shards": 1, "session_start_limit": start}


def list_my_guilds(platform: Platform, call: Call) -> list[JsonObject]:
    mine = [guild for guild in platform.world.guilds.values() if call.bot.id in guild.members]
    return [
        {
            "id": guild.id,
            "name": guild.name,
            "icon": None,
            "banner": None,
            "owner": False,
            "permissions": str(in_guild(guild, call.bot.id)),
            "features": [],
        }
        for guild in mine
    ]


def create_dm(platform: Platform, call: Call) -> JsonObject:
    given: Any = call.given.get("recipient_id")
    person = platform.world.users.get(str(given))
    if person is None:
        raise unknown(10013)
    if person.bot:
        raise bad_request(50007, "Cannot send messages to this user")
    return platform.render.channel(open_direct(platform, call.bot.id, person.id))


def open_direct(platform: Platform, bot: str, user: str) -> Channel:
    """The direct channel of a bot and a person, made if there is none."""
    place = platform.world.direct(bot, user)
    if place is None:
        place = Channel(id=platform.ids.next(), type=ChannelType.DM, recipient=user, bot=bot)
        platform.world.channels[place.id] = place
    return place


# -- guilds


def get_guild(platform: Platform, call: Call) -> JsonObject:
    guild = guild_of(platform, call.bot, call.path["guild_id"])
    counts: JsonObject = {"approximate_member_count": len(guild.members), "approximate_presence_count": 0}
    return guild_object(guild) | (counts if call.query.get("with_counts") else {})


def list_guild_channels(platform: Platform, call: Call) -> list[JsonObject]:
    guild = guild_of(platform, call.bot, call.path["guild_id"])
    places = [one for one in platform.world.channels.values() if one.guild == guild.id and one.thread is None]
    return [platform.render.channel(one) for one in places]


def list_guild_roles(platform: Platform, call: Call) -> list[JsonObject]:
    return [role_object(role) for role in guild_of(platform, call.bot, call.path["guild_id"]).roles.values()]


def get_guild_member(platform: Platform, call: Call) -> JsonObject:
    guild = guild_of(platform, call.bot, call.path["guild_id"])
    member = guild.members.get(call.path["user_id"])
    if member is None:
        raise unknown(10007 if call.path["user_id"] in platform.world.users else 10013)
    return member_object(member, platform.world.users[member.user])


def list_guild_members(platform: Platform, call: Call) -> list[JsonObject]:
    guild = guild_of(platform, call.bot, call.path["guild_id"])
    if not call.bot.granted & Intent.GUILD_MEMBERS:
        raise bad_request(50001, "Missing Access")
    after, limit = int(call.query.get("after", 0)), int(call.query.get("limit", 1))
    found = sorted((int(one.user), one) for one in guild.members.values() if int(one.user) > after)
    return [member_object(one, platform.world.users[one.user]) for _, one in found[:limit]]


HANDLERS = {
    "get_my_user": get_my_user,
    "get_user": get_user,
    "get_my_application": get_my_application,
    "get_my_oauth2_application": get_my_application,
    "get_gateway": get_gateway,
    "get_bot_gateway": get_bot_gateway,
    "list_my_guilds": list_my_guilds,
    "create_dm": create_dm,
    "get_guild": get_guild,
    "list_guild_channels": list_guild_channels,
    "list_guild_roles": list_guild_roles,
    "get_guild_member": get_guild_member,
    "list_guild_members": list_guild_members,
}
