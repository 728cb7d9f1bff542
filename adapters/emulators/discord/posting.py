"""How a message comes to be, changes and goes, whoever does it."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping
from typing import Final

from adapters.emulators.discord.call import Upload
from adapters.emulators.discord.components import nodes_of, shown_components, without_nulls
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.threads import note_activity
from adapters.emulators.discord.world import (
    Attachment,
    Channel,
    Interaction,
    Message,
    MessageFlag,
    MessageType,
)
from adapters.emulators.wire_json import JsonObject, items_of

SETTABLE: Final = int(
    MessageFlag.SUPPRESS_EMBEDS
    | MessageFlag.EPHEMERAL
    | MessageFlag.SUPPRESS_NOTIFICATIONS
    | MessageFlag.VOICE_MESSAGE
    | MessageFlag.COMPONENTS_V2
)
"""Flags that an application may set; others are ignored."""
_USER: Final = re.compile(r"<@!?(\d+)>")
_ROLE: Final = re.compile(r"<@&(\d+)>")
_EVERYONE: Final = re.compile(r"@(everyone|here)")


def compose(
    platform: Platform,
    place: Channel,
    author: str,
    body: JsonObject,
    uploads: Mapping[str, Upload] | None = None,
    *,
    type: MessageType = MessageType.DEFAULT,
    reference: JsonObject | None = None,
    interaction: Interaction | None = None,
    id: str | None = None,
) -> Message:
    """A message from a body of the API; it is not in its channel yet."""
    flags = (body.get("flags") or 0) & SETTABLE
    message = Message(
        id=id if id is not None else platform.ids.next(),
        channel=place.id,
        author=author,
        at=platform.clock.now(),
        type=type,
        flags=flags,
        tts=bool(body.get("tts")),
        nonce=body.get("nonce"),
        reference=reference,
        interaction=interaction,
        application=interaction.bot if interaction is not None else None,
    )
    if interaction is not None and flags & MessageFlag.EPHEMERAL:
        message.visible_to = interaction.user
    fill(platform, place, message, body, uploads or {})
    return message


def fill(platform: Platform, place: Channel, message: Message, body: JsonObject, uploads: Mapping[str, Upload]) -> None:
    """Put what a body gives into a message and leave the rest."""
    if "attachments" in body or uploads:
        message.attachments = _attachments(platform, message, body, uploads)
    if "flags" in body:
        # A message that uses the new components does so for ever.
        lasting = message.flags & (MessageFlag.COMPONENTS_V2 | MessageFlag.EPHEMERAL | MessageFlag.HAS_THREAD)
        message.flags = lasting | ((body["flags"] or 0) & SETTABLE)
    if "content" in body:
        message.content = (body["content"] or "").strip()
    if "embeds" in body:
        message.embeds = [_embed(one) for one in items_of(body, "embeds")]
    if "components" in body:
        message.components = shown_components(items_of(body, "components"), message)
    if {"content", "allowed_mentions", "components"} & body.keys():
        _mention(platform, place, message, body.get("allowed_mentions"))


def post(platform: Platform, message: Message) -> Message:
    """Put a message into its channel, before people's eyes, and tell the bots."""
    place = platform.world.channels[message.channel]
    if not message.ephemeral:
        note_activity(platform, place, message)
        place.last_message = message.id
    place.messages[message.id] = message
    platform.show_message("message", message)
    platform.tell_message("MESSAGE_CREATE", message)
    return message


def changed(platform: Platform, message: Message, *, edited: bool = True) -> Message:
    """Show a message that was changed, and tell the bots."""
    if edited:
        message.edited_at = platform.clock.now()
    platform.show_message("edit", message)
    platform.tell_message("MESSAGE_UPDATE", message)
    return message


def remove(platform: Platform, message: Message, *, told: bool = True) -> None:
    """Take a message away; `told` is false where one event tells of many."""
    place = platform.world.channels[message.channel]
    del place.messages[message.id]
    if place.thread is not None:
        place.thread.count = max(0, place.thread.count - 1)
    platform.show("delete", place.id, {"message_id": message.id})
    if message.ephemeral or not told:
        return
    body: JsonObject = {"id": message.id, "channel_id": place.id}
    platform.tell("MESSAGE_DELETE", place, body | ({"guild_id": place.guild} if place.guild is not None else {}))


# -- parts


def _attachments(
    platform: Platform, message: Message, body: JsonObject, uploads: Mapping[str, Upload]
) -> list[Attachment]:
    described: dict[str, JsonObject] = {str(one["id"]): one for one in items_of(body, "attachments")}
    old = [file for file in message.attachments if "attachments" not in body or file.id in described]
    made: list[Attachment] = []
    for number, upload in uploads.items():
        about = described.get(number, {})
        file = Attachment(
            id=platform.ids.next(),
            channel=message.channel,
            filename=_filename(about.get("filename") or upload.filename),
            content=upload.content,
            content_type=_kind(upload),
            description=about.get("description"),
            title=about.get("title"),
            ephemeral=message.ephemeral,
        )
        platform.world.files[file.path] = file
        made.append(file)
    return old + made


def _kind(upload: Upload) -> str | None:
    """Discord tells the kind of a file by its name."""
    guessed, _ = mimetypes.guess_type(upload.filename)
    if guessed is not None and guessed.startswith("text/"):
        return f"{guessed}; charset=utf-8"
    return guessed or upload.content_type


def _filename(name: str) -> str:
    """What is left of a name: Discord keeps letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^\w.\-]+", "_", name) or "unknown"


def _embed(embed: JsonObject) -> JsonObject:
    fields = [{"inline": False, **one} for one in items_of(embed, "fields")]
    cleaned = without_nulls(embed) | ({"fields": without_nulls(fields)} if fields else {})
    return {**cleaned, "type": "rich", "content_scan_version": 0}


# -- mentions


def _mention(platform: Platform, place: Channel, message: Message, allowed: JsonObject | None) -> None:
    """Who is called by a message. Without `allowed_mentions` everybody who is named is."""
    texts = [message.content, *(str(node.get("content", "")) for node in nodes_of(message.components))]
    text = "\n".join(texts)
    users = [user for user in _unique(_USER.findall(text)) if user in platform.world.users]
    message.mentions = [user for user in users if _may(allowed, "users", user)]
    guild = platform.world.guilds[place.guild] if place.guild is not None else None
    roles = [role for role in _unique(_ROLE.findall(text)) if guild is not None and role in guild.roles]
    message.mention_roles = [role for role in roles if _may(allowed, "roles", role)]
    message.mention_everyone = _EVERYONE.search(text) is not None and _may(allowed, "everyone", "")
    _mention_answered(platform, message, allowed)


def _mention_answered(platform: Platform, message: Message, allowed: JsonObject | None) -> None:
    if message.type is not MessageType.REPLY or message.reference is None:
        return
    if allowed is not None and not allowed.get("replied_user", False):
        return
    place = platform.world.channels[message.reference["channel_id"]]
    answered = place.messages.get(message.reference["message_id"])
    if answered is not None and answered.author not in message.mentions:
        message.mentions.append(answered.author)


def _may(allowed: JsonObject | None, kind: str, who: str) -> bool:
    if allowed is None:
        return True
    return kind in items_of(allowed, "parse") or who in [str(one) for one in items_of(allowed, kind)]


def _unique(found: list[str]) -> list[str]:
    return list(dict.fromkeys(found))
