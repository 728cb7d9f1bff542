"""The Discord pane: a channel of a server, with the threads that the bot opens there."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import unquote

from adapters.emulators.client import EmulatorClient
from adapters.emulators.discord import DiscordEmulator
from adapters.emulators.discord.knobs import Knobs
from adapters.emulators.journal import Entry, EntryKind
from adapters.emulators.wire_json import JsonObject, is_object
from gateway.trial.web.pane import Block, Button, Field, Form, Message, Pane
from gateway.trial.web.side import LIKE, Side, filled, mentioning
from gateway.trial.web.words import of_markdown

USER, BOT = "1100000000000000007", "1100000000000000900"
GUILD, CHANNEL = "1100000000000000100", "1100000000000000101"
_ROW, _BUTTON, _LABEL, _FORM = 1, 2, 18, 9
_WORDS = (0, 19, 20)
"""Types of messages that somebody wrote: plain ones, replies, answers to commands."""
_STYLES: Mapping[int, Any] = {1: "good", 3: "good", 4: "bad"}


class Discord(Side):
    """`patience`: seconds for an acknowledgement, if not Discord's three. `secret` makes this trial's token its own."""

    name: ClassVar[str] = "discord"
    sends: ClassVar = ("create_message", "update_message")

    def __init__(self, secret: str, person: str, journal_limit: int, patience: float | None) -> None:
        super().__init__()
        knobs = Knobs() if patience is None else replace(Knobs(), interaction_deadline=patience)
        self._token = f"{base64.urlsafe_b64encode(BOT.encode()).decode().rstrip('=')}.trial.{secret}"
        self.emulator = people = DiscordEmulator(knobs=knobs, journal_limit=journal_limit)
        people.add_bot(self._token, name="pilothouse")
        people.add_user(USER, person)
        people.add_guild(GUILD, "Team", members=[USER])
        people.add_channel(GUILD, "release", channel=CHANNEL)
        self._names = {USER: person, BOT: "pilothouse"}

    def section(self) -> Mapping[str, object]:
        return {"token": self._token, "api_base": self.emulator.url}

    @property
    def owner(self) -> str:
        return f"discord:{USER}"

    async def look(self, client: EmulatorClient) -> Pane:
        seen = await client.call("snapshot")
        threads = await client.call("threads", chat=CHANNEL)
        talk = self.talk
        known = {str(one["id"]) for one in threads}
        places = [CHANNEL, *known]
        found = [one for place in places for one in await client.messages(place, user=USER)]
        typing = [place for place in places if await client.call("typing", chat=place)]
        return Pane(
            platform=self.name,
            where="a thread of #release" if talk.thread in known else "#release, a new thread",
            messages=tuple(self._message(one) for one in sorted(found, key=_number) if one["type"] in _WORDS),
            form=await self._form(client),
            alert=talk.alert,
            working="typing …" if typing else "",
            connected=any(session["open"] for bot in seen["bots"] for session in bot["sessions"]),
            armed=tuple(seen["faults"]),
        )

    async def _form(self, client: EmulatorClient) -> Form | None:
        if not self.talk.opened:
            return None
        answer = await client.call("answer", interaction=self.talk.opened)
        if answer["state"] == "answered" and answer["type"] == _FORM:
            return _form(self.talk.opened, answer["data"])
        if answer["state"] != "waiting":
            self.talk.opened = ""
        return None

    def _message(self, body: JsonObject) -> Message:
        author = str(body["author"]["id"])
        reactions = tuple(unquote(str(one["emoji"]["name"])) for one in body.get("reactions") or ())
        nodes = [node for top in body["components"] for node in _nodes(top)]
        shown = [block for node in nodes for block in self._blocks(node)]
        rows = [[one for one in node["components"] if one["type"] == _BUTTON] for node in nodes if node["type"] == _ROW]
        return Message(
            id=str(body["id"]),
            who=self._names.get(author, author),
            mine=author == USER,
            at=datetime.fromisoformat(body["timestamp"]).timestamp(),
            blocks=(*of_markdown(str(body["content"]), self._names), *shown),
            buttons=tuple(tuple(_button(one) for one in row if "custom_id" in one) for row in rows),
            files=tuple(f"{one['filename']} ({one['size']} bytes)" for one in body["attachments"]),
            reactions=reactions,
            liked=LIKE in reactions,
            edited=author == USER and body["edited_timestamp"] is not None,
            only=bool(body["flags"] & 64),
            inside=body["channel_id"] != CHANNEL,
        )

    def _blocks(self, node: JsonObject) -> tuple[Block, ...]:
        match node["type"]:
            case 10:
                return of_markdown(str(node["content"]), self._names)
            case 14 if node.get("divider"):
                return (Block(kind="rule"),)
            case _:
                return ()

    def notice(self, entry: Entry) -> None:
        if entry.kind is EntryKind.SCREEN and entry.name == "interaction_failed":
            self.talk.alert = "Discord: this interaction failed. Nobody acknowledged it; do it again."

    # -- deeds

    async def say(self, client: EmulatorClient, text: str) -> None:
        thread = await self._thread(client)
        if thread:
            await client.say(USER, text, thread=thread)
        else:
            sent = await client.say(USER, f"<@{BOT}> {text}", chat=CHANNEL)
            # A thread that is opened on a message has the message's id.
            self.talk.thread = str(sent["id"])

    async def _thread(self, client: EmulatorClient) -> str:
        known = await client.call("threads", chat=CHANNEL)
        return self.talk.thread if any(str(one["id"]) == self.talk.thread for one in known) else ""

    async def press(self, client: EmulatorClient, message: str, data: str) -> None:
        self.talk.alert = ""
        pressed = await client.press(USER, message, data=data)
        self.talk.opened = str(pressed["id"])

    async def edit(self, client: EmulatorClient, message: str, text: str) -> None:
        await client.edit(USER, message, mentioning(text, BOT))

    async def delete(self, client: EmulatorClient, message: str) -> None:
        await client.call("delete", user=USER, message=message)

    async def like(self, client: EmulatorClient, message: str, on: bool) -> None:
        await client.react(USER, message, *([LIKE] if on else []))

    async def upload(self, client: EmulatorClient, name: str, content_base64: str, text: str) -> None:
        thread = await self._thread(client)
        where = {"thread": thread} if thread else {"chat": CHANNEL}
        words = text if thread else f"<@{BOT}> {text}"
        sent = await client.call(
            "upload", user=USER, content_base64=content_base64, file_name=name, text=words, **where
        )
        if not thread:
            self.talk.thread = str(sent["id"])

    async def submit(self, client: EmulatorClient, values: Mapping[str, str]) -> None:
        await client.call("submit", user=USER, interaction=self.talk.opened, values=filled(values))
        self.talk.opened = ""

    async def dismiss(self, client: EmulatorClient) -> None:
        self.talk.opened = ""


def _number(body: JsonObject) -> int:
    return int(body["id"])


def _nodes(node: JsonObject) -> list[JsonObject]:
    """A component and those in it, in the order in which they are drawn."""
    inside = node.get("components", ()) if node["type"] != _ROW else ()
    return [node, *(deeper for one in inside for deeper in _nodes(one))]


def _button(node: JsonObject) -> Button:
    return Button(
        label=str(node.get("label") or ""),
        data=str(node["custom_id"]),
        style=_STYLES.get(int(node["style"]), "plain"),
        disabled=bool(node.get("disabled")),
    )


def _form(number: str, body: JsonObject) -> Form:
    labelled = [one for one in body["components"] if one["type"] == _LABEL and is_object(one.get("component"))]
    return Form(id=number, title=str(body["title"]), fields=tuple(_field(one) for one in labelled))


def _field(part: JsonObject) -> Field:
    node = part["component"]
    return Field(
        name=str(node["custom_id"]),
        label=str(part["label"]),
        options=tuple((str(one["value"]), str(one["label"])) for one in node.get("options", ())),
        required=node.get("required") is not False,
        longest=int(node.get("max_length", 2000)),
    )
