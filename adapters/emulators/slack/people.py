"""What people do in the workspace. Every deed checks what Slack itself would let them do."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.slack.blocks import elements_of
from adapters.emulators.slack.delivery import EnvelopeKind, Outcome
from adapters.emulators.slack.errors import ApiError
from adapters.emulators.slack.methods.reactions import change_reaction
from adapters.emulators.slack.methods.streams import STOPPED
from adapters.emulators.slack.modals import (
    close_view,
    fill,
    interaction,
    open_view,
    option_of,
    problems_of_view,
    replace_view,
    show_view,
    stack_of,
)
from adapters.emulators.slack.platform import Platform
from adapters.emulators.slack.rendering import view_object
from adapters.emulators.slack.replies import Replies
from adapters.emulators.slack.world import Channel, ChannelKind, File, Message, View
from adapters.emulators.slack.written import as_sent, mentions, rich_text
from adapters.emulators.wire_json import JsonObject, is_object

_CHOOSERS = ("static_select", "radio_buttons", "overflow", "external_select")
_MULTI = ("multi_static_select", "checkboxes", "multi_external_select")


class People:
    """The hands on the other side of the app. `chat` is a channel's id or name; without it, the direct message."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._replies = Replies(platform)
        self._asked: dict[str, JsonObject] = {}

    # -- writing

    async def say(
        self, user: str, text: str, *, chat: str | None = None, thread: str | None = None, broadcast: bool = False
    ) -> JsonObject:
        """Write a message, in a thread if given. A mention is typed as `<@U…>`."""
        place = self._place(user, chat)
        root = None if thread is None else self._root(place, thread)
        if broadcast and root is None:
            raise NotPossible("only a reply can be sent to the channel as well")
        message = self._typed(user, text, thread=root, subtype="thread_broadcast" if broadcast else None)
        return self._send(place, message)

    def _typed(self, user: str, text: str, *, thread: str | None, subtype: str | None = None) -> Message:
        return Message(
            ts=self._platform.new_ts(),
            user=user,
            text=as_sent(text),
            blocks=rich_text(text, self._platform.new_block_id()),
            thread_ts=thread,
            subtype=subtype,
            client_msg_id=self._platform.new_uuid(),
        )

    def _send(self, place: Channel, message: Message) -> JsonObject:
        if place.archived:
            raise NotPossible(f"channel {place.id} is archived")
        self._platform.post(place, message)
        self._tell_mention(place, message)
        return {**self._platform.message_object(message, place), "channel": place.id}

    def _tell_mention(self, place: Channel, message: Message) -> None:
        # In direct messages there is no such event, and edits do not repeat it.
        if place.kind is ChannelKind.DIRECT or not mentions(message.text, self._platform.app.bot_user):
            return
        body = self._platform.message_object(message, place)
        event = {name: value for name, value in body.items() if name != "subtype"}
        event |= {"type": "app_mention", "channel": place.id, "event_ts": message.ts}
        self._platform.publish("app_mention", event, place)

    async def bot_says(
        self, text: str, *, chat: str, thread: str | None = None, bot: str = "B0OTHER", name: str = "Other bot"
    ) -> JsonObject:
        """Another app writes into a channel."""
        place = self._platform.world.channel(chat)
        root = None if thread is None else self._root(place, thread)
        message = Message(
            ts=self._platform.new_ts(),
            user=None,
            bot_id=bot,
            username=name,
            text=as_sent(text),
            thread_ts=root,
            subtype="bot_message",
        )
        return self._send(place, message)

    async def edit(self, user: str, message: str, text: str, *, chat: str | None = None) -> JsonObject:
        """Change an own message."""
        place = self._place(user, chat)
        edited = self._own(place, user, message)
        previous = self._platform.message_object(edited, place)
        edited.text = as_sent(text)
        edited.blocks = rich_text(text, self._platform.new_block_id())
        edited.edited = {"user": user, "ts": self._platform.new_ts()}
        self._platform.changed(place, edited, previous)
        return self._platform.message_object(edited, place)

    async def delete(self, user: str, message: str, *, chat: str | None = None) -> None:
        """Remove a message; administrators may remove those of others."""
        place = self._place(user, chat)
        found = self._platform.world.message(place, message)
        if found.user != user and not self._platform.world.user(user).is_admin:
            raise NotPossible(f"{user} may not remove message {message} of {found.user}")
        self._platform.removed(place, found)

    async def upload(
        self,
        user: str,
        content: bytes = b"",
        *,
        content_base64: str = "",
        file_name: str = "file.txt",
        mime_type: str = "text/plain",
        text: str = "",
        more: Sequence[Mapping[str, str]] = (),
        chat: str | None = None,
        thread: str | None = None,
    ) -> JsonObject:
        """Send a file with words to it, and `more` files in one message: `file_name`, `mime_type`, `content_base64`."""
        place = self._place(user, chat)
        root = None if thread is None else self._root(place, thread)
        files = [self._file(user, file_name, mime_type, _bytes(content, content_base64))]
        for one in more:
            content = _bytes(b"", one.get("content_base64", ""))
            files.append(self._file(user, one.get("file_name", file_name), one.get("mime_type", mime_type), content))
        message = self._typed(user, text, thread=root, subtype="file_share")
        message.files = [file.id for file in files]
        for file in files:
            self._platform.world.files[file.id] = file
            file.shares[place.id] = [message.ts]
        return self._send(place, message)

    def _file(self, user: str, name: str, mime_type: str, content: bytes) -> File:
        return File(
            id=self._platform.new_id("F"),
            name=name,
            user=user,
            created=int(self._platform.clock.now()),
            mimetype=mime_type,
            length=len(content),
            content=content,
            complete=True,
        )

    async def react(self, user: str, message: str, emoji: Sequence[str] | str, *, chat: str | None = None) -> None:
        """Set the person's reactions on a message, by names; an empty list takes them away."""
        place = self._place(user, chat)
        target = self._platform.world.message(place, message)
        wanted = [emoji] if isinstance(emoji, str) else list(emoji)
        present = [name for name, users in target.reactions.items() if user in users]
        for name in present:
            if name not in wanted:
                change_reaction(self._platform, place, target, user, name, added=False)
        for name in wanted:
            if name not in present:
                change_reaction(self._platform, place, target, user, name, added=True)

    # -- controls

    async def press(
        self,
        user: str,
        message: str,
        *,
        button: str | None = None,
        data: str | None = None,
        action: str | None = None,
        option: str | None = None,
        forged: bool = False,
        chat: str | None = None,
    ) -> JsonObject:
        """Press a button by its text, its value (`data`) or its `action` id; for a menu choose an `option`.

        Returns the press with its `id`; `answer(id)` tells how it was acknowledged. `forged` sends any value from any
        member of the workspace, as a modified client can.
        """
        place = self._platform.world.channel(chat) if forged and chat is not None else self._place(user, chat)
        target = self._platform.world.message(place, message)
        if target.only not in (None, user) and not forged:
            raise NotPossible(f"{user} does not see the message {message}: it is for {target.only} only")
        block, element = self._find_element(target, button, data, action, forged=forged)
        chosen = self._chosen(block, element, option)
        if forged and data is not None:
            chosen["value"] = data
        payload = self._press_payload(user, place, target, chosen)
        return self._ask(EnvelopeKind.INTERACTIVE, "block_actions", payload)

    def _find_element(
        self, target: Message, button: str | None, data: str | None, action: str | None, *, forged: bool
    ) -> tuple[JsonObject, JsonObject]:
        found = [(block, one) for block in target.blocks for one in elements_of(block) if "action_id" in one]
        for block, one in found:
            label = one["text"].get("text") if is_object(one.get("text")) else None
            named = button in (None, label) and action in (None, one["action_id"])
            if named and (forged or data in (None, one.get("value"))):
                return block, one
        known = [(one["action_id"], one.get("value")) for _, one in found]
        raise NotKnown(f"no control {button or data or action!r} under {target.ts}; there are {known or 'none'}")

    def _chosen(self, block: JsonObject, element: JsonObject, option: str | None) -> JsonObject:
        action: JsonObject = {
            "type": element["type"],
            "action_id": element["action_id"],
            "block_id": block["block_id"],
            "action_ts": self._platform.new_ts(),
        }
        for name in ("text", "value", "style", "confirm"):
            if name in element:
                action[name] = element[name]
        if element["type"] in _CHOOSERS and option is not None:
            action["selected_option"] = option_of(element, option)
        elif element["type"] in _MULTI and option is not None:
            action["selected_options"] = [option_of(element, option)]
        return action

    def _press_payload(self, user: str, place: Channel, target: Message, action: JsonObject) -> JsonObject:
        platform, app = self._platform, self._platform.app
        person = platform.world.user(user)
        hidden = target.only is not None
        container: JsonObject = {
            "type": "message",
            "message_ts": target.ts,
            "channel_id": place.id,
            "is_ephemeral": hidden,
        }
        if target.is_reply:
            container["thread_ts"] = target.thread_ts
        payload: JsonObject = {
            "type": "block_actions",
            "user": platform.actor(person),
            "api_app_id": app.app_id,
            "token": app.verification_token,
            "container": container,
            "trigger_id": platform.new_trigger(user),
            "team": {"id": app.team, "domain": app.team_domain},
            "enterprise": None,
            "is_enterprise_install": False,
            "channel": {"id": place.id, "name": self._name(place)},
            "state": {"values": {}},
            "response_url": platform.new_response_url(place, user, target.ts, target.thread_ts),
            "actions": [action],
        }
        if not hidden:
            # Nobody but the reader ever had an ephemeral message, so Slack does not send it along.
            payload["message"] = platform.message_object(target, place)
        return payload

    async def command(self, user: str, name: str, args: str = "", *, chat: str | None = None) -> JsonObject:
        """Send a slash command; the slash may be left out. Slack does not take commands in threads."""
        place = self._place(user, chat)
        platform, app = self._platform, self._platform.app
        spelled = f"/{name.removeprefix('/')}"
        if app.commands is not None and spelled not in app.commands:
            raise NotPossible(f"{spelled} is not a command of the app; there are {sorted(app.commands)}")
        person = platform.world.user(user)
        payload: JsonObject = {
            "token": app.verification_token,
            "team_id": app.team,
            "team_domain": app.team_domain,
            "channel_id": place.id,
            "channel_name": self._name(place),
            "user_id": user,
            "user_name": person.name,
            "command": spelled,
            "text": args,
            "api_app_id": app.app_id,
            "is_enterprise_install": "false",
            "response_url": platform.new_response_url(place, user),
            "trigger_id": platform.new_trigger(user),
        }
        return self._ask(EnvelopeKind.COMMAND, spelled, payload, place=place)

    def _ask(self, kind: EnvelopeKind, name: str, payload: JsonObject, *, place: Channel | None = None) -> JsonObject:
        identity = self._platform.new_id("Q")
        self._asked[identity] = {"state": "pending", "payload": None}

        def then(outcome: Outcome) -> None:
            state = "acknowledged" if outcome.acknowledged else "timed out"
            self._asked[identity] = {"state": state, "payload": outcome.answer}
            self._answered(name, payload, outcome, place)

        self._platform.ask(kind, name, payload, then)
        return {"id": identity, **payload}

    def _answered(self, name: str, payload: JsonObject, outcome: Outcome, place: Channel | None) -> None:
        user = payload["user_id"] if place is not None else payload["user"]["id"]
        if not outcome.acknowledged:
            self._platform.show("operation_timeout", {"what": name, "user": user})
        elif place is not None and outcome.answer:
            self._shown(place, user, outcome.answer)

    def _shown(self, place: Channel, user: str, answer: JsonObject) -> None:
        try:
            self._replies.show(place, user, answer)
        except ApiError as error:
            self._platform.violate("invalid_acknowledgement", {"error": error.error, "answer": answer})

    async def answer(self, asked: str) -> JsonObject:
        """How a press, command or form was acknowledged: `state` is pending, acknowledged or timed out."""
        if asked not in self._asked:
            raise NotKnown(f"nothing was asked under {asked}")
        return self._asked[asked]

    # -- forms

    async def views(self, user: str) -> list[JsonObject]:
        """Modals that a person has open, lowest first, with the errors that they show."""
        return [
            {**view_object(one, self._platform.app), "errors": one.errors} for one in stack_of(self._platform, user)
        ]

    async def submit(
        self, user: str, values: Mapping[str, Any] | None = None, *, view: str | None = None
    ) -> JsonObject:
        """Send the form on top, or the given one. `values` name a block, an action or a label."""
        form = self._view(user, view)
        if form.body.get("submit") is None:
            raise NotPossible("this view has nothing to submit")
        form.values = fill(form, values or {})
        payload: JsonObject = {
            **interaction(self._platform, form, "view_submission"),
            "trigger_id": self._platform.new_trigger(user, form.id),
            "response_urls": [],
        }
        identity = self._platform.new_id("Q")
        self._asked[identity] = {"state": "pending", "payload": None}

        def then(outcome: Outcome) -> None:
            state = "acknowledged" if outcome.acknowledged else "timed out"
            self._asked[identity] = {"state": state, "payload": outcome.answer}
            self._submitted(form, outcome)

        self._platform.ask(EnvelopeKind.INTERACTIVE, "view_submission", payload, then)
        return {"id": identity, **payload}

    def _submitted(self, form: View, outcome: Outcome) -> None:
        if not outcome.acknowledged:
            self._platform.show("operation_timeout", {"what": "view_submission", "user": form.user})
            return
        answer = outcome.answer or {}
        match answer.get("response_action"):
            case None:
                close_view(self._platform, form, tell=False)
            case "clear":
                for one in stack_of(self._platform, form.user):
                    close_view(self._platform, one, tell=False)
            case "errors":
                self._show_errors(form, answer)
            case "update" | "push" as what:
                self._show_next(form, what, answer.get("view"))
            case other:
                self._platform.violate("invalid_acknowledgement", {"response_action": other})

    def _show_errors(self, form: View, answer: JsonObject) -> None:
        errors = answer.get("errors")
        blocks = {block["block_id"] for block in form.body["blocks"] if block["type"] == "input"}
        if not is_object(errors) or not errors or errors.keys() - blocks:
            self._platform.violate("invalid_acknowledgement", {"errors": errors, "input_blocks": sorted(blocks)})
            return
        form.errors = dict(errors)
        show_view(self._platform, "view_errors", form)

    def _show_next(self, form: View, what: str, view: Any) -> None:
        if found := problems_of_view(view, "modal"):
            self._platform.violate("invalid_acknowledgement", {"view": found})
        elif what == "update":
            replace_view(self._platform, form, view)
        else:
            open_view(self._platform, form.user, view, on=form)

    async def press_in_view(
        self, user: str, action: str, *, option: str | None = None, view: str | None = None
    ) -> JsonObject:
        """Press a control inside a form."""
        form = self._view(user, view)
        found = [(block, one) for block in form.body["blocks"] for one in elements_of(block)]
        chosen = next(((block, one) for block, one in found if one.get("action_id") == action), None)
        if chosen is None:
            raise NotKnown(f"no control {action} in view {form.id}")
        payload = {
            **interaction(self._platform, form, "block_actions"),
            "container": {"type": "view", "view_id": form.id},
            "trigger_id": self._platform.new_trigger(user, form.id),
            "actions": [self._chosen(*chosen, option)],
        }
        return self._ask(EnvelopeKind.INTERACTIVE, "block_actions", payload)

    async def close(self, user: str, *, view: str | None = None) -> None:
        """Close the form on top without sending it."""
        close_view(self._platform, self._view(user, view), tell=True)

    def _view(self, user: str, view: str | None) -> View:
        stack = stack_of(self._platform, user)
        found = [one for one in stack if view in (None, one.id)]
        if not found:
            raise NotKnown(f"{user} has no view {view or ''} open; open are {[one.id for one in stack] or 'none'}")
        return found[-1]

    # -- the agent surface

    async def stop_generation(
        self, user: str, thread: str, *, chat: str | None = None, forged: bool = False
    ) -> JsonObject:
        """Press Slack's own Stop in a thread whose session is processing. Streams there take nothing more."""
        place = self._place(user, chat)
        session = self._platform.world.sessions.get((place.id, thread))
        if not forged and (session is None or self._platform.status_of(session) != "processing"):
            raise NotPossible(f"thread {thread} shows no Stop: its session is not processing")
        streams: list[str] = []
        for message in place.replies(thread):
            if message.stream is not None and self._platform.live(message.stream):
                message.stream.ended = STOPPED
                streams.append(message.ts)
        stamp = self._platform.new_ts()
        event: JsonObject = {
            "type": "agent_session_stopped",
            "user": user,
            "channel": place.id,
            "thread_ts": thread,
            "streaming_message_ts": streams,
            "event_ts": stamp,
        }
        self._platform.publish("agent_session_stopped", event, place)
        return event

    async def rename_session(self, user: str, thread: str, title: str, *, chat: str | None = None) -> None:
        """Give an agent session another title, as a person."""
        place = self._place(user, chat)
        session = self._platform.world.sessions.get((place.id, thread))
        if session is None:
            raise NotKnown(f"no session in thread {thread} of {place.id}")
        session.title = title
        event: JsonObject = {
            "type": "agent_session_title_changed",
            "user": user,
            "channel": place.id,
            "thread_ts": thread,
            "title": title,
            "event_ts": self._platform.new_ts(),
        }
        self._platform.publish("agent_session_title_changed", event, place)

    async def open_home(self, user: str, *, tab: str = "messages") -> None:
        """Open the app's tab."""
        place = self._place(user, None)
        event: JsonObject = {
            "type": "app_home_opened",
            "user": user,
            "channel": place.id,
            "tab": tab,
            "event_ts": self._platform.new_ts(),
        }
        self._platform.publish("app_home_opened", event, place)

    # -- coming and going

    async def join(self, user: str, chat: str, *, by: str | None = None) -> None:
        """Join a channel, or be added `by` somebody. The app itself is added by its bot user's id."""
        place = self._platform.world.channel(chat)
        self._platform.world.user(user)
        if user in place.members:
            raise NotPossible(f"{user} is in {place.id} already")
        place.members[user] = None
        event: JsonObject = {"type": "member_joined_channel", **self._member_event(user, place)}
        if by is not None:
            event["inviter"] = by
        self._platform.publish("member_joined_channel", event, place)
        self._note(place, user, "join", f"<@{user}> has joined the channel", inviter=by)

    async def leave(self, user: str, chat: str, *, by: str | None = None) -> None:
        """Leave a channel, or be removed `by` somebody."""
        place = self._platform.world.channel(chat)
        if user not in place.members:
            raise NotPossible(f"{user} is not in {place.id}")
        event: JsonObject = {"type": "member_left_channel", **self._member_event(user, place)}
        if user == self._platform.app.bot_user:
            left = "channel_left" if place.kind is ChannelKind.PUBLIC else "group_left"
            gone: JsonObject = {"type": left, "channel": place.id, "actor_id": by or user}
            self._platform.publish(left, gone | {"event_ts": event["event_ts"]}, place)
        else:
            self._platform.publish("member_left_channel", event, place)
        del place.members[user]
        self._note(place, user, "leave", f"<@{user}> has left the channel")

    def _note(self, place: Channel, user: str, what: str, text: str, **more: str | None) -> None:
        """Slack writes into the channel what happened to it: messages of a person that the person did not type."""
        prefix = "channel" if place.kind is ChannelKind.PUBLIC else "group"
        extra = {name: value for name, value in more.items() if value is not None}
        note = Message(ts=self._platform.new_ts(), user=user, text=text, subtype=f"{prefix}_{what}", extra=extra)
        self._platform.post(place, note)

    def _member_event(self, user: str, place: Channel) -> JsonObject:
        return {
            "user": user,
            "channel": place.id,
            "channel_type": "C" if place.kind is ChannelKind.PUBLIC else "G",
            "team": self._platform.app.team,
            "event_ts": self._platform.new_ts(),
        }

    async def rename(self, user: str, chat: str, name: str) -> None:
        """Rename a channel."""
        place = self._group(user, chat)
        old, place.name = place.name, name
        kind = "channel_rename" if place.kind is ChannelKind.PUBLIC else "group_rename"
        channel = {"id": place.id, "name": name, "name_normalized": name, "created": place.created}
        event: JsonObject = {"type": kind, "channel": channel, "event_ts": self._platform.new_ts()}
        self._platform.publish(kind, event, place)
        text = f'has renamed the channel from "{old}" to "{name}"'
        self._note(place, user, "name", text, old_name=old, name=name)

    async def archive(self, user: str, chat: str, *, undo: bool = False) -> None:
        """Archive a channel, or bring it back."""
        place = self._group(user, chat)
        place.archived = not undo
        prefix = "channel" if place.kind is ChannelKind.PUBLIC else "group"
        kind = f"{prefix}_unarchive" if undo else f"{prefix}_archive"
        event: JsonObject = {
            "type": kind,
            "channel": place.id,
            "user": user,
            "event_ts": self._platform.new_ts(),
        }
        self._platform.publish(kind, event, place)
        self._note(place, user, "unarchive" if undo else "archive", f"{'un-' if undo else ''}archived the channel")

    async def deactivate(self, user: str) -> None:
        """An account is closed: nobody writes to it any more."""
        self._platform.world.user(user).deleted = True

    async def uninstall(self, error: str = "account_inactive") -> None:
        """Somebody removes the app: its tokens answer `error` from now on."""
        self._platform.app.revoked = error

    async def inject(self, event: dict[str, Any], *, name: str | None = None, chat: str | None = None) -> None:
        """Send the app an event of any kind as raw JSON: for kinds that no deed here makes, and for hostile ones."""
        place = None if chat is None else self._platform.world.channel(chat)
        kind = name or str(event.get("type", ""))
        self._platform.delivery.publish(kind, self._platform.callback(event, place))

    # -- inside

    def _place(self, user: str, chat: str | None) -> Channel:
        person = self._platform.world.user(user)
        if person.deleted:
            raise NotPossible(f"the account of {user} is closed")
        if chat is None:
            return self._platform.direct(user)
        place = self._platform.world.channel(chat)
        if user not in place.members:
            raise NotPossible(f"{user} is not in {place.id}")
        return place

    def _group(self, user: str, chat: str) -> Channel:
        place = self._place(user, chat)
        if place.kind is ChannelKind.DIRECT:
            raise NotPossible(f"{place.id} is a direct message")
        return place

    def _root(self, place: Channel, thread: str) -> str:
        found = place.messages.get(thread)
        if found is None:
            raise NotKnown(f"no message {thread} in {place.id} to answer")
        return found.thread_ts or found.ts

    def _own(self, place: Channel, user: str, message: str) -> Message:
        found = self._platform.world.message(place, message)
        if found.user != user:
            raise NotPossible(f"message {message} is of {found.user}, not of {user}")
        return found

    def _name(self, place: Channel) -> str:
        return "directmessage" if place.kind is ChannelKind.DIRECT else place.name


def _bytes(content: bytes, content_base64: str) -> bytes:
    if not content_base64:
        return content
    try:
        return base64.b64decode(content_base64, validate=True)
    except binascii.Error as error:
        raise NotPossible(f"content_base64 does not read as base64: {error}") from error
