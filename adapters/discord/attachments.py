"""Files that came along with a message, as handles: the address that Discord gives ends after a day, the ids do not."""

from __future__ import annotations

import re

from adapters.contract import InboundFile
from adapters.discord.payload import Payload, a_number, a_text, an_id, an_object, objects

_HANDLE = re.compile(r"(\d+)/(\d+)/(\d+)")


def files_of(message: Payload) -> tuple[InboundFile, ...]:
    """The files of a message. Names, kinds and sizes are what the sender's side claims."""
    found = [_file(message, attachment) for attachment in _attachments(message)]
    return tuple(file for file in found if file is not None)


def _attachments(message: Payload) -> list[Payload]:
    """Those of the message, and of what is forwarded in it."""
    forwarded = [an_object(one.get("message")) for one in objects(message.get("message_snapshots"))]
    return [attachment for one in (message, *forwarded) for attachment in objects(one.get("attachments"))]


def _file(message: Payload, attachment: Payload) -> InboundFile | None:
    channel, number = an_id(message.get("channel_id")), an_id(message.get("id"))
    known = an_id(attachment.get("id"))
    if not (channel and number and known):
        return None
    return InboundFile(
        id=f"{channel}/{number}/{known}",
        name=a_text(attachment.get("filename")) or f"file_{known}",
        media_type=a_text(attachment.get("content_type")).partition(";")[0] or "application/octet-stream",
        size=max(0, a_number(attachment.get("size"))),
    )


def parts_of(handle: str) -> tuple[str, str, str] | None:
    """Channel, message and attachment of a handle; None if it is none of ours."""
    found = _HANDLE.fullmatch(handle)
    return (found[1], found[2], found[3]) if found else None


def address_of(message: Payload, attachment_id: str) -> str:
    """The address of an attachment of a message; empty if the message has no such one."""
    for attachment in _attachments(message):
        if an_id(attachment.get("id")) == attachment_id:
            return a_text(attachment.get("url"))
    return ""
