"""Numbers of the platform that a test or a playground may want otherwise, each with where it comes from.

"Docs" are Slack's public developer pages; "third party" are reports in the issue trackers of clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_SCOPES: Final = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:join",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:read",
    "reactions:write",
    "team:read",
    "users:read",
)

DEFAULT_EVENTS: Final = (
    "agent_session_stopped",
    "agent_session_title_changed",
    "app_home_opened",
    "app_mention",
    "channel_archive",
    "channel_left",
    "channel_rename",
    "channel_unarchive",
    "group_archive",
    "group_left",
    "group_rename",
    "group_unarchive",
    "member_joined_channel",
    "member_left_channel",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "reaction_added",
    "reaction_removed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """All durations are seconds on the emulator's clock."""

    ack_seconds: float = 3.0
    """Docs: an event, press, command or form must be acknowledged within three seconds."""
    retry_delays: tuple[float, ...] = (0.0, 60.0, 300.0)
    """Docs: an unacknowledged event comes again nearly at once, after a minute, after five minutes."""
    trigger_life: float = 3.0
    """Docs: a trigger_id opens one view within three seconds."""
    response_life: float = 1_800.0
    response_uses: int = 5
    """Docs: a response_url takes five answers within thirty minutes."""
    stream_life: float = 300.0
    """Third party (python-slack-sdk, node-slack-sdk): a stream is closed about five minutes after its start."""
    stream_budget: int = 10_600
    """Third party: the weighted bytes of a whole streamed message; more is refused when it stops."""
    session_processing_life: float = 3_600.0
    """Docs: an agent session that says nothing falls back from `processing` to `active` after an hour."""
    status_life: float = 120.0
    """Docs: the text of assistant.threads.setStatus clears itself after two minutes."""
    max_sockets: int = 10
    """Docs: connections of one app at the same time."""
    ticket_life: float = 30.0
    """How long the address from apps.connections.open may be used (guess)."""
    ping_interval: float = 10.0
    """How often the server pings a socket (observed by clients' defaults)."""
    refresh_grace: float = 10.0
    """Docs: a socket lives about ten seconds after its warning."""
    blocks_total: int = 13_000
    """Third party (bolt-js): characters of all blocks of a message together."""
    message_text: int = 40_000
    """Docs: chat.postMessage cuts text off behind this."""
    advised_text: int = 4_000
    """Docs advise no more; what happens beyond is reported in several ways, so it is a violation."""
    update_text: int = 4_000
    """Docs: `msg_too_long` of chat.update."""
    echo_own: bool = True
    """Slack sends an app the events of its own messages too."""
    rates: bool = False
    """Rate tiers; off because most tests send faster than a person."""
    post_burst: int = 4
    """How many messages a channel takes at once before one per second holds (docs: short bursts are allowed)."""
