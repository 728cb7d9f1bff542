"""`pilothouse init`: asks, checks the token live, and writes the configuration. Secrets are never shown."""

from __future__ import annotations

import asyncio
import getpass
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
import typer
from tomlkit.items import AoT, Table

from gateway.closed_file import write_closed
from gateway.config.model import DiscordSection, TelegramSection, principal, server_address
from gateway.config.problems import Wrong
from gateway.examination import examine_platform
from gateway.exits import ExitCode
from gateway.failures import Unavailable
from gateway.finding import Finding, Level
from gateway.secrets import Secret, redact
from runtime.clock import SystemClock

TOKEN_TRIES = 3

_CREATE_APP = """
This is the manifest of the app. At https://api.slack.com/apps choose Create New App, From a manifest, your workspace,
and paste it. Then, on the app's page:

  OAuth & Permissions   Install to Workspace      gives bot_token       xoxb-…
"""
NEXT_STEPS_SOCKET = f"""{_CREATE_APP}\
  Basic Information     App-Level Tokens,
                        connections:write         gives app_token       xapp-…

Put both into [slack] (see config.example.toml), and run `pilothouse doctor`: it names whatever is missing."""
NEXT_STEPS_HTTP = f"""{_CREATE_APP}\
  Basic Information     App Credentials           gives signing_secret

Put both into [slack] with mode = "http", let your proxy hand on to http_listen, and run `pilothouse doctor`: it names
whatever is missing."""


class Console:
    """Asks on the terminal. Answers to `ask_secret` are not echoed."""

    def say(self, text: str) -> None:
        """Show a line."""
        typer.echo(redact(text))

    def ask(self, question: str, default: str = "") -> str:
        """One line; the default for an empty one."""
        shown = f" [{default}]" if default else ""
        typer.echo(f"{question}{shown}: ", nl=False)
        line = sys.stdin.readline()
        if not line:
            raise Unavailable("The input ended before every question was answered; nothing was written.")
        return line.strip() or default

    def ask_secret(self, question: str) -> str:
        """One line that is not shown while it is typed."""
        if sys.stdin.isatty():
            return getpass.getpass(f"{question}: ").strip()
        return self.ask(question)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What is asked about a platform. `section` is its part of the configuration, `id` how its people are numbered."""

    name: str
    section: type[TelegramSection | DiscordSection]
    token: str
    id: str
    source: str
    afterwards: str

    @property
    def variable(self) -> str:
        """The environment variable that holds the token."""
        return f"PILOTHOUSE_{self.name.upper()}_TOKEN"

    @property
    def api_base(self) -> str:
        """Where the platform itself is reached."""
        return self.section().api_base


TELEGRAM = Chat(
    name="telegram",
    section=TelegramSection,
    token="Token of the Telegram bot, from @BotFather",  # noqa: S106 - a question
    id="numeric Telegram id",
    source="@BotFather gives one",
    afterwards="",
)
DISCORD = Chat(
    name="discord",
    section=DiscordSection,
    token="Token of the Discord bot, from discord.com/developers/applications, Bot, Reset Token",  # noqa: S106 - a question
    id="numeric Discord id (right click on your name, Copy User ID)",
    source="docs/discord.md shows where to get one",
    afterwards="docs/discord.md shows how to invite the bot, and which intent it needs.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What was asked. A token or key of None comes from the environment when the gateway runs."""

    chat: Chat
    token: Secret | None
    api_base: str
    owner: str | None
    workspace: Path
    provider: str
    model: str = ""
    base_url: str = ""
    api_key: Secret | None = None


def run_setup(
    file: Path,
    environ: Mapping[str, str],
    console: Console,
    *,
    chat: Chat = TELEGRAM,
    api_base: str | None = None,
    force: bool = False,
) -> int:
    """Ask and write `file` with mode 0600; returns the exit code. Nothing is written before everything is known.

    `api_base` is the address of another server than the platform's own.
    """
    if file.exists() and not force:
        raise Unavailable(
            f"{file} exists already; edit it, name another one with --config, or replace it with --force."
        )
    base = _bot_api(api_base or chat.api_base)
    console.say("A few questions. Nothing is written before the last one; Ctrl-C ends.")
    answers = _ask(chat, file.absolute().parent, base, environ, console)
    if answers is None:
        return ExitCode.CREDENTIALS
    answers.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_closed(file, render(answers, file.absolute().parent))
    console.say(f"\nWritten: {file} (mode 0600). Start with:  pilothouse run --config {file}")
    if answers.owner is None:
        console.say("Nobody is the owner yet: the first start prints a code to send to the bot.")
    if chat.afterwards:
        console.say(chat.afterwards)
    return ExitCode.OK


def print_manifest(name: str, url: str = "") -> int:
    """Print the manifest of the Slack app to create, and on standard error what to do with it; returns the exit code.

    With a `url`, Slack calls that address; without one it is asked for a socket.
    """
    from adapters.slack.manifest import manifest

    if url:
        try:
            server_address(url)
        except Wrong as wrong:
            raise Unavailable(f"--url {wrong.message}; {wrong.remedy}.") from None
    made = manifest(name, mode="http" if url else "socket", url=url)
    typer.echo(json.dumps(made, indent=2, ensure_ascii=False))
    typer.echo(NEXT_STEPS_HTTP if url else NEXT_STEPS_SOCKET, err=True)
    return ExitCode.OK


def _bot_api(given: str) -> str:
    try:
        return server_address(given)
    except Wrong as wrong:
        raise Unavailable(f"--api-base {wrong.message}; {wrong.remedy}.") from None


def _ask(chat: Chat, folder: Path, api_base: str, environ: Mapping[str, str], console: Console) -> Answers | None:
    found = _token(chat, api_base, environ, console)
    if found is None:
        return None
    owner = _owner(chat, console)
    workspace = folder / Path(console.ask("Folder that the agent works in", "workspace")).expanduser()
    provider = _choice(
        console, "Model: `demo` (needs nothing) or `openai` (also every server like it)", ("demo", "openai")
    )
    token = None if environ.get(chat.variable) else found
    if provider == "demo":
        return Answers(chat=chat, token=token, api_base=api_base, owner=owner, workspace=workspace, provider=provider)
    return Answers(
        chat=chat,
        token=token,
        api_base=api_base,
        owner=owner,
        workspace=workspace,
        provider=provider,
        base_url=_address(console, "Address of its interface", "https://api.openai.com/v1"),
        model=_needed(console, "Name of the model"),
        api_key=None if environ.get("PILOTHOUSE_MODEL_MAIN_API_KEY") else _optional_secret(console, "API key"),
    )


def _token(chat: Chat, api_base: str, environ: Mapping[str, str], console: Console) -> Secret | None:
    """A token that the platform accepts; None after three that it did not."""
    given = environ.get(chat.variable, "").strip()
    for _ in range(TOKEN_TRIES):
        text = given or console.ask_secret(f"{chat.token} (not shown)")
        if text:
            token = Secret(text)
            findings = asyncio.run(examine_platform(chat.name, _settings(chat, token, api_base), SystemClock()))
            for one in findings:
                console.say(_told(one))
            if not any(_is_about_the_token(one) for one in findings):
                return token
        if given:
            break
    console.say(f"Without a token that works nothing is written. {chat.source}; `pilothouse try` needs none.")
    return None


def _is_about_the_token(one: Finding) -> bool:
    """Rights that the bot still lacks somewhere are given later, and no other token would have them."""
    return one.level is Level.ERROR and not one.id.endswith((".permissions", ".interactions_endpoint"))


def _settings(chat: Chat, token: Secret, api_base: str) -> dict[str, Any]:
    section = chat.section(token=token, api_base=api_base)
    return {key: value for key, value in {**dict(section), "token": token.reveal()}.items() if value is not None}


def _told(one: Finding) -> str:
    mark = {Level.ERROR: "✖", Level.WARNING: "!", Level.NOTE: "·"}[one.level]
    return f"  {mark} {one.message}" + (f" → {one.remedy}" if one.remedy else "")


def _owner(chat: Chat, console: Console) -> str | None:
    while True:
        number = console.ask(f"Your {chat.id}, to be the owner (empty: claim it by a code later)")
        if not number:
            return None
        try:
            return principal(f"{chat.name}:{number.removeprefix(f'{chat.name}:')}")
        except Wrong as wrong:
            console.say(f"  ✖ It {wrong.message}; {wrong.remedy}.")


def _choice(console: Console, question: str, choices: tuple[str, ...]) -> str:
    while (answer := console.ask(question, choices[0])) not in choices:
        console.say(f"  ✖ One of {', '.join(choices)}.")
    return answer


def _address(console: Console, question: str, default: str) -> str:
    while True:
        try:
            return server_address(console.ask(question, default))
        except Wrong as wrong:
            console.say(f"  ✖ It {wrong.message}; {wrong.remedy}.")


def _needed(console: Console, question: str) -> str:
    while not (answer := console.ask(question)):
        console.say("  ✖ This cannot be empty.")
    return answer


def _optional_secret(console: Console, question: str) -> Secret | None:
    text = console.ask_secret(f"{question} (not shown; empty if the server wants none)")
    return Secret(text) if text else None


# ------------------------------------------------------------------------------------------------------------- file


def render(answers: Answers, folder: Path) -> str:
    """The file's text; what is not in it has its default. Paths below the file's folder are written relative to it."""
    document = tomlkit.document()
    document.add(tomlkit.comment("Made by `pilothouse init`. config.example.toml shows every key."))
    document.add(answers.chat.name, _section(answers))
    access = tomlkit.table()
    access.add("owners", [answers.owner] if answers.owner else [])
    document.add("access", access)
    document.add("models", _one(_model(answers)))
    workspace = answers.workspace
    path = workspace.relative_to(folder) if workspace.is_relative_to(folder) else workspace
    document.add("workspaces", _one({"id": "main", "label": "Main", "path": str(path)}))
    return tomlkit.dumps(document)  # pyright: ignore[reportUnknownMemberType]


def _section(answers: Answers) -> Table:
    table = tomlkit.table()
    if answers.token:
        table.add("token", answers.token.reveal())
    else:
        table.add(tomlkit.comment(f"The token comes from {answers.chat.variable}."))
    if answers.api_base != answers.chat.api_base:
        table.add("api_base", answers.api_base)
    return table


def _model(answers: Answers) -> dict[str, str]:
    if answers.provider == "demo":
        return {"name": "demo", "provider": "demo"}
    model = {"name": "main", "provider": answers.provider, "model": answers.model, "base_url": answers.base_url}
    return model | ({"api_key": answers.api_key.reveal()} if answers.api_key else {})


def _one(entry: dict[str, str]) -> AoT:
    table = tomlkit.table()
    for key, value in entry.items():
        table.add(key, value)
    entries = tomlkit.aot()
    entries.append(table)
    return entries
