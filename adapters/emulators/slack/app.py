"""The installed app: identity, tokens, what it may do and what it asked to be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from adapters.emulators.slack.knobs import DEFAULT_EVENTS, DEFAULT_SCOPES


@dataclass(slots=True, kw_only=True)
class App:
    """One app in one workspace. `agent`: its manifest declares the agent surface."""

    team: str
    team_name: str
    team_domain: str
    app_id: str
    bot_user: str
    bot_id: str
    name: str
    bot_token: str
    app_token: str
    signing_secret: str
    verification_token: str
    config_token: str = "xoxe.xoxp-1-emulated"  # noqa: S105 - opens nothing but this emulator
    """The token of the app's owner, for its manifest."""
    enterprise: str | None = None
    agent: bool = True
    scopes: set[str] = field(default_factory=lambda: set(DEFAULT_SCOPES))
    events: set[str] = field(default_factory=lambda: set(DEFAULT_EVENTS))
    commands: set[str] | None = None
    """Slash commands of the manifest; None takes any."""
    interactive: bool = True
    """Whether the manifest switches interactivity on."""
    request_url: str | None = None
    """Where events are posted; None means Socket Mode."""
    revoked: str | None = None
    """The error that the bot's token gets, once it was taken away."""

    @property
    def account(self) -> str:
        """How the journal names it."""
        return self.app_id

    @property
    def provided(self) -> str:
        """Scopes as the wire spells them."""
        return ",".join(sorted(self.scopes))
