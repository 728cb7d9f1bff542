"""The Telegram pane: a private chat with the bot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from adapters.emulators.client import EmulatorClient
from adapters.emulators.journal import Entry, EntryKind
from adapters.emulators.telegram import TelegramEmulator
from adapters.emulators.wire_json import JsonObject, is_object
from gateway.trial.stage import PERSON
from gateway.trial.web.pane import Button, Message, Pane
from gateway.trial.web.side import LIKE, Side, filled
from gateway.trial.web.words import of_telegram

TYPING_SECONDS = 5.0
_STYLES: Mapping[str, Any] = {"success": "good", "danger": "bad", "primary": "good"}
_FILES = ("document", "photo", "voice", "audio", "video", "sticker")


class Telegram(Side):
    """`token` is a new bot's each time: no earlier trial's messages are taken for its."""

    name: ClassVar[str] = "telegram"
    sends: ClassVar = ("sendMessage", "editMessageText")

    def __init__(self, token: str, person: str, journal_limit: int) -> None:
        super().__init__()
        self._token = token
        self.emulator = self._people = TelegramEmulator(journal_limit=journal_limit)
        self._people.add_bot(token, username="pilothouse_bot", first_name="pilothouse", topics=False)
        self._people.add_user(PERSON, person, started=True)

    def section(self) -> Mapping[str, object]:
        return {"token": self._token, "api_base": self.emulator.url, "drafts": True}

    @property
    def owner(self) -> str:
        return f"telegram:{PERSON}"

    async def look(self, client: EmulatorClient) -> Pane:
        seen = await client.call("snapshot")
        messages = await client.messages(PERSON)
        drafts = await client.call("drafts", user=PERSON)
        talk = self.talk
        return Pane(
            platform=self.name,
            where="private chat with pilothouse",
            messages=(*(self._message(one) for one in messages), *(_draft(one, seen["now"]) for one in drafts)),
            answering=next((_first_line(one) for one in messages if one["message_id"] == talk.answering), ""),
            alert=talk.alert,
            working="typing …" if seen["now"] < talk.typing_until else "",
            connected=talk.listens,
            armed=tuple(seen["faults"]),
        )

    def _message(self, body: JsonObject) -> Message:
        number = int(body["message_id"])
        reactions = self.talk.reactions.get(number, {})
        files = [_file(kind, body[kind]) for kind in _FILES if kind in body]
        mine = body["from"]["id"] == PERSON
        return Message(
            id=str(number),
            who=str(body["from"]["first_name"]),
            mine=mine,
            at=float(body["date"]),
            blocks=of_telegram(
                str(body.get("text") or body.get("caption") or ""),
                body.get("entities") or body.get("caption_entities") or (),
            ),
            buttons=_keyboard(body.get("reply_markup") or {}),
            files=tuple(files),
            reactions=tuple(one for one in reactions.values() if one),
            liked=reactions.get(PERSON) == LIKE,
            edited=mine and "edit_date" in body,
        )

    def notice(self, entry: Entry) -> None:
        match entry.kind, entry.name:
            case EntryKind.REQUEST, "getUpdates":
                self.talk.listens = True
            case EntryKind.REQUEST, "sendMessage":
                markup = entry.data["params"].get("reply_markup")
                if is_object(markup) and markup.get("force_reply"):
                    self.talk.asked.add(entry.number)
            case EntryKind.RESPONSE, _ if entry.request in self.talk.asked:
                self.talk.asked.discard(entry.request)
                if is_object(sent := entry.data.get("result")):
                    self.talk.answering = int(sent["message_id"])
            case EntryKind.SCREEN, _:
                self._shown(entry.name, entry)
            case _:
                pass

    def _shown(self, name: str, entry: Entry) -> None:
        talk, data = self.talk, entry.data
        match name:
            case "action":
                talk.typing_until = entry.at + TYPING_SECONDS
            case "message" if data["message"]["from"]["id"] != PERSON:
                talk.typing_until = 0.0
            case "delete" if data["message_id"] == talk.answering:
                talk.answering = None
            case "reaction":
                emoji = "".join(str(one.get("emoji", "")) for one in data["reaction"])
                talk.reactions.setdefault(int(data["message_id"]), {})[int(data["user_id"])] = emoji
            case "callback_answer":
                talk.alert = str(data.get("text") or "")
            case _:
                pass

    # -- deeds

    async def say(self, client: EmulatorClient, text: str) -> None:
        # Every app of Telegram's answers the message that asked for it with the next words.
        answered, self.talk.answering = self.talk.answering, None
        await client.say(PERSON, text, reply_to=answered)

    async def press(self, client: EmulatorClient, message: str, data: str) -> None:
        self.talk.alert = ""
        await client.press(PERSON, int(message), data=data)

    async def edit(self, client: EmulatorClient, message: str, text: str) -> None:
        await client.edit(PERSON, int(message), text)

    async def delete(self, client: EmulatorClient, message: str) -> None:
        await client.call("delete", user=PERSON, message=int(message))

    async def like(self, client: EmulatorClient, message: str, on: bool) -> None:
        await client.react(PERSON, int(message), *([LIKE] if on else []))

    async def upload(self, client: EmulatorClient, name: str, content_base64: str, text: str) -> None:
        given = filled({"content_base64": content_base64, "file_name": name, "caption": text})
        await client.call("upload", user=PERSON, **given)

    async def submit(self, client: EmulatorClient, values: Mapping[str, str]) -> None:
        raise ValueError("Telegram has no forms: its buttons and an answer in words do the same")

    async def dismiss(self, client: EmulatorClient) -> None:
        self.talk.answering = None


def _keyboard(markup: JsonObject) -> tuple[tuple[Button, ...], ...]:
    rows = markup.get("inline_keyboard", ())
    return tuple(
        tuple(
            Button(
                label=str(one["text"]),
                data=str(one["callback_data"]),
                style=_STYLES.get(str(one.get("style")), "plain"),
                disabled="disabled" in one,
            )
            for one in row
            if "callback_data" in one
        )
        for row in rows
    )


def _draft(body: JsonObject, now: float) -> Message:
    return Message(
        id=f"draft-{body['draft_id']}",
        who="pilothouse",
        mine=False,
        at=now,
        blocks=of_telegram(str(body["text"]), body.get("entities") or ()),
        writing=True,
    )


def _file(kind: str, body: Any) -> str:
    if not is_object(body):
        return kind
    return f"{body.get('file_name') or kind} ({body.get('file_size', 0)} bytes)"


def _first_line(body: JsonObject) -> str:
    return str(body.get("text") or "").partition("\n")[0]
