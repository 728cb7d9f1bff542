"""Payloads of Slack as `Inbound`; pure, and never an error: what is not understood is of kind OTHER.

Keys. Slack gives an event under one `event_id` as often as it takes, but tells one message twice, as `app_mention` and
as `message`, under two; so a message also has its channel and `ts` as a key, which name it for ever. Presses, forms and
commands have no event id: they are named by their trigger, a submitted view by its own id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from adapters.contract import Inbound, InboundKind, MessageRef, Place, Sender, SenderKind
from adapters.payload import Payload, a_text, an_object, objects, texts
from adapters.slack.attachments import files_of, shared_words
from adapters.slack.forms import FIELD, asked, is_form, reason_in
from adapters.slack.identity import PLATFORM, Me
from adapters.slack.senders import person, presser_of, sender_of
from adapters.slack.words import Words, plain_text, read_words

SUBTYPES = frozenset({"", "file_share", "thread_broadcast"})
"""What a person says. Everything else in a `message` event is a notice of Slack, or not a person's."""

_NOBODY = Sender(kind=SenderKind.SYSTEM, id="", name="")


def read(body: Mapping[str, Any], me: Me) -> Inbound:
    """The one thing that a payload tells, of the Events API, of interactivity or of a slash command."""
    payload = an_object(dict(body))
    match payload.get("type"):
        case "event_callback":
            event = _Event(payload, me)
            return _READERS.get(event.kind, _other)(event)
        case "block_actions":
            return _press(payload, me)
        case "view_submission":
            return _form(payload, me)
        case _:
            return _command(payload, me) if payload.get("command") else _unknown(payload, me)


def read_history(message: Payload, place: Place, me: Me) -> Inbound | None:
    """A message of a channel's history as if it had just come; None if it is not a person's word."""
    body = {"type": "message", "channel": place.chat, **message}
    event = _Event({"team_id": me.team, "event": body}, me)
    if event.subtype not in SUBTYPES:
        return None
    said = _message(event)
    return said if said.sender.kind in (SenderKind.PERSON, SenderKind.STRANGER) else None


class _Event:
    """An event with what every reader needs of it."""

    def __init__(self, payload: Payload, me: Me) -> None:
        self.me = me
        self.body = an_object(payload.get("event"))
        self.kind = a_text(self.body.get("type"))
        self.subtype = a_text(self.body.get("subtype"))
        self.team = a_text(payload.get("team_id")) or me.team
        self._number = a_text(payload.get("event_id"))

    @property
    def keys(self) -> tuple[str, ...]:
        return (f"event:{self.me.app}:{self.team}:{self._number}",) if self._number else ()

    @property
    def channel(self) -> str:
        channel: object = self.body.get("channel")
        return a_text(channel) or a_text(an_object(channel).get("id"))

    def place(self, message: Payload) -> Place:
        return _place(self.me, self.channel, root_of(message))

    def sender(self, message: Payload) -> Sender:
        return sender_of(message, self.team, self.me)

    def inbound(self, kind: InboundKind, message: Payload, sender: Sender, **more: Any) -> Inbound:
        """An inbound about a message, or about anything else in a channel."""
        place, number = self.place(message), a_text(message.get("ts"))
        told: dict[str, Any] = {
            "keys": self.keys,
            "place": place,
            "chat_kind": chat_kind(self.channel, a_text(self.body.get("channel_type"))),
            "sent_at_ms": instant(number),
            "ref": _ref(place, number),
        }
        return Inbound(kind=kind, sender=sender, **{**told, **more})


def root_of(message: Payload) -> str | None:
    """The thread: the `ts` of its root, which is the message's own where it begins one; a reply's own names nothing."""
    return a_text(message.get("thread_ts")) or a_text(message.get("ts")) or None


def chat_kind(channel: str, channel_type: str = "") -> Literal["private", "group"]:
    """Alone with us, or not; a conversation of several people is a group."""
    return "private" if channel_type == "im" or channel.startswith("D") else "group"


def instant(ts: str) -> int:
    """Milliseconds of a `ts`, which is seconds with a fraction that makes it unique in its channel; 0 if it is none."""
    try:
        return round(1000 * float(ts))
    except ValueError:
        return 0


def _place(me: Me, channel: str, thread: str | None) -> Place:
    return Place(platform=PLATFORM, account=me.account, chat=channel, thread=thread)


def _ref(place: Place, ts: str) -> MessageRef | None:
    if not place.chat or not ts:
        return None
    return MessageRef(platform=PLATFORM, account=place.account, chat=place.chat, id=ts, thread=place.thread)


# ---------------------------------------------------------------------------------------------------------- messages


def _message(event: _Event) -> Inbound:
    match event.subtype:
        case subtype if subtype in SUBTYPES:
            return _said(event, event.body)
        case "message_changed":
            return _changed(event)
        case "message_deleted":
            return _deleted(event, an_object(event.body.get("previous_message")))
        case "bot_message":
            return replace(_other(event), sender=event.sender(event.body))
        case _:
            return _other(event)


def _said(event: _Event, message: Payload) -> Inbound:
    """What somebody said, whether it came as a mention, as a message, or both."""
    shared = shared_words(message)
    raw = a_text(message.get("text"))
    words = read_words(raw, event.me)
    said = event.inbound(
        InboundKind.COMMAND if words.command else InboundKind.MESSAGE,
        message,
        event.sender(message),
        text=words.text,
        command=words.command,
        arguments=words.arguments,
        files=files_of(message),
        quotes=shared,
        forwarded=bool(shared) and not words.text.strip(),
        reply_to=_answered(event, message),
        addressed=_is_addressed(event, message, words),
        what="text" if raw else "file" if message.get("files") else event.kind,
    )
    number = a_text(message.get("ts"))
    return replace(said, keys=(*said.keys, _message_key(event.me, event.channel, number))) if number else said


def _message_key(me: Me, channel: str, ts: str) -> str:
    return f"message:{me.home}:{channel}:{ts}"


def _answered(event: _Event, message: Payload) -> MessageRef | None:
    root = a_text(message.get("thread_ts"))
    return _ref(event.place(message), root) if root and root != a_text(message.get("ts")) else None


def _is_addressed(event: _Event, message: Payload, words: Words) -> bool:
    """Said to us: alone with us, with our name, or in a thread that we began."""
    if chat_kind(event.channel, a_text(event.body.get("channel_type"))) == "private":
        return True
    ours = message.get("parent_user_id") == event.me.user and event.me.user != ""
    return event.kind == "app_mention" or words.mentions_us or ours


def _changed(event: _Event) -> Inbound:
    """An edit, or what becomes of a root that is deleted. A preview that came in is no edit: its text is the same."""
    now, before = an_object(event.body.get("message")), an_object(event.body.get("previous_message"))
    if now.get("subtype") == "tombstone":
        return _deleted(event, before or now)
    if a_text(now.get("subtype")) not in SUBTYPES or now.get("text") == before.get("text"):
        return replace(_other(event), what="message_changed")
    seen = _said(event, {**now, "channel": event.channel})
    edited_at = a_text(an_object(now.get("edited")).get("ts"))
    return replace(
        seen,
        kind=InboundKind.EDIT,
        keys=(*event.keys, f"edit:{event.me.home}:{event.channel}:{a_text(now.get('ts'))}:{edited_at}"),
        sent_at_ms=instant(edited_at) or seen.sent_at_ms,
        command=None,
        arguments="",
    )


def _deleted(event: _Event, before: Payload) -> Inbound:
    """Slack does not tell who deleted a message; it lets the author, and whoever runs the workspace."""
    number = a_text(event.body.get("deleted_ts")) or a_text(before.get("ts"))
    gone = {**before, "ts": number}
    keys = (*event.keys, f"delete:{event.me.home}:{event.channel}:{number}")
    sent_at_ms = instant(a_text(event.body.get("event_ts"))) or instant(number)
    return event.inbound(InboundKind.DELETE, gone, event.sender(gone), keys=keys, sent_at_ms=sent_at_ms)


# --------------------------------------------------------------------------------------------------- everything else


def _stopped(event: _Event) -> Inbound:
    """Stop was pressed in Slack's own surface: the streams that Slack has closed are named, and may be none."""
    body = event.body
    stopped = tuple(filter(None, texts(body.get("streaming_message_ts"))))
    place = _place(event.me, event.channel, a_text(body.get("thread_ts")) or None)
    at = a_text(body.get("event_ts"))
    found = event.inbound(InboundKind.STOP, body, event.sender(body), stopped=stopped, sent_at_ms=instant(at))
    return replace(found, place=place, ref=None)


def _reaction(event: _Event) -> Inbound:
    item = an_object(event.body.get("item"))
    name = a_text(event.body.get("reaction")) if event.kind == "reaction_added" else None
    channel = a_text(item.get("channel"))
    place, number = _place(event.me, channel, None), a_text(item.get("ts"))
    found = event.inbound(InboundKind.REACTION, {}, event.sender({"user": event.body.get("user")}), reaction=name)
    at = instant(a_text(event.body.get("event_ts")))
    return replace(found, place=place, ref=_ref(place, number), sent_at_ms=at, chat_kind=chat_kind(channel))


_CAME = frozenset({"member_joined_channel", "channel_unarchive", "group_unarchive"})


def _membership(event: _Event) -> Inbound:
    """Somebody came or went: we ourselves (`what` is "us"), or the person whose id `what` is. An archived channel is
    one that we are out of."""
    user = a_text(event.body.get("user")) or a_text(event.body.get("actor_id"))
    about_us = not event.kind.startswith("member_") or user == event.me.user
    sender = person(a_text(event.body.get("inviter")) or user, event.team, "", event.me) if user else _NOBODY
    found = event.inbound(InboundKind.MEMBERSHIP, {}, sender, joined=event.kind in _CAME)
    at = instant(a_text(event.body.get("event_ts")))
    return replace(found, what="us" if about_us else user, sent_at_ms=at, addressed=False)


def _renamed(event: _Event) -> Inbound:
    """A channel has another name and the same id: nothing is bound to a name."""
    name = a_text(an_object(event.body.get("channel")).get("name"))
    return replace(_other(event), chat_title=name or None)


def _other(event: _Event) -> Inbound:
    """What we have no use for, with whatever place and sender it seems to have."""
    what = "/".join(filter(None, (event.kind, event.subtype)))
    sender = event.sender(event.body) if event.body.get("user") or event.body.get("bot_id") else _NOBODY
    return event.inbound(InboundKind.OTHER, event.body, sender, addressed=False, what=what)


def _press(payload: Payload, me: Me) -> Inbound:
    """A press of a button. What it is bound to is its message, which `container` names even after the message is gone.

    The root of a thread is not in it: a press on a root says nothing of a thread.
    """
    container, message = an_object(payload.get("container")), an_object(payload.get("message"))
    channel = a_text(container.get("channel_id")) or a_text(an_object(payload.get("channel")).get("id"))
    number = a_text(container.get("message_ts")) or a_text(message.get("ts"))
    root = a_text(message.get("thread_ts")) or a_text(container.get("thread_ts"))
    place = _place(me, channel, root if root and root != number else None)
    action = an_object(next(iter(objects(payload.get("actions"))), None))
    trigger = a_text(payload.get("trigger_id"))
    at = a_text(action.get("action_ts"))
    return Inbound(
        kind=InboundKind.PRESS if action.get("type") == "button" else InboundKind.OTHER,
        keys=(f"press:{me.app}:{trigger or f'{channel}:{number}:{at}'}",),
        place=place,
        sender=presser_of(an_object(payload.get("user")), _team_in(payload), me),
        chat_kind=chat_kind(channel),
        sent_at_ms=instant(at),
        ref=_ref(place, number),
        token=a_text(action.get("value")) or None,
        handle=trigger or None,
    )


def _form(payload: Payload, me: Me) -> Inbound:
    """A view that was filled in. Where it was asked it tells itself; one that is not ours is of no use."""
    view = an_object(payload.get("view"))
    told = asked(view)
    place = _place(me, told["chat"], told["thread"] or None)
    sender = presser_of(an_object(payload.get("user")), _team_in(payload), me)
    number = a_text(view.get("id")) or a_text(payload.get("trigger_id"))
    keys = (f"form:{me.app}:{number}",)
    if not is_form(view, me):
        return Inbound(kind=InboundKind.OTHER, keys=keys, place=place, sender=sender, addressed=False, what="view")
    reason = reason_in(view)
    return Inbound(
        kind=InboundKind.FORM,
        keys=keys,
        place=place,
        sender=sender,
        chat_kind=chat_kind(told["chat"]),
        text=reason,
        token=told["token"] or None,
        fields={FIELD: reason},
    )


def _command(payload: Payload, me: Me) -> Inbound:
    """A slash command of ours, `/pilothouse stop`: its first word is the command. Slack knows none within a thread."""
    channel = a_text(payload.get("channel_id"))
    words = plain_text(a_text(payload.get("text"))).strip()
    name, _, arguments = words.partition(" ")
    name = name.removeprefix("/").lower() or "help"
    user = {"id": payload.get("user_id"), "name": payload.get("user_name"), "team_id": payload.get("team_id")}
    return Inbound(
        kind=InboundKind.COMMAND,
        keys=(f"command:{me.app}:{a_text(payload.get('trigger_id'))}",),
        place=_place(me, channel, None),
        sender=presser_of(user, _team_in(payload), me),
        chat_kind=chat_kind(channel),
        text=f"/{name} {arguments}".strip(),
        command=name,
        arguments=arguments.strip(),
    )


def _unknown(payload: Payload, me: Me) -> Inbound:
    kind = a_text(payload.get("type"))
    number = a_text(payload.get("trigger_id")) or a_text(payload.get("event_id"))
    place = _place(me, a_text(an_object(payload.get("channel")).get("id")), None)
    sender = presser_of(an_object(payload.get("user")), _team_in(payload), me)
    keys = (f"other:{me.app}:{kind}:{number}",) if number else ()
    return Inbound(kind=InboundKind.OTHER, keys=keys, place=place, sender=sender, addressed=False, what=kind)


def _team_in(payload: Payload) -> str:
    return a_text(an_object(payload.get("team")).get("id")) or a_text(payload.get("team_id"))


_READERS: Mapping[str, Callable[[_Event], Inbound]] = {
    "message": _message,
    "app_mention": lambda event: _said(event, event.body),
    "agent_session_stopped": _stopped,
    "reaction_added": _reaction,
    "reaction_removed": _reaction,
    "member_joined_channel": _membership,
    "member_left_channel": _membership,
    "channel_left": _membership,
    "group_left": _membership,
    "channel_archive": _membership,
    "group_archive": _membership,
    "channel_unarchive": _membership,
    "group_unarchive": _membership,
    "channel_deleted": _membership,
    "group_deleted": _membership,
    "channel_rename": _renamed,
    "group_rename": _renamed,
}
