"""The running workspace: people and channels, the app, the clock, and the record of what happens.

Methods of the Web API and the hands of the people both act through it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from adapters.emulators.clock import Clock
from adapters.emulators.faults import FaultQueue
from adapters.emulators.journal import EntryKind, Journal
from adapters.emulators.slack.app import App
from adapters.emulators.slack.delivery import Delivery, Envelope, EnvelopeKind, Outcome, Spawn
from adapters.emulators.slack.knobs import Knobs
from adapters.emulators.slack.rates import Rates
from adapters.emulators.slack.rendering import message_object
from adapters.emulators.slack.world import (
    Channel,
    ChannelKind,
    Message,
    ResponseLink,
    Session,
    Stream,
    Trigger,
    User,
    World,
)
from adapters.emulators.slack.written import links_in
from adapters.emulators.wire_json import JsonObject

EVENT_SCOPES: Mapping[str, tuple[str, ...]] = {
    "app_mention": ("app_mentions:read",),
    "message.channels": ("channels:history",),
    "message.groups": ("groups:history",),
    "message.im": ("im:history",),
    "message.mpim": ("mpim:history",),
    "reaction_added": ("reactions:read",),
    "reaction_removed": ("reactions:read",),
    "member_joined_channel": ("channels:read", "groups:read"),
    "member_left_channel": ("channels:read", "groups:read"),
    "channel_archive": ("channels:read",),
    "channel_left": ("channels:read",),
    "channel_rename": ("channels:read",),
    "channel_unarchive": ("channels:read",),
    "group_archive": ("groups:read",),
    "group_left": ("groups:read",),
    "group_rename": ("groups:read",),
    "group_unarchive": ("groups:read",),
}
"""Any one of the scopes lets the event through."""

_MESSAGES = {
    ChannelKind.PUBLIC: "message.channels",
    ChannelKind.PRIVATE: "message.groups",
    ChannelKind.DIRECT: "message.im",
    ChannelKind.GROUP_DIRECT: "message.mpim",
}


class Platform:
    """Everything that the wire face, the people and the control API share."""

    def __init__(
        self,
        *,
        app: App,
        clock: Clock,
        journal: Journal,
        faults: FaultQueue,
        knobs: Knobs,
        spawn: Spawn,
        url: Callable[[], str],
    ) -> None:
        self.app = app
        self.clock = clock
        self.journal = journal
        self.faults = faults
        self.knobs = knobs
        self.spawn = spawn
        self.world = World()
        self.rates = Rates(knobs.post_burst)
        self.delivery = Delivery(
            app=app, clock=clock, journal=journal, faults=faults, knobs=knobs, spawn=spawn, new_id=self.new_uuid
        )
        self._url = url
        self._last_ts = 0
        self._ids = 0
        self._uuids = 0

    # -- numbers

    @property
    def url(self) -> str:
        """Base address of the emulator."""
        return self._url()

    def new_id(self, prefix: str) -> str:
        """A fresh id of a kind: F, V, Ev, …"""
        self._ids += 1
        return f"{prefix}0E{self._ids:08d}"

    def new_uuid(self) -> str:
        """A fresh id in the form of a UUID. It protects nothing here, so it is counted and a run can be repeated."""
        self._uuids += 1
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.app.account}/{self._uuids}"))

    def new_ts(self) -> str:
        """A fresh message timestamp, later than all before."""
        self._last_ts = max(int(self.clock.now() * 1_000_000), self._last_ts + 1)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def new_block_id(self) -> str:
        """A fresh id of a block or element that was sent without one."""
        self._ids += 1
        return f"e{self._ids:04x}"

    # -- the record

    def show(self, name: str, data: Mapping[str, Any]) -> None:
        """Record that people now see something else."""
        self.journal.record(EntryKind.SCREEN, name, data, account=self.app.account)

    def show_message(self, name: str, message: Message, channel: Channel) -> None:
        """Record a message that appeared or changed."""
        data: JsonObject = {
            "channel": channel.id,
            "thread": message.thread_ts,
            "message": self.message_object(message, channel, metadata=True),
        }
        if message.only is not None:
            data["only"] = message.only
        self.show(name, data)

    def violate(self, rule: str, data: Mapping[str, Any], request: int | None = None) -> None:
        """Record that the app broke a rule."""
        self.journal.record(EntryKind.VIOLATION, rule, data, account=self.app.account, request=request)

    # -- places

    def direct(self, user: str) -> Channel:
        """The direct message channel of a person with the app; opened on first use."""
        identity = f"D{user[1:]}"
        if identity not in self.world.channels:
            self.world.channels[identity] = Channel(
                id=identity,
                kind=ChannelKind.DIRECT,
                created=int(self.clock.now()),
                user=user,
                members={user: None, self.app.bot_user: None},
            )
        return self.world.channels[identity]

    def in_channel(self, channel: Channel) -> bool:
        """Whether the app is a member."""
        return self.app.bot_user in channel.members

    # -- messages

    def message_object(self, message: Message, channel: Channel, *, metadata: bool = False) -> JsonObject:
        """As methods and events carry it."""
        return message_object(message, channel, self.app, self.world, self.url, metadata=metadata)

    def post(self, channel: Channel, message: Message) -> Message:
        """Put a message where it belongs, on the screens, and tell the app."""
        if message.only is not None:
            channel.ephemeral[message.ts] = message
            self.show_message("ephemeral", message, channel)
            return message
        if message.thread_ts is not None and (root := channel.messages.get(message.thread_ts)) is not None:
            root.thread_ts = root.ts
        channel.messages[message.ts] = message
        self.show_message("message", message, channel)
        self._preview(channel, message)
        self.publish_message(message, channel)
        return message

    def _preview(self, channel: Channel, message: Message) -> None:
        """Slack fetches what an app's message links to, unless told not to: text if asked for, media by default."""
        wanted = message.unfurl_links or message.unfurl_media is not False
        found = links_in([message.text, message.blocks]) if message.own and wanted else []
        if found:
            urls = list(dict.fromkeys(found))
            self.show("preview", {"channel": channel.id, "ts": message.ts, "urls": urls})

    def changed(self, channel: Channel, message: Message, previous: JsonObject) -> None:
        """A message looks different now; `previous` is how it was."""
        self.show_message("edit", message, channel)
        if message.only is None:
            self._publish_change(channel, message, previous, "message_changed")

    def removed(self, channel: Channel, message: Message) -> None:
        """Take a message away. The root of a thread stays as a tombstone, which apps see as a change."""
        previous = self.message_object(message, channel)
        if message.only is not None:
            del channel.ephemeral[message.ts]
        elif channel.replies(message.ts):
            self._bury(channel, message, previous)
            return
        else:
            del channel.messages[message.ts]
            self._publish_change(channel, message, previous, "message_deleted")
        self.show("delete", {"channel": channel.id, "thread": message.thread_ts, "ts": message.ts})

    def _bury(self, channel: Channel, message: Message, previous: JsonObject) -> None:
        message.subtype, message.text, message.user = "tombstone", "This message was deleted.", "USLACKBOT"
        message.blocks, message.files, message.own = [], [], False
        self.show("delete", {"channel": channel.id, "thread": message.thread_ts, "ts": message.ts})
        self._publish_change(channel, message, previous, "message_changed")

    # -- events

    def publish_message(self, message: Message, channel: Channel) -> None:
        """Tell the app of a new message, if it may read it there."""
        body = self.message_object(message, channel)
        body |= {"channel": channel.id, "event_ts": message.ts, "channel_type": channel.kind.value}
        if message.own and not self.knobs.echo_own:
            return
        self.publish(_MESSAGES[channel.kind], body, channel)

    def _publish_change(self, channel: Channel, message: Message, previous: JsonObject, subtype: str) -> None:
        if message.own and not self.knobs.echo_own:
            return
        stamp = self.new_ts()
        body: JsonObject = {
            "type": "message",
            "subtype": subtype,
            "channel": channel.id,
            "hidden": True,
            "ts": stamp,
            "event_ts": stamp,
            "channel_type": channel.kind.value,
            "previous_message": previous,
        }
        if subtype == "message_changed":
            body["message"] = self.message_object(message, channel)
        else:
            body["deleted_ts"] = message.ts
        self.publish(_MESSAGES[channel.kind], body, channel)

    def publish(self, name: str, event: JsonObject, channel: Channel | None = None) -> None:
        """Send an event to the app if it subscribed to it, has the scope, and is in the channel."""
        app = self.app
        scopes = EVENT_SCOPES.get(name, ())
        allowed = not scopes or any(scope in app.scopes for scope in scopes)
        inside = channel is None or self.in_channel(channel)
        if name not in app.events or not allowed or not inside or app.revoked is not None:
            why = "not subscribed" if name not in app.events else "no scope" if not allowed else "not in channel"
            self.journal.record(EntryKind.EVENT, name, {"state": "unwanted", "why": why}, account=app.account)
            return
        self.delivery.publish(name, self.callback(event, channel))

    def callback(self, event: JsonObject, channel: Channel | None) -> JsonObject:
        """The outer `event_callback`."""
        app = self.app
        authorization = {
            "enterprise_id": app.enterprise,
            "team_id": app.team,
            "user_id": app.bot_user,
            "is_bot": True,
            "is_enterprise_install": False,
        }
        return {
            "token": app.verification_token,
            "team_id": app.team,
            "context_team_id": app.team,
            "context_enterprise_id": app.enterprise,
            "api_app_id": app.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": self.new_id("Ev"),
            "event_time": int(self.clock.now()),
            "authorizations": [authorization],
            "is_ext_shared_channel": channel is not None and channel.shared,
            "event_context": f"4-{self.new_uuid()}",
        }

    # -- presses, commands and forms

    def ask(
        self, kind: EnvelopeKind, name: str, payload: JsonObject, then: Callable[[Outcome], None] | None = None
    ) -> Envelope:
        """Send something that a person waits for."""
        envelope = Envelope(kind=kind, name=name, payload=payload)
        self.delivery.ask(envelope, then or (lambda outcome: self._tell_timeout(name, payload, outcome)))
        return envelope

    def _tell_timeout(self, name: str, payload: JsonObject, outcome: Outcome) -> None:
        if not outcome.acknowledged:
            self.show("operation_timeout", {"what": name, "trigger_id": payload.get("trigger_id")})

    def new_trigger(self, user: str, view: str | None = None) -> str:
        """The right to open a view, for a short time."""
        identity = f"{int(self.clock.now() * 1000)}.{self.app.team}.{self.new_uuid().replace('-', '')}"
        expires_at = self.clock.now() + self.knobs.trigger_life
        self.world.triggers[identity] = Trigger(user=user, expires_at=expires_at, view=view)
        return identity

    def new_response_url(
        self, channel: Channel, user: str, message: str | None = None, thread_ts: str | None = None
    ) -> str:
        """Where the app may answer without a token."""
        identity = self.new_uuid().replace("-", "")
        expires_at = self.clock.now() + self.knobs.response_life
        self.world.responses[identity] = ResponseLink(
            channel=channel.id, user=user, expires_at=expires_at, message=message, thread_ts=thread_ts
        )
        return f"{self.url}/response/{self.app.team}/{identity}"

    def actor(self, user: User) -> JsonObject:
        """`user` of presses and forms."""
        return {"id": user.id, "username": user.name, "name": user.name, "team_id": user.team}

    # -- sessions and streams

    def status_of(self, session: Session) -> str:
        """The status now: one that says nothing for too long works no more."""
        old = self.clock.now() - session.set_at > self.knobs.session_processing_life
        return "active" if old and session.status == "processing" else session.status

    def live(self, stream: Stream) -> bool:
        """Whether a stream takes more; the server ends one that is too old."""
        if stream.ended is None and self.clock.now() - stream.started_at > self.knobs.stream_life:
            stream.ended = "too old"
        return stream.ended is None
