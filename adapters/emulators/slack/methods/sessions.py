"""agents.sessions.* and the older assistant.threads.*: what an agent says about its work in a thread."""

from __future__ import annotations

from typing import Final

from adapters.emulators.slack.call import Call, Handler
from adapters.emulators.slack.content import require_customize
from adapters.emulators.slack.errors import ApiError, invalid_arguments
from adapters.emulators.slack.platform import Platform
from adapters.emulators.slack.rendering import session_object
from adapters.emulators.slack.world import Channel, Session
from adapters.emulators.wire_json import JsonObject, is_array, is_object

STATUSES: Final = ("active", "processing", "suspended", "closed")
TITLE: Final = 200
PROMPTS: Final = 4
LOADING_MESSAGES: Final = 10
STOP_EVENT: Final = "agent_session_stopped"


def set_status(call: Call) -> JsonObject:
    """Set the status of a thread's session, which is made if there is none; only then title and initiator count."""
    channel, thread = _thread(call)
    status = call.text("status")
    if status not in STATUSES:
        raise ApiError("invalid_status")
    title, initiator = call.text("title"), call.text("initiator_user_id")
    if len(title) > TITLE:
        raise invalid_arguments("must be less than 201 characters [json-pointer:/title]")
    if initiator and initiator not in channel.members:
        raise ApiError("user_not_found")
    if any(call.has(name) for name in ("icon_emoji", "icon_url", "username")):
        require_customize(call)
    platform = call.platform
    if (channel.id, thread) not in platform.world.sessions:
        platform.world.sessions[channel.id, thread] = Session(
            channel=channel.id,
            thread_ts=thread,
            status=status,
            set_at=platform.clock.now(),
            title=title,
            initiator=initiator or None,
        )
    set_status_of(platform, channel, thread, status)
    if status == "processing" and STOP_EVENT not in platform.app.events:
        return {"warning": "missing_agent_session_stopped_event_subscription"}
    return {}


def set_status_of(platform: Platform, channel: Channel, thread: str, status: str) -> None:
    """The session of a thread, if it has one, has this status from now on. The text of the older method goes."""
    platform.world.statuses.pop((channel.id, thread), None)
    session = platform.world.sessions.get((channel.id, thread))
    if session is None:
        return
    session.status, session.set_at = status, platform.clock.now()
    platform.show("session", session_object(session, status))


def rename(call: Call) -> JsonObject:
    """Give a session another title."""
    channel, thread = _thread(call)
    session = call.platform.world.sessions.get((channel.id, thread))
    if session is None:
        raise ApiError("session_not_found")
    title = call.text("title")
    if not 0 < len(title) <= TITLE:
        raise invalid_arguments("must be from 1 to 200 characters [json-pointer:/title]")
    session.title = title
    call.platform.show("session", session_object(session, call.platform.status_of(session)))
    return {}


def _thread(call: Call) -> tuple[Channel, str]:
    channel = call.channel("channel_id")
    if not call.platform.app.agent or not call.platform.in_channel(channel):
        raise ApiError("not_authorized")
    thread = call.text("thread_ts")
    if not thread:
        raise ApiError("thread_ts_required")
    if thread not in channel.messages:
        raise ApiError("thread_not_found")
    return channel, thread


def set_text_status(call: Call) -> JsonObject:
    """The line under a thread; an empty one takes it away."""
    channel, thread = _thread(call)
    messages = call.params.get("loading_messages")
    if is_array(messages) and len(messages) > LOADING_MESSAGES:
        raise invalid_arguments("no more than 10 items allowed [json-pointer:/loading_messages]")
    text = call.text("status")
    key, now = (channel.id, thread), call.platform.clock.now()
    if text:
        call.platform.world.statuses[key] = (text, now + call.platform.knobs.status_life)
    else:
        call.platform.world.statuses.pop(key, None)
    call.platform.show("status", {"channel": channel.id, "thread": thread, "text": text})
    return {}


def set_title(call: Call) -> JsonObject:
    """Title of an assistant thread."""
    channel, thread = _thread(call)
    call.platform.show("title", {"channel": channel.id, "thread": thread, "title": call.text("title")})
    return {}


def set_prompts(call: Call) -> JsonObject:
    """What a person may press instead of typing."""
    channel = call.channel("channel_id")
    prompts = call.params.get("prompts")
    if not is_array(prompts) or not 1 <= len(prompts) <= PROMPTS or not all(map(_is_prompt, prompts)):
        raise invalid_arguments("must be from 1 to 4 prompts with title and message [json-pointer:/prompts]")
    call.platform.world.prompts[channel.id] = prompts
    call.platform.show("prompts", {"channel": channel.id, "prompts": prompts})
    return {}


def _is_prompt(prompt: object) -> bool:
    return is_object(prompt) and all(isinstance(prompt.get(name), str) for name in ("title", "message"))


HANDLERS: dict[str, Handler] = {
    "agents.sessions.setStatus": set_status,
    "agents.sessions.rename": rename,
    "assistant.threads.setStatus": set_text_status,
    "assistant.threads.setTitle": set_title,
    "assistant.threads.setSuggestedPrompts": set_prompts,
}
