"""An emulator as its own process, which outlives the gateway that is tested against it.

    python -m adapters.emulators --platform telegram --port 0 --token 42:TEST --user 7:Alice --group=-100123:Team
    python -m adapters.emulators --platform slack --token xoxb-1 --app-token xapp-1 --user U1:Alice --group C1:team
    python -m adapters.emulators --platform discord --token NDI.emulated.token --user 7:Alice --group=100:Team

Prints one JSON line with `platform`, `url`, `control` and `pid` when it is ready, and runs until SIGTERM, SIGINT, or,
with --until-stdin-closes, until its standard input ends. Its state lives in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from adapters.emulators.discord import DiscordEmulator
from adapters.emulators.discord.knobs import Knobs as DiscordKnobs
from adapters.emulators.slack import Knobs as SlackKnobs
from adapters.emulators.slack import SlackEmulator
from adapters.emulators.telegram import TelegramEmulator

Stop = Callable[[], Awaitable[None]]


async def start_telegram(options: argparse.Namespace) -> tuple[dict[str, str], Stop]:
    """A Telegram emulator with the bots, people and groups of the command line."""
    emulator = TelegramEmulator(journal_limit=options.journal_limit)
    for token in options.token:
        emulator.add_bot(token, reads_all=options.reads_all, topics=options.topics)
    people = [emulator.add_user(int(number), name, started=True)["id"] for number, name in options.user]
    for number, title in options.group:
        emulator.add_chat(int(number), title=title, members=people, is_forum=options.topics, bot_rights=options.right)
    await emulator.start(port=options.port)
    return {"url": emulator.url, "control": emulator.control_url}, emulator.stop


async def start_slack(options: argparse.Namespace) -> tuple[dict[str, str], Stop]:
    """A Slack workspace with the app, people and channels of the command line; ids with G are private channels."""
    knobs = SlackKnobs()
    if options.patience is not None:
        knobs = replace(knobs, ack_seconds=options.patience, trigger_life=options.patience)
    tokens = {"bot_token": options.token[0]} if options.token else {}
    tokens |= {"app_token": options.app_token} if options.app_token else {}
    emulator = SlackEmulator(knobs=knobs, journal_limit=options.journal_limit, **tokens)
    people = [emulator.add_user(identity, name)["id"] for identity, name in options.user]
    for identity, name in options.group:
        kind = "group" if identity.startswith("G") else "channel"
        emulator.add_chat(identity, name, kind=kind, members=people)
    await emulator.start(port=options.port)
    return {"url": emulator.url, "control": emulator.control_url, "api_base": emulator.api_base}, emulator.stop


async def start_discord(options: argparse.Namespace) -> tuple[dict[str, str], Stop]:
    """A Discord emulator with the bots, people and guilds of the command line; each guild has a channel `general`."""
    knobs = DiscordKnobs() if options.patience is None else DiscordKnobs(interaction_deadline=options.patience)
    emulator = DiscordEmulator(knobs=knobs, journal_limit=options.journal_limit)
    for token in options.token:
        emulator.add_bot(token)
    people = [emulator.add_user(number, name)["id"] for number, name in options.user]
    for number, title in options.group:
        emulator.add_guild(number, title, members=people, bot_permissions=options.right or None)
        emulator.add_channel(number, "general", channel=int(number) + 1)
    await emulator.start(port=options.port)
    return {"url": emulator.url, "control": emulator.control_url}, emulator.stop


PLATFORMS = {"discord": start_discord, "slack": start_slack, "telegram": start_telegram}
NUMBERED = ("discord", "telegram")
"""Platforms whose ids are numbers."""


def named(text: str) -> tuple[str, str]:
    """`7:Alice` as a pair."""
    identity, separator, name = text.partition(":")
    if not separator or not identity or not name:
        raise argparse.ArgumentTypeError(f"{text!r} does not read <id>:<name>")
    return identity, name


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m adapters.emulators", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--platform", choices=sorted(PLATFORMS), required=True)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--token", action="append", default=[], help="a bot's token; may be given several times")
    parser.add_argument("--user", action="append", default=[], type=named, help="<id>:<name>")
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        type=named,
        help="<id>:<title> of a group, channel or guild; with an equals sign before it if the id is negative",
    )
    parser.add_argument("--app-token", default="", help="Slack's token for Socket Mode")
    parser.add_argument(
        "--patience", type=float, default=None, help="seconds that Slack and Discord wait for acknowledgements, not 3"
    )
    parser.add_argument("--right", action="append", default=[], help="right of the bots in the groups or guilds")
    parser.add_argument("--topics", action="store_true", help="groups are forums, private chats have topics")
    parser.add_argument("--reads-all", action="store_true", help="privacy mode of the bots is off")
    parser.add_argument("--journal-limit", type=int, default=None, help="keep only the newest entries")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input ends")
    options = parser.parse_args(arguments)
    for identity, name in (*options.user, *options.group):
        if options.platform in NUMBERED and not identity.lstrip("-").isdecimal():
            parser.error(f"'{identity}:{name}' does not read <id>:<name> with a number as id")
    return options


async def run(options: argparse.Namespace) -> None:
    """Start, say so, and run until told to end."""
    addresses, stop = await PLATFORMS[options.platform](options)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if options.until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _watch_stdin, ended)
    ready = {"platform": options.platform, **addresses, "pid": os.getpid()}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    try:
        await ended.wait()
    finally:
        await stop()


def _watch_stdin(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ended.set()


def main() -> None:
    """Run the command line."""
    asyncio.run(run(parse(sys.argv[1:])))


if __name__ == "__main__":
    main()
