"""answerCallbackQuery."""

from __future__ import annotations

from typing import Final

from adapters.emulators.telegram.call import Call
from adapters.emulators.telegram.errors import bad_request
from adapters.emulators.telegram.platform import Platform

MAX_ANSWER: Final = 200
TOO_OLD: Final = "query is too old and response timeout expired or query ID is invalid"


async def answer_callback_query(platform: Platform, call: Call) -> bool:
    """Stop the button's spinner and show the presser a text. Once, and within the deadline."""
    callback = call.bot.callbacks.get(call.text("callback_query_id"))
    knobs = platform.knobs
    if callback is None or platform.clock.now() > callback.pressed_at + knobs.callback_deadline:
        raise bad_request(TOO_OLD)
    if callback.answer is not None and knobs.second_callback_answer_refused:
        raise bad_request(TOO_OLD)
    if len(call.text("text")) > MAX_ANSWER:
        raise bad_request("MESSAGE_TOO_LONG")
    callback.answer = {"text": call.text("text"), "show_alert": call.flag("show_alert"), "url": call.text("url")}
    chat = platform.world.chat(callback.chat, call.bot.id)
    data = {"callback_query_id": callback.id, "user_id": callback.user, "message_id": callback.message}
    platform.show("callback_answer", chat, data | callback.answer, account=call.bot.account)
    return True
