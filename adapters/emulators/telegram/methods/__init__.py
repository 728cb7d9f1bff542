"""Methods of the Bot API that the emulator has, by lower-case name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from adapters.emulators.telegram import polling
from adapters.emulators.telegram.call import Call
from adapters.emulators.telegram.methods import account, callbacks, chats, drafts, edits, media, messages, topics
from adapters.emulators.telegram.platform import Platform

Handler = Callable[[Platform, Call], Awaitable[Any]]

HANDLERS: Mapping[str, Handler] = {
    "getupdates": polling.get_updates,
    "getme": account.get_me,
    "logout": account.log_out,
    "close": account.close,
    "setmycommands": account.set_my_commands,
    "getmycommands": account.get_my_commands,
    "deletemycommands": account.delete_my_commands,
    "sendmessage": messages.send_message,
    "deletemessage": messages.delete_message,
    "deletemessages": messages.delete_messages,
    "setmessagereaction": messages.set_message_reaction,
    "sendchataction": drafts.send_chat_action,
    "sendmessagedraft": drafts.send_message_draft,
    "editmessagetext": edits.edit_message_text,
    "editmessagecaption": edits.edit_message_caption,
    "editmessagereplymarkup": edits.edit_message_reply_markup,
    "answercallbackquery": callbacks.answer_callback_query,
    "senddocument": media.send_document,
    "sendphoto": media.send_photo,
    "sendvoice": media.send_voice,
    "sendaudio": media.send_audio,
    "sendvideo": media.send_video,
    "sendmediagroup": media.send_media_group,
    "getfile": media.get_file,
    "createforumtopic": topics.create_forum_topic,
    "editforumtopic": topics.edit_forum_topic,
    "closeforumtopic": topics.close_forum_topic,
    "reopenforumtopic": topics.reopen_forum_topic,
    "deleteforumtopic": topics.delete_forum_topic,
    "getchat": chats.get_chat,
    "getchatmember": chats.get_chat_member,
    "getchatadministrators": chats.get_chat_administrators,
    "getchatmembercount": chats.get_chat_member_count,
    "leavechat": chats.leave_chat,
}
"""setWebhook, deleteWebhook and getWebhookInfo belong to the wire face, which owns the sender."""
