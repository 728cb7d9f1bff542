"""Answers that an app gives without a token: over a response_url, or inside an acknowledgement."""

from __future__ import annotations

from typing import Final

from adapters.emulators.slack.blocks import length_of, numbered, problems_of
from adapters.emulators.slack.errors import ApiError, invalid_blocks
from adapters.emulators.slack.platform import Platform
from adapters.emulators.slack.world import Channel, Message, ResponseLink
from adapters.emulators.wire_json import JsonObject, is_array

KNOWN: Final = frozenset(
    {
        "attachments",
        "blocks",
        "delete_original",
        "markdown_text",
        "mrkdwn",
        "metadata",
        "replace_original",
        "response_type",
        "text",
        "thread_ts",
        "unfurl_links",
        "unfurl_media",
    }
)


class Replies:
    """Takes answers and shows them."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def take(self, identity: str, body: JsonObject, request: int) -> JsonObject:
        """An answer over a response_url. Raises ApiError."""
        link = self._platform.world.responses.get(identity)
        if link is None:
            raise ApiError("invalid_url", status=404)
        if self._platform.clock.now() > link.expires_at:
            raise ApiError("expired_url", status=404)
        if link.uses >= self._platform.knobs.response_uses:
            raise ApiError("used_url", status=404)
        for name in body.keys() - KNOWN:
            self._platform.violate("unknown_parameter", {"method": "response_url", "where": name}, request)
        channel = self._platform.world.channel(link.channel)
        original = self._original(channel, link)
        link.uses += 1
        if body.get("delete_original") is True and original is not None:
            self._platform.removed(channel, original)
        elif body.get("replace_original") is True and original is not None:
            self._replace(channel, original, body)
        else:
            self.show(channel, link.user, body)
        return {}

    def _original(self, channel: Channel, link: ResponseLink) -> Message | None:
        if link.message is None:
            return None
        return channel.messages.get(link.message) or channel.ephemeral.get(link.message)

    def _replace(self, channel: Channel, original: Message, body: JsonObject) -> None:
        previous = self._platform.message_object(original, channel)
        original.text = str(body.get("text") or "")
        original.blocks = self._blocks(body)
        self._platform.changed(channel, original, previous)

    def show(self, channel: Channel, user: str, body: JsonObject) -> None:
        """A new message, for that person only unless `in_channel` is asked for. Raises ApiError."""
        text, blocks = str(body.get("text") or body.get("markdown_text") or ""), self._blocks(body)
        if not text and not blocks and not body.get("attachments"):
            raise ApiError("no_text", status=400)
        app = self._platform.app
        thread = body.get("thread_ts")
        message = Message(
            ts=self._platform.new_ts(),
            user=app.bot_user,
            own=True,
            bot_id=app.bot_id,
            text=text,
            blocks=blocks,
            thread_ts=thread if isinstance(thread, str) else None,
            only=None if body.get("response_type") == "in_channel" else user,
        )
        self._platform.post(channel, message)

    def _blocks(self, body: JsonObject) -> list[JsonObject]:
        given = body.get("blocks")
        if not is_array(given):
            return []
        if found := problems_of(given):
            refusal = invalid_blocks(*found)
            refusal.status = 400
            raise refusal
        if length_of(given) > self._platform.knobs.blocks_total:
            raise ApiError("msg_blocks_too_long", status=400)
        return numbered(given, self._platform.new_block_id)
