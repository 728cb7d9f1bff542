"""chat.*: posting, changing and removing messages."""

from __future__ import annotations

from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.content import Content, read_content, read_look, read_thread
from adapters.emulators.slack.errors import ApiError
from adapters.emulators.slack.world import Channel, Message
from adapters.emulators.wire_json import JsonObject


def post_message(call: Call) -> JsonObject:
    """Post into a channel or thread."""
    channel = call.writable()
    content = read_content(call, call.platform.knobs.message_text)
    if content.is_empty:
        raise ApiError("no_text")
    message = _new(call, channel, content)
    if call.flag("reply_broadcast") and message.is_reply:
        message.subtype = "thread_broadcast"
    call.platform.post(channel, message)
    return {"channel": channel.id, "ts": message.ts, "message": call.object_of(message, channel)}


def _new(call: Call, channel: Channel, content: Content) -> Message:
    app, look = call.platform.app, read_look(call)
    links, media = call.params.get("unfurl_links"), call.params.get("unfurl_media")
    return Message(
        ts=call.platform.new_ts(),
        user=app.bot_user,
        own=True,
        bot_id=app.bot_id,
        text=content.text or "",
        blocks=content.blocks or [],
        attachments=content.attachments or [],
        metadata=content.metadata or None,
        thread_ts=read_thread(call, channel),
        username=look.username,
        icons=look.icons,
        unfurl_links=links if isinstance(links, bool) else None,
        unfurl_media=media if isinstance(media, bool) else None,
    )


def post_ephemeral(call: Call) -> JsonObject:
    """Show something to one member only."""
    channel, reader = call.writable(), call.text("user")
    if reader not in channel.members:
        raise ApiError("user_not_in_channel")
    content = read_content(call, call.platform.knobs.message_text)
    if content.is_empty:
        raise ApiError("no_text")
    message = _new(call, channel, content)
    message.only = reader
    call.platform.post(channel, message)
    return {"message_ts": message.ts}


def update(call: Call) -> JsonObject:
    """Change an own message. Text without blocks takes the old blocks away; blocks without text leave the text."""
    channel = call.channel()
    if channel.archived:
        raise ApiError("is_inactive")
    message = call.message(channel, "ts")
    if not message.own:
        raise ApiError("cant_update_message")
    if message.stream is not None and call.platform.live(message.stream):
        raise ApiError("streaming_state_conflict")
    content = read_content(call, call.platform.knobs.update_text)
    if content.text is None and content.blocks is None and content.attachments is None:
        raise ApiError("no_text")
    if content.text == "" and not (content.blocks or content.attachments):
        raise ApiError("no_text")
    previous = call.platform.message_object(message, channel)
    _apply(call, message, content)
    call.platform.changed(channel, message, previous)
    answer = call.object_of(message, channel)
    return {"channel": channel.id, "ts": message.ts, "text": message.text, "message": answer}


def _apply(call: Call, message: Message, content: Content) -> None:
    if content.text is not None:
        message.text = content.text
        message.edited = {"user": call.platform.app.bot_user, "ts": call.platform.new_ts()}
        message.blocks = content.blocks or []
        message.attachments = content.attachments or []
    if content.blocks is not None:
        message.blocks = content.blocks
    if content.attachments is not None:
        message.attachments = content.attachments
    if content.metadata is not None:
        message.metadata = content.metadata or None


def delete(call: Call) -> JsonObject:
    """Remove an own message."""
    channel = call.channel()
    message = call.message(channel, "ts")
    if not message.own:
        raise ApiError("cant_delete_message")
    call.platform.removed(channel, message)
    return {"channel": channel.id, "ts": message.ts}


def permalink(call: Call) -> JsonObject:
    """The address of a message."""
    channel = call.channel()
    message = call.message(channel, "message_ts")
    path = f"/archives/{channel.id}/p{message.ts.replace('.', '')}"
    query = f"?thread_ts={message.thread_ts}&cid={channel.id}" if message.is_reply else ""
    return {"channel": channel.id, "permalink": f"{call.platform.url}{path}{query}"}


HANDLERS: dict[str, Handler] = {
    "chat.postMessage": post_message,
    "chat.postEphemeral": post_ephemeral,
    "chat.update": update,
    "chat.delete": delete,
    "chat.getPermalink": permalink,
}
