"""The Slack pane: a channel in which the app is a member, with its threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from adapters.emulators.client import EmulatorClient
from adapters.emulators.journal import Entry, EntryKind
from adapters.emulators.slack import Knobs, SlackEmulator
from adapters.emulators.wire_json import JsonObject
from gateway.trial.web.pane import Button, Field, Form, Message, Pane
from gateway.trial.web.side import Side, filled, mentioning
from gateway.trial.web.words import EMOJI, of_slack

USER, CHANNEL, TEAM, BOT, APP = "U0TRIAL", "C0TRIAL", "T0EMULATED", "U0BOT", "A0EMULATED"
_STYLES: Mapping[str, Any] = {"primary": "good", "danger": "bad"}


class Slack(Side):
    """`patience`: seconds for an acknowledgement, if not Slack's three. `secret` makes this trial's tokens its own."""

    name: ClassVar[str] = "slack"
    sends: ClassVar = ("chat.postMessage", "chat.update", "chat.startStream", "chat.appendStream")

    def __init__(self, secret: str, person: str, journal_limit: int, patience: float | None) -> None:
        super().__init__()
        knobs = Knobs() if patience is None else replace(Knobs(), ack_seconds=patience, trigger_life=patience)
        self._tokens = {"bot_token": f"xoxb-1-{secret}", "app_token": f"xapp-1-{APP}-{secret}"}
        self.emulator = self._people = SlackEmulator(
            knobs=knobs, journal_limit=journal_limit, team=TEAM, bot_user=BOT, app_id=APP, bot_name="pilothouse",
            bot_token=self._tokens["bot_token"], app_token=self._tokens["app_token"],
        )  # fmt: skip
        self._people.add_user(USER, person)
        self._people.add_chat(CHANNEL, "release", members=[USER])
        self._names = {USER: person, BOT: "pilothouse"}

    def section(self) -> Mapping[str, object]:
        return {**self._tokens, "api_base": self._people.api_base}

    @property
    def owner(self) -> str:
        return f"slack:{TEAM}:{USER}"

    async def look(self, client: EmulatorClient) -> Pane:
        seen = await client.call("snapshot")
        messages = await client.messages(CHANNEL, user=USER)
        views = await client.call("views", user=USER)
        for_all = {one["ts"] for one in await client.messages(CHANNEL)}
        thread = self.talk.thread
        status = await client.call("status", chat=CHANNEL, thread=thread) if thread in for_all else ""
        working = [one for one in seen["sessions"] if one["status"] == "processing"]
        return Pane(
            platform=self.name,
            where="a thread of #release" if self.talk.thread else "#release, a new thread",
            messages=tuple(self._message(one, only=one["ts"] not in for_all) for one in messages),
            form=_form(views[-1]) if views else None,
            alert=self.talk.alert,
            working=status or ("working …" if working else ""),
            connected=bool(seen["connections"]),
            armed=tuple(seen["faults"]),
        )

    def _message(self, body: JsonObject, *, only: bool) -> Message:
        reactions = {one["name"]: one["users"] for one in body.get("reactions", ())}
        user = str(body.get("user", ""))
        return Message(
            id=str(body["ts"]),
            who=self._names.get(user, user),
            mine=user == USER,
            at=float(body["ts"]),
            blocks=of_slack(body, self._names),
            buttons=tuple(_row(one) for one in body.get("blocks") or () if one["type"] == "actions"),
            files=tuple(f"{one.get('name')} ({one.get('size', 0)} bytes)" for one in body.get("files", ())),
            reactions=tuple(EMOJI.get(name, f":{name}:") for name in reactions),
            liked=USER in reactions.get("+1", ()),
            edited=user == USER and "edited" in body,
            writing=body.get("streaming_state") == "in_progress",
            only=only,
            inside="thread_ts" in body and body["thread_ts"] != body["ts"],
        )

    def notice(self, entry: Entry) -> None:
        if entry.kind is EntryKind.SCREEN and entry.name == "operation_timeout":
            self.talk.alert = "Slack: this operation timed out. Nobody acknowledged it; do it again."

    # -- deeds

    async def say(self, client: EmulatorClient, text: str) -> None:
        sent = await client.say(USER, self._addressed(text), chat=CHANNEL, **self._where())
        self.talk.thread = self.talk.thread or str(sent["ts"])

    def _where(self) -> dict[str, str]:
        return {"thread": self.talk.thread} if self.talk.thread else {}

    def _addressed(self, text: str) -> str:
        """A new thread begins with a mention; in it nobody has to be named again."""
        return text if self.talk.thread else f"<@{BOT}> {text}"

    async def press(self, client: EmulatorClient, message: str, data: str) -> None:
        self.talk.alert = ""
        await client.press(USER, message, data=data, chat=CHANNEL)

    async def edit(self, client: EmulatorClient, message: str, text: str) -> None:
        await client.edit(USER, message, mentioning(text, BOT), chat=CHANNEL)

    async def delete(self, client: EmulatorClient, message: str) -> None:
        await client.call("delete", user=USER, message=message, chat=CHANNEL)

    async def like(self, client: EmulatorClient, message: str, on: bool) -> None:
        await client.react(USER, message, *(["+1"] if on else []), chat=CHANNEL)

    async def upload(self, client: EmulatorClient, name: str, content_base64: str, text: str) -> None:
        given = {"content_base64": content_base64, "file_name": name, "text": self._addressed(text)}
        sent = await client.call("upload", user=USER, chat=CHANNEL, **given, **self._where())
        self.talk.thread = self.talk.thread or str(sent["ts"])

    async def submit(self, client: EmulatorClient, values: Mapping[str, str]) -> None:
        await client.call("submit", user=USER, values=filled(values))

    async def dismiss(self, client: EmulatorClient) -> None:
        await client.call("close", user=USER)


def _row(block: JsonObject) -> tuple[Button, ...]:
    return tuple(
        Button(
            label=str(one["text"]["text"]), data=str(one["value"]), style=_STYLES.get(str(one.get("style")), "plain")
        )
        for one in block["elements"]
        if one["type"] == "button" and "value" in one
    )


def _form(view: JsonObject) -> Form:
    inputs = [block for block in view["blocks"] if block["type"] == "input"]
    submit: JsonObject = view.get("submit") or {}
    return Form(
        id=str(view["id"]),
        title=str(view["title"]["text"]),
        submit=str(submit.get("text", "Send")),
        fields=tuple(_field(block) for block in inputs),
        problems=tuple(str(one) for one in view["errors"].values()),
    )


def _field(block: JsonObject) -> Field:
    element = block["element"]
    options = [(str(one["value"]), str(one["text"]["text"])) for one in element.get("options", ())]
    return Field(
        name=str(block["block_id"]),
        label=str(block["label"]["text"]),
        options=tuple(options),
        required=not block.get("optional"),
        longest=int(element.get("max_length", 3000)),
    )
