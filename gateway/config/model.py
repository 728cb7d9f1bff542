"""The configuration file as types. Every key of the file is a field here, and its docstring is its documentation."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationInfo,
    model_validator,
)

from gateway.config.problems import Wrong
from gateway.exits import ExitCode
from gateway.secrets import Secret, redact_all

T = TypeVar("T")

# TOML knows lists only; everything else stays strict, so that "30" is not taken for 30.
Several: TypeAlias = Annotated[tuple[T, ...], Field(strict=False)]


# ------------------------------------------------------------------------------------------------------ kinds of value

_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_DIGITS = re.compile(r"[1-9][0-9]{0,19}")
_SLACK_ID = re.compile(r"[A-Z][A-Z0-9]{1,29}")

NOT_PEOPLE: Mapping[str, str] = {
    "1087968824": "the account of every anonymous group administrator",
    "777000": "Telegram's own account, which also posts for linked channels",
    "136817688": "the account of everybody who writes in the name of a channel",
}
"""Telegram senders that stand for many people: listing one would admit strangers."""


BUILT_IN = ("telegram", "slack", "discord", "terminal")
"""Platforms with a section of their own."""


def _slug(text: str) -> str:
    if not _SLUG.fullmatch(text):
        raise Wrong("must be a short name of small letters, digits, - and _", "rename it, for example `my-project`")
    return text


def principal(text: str) -> str:
    """`platform:id` by the platform's own immutable ids; anything else is refused (names can be taken over)."""
    platform, _, rest = text.partition(":")
    match platform:
        case "telegram":
            _telegram_person(text, rest)
        case "slack":
            team, _, user = rest.partition(":")
            if not _is_slack_person(team, user):
                raise Wrong(
                    f"has {text!r}, which is not a Slack person",
                    "write `slack:<team id>:<user id>`, like `slack:T1:U2`",
                )
        case "discord":
            if not _DIGITS.fullmatch(rest):
                raise Wrong(f"has {text!r}, which is not a Discord person", "write `discord:<user id>`, only digits")
        case _:
            if not (_SLUG.fullmatch(platform) and re.fullmatch(r"[!-~]+", rest)) or "*" in rest:
                raise Wrong(
                    f"has {text!r}, which does not name a person by platform and id",
                    "write it like `telegram:42`, `slack:T1:U2` or `discord:3`",
                )
    return text


def _is_slack_person(team: str, user: str) -> bool:
    well_formed = _SLACK_ID.fullmatch(team) and _SLACK_ID.fullmatch(user)
    return bool(well_formed) and team[0] in "TE" and user[0] in "UW" and user != "USLACKBOT"


def _telegram_person(text: str, number: str) -> None:
    if number.startswith("-") and _DIGITS.fullmatch(number[1:]):
        raise Wrong(
            f"has {text!r}, which is a chat and not a person", "list people here, and name chats in [[bindings]]"
        )
    if not _DIGITS.fullmatch(number):
        raise Wrong(
            f"has {text!r}, which is not a Telegram person",
            "write `telegram:<numeric user id>`; a name can be taken over by somebody else",
        )
    if number in NOT_PEOPLE:
        raise Wrong(f"has {text!r}, which is {NOT_PEOPLE[number]}", "list the people themselves")


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _path(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    if not value.strip() or "\0" in value:
        raise Wrong("must be a path, and it is empty", "fill it in, or remove the key")
    path = Path(value).expanduser()
    base = cast("Mapping[str, Path] | None", info.context)
    return base["folder"] / path if base else path


def _id_text(value: object) -> object:
    # Telegram and Discord ids are numbers to people; both spellings mean the same chat.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _loopback(text: str) -> str:
    if text:
        host, port = _host_and_port(text)
        if not _is_loopback(host):
            raise Wrong("must be an address of this machine only", "write it like `127.0.0.1:8642`")
        if not 0 <= port <= 65535:
            raise Wrong("has a port that does not exist", "choose one from 1 to 65535")
    return text


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise Wrong("must be an address and a port", "write it like `127.0.0.1:8642`, or leave it empty")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server_address(text: str) -> str:
    """The plain https:// or http:// address of a server, without a slash at its end. Wrong: it is none."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Wrong("must be an address that begins with https:// or http://", "write the whole address of the server")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Wrong("must be a plain address without user, query or fragment", "put keys into their own settings")
    return text.rstrip("/")


def _zone(text: str) -> str:
    try:
        ZoneInfo(text)
    except (ValueError, OSError, KeyError):  # ZoneInfo reports an unknown name in each of these ways
        raise Wrong("is not a time zone that this machine knows", "write it like `Europe/Berlin` or `UTC`") from None
    return text


Slug = Annotated[str, AfterValidator(_slug)]
Principals = Annotated[
    tuple[Annotated[str, AfterValidator(principal)], ...], Field(strict=False), AfterValidator(_unique)
]
LocalPath = Annotated[Path, BeforeValidator(_path)]
ChatId = Annotated[str, BeforeValidator(_id_text), Field(min_length=1)]
LoopbackAddress = Annotated[str, AfterValidator(_loopback)]
Url = Annotated[str, AfterValidator(server_address)]
Zone = Annotated[str, AfterValidator(_zone)]
Policy = Literal["ask", "allow", "deny"]


class Section(BaseModel):
    """A table of the file: unknown keys are errors, values are of exactly the stated type, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


# ------------------------------------------------------------------------------------------------------------ sections


class GatewaySection(Section):
    """The process itself."""

    state_dir: LocalPath = Path(".pilothouse")
    """Folder of the database and everything else that must survive; made with mode 0700. A relative path starts at the
    configuration file. No workspace may lie inside it."""

    http: LoopbackAddress = "127.0.0.1:8642"
    """Where /healthz, /readyz and /metrics are served; loopback only. Empty: nowhere."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""

    log_format: Literal["auto", "console", "json"] = "auto"
    """`console` for people, `json` for machines, `auto`: console on a terminal and JSON elsewhere."""

    timezone: Zone = "UTC"
    """Zone in which the agent is told the time, unless a person's own is known."""

    drain_seconds: Annotated[float, Field(ge=0, le=600)] = 20.0
    """How long a planned stop may take to finish what runs and to send what waits; the rest stays on disk."""

    offline_age_seconds: Annotated[int, Field(ge=60)] = 3600
    """Messages that waited longer than this while the gateway was down are not answered before their author says so."""

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Host and port of `http`, or None."""
        return _host_and_port(self.http) if self.http else None


class CommandsSection(Section):
    """Commands such as /stop and /new."""

    strict: bool = False
    """Refuse unknown commands; otherwise they are ordinary text for the agent."""


class TelegramSection(Section):
    """Telegram; switched on by its token."""

    token: Secret | None = None
    """The token that @BotFather gave. Better: `token_file`, or PILOTHOUSE_TELEGRAM_TOKEN."""

    token_file: LocalPath | None = None
    """A file that holds the token and nothing else."""

    api_base: Url = "https://api.telegram.org"
    """Address of the Bot API: another one for a Bot API server of your own, or an emulator."""

    mode: Literal["polling", "webhook"] = "polling"
    """How messages come in: `polling` needs no public address; with `webhook` Telegram calls `webhook_url`."""

    webhook_url: Url | None = None
    """The https address that Telegram calls, with `mode = "webhook"`."""

    webhook_listen: LoopbackAddress = "127.0.0.1:8643"
    """Where those calls arrive, behind your reverse proxy, which passes the address's path on; loopback only."""

    webhook_secret: Secret | None = None
    """What Telegram shows with every call. Without it each start makes one. Also PILOTHOUSE_TELEGRAM_WEBHOOK_SECRET."""

    webhook_secret_file: LocalPath | None = None
    """A file that holds that secret and nothing else."""

    poll_seconds: Annotated[int, Field(ge=1, le=50)] = 25
    """How long one poll waits for news."""

    create_topics: bool = False
    """Open a topic where a new thread is wanted; in a group the bot needs that right."""

    drafts: bool = False
    """Show what is being written as a draft, in private chats. On Android nobody can send anything meanwhile."""

    @model_validator(mode="after")
    def _webhook_has_an_address(self) -> TelegramSection:
        if self.token and self.mode == "webhook" and self.webhook_url is None:
            raise Wrong(
                "is missing, and mode is `webhook`",
                "set it to the https address that Telegram is to call",
                key=("webhook_url",),
            )
        return self


class SlackSection(Section):
    """Slack; switched on by its bot token."""

    bot_token: Secret | None = None
    """The bot token, `xoxb-…`. Better: `bot_token_file`, or PILOTHOUSE_SLACK_BOT_TOKEN."""

    bot_token_file: LocalPath | None = None
    """A file that holds the bot token and nothing else."""

    app_token: Secret | None = None
    """The app-level token, `xapp-…`, for `mode = "socket"`. Also PILOTHOUSE_SLACK_APP_TOKEN."""

    app_token_file: LocalPath | None = None
    """A file that holds the app-level token and nothing else."""

    signing_secret: Secret | None = None
    """The signing secret, for `mode = "http"`. Also PILOTHOUSE_SLACK_SIGNING_SECRET."""

    signing_secret_file: LocalPath | None = None
    """A file that holds the signing secret and nothing else."""

    config_token: Secret | None = None
    """A configuration token, `xoxe.xoxp-…`, with which `doctor` sees the app's own settings; nothing else uses it."""

    config_token_file: LocalPath | None = None
    """A file that holds the configuration token and nothing else."""

    api_base: Url = "https://slack.com/api"
    """Address of the Web API; another one for an emulator."""

    mode: Literal["socket", "http"] = "socket"
    """`socket` needs no public address; with `http` Slack calls us."""

    http_listen: LoopbackAddress = "127.0.0.1:8644"
    """Where the calls arrive with `mode = "http"`, behind your reverse proxy; loopback only."""

    @model_validator(mode="after")
    def _secrets_fit_the_mode(self) -> SlackSection:
        needed = "app_token" if self.mode == "socket" else "signing_secret"
        if self.bot_token and not getattr(self, needed):
            raise Wrong(
                f"is missing, and mode is `{self.mode}`",
                f"set {needed}, {needed}_file or PILOTHOUSE_SLACK_{needed.upper()}",
                key=(needed,),
                code=ExitCode.CREDENTIALS,
            )
        return self


class DiscordSection(Section):
    """Discord; switched on by its token."""

    token: Secret | None = None
    """The bot's token. Better: `token_file`, or PILOTHOUSE_DISCORD_TOKEN."""

    token_file: LocalPath | None = None
    """A file that holds the token and nothing else."""

    api_base: Url = "https://discord.com/api"
    """Address of the REST API; another one for an emulator."""


class TerminalSection(Section):
    """This terminal as a chat, for trying things out without any account."""

    enabled: bool = False
    """Talk to the gateway on the terminal it was started in. Whoever sits there is `terminal:local`."""


class ModelSection(Section):
    """A language model that agents may use; the first one is the default. Without an entry there is the demo alone."""

    name: Slug
    """Name of the route, for bindings and /model."""

    provider: Literal["demo", "openai", "anthropic", "google"]
    """Who speaks: `openai` also stands for servers with the same interface, by `base_url`; `demo` needs no model."""

    model: str = ""
    """The provider's own name of the model. Needed for every provider but `demo`."""

    base_url: Url | None = None
    """Address of the provider's interface, where it is not the provider's own."""

    api_key: Secret | None = None
    """The key. Better: `api_key_file`, or PILOTHOUSE_MODEL_<NAME>_API_KEY."""

    api_key_file: LocalPath | None = None
    """A file that holds the key and nothing else."""

    context_window: Annotated[int, Field(ge=1024)] = 128_000
    """How much the model can read at once, in tokens."""

    max_output_tokens: Annotated[int | None, Field(ge=1)] = None
    """Longest answer of one step, in tokens; absent: the provider's own limit."""

    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 300.0
    """How long one step may take before it is tried again."""

    input_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """US dollars for a million tokens read. With `input_price` and `output_price` both 0, the prices of the list that
    came with the program count; a model that is not in it costs nothing, and no spend limit holds for it."""

    cached_input_price: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """US dollars for a million tokens read from the provider's cache; absent: as `input_price`."""

    output_price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """US dollars for a million tokens written."""

    files: bool | None = None
    """Show the model pictures and PDF documents that people send; absent: where `base_url` is the provider's own.
    Files of any kind lie in the workspace, too."""

    @property
    def shows_files(self) -> bool:
        """Whether pictures and PDF documents are shown to the model."""
        return self.base_url is None if self.files is None else self.files

    @model_validator(mode="after")
    def _can_be_asked(self) -> ModelSection:
        if self.provider == "demo":
            return self
        if not self.model:
            raise Wrong(
                "is missing, and only the provider `demo` can do without",
                "add the provider's name of the model",
                key=("model",),
            )
        if self.api_key is None and self.base_url is None:
            raise Wrong(
                f"is missing, and {self.provider} answers nobody without a key",
                f"set api_key_file or {model_key_variable(self.name)}",
                key=("api_key",),
                code=ExitCode.CREDENTIALS,
            )
        return self


class AccessSection(Section):
    """Who may do what. People are named by the platforms' immutable ids: `telegram:42`, `slack:T1:U2`, `discord:3`."""

    users: Principals = ()
    """May talk, steer, stop and use commands. They may not approve."""

    approvers: Principals = ()
    """May do what users may, and decide approvals."""

    owners: Principals = ()
    """May do everything. While nobody is listed here, the gateway starts in claim mode."""

    dangerously_open: bool = False
    """Let everybody who can reach the bot talk to it, as if listed in `users`. Shown at start and by doctor."""


class WorkspaceSection(Section):
    """A folder that agents work in; the first one is the default."""

    id: Slug
    """Its unchanging id; sessions belong to it."""

    label: str = ""
    """What people see; empty: the id."""

    path: LocalPath
    """The folder. It must exist, and must contain neither this file nor `state_dir`."""

    @property
    def title(self) -> str:
        """What people see."""
        return self.label or self.id


class ApprovalsSection(Section):
    """Which tools need a person's consent."""

    default: Policy = "ask"
    """For every tool without a line of its own: ask a person, allow, or deny."""

    timeout_seconds: Annotated[int, Field(ge=0)] = 86_400
    """How long an approval stays open before it counts as not given; 0: for ever."""

    four_eyes: bool = False
    """Whoever asked for something may not approve it."""

    tools: dict[str, Policy] = {}
    """By the tool's name. A tool that always asks keeps asking."""


class AgentSection(Section):
    """Instructions and tools under a name; the first one is the default."""

    name: Slug
    """Its name, for bindings."""

    instructions: str = ""
    """What the agent is told about its work."""

    instructions_file: LocalPath | None = None
    """A file with the instructions; it is read again for every turn."""

    tools: Several[str] | None = None
    """Names of the tools it may use; absent: all of them."""

    @model_validator(mode="after")
    def _one_source(self) -> AgentSection:
        if self.instructions and self.instructions_file:
            raise Wrong("is given beside `instructions`", "keep one of the two", key=("instructions_file",))
        return self


class McpSection(Section):
    """An MCP server whose tools agents may use, as `<name>__<tool>`. It needs the extra `mcp`."""

    name: Slug
    """Its name; the beginning of its tools' names."""

    command: Several[str] = ()
    """What is started, in the sandbox and anew for each call: the program and its arguments. Or `url`."""

    folder: LocalPath | None = None
    """A folder that the command sees, read-only, as /mcp: the server's own code."""

    url: Url | None = None
    """Address of a server that is asked over HTTP."""

    token: Secret | None = None
    """A bearer token for `url`. Better: `token_file`."""

    token_file: LocalPath | None = None
    """A file that holds the token and nothing else."""

    network: Literal["none", "host"] = "none"
    """What the command can reach. Shown in every approval."""

    approval: Policy = "ask"
    """For every tool of the server without a line of its own in [approvals.tools]."""

    manifest: str = ""
    """What its tools must look like, as the log tells when they have changed; empty: as when they were first seen."""

    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 60.0
    """How long a call may take, the start of the command included."""

    @model_validator(mode="after")
    def _one_way(self) -> McpSection:
        if bool(self.command) == (self.url is not None):
            raise Wrong("needs either `command` or `url`", "keep one of the two", key=("command",))
        return self


class BindingApprovals(Section):
    """Consent in the places of one binding; what is absent is as in [approvals]."""

    default: Policy | None = None
    """See [approvals]."""

    timeout_seconds: Annotated[int | None, Field(ge=0)] = None
    """See [approvals]."""

    four_eyes: bool | None = None
    """See [approvals]."""

    tools: dict[str, Policy] = {}
    """See [approvals]; added to the ones there."""


class BindingLimits(Section):
    """Spending in the places of one binding; what is absent is as in [limits]."""

    usd_per_session: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """See [limits]."""

    usd_per_day: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None
    """See [limits]; counted over all places of the binding."""


class BindingSection(Section):
    """What holds in a place. The binding with the most of platform, chat and thread in common counts."""

    platform: Slug | None = None
    """`telegram`, `slack`, `discord`, …; absent: the default for every place without a binding of its own."""

    chat: ChatId | None = None
    """The chat's or channel's id; absent: all of the platform."""

    thread: ChatId | None = None
    """The topic's or thread's id; absent: all of the chat."""

    workspace: Slug | None = None
    """Id of the workspace; absent: the first one."""

    agent: Slug | None = None
    """Name of the agent; absent: the first one."""

    model: Slug | None = None
    """Name of the model; absent: the first one."""

    fallback: Several[Slug] = ()
    """Models to try in this order when the model cannot be reached."""

    approvals: BindingApprovals = BindingApprovals()
    """Consent that differs from [approvals]."""

    scope: Literal["shared", "per_person"] = "shared"
    """One session for everybody in a thread, or one for each person."""

    listen: Literal["mention", "all"] = "mention"
    """In groups: answer when spoken to, or answer everything. A thread that has a session is always listened to."""

    network: Literal["none", "host"] = "none"
    """What tools that run programs can reach. Shown in every approval."""

    limits: BindingLimits = BindingLimits()
    """Spending that differs from [limits]."""

    @property
    def place(self) -> tuple[str | None, str | None, str | None]:
        """What the binding is for."""
        return (self.platform, self.chat, self.thread)

    @model_validator(mode="after")
    def _place_is_whole(self) -> BindingSection:
        if self.chat and not self.platform:
            raise Wrong("is given without `platform`", "add the platform", key=("chat",))
        if self.thread and not self.chat:
            raise Wrong("is given without `chat`", "add the chat that the thread is in", key=("thread",))
        return self


class LimitsSection(Section):
    """What one person, turn, session or day may cost."""

    queued_messages: Annotated[int, Field(ge=1, le=64)] = 20
    """Messages that may wait in one session."""

    message_bytes: Annotated[int, Field(ge=1024, le=1_048_576)] = 32_768
    """Longest message, in bytes of UTF-8."""

    messages_per_minute: Annotated[int, Field(ge=1)] = 20
    """From one person; more are refused with a notice."""

    live_turns: Annotated[int, Field(ge=1)] = 64
    """Turns that ask their model at the same time; more wait in turn. A change counts from the next start on."""

    steps_per_turn: Annotated[int, Field(ge=1, le=256)] = 64
    """Model calls of one turn."""

    tool_calls_per_turn: Annotated[int, Field(ge=1)] = 256
    """Tool calls of one turn."""

    tokens_per_turn: Annotated[int, Field(ge=0)] = 0
    """Tokens read and written in one turn; 0: no limit."""

    seconds_per_turn: Annotated[int, Field(ge=0)] = 3600
    """Time of one turn, without waiting for people; 0: no limit."""

    file_bytes: Annotated[int, Field(ge=1, le=20_000_000)] = 20_000_000
    """Largest file that a person may send, in bytes."""

    file_bytes_per_day: Annotated[int, Field(ge=1)] = 200_000_000
    """What one person may send in files within 24 hours, in bytes."""

    usd_per_session: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Spending of one session; 0: no limit. Counts only what has a price, see [[models]]."""

    usd_per_day: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Spending of the whole gateway in a UTC day; 0: no limit."""


class SchedulesSection(Section):
    """How schedules are carried out; they themselves are made with /cron."""

    runs_at_once: Annotated[int, Field(ge=1, le=64)] = 4
    """Runs at the same time; more wait. One that waits for a person does not count."""

    spread_seconds: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 2.0
    """Runs that were missed begin so far apart."""

    history: Annotated[int, Field(ge=10, le=100_000)] = 200
    """Runs of a schedule that are remembered."""


class Config(Section):
    """The whole file. Made by `load`; without a file it holds the defaults."""

    gateway: GatewaySection = GatewaySection()
    commands: CommandsSection = CommandsSection()
    telegram: TelegramSection = TelegramSection()
    slack: SlackSection = SlackSection()
    discord: DiscordSection = DiscordSection()
    terminal: TerminalSection = TerminalSection()
    adapters: Annotated[dict[Slug, dict[str, Any]], PlainSerializer(redact_all, when_used="json")] = {}
    """Settings of adapters that other packages bring, by their name: [adapters.<name>]. Keys that end in `token`,
    `secret`, `key` or `password` are treated as secrets, and `<key>_file` reads one from a file."""
    models: Several[ModelSection] = (ModelSection(name="demo", provider="demo"),)
    access: AccessSection = AccessSection()
    workspaces: Several[WorkspaceSection] = ()
    approvals: ApprovalsSection = ApprovalsSection()
    agents: Several[AgentSection] = ()
    bindings: Several[BindingSection] = ()
    limits: LimitsSection = LimitsSection()
    mcp: Several[McpSection] = ()
    schedules: SchedulesSection = SchedulesSection()

    _file: Path | None = PrivateAttr(default=None)
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    @property
    def file(self) -> Path | None:
        """Where it was read from."""
        return self._file

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is no error and should still be seen at start."""
        return self._warnings

    def workspace(self, workspace_id: str) -> WorkspaceSection | None:
        """By id."""
        return next((one for one in self.workspaces if one.id == workspace_id), None)

    def agent(self, name: str) -> AgentSection | None:
        """By name."""
        return next((one for one in self.agents if one.name == name), None)

    def model(self, name: str) -> ModelSection | None:
        """By name."""
        return next((one for one in self.models if one.name == name), None)

    def platforms(self) -> Mapping[str, Mapping[str, Any]]:
        """Every platform that is switched on, with the settings for its adapter; secrets are plain text in there."""
        switched_on = {
            "telegram": self.telegram.token is not None,
            "slack": self.slack.bot_token is not None,
            "discord": self.discord.token is not None,
            "terminal": self.terminal.enabled,
        }
        own = {name: _plain(dict(getattr(self, name))) for name in BUILT_IN if switched_on[name]}
        return own | {name: _plain(settings) for name, settings in self.adapters.items()}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for a stranger: secrets revealed, files of secrets already read and left out."""
    return {
        key: value.reveal() if isinstance(value, Secret) else value
        for key, value in settings.items()
        if value is not None and key != "enabled" and not key.endswith("_file")
    }


def model_key_variable(name: str) -> str:
    """The environment variable that holds a model's key."""
    return f"PILOTHOUSE_MODEL_{re.sub('[^A-Z0-9]', '_', name.upper())}_API_KEY"
