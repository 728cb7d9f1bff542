"""sendMessageDraft and sendChatAction: what shows while the bot works and leaves nothing behind."""

from __future__ import annotations

from typing import Final

from adapters.emulators.telegram.call import Call
from adapters.emulators.telegram.errors import bad_request, too_many_requests
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.telegram.rendering import entity_objects
from adapters.emulators.telegram.target import Access, find_chat, find_thread
from adapters.emulators.telegram.text import accept_text, read_text
from adapters.emulators.telegram.world import GENERAL_TOPIC, Chat, ChatType, Draft

ACTIONS: Final = frozenset(
    {
        "cancel",
        "typing",
        "upload_photo",
        "record_video",
        "upload_video",
        "record_voice",
        "record_audio",
        "upload_voice",
        "upload_audio",
        "upload_document",
        "choose_sticker",
        "find_location",
        "pick_up_location",
        "record_video_note",
        "upload_video_note",
    }
)


async def send_chat_action(platform: Platform, call: Call) -> bool:
    """Show for five seconds what the bot is doing."""
    action = call.text("action").lower()
    if action not in ACTIONS:
        raise bad_request("Wrong parameter action in request")
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.WRITE)
    thread = call.integer("message_thread_id")
    if thread not in (0, GENERAL_TOPIC):
        find_thread(call.bot, chat, thread, None)
    _brake(platform, call, chat)
    platform.show("action", chat, {"action": action, "thread": thread or None}, account=call.bot.account)
    return True


async def send_message_draft(platform: Platform, call: Call) -> bool:
    """Show a message that is being written; it lives half a minute unless it is shown again.

    Private chats only. The wording of the refusals is a guess but for TEXTDRAFT_PEER_INVALID. An empty text shows
    "Thinking…". A stopped draft is not shown again, though the call succeeds.
    """
    parsed = read_text(call.text("text"), call.text("parse_mode"), call.lenient_json("entities"))
    chat = find_chat(platform, call.bot, call.text("chat_id"), Access.WRITE)
    if chat.type is not ChatType.PRIVATE:
        raise bad_request("TEXTDRAFT_PEER_INVALID")
    draft_id = call.integer("draft_id")
    if draft_id == 0:
        raise bad_request("RANDOM_ID_INVALID")
    thread, _ = find_thread(call.bot, chat, max(0, call.integer("message_thread_id")), None)
    text = accept_text(parsed, allow_empty=True)
    _brake(platform, call, chat)
    if draft_id in chat.stopped_drafts:
        return True
    draft = Draft(
        id=draft_id,
        thread=thread,
        text=text.text,
        entities=text.entities,
        can_stop=call.flag("can_stop"),
        expires_at=platform.clock.now() + platform.knobs.draft_life,
    )
    chat.drafts[draft_id] = draft
    shown = {"draft_id": draft_id, "thread": thread, "text": draft.text, "can_stop": draft.can_stop}
    entities = entity_objects(draft.entities, platform.world) or []
    platform.show("draft", chat, {**shown, "entities": entities}, account=call.bot.account)
    return True


def _brake(platform: Platform, call: Call, chat: Chat) -> None:
    gate = platform.gates.get(call.bot.id)
    wait = 0 if gate is None else gate.draft(chat.id, platform.clock.now())
    if wait:
        raise too_many_requests(wait)
