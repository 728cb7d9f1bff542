"""What differs between platforms for a test that plays a person against the whole gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adapters.emulators.journal import Entry, EntryKind
from tests.support.discord_reader import buttons_of, shown_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One platform. `emulator`: what its emulator is started with; `section`: the gateway's configuration of it, with
    `{url}` and whatever else the emulator tells when it is ready. `owner` is a principal, `chat` where he writes.
    """

    emulator: tuple[str, ...]
    section: str
    owner: str
    user: int | str
    chat: int | str
    listens: Callable[[Entry], bool]
    is_ours: Callable[[Mapping[str, Any]], bool]
    number: Callable[[Mapping[str, Any]], Any]
    content: Callable[[Mapping[str, Any]], str]
    controls: Callable[[Mapping[str, Any]], list[str]]


# ---------------------------------------------------------------------------------------------------------- Telegram

TOKEN = "42:" + "T" * 35
OWNER, STRANGER = 7, 8


def content(message: Mapping[str, Any]) -> str:
    """What a message of Telegram says."""
    return message.get("text") or message.get("caption") or ""


def buttons(message: Mapping[str, Any]) -> list[str]:
    """The labels of a Telegram message's buttons."""
    keyboard = message.get("reply_markup", {}).get("inline_keyboard", [])
    return [button["text"] for row in keyboard for button in row]


TELEGRAM = Side(
    emulator=(
        "--platform", "telegram", "--token", TOKEN, "--user", f"{OWNER}:Ann", "--user", f"{STRANGER}:Mallory",
    ),
    section=f'[telegram]\ntoken = "{TOKEN}"\napi_base = "{{url}}"\npoll_seconds = 2\n',
    owner=f"telegram:{OWNER}",
    user=OWNER,
    chat=OWNER,
    listens=lambda entry: entry.kind is EntryKind.REQUEST and entry.name.lower() == "getupdates",
    is_ours=lambda message: bool(message["from"]["is_bot"]),
    number=lambda message: message["message_id"],
    content=content,
    controls=buttons,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- Slack

SLACK_OWNER, SLACK_CHANNEL, SLACK_BOT = "U0ANN", "C0TEAM", "U0BOT"


def _parts(blocks: object) -> Iterator[dict[str, Any]]:
    """Every object within blocks, in order."""
    if isinstance(blocks, list):
        for one in blocks:
            yield from _parts(one)
    elif isinstance(blocks, dict):
        yield blocks
        for one in blocks.values():
            if isinstance(one, dict | list):
                yield from _parts(one)


def slack_content(message: Mapping[str, Any]) -> str:
    """What a message of Slack says, in its blocks if it has any."""
    parts = [one for block in message.get("blocks", []) if block["type"] != "actions" for one in _parts(block)]
    words = [one[name] for one in parts for name in ("title", "text") if isinstance(one.get(name), str)]
    return "\n".join(words) or str(message.get("text", ""))


def slack_buttons(message: Mapping[str, Any]) -> list[str]:
    """The labels of a Slack message's buttons."""
    return [one["text"]["text"] for one in _parts(message.get("blocks", [])) if one.get("type") == "button"]


SLACK = Side(
    emulator=(
        "--platform", "slack", "--token", "xoxb-1-test", "--app-token", "xapp-1-A0EMULATED-1-test",
        "--user", f"{SLACK_OWNER}:Ann", "--user", "U0BOB:Bob", "--group", f"{SLACK_CHANNEL}:team",
        "--patience", "60",
    ),
    section=(
        '[slack]\nbot_token = "xoxb-1-test"\napp_token = "xapp-1-A0EMULATED-1-test"\napi_base = "{api_base}"\n'
    ),
    owner=f"slack:T0EMULATED:{SLACK_OWNER}",
    user=SLACK_OWNER,
    chat=SLACK_CHANNEL,
    listens=lambda entry: entry.kind is EntryKind.EVENT and entry.name == "socket" and entry.data["state"] == "hello",
    is_ours=lambda message: message.get("user") == SLACK_BOT,
    number=lambda message: message["ts"],
    content=slack_content,
    controls=slack_buttons,
)  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- Discord

DISCORD_OWNER, DISCORD_GUILD, DISCORD_BOT = "1100000000000000007", "1100000000000000100", "1100000000000000900"
DISCORD_CHANNEL = str(int(DISCORD_GUILD) + 1)
DISCORD_TOKEN = "MTEwMDAwMDAwMDAwMDAwMDkwMA.Gabcde.TEST"


def discord_buttons(message: Mapping[str, Any]) -> list[str]:
    """The labels of a Discord message's buttons."""
    return list(buttons_of(dict(message)))


DISCORD = Side(
    emulator=(
        "--platform", "discord", "--token", DISCORD_TOKEN, "--user", f"{DISCORD_OWNER}:Ann",
        "--user", "1100000000000000008:Mallory", "--group", f"{DISCORD_GUILD}:Team",
        "--patience", "60",
    ),
    section=f'[discord]\ntoken = "{DISCORD_TOKEN}"\napi_base = "{{url}}"\n',
    owner=f"discord:{DISCORD_OWNER}",
    user=DISCORD_OWNER,
    chat=DISCORD_CHANNEL,
    listens=lambda entry: entry.kind is EntryKind.EVENT and entry.name == "READY",
    is_ours=lambda message: message["author"]["id"] == DISCORD_BOT and message["type"] in (0, 19),
    number=lambda message: message["id"],
    content=lambda message: shown_in(dict(message)),
    controls=discord_buttons,
)  # fmt: skip
