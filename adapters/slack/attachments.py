"""Files and shared messages that came along, as handles and quotes."""

from __future__ import annotations

from adapters.contract import InboundFile, Quote
from adapters.payload import Payload, a_number, a_text, objects
from adapters.slack.words import plain_text


def files_of(event: Payload) -> tuple[InboundFile, ...]:
    """The files of a message; names and sizes are what the sender's side claims. Deleted ones are left out."""
    return tuple(
        InboundFile(
            id=a_text(file.get("id")),
            name=a_text(file.get("name")) or a_text(file.get("title")) or a_text(file.get("id")),
            media_type=a_text(file.get("mimetype")) or "application/octet-stream",
            size=a_number(file.get("size")),
        )
        for file in objects(event.get("files"))
        if file.get("id") and file.get("mode") != "tombstone"
    )


def shared_words(event: Payload) -> tuple[Quote, ...]:
    """Other people's messages that were shared with this one: data, and not words of the sender.

    Previews of links are attachments as well; they are the web's words, and are left out.
    """
    return tuple(
        Quote(source="forward", author=a_text(one.get("author_name")) or None, text=plain_text(a_text(one.get("text"))))
        for one in objects(event.get("attachments"))
        if (one.get("is_share") is True or one.get("is_msg_unfurl") is True) and a_text(one.get("text"))
    )
