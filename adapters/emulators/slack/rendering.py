"""Objects of the world as Slack writes them. Pure."""

from __future__ import annotations

from adapters.emulators.slack.app import App
from adapters.emulators.slack.world import (
    Channel,
    ChannelKind,
    File,
    Message,
    Session,
    User,
    View,
    World,
    without_none,
)
from adapters.emulators.wire_json import JsonObject


def user_object(user: User) -> JsonObject:
    """users.info."""
    profile = without_none(
        real_name=user.real_name,
        real_name_normalized=user.real_name,
        display_name=user.name,
        display_name_normalized=user.name,
        team=user.team,
        bot_id=user.bot_id,
    )
    return {
        "id": user.id,
        "team_id": user.team,
        "name": user.name,
        "deleted": user.deleted,
        "real_name": user.real_name,
        "tz": user.tz,
        "tz_offset": 0,
        "profile": profile,
        "is_admin": user.is_admin,
        "is_owner": False,
        "is_restricted": False,
        "is_ultra_restricted": False,
        "is_bot": user.is_bot,
        "is_app_user": False,
        "locale": user.locale,
        "updated": 0,
    }


def bot_profile(app: App) -> JsonObject:
    """The `bot_profile` of messages and the `bot` of bots.info."""
    return {"id": app.bot_id, "app_id": app.app_id, "name": app.name, "deleted": False, "team_id": app.team}


def channel_object(channel: Channel, app: App, *, count_members: bool = False) -> JsonObject:
    """conversations.info."""
    if channel.kind is ChannelKind.DIRECT:
        return {
            "id": channel.id,
            "created": channel.created,
            "is_im": True,
            "is_org_shared": False,
            "is_archived": channel.archived,
            "user": channel.user,
            "context_team_id": app.team,
            "is_open": True,
        }
    body: JsonObject = {
        "id": channel.id,
        "name": channel.name,
        "name_normalized": channel.name,
        "is_channel": channel.kind is ChannelKind.PUBLIC,
        "is_group": channel.kind is ChannelKind.PRIVATE,
        "is_im": False,
        "is_mpim": channel.kind is ChannelKind.GROUP_DIRECT,
        "is_private": channel.kind is not ChannelKind.PUBLIC,
        "created": channel.created,
        "creator": channel.creator,
        "is_archived": channel.archived,
        "is_general": False,
        "is_shared": channel.shared,
        "is_ext_shared": channel.shared,
        "is_org_shared": False,
        "is_member": app.bot_user in channel.members,
        "context_team_id": app.team,
        "topic": {"value": "", "creator": "", "last_set": 0},
        "purpose": {"value": "", "creator": "", "last_set": 0},
    }
    if count_members:
        body["num_members"] = len(channel.members)
    return body


def message_object(
    message: Message, channel: Channel, app: App, world: World, url: str, *, metadata: bool = False
) -> JsonObject:
    """A message as methods and events carry it. `metadata` only where it was asked for."""
    body = without_none(
        type="message",
        subtype=message.subtype,
        user=message.user,
        bot_id=message.bot_id,
        text=message.text,
        ts=message.ts,
        client_msg_id=message.client_msg_id,
        username=message.username,
        icons=message.icons,
        thread_ts=message.thread_ts,
        edited=message.edited,
    )
    author = world.users.get(message.user or "")
    body |= message.extra
    body["team"] = author.team if author is not None else app.team
    if channel.shared:
        body |= {"user_team": body["team"], "source_team": body["team"]}
    if message.own:
        body |= {"app_id": app.app_id, "bot_profile": bot_profile(app)}
    if message.blocks:
        body["blocks"] = message.blocks
    if message.attachments:
        body["attachments"] = message.attachments
    if message.files:
        body["files"] = [file_object(world.files[one], app, url) for one in message.files]
        body["upload"] = message.subtype == "file_share"
    if message.metadata is not None and metadata:
        body["metadata"] = message.metadata
    if message.reactions:
        body["reactions"] = [
            {"name": name, "users": list(users), "count": len(users)} for name, users in message.reactions.items()
        ]
    if message.stream is not None:
        body["streaming_state"] = "in_progress" if message.stream.ended is None else "completed"
    return body | _thread(message, channel)


def _thread(message: Message, channel: Channel) -> JsonObject:
    if message.thread_ts is None:
        return {}
    if message.is_reply:
        root = channel.messages.get(message.thread_ts)
        return {"parent_user_id": root.user} if root is not None and root.user is not None else {}
    replies = channel.replies(message.ts)
    authors = list(dict.fromkeys(one.user for one in replies if one.user is not None))
    body: JsonObject = {
        "reply_count": len(replies),
        "reply_users_count": len(authors),
        "reply_users": authors,
        "is_locked": False,
        "subscribed": any(one.own for one in replies) or message.own,
    }
    if replies:
        body["latest_reply"] = replies[-1].ts
    return body


def file_object(file: File, app: App, url: str) -> JsonObject:
    """A file as messages and files.info carry it."""
    address = f"{url}/files-pri/{app.team}-{file.id}/{file.name}"
    extension = file.name.rpartition(".")[2].lower() if "." in file.name else "binary"
    return {
        "id": file.id,
        "created": file.created,
        "timestamp": file.created,
        "name": file.name,
        "title": file.title or file.name,
        "mimetype": file.mimetype,
        "filetype": extension,
        "pretty_type": extension.upper(),
        "user": file.user,
        "user_team": app.team,
        "editable": False,
        "size": len(file.content or b""),
        "mode": "tombstone" if file.deleted else "hosted",
        "is_external": False,
        "external_type": "",
        "is_public": True,
        "public_url_shared": False,
        "display_as_bot": False,
        "username": "",
        "url_private": address,
        "url_private_download": f"{url}/files-pri/{app.team}-{file.id}/download/{file.name}",
        "permalink": f"{url}/files/{file.user}/{file.id}/{file.name}",
        "has_rich_preview": False,
        "file_access": "visible",
    }


def view_object(view: View, app: App) -> JsonObject:
    """A view as methods return it and events carry it."""
    given = view.body
    return {
        "id": view.id,
        "team_id": app.team,
        "type": given["type"],
        "blocks": given["blocks"],
        "private_metadata": given.get("private_metadata", ""),
        "callback_id": given.get("callback_id", ""),
        "state": {"values": view.values},
        "hash": view.hash,
        "title": given.get("title"),
        "close": given.get("close"),
        "submit": given.get("submit"),
        "clear_on_close": given.get("clear_on_close", False),
        "notify_on_close": given.get("notify_on_close", False),
        "submit_disabled": given.get("submit_disabled", False),
        "previous_view_id": view.previous,
        "root_view_id": view.root,
        "app_id": app.app_id,
        "external_id": given.get("external_id", ""),
        "app_installed_team_id": app.team,
        "bot_id": app.bot_id,
    }


def session_object(session: Session, status: str) -> JsonObject:
    """An agent session, for whoever drives the emulator."""
    return without_none(
        channel=session.channel,
        thread_ts=session.thread_ts,
        status=status,
        title=session.title,
        initiator_user_id=session.initiator,
    )
