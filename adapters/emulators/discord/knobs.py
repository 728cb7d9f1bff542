"""Numbers of the platform that a test or a playground may want otherwise, each with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

OBSERVED_BUCKETS: Final[Mapping[str, tuple[int, float]]] = {
    "create_message": (5, 5.0),
    "update_message": (5, 5.0),
    "delete_message": (5, 1.0),
    "add_my_message_reaction": (1, 0.25),
    "delete_my_message_reaction": (1, 0.25),
    "trigger_typing_indicator": (5, 5.0),
    "create_thread": (5, 5.0),
    "create_thread_from_message": (5, 5.0),
    "execute_webhook": (5, 2.0),
    "update_original_webhook_message": (5, 2.0),
    "update_webhook_message": (5, 2.0),
}
"""(calls, seconds) by operation and channel, webhook or guild. Observed by third parties; Discord publishes none and
wants its headers read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """All durations are seconds on the emulator's clock."""

    interaction_deadline: float = 3.0
    """Documented: the first answer must come within three seconds."""
    interaction_life: float = 900.0
    """Documented: a token is good for fifteen minutes."""
    nonce_window: float = 300.0
    """Documented as "the past few minutes" (guess)."""
    typing_life: float = 10.0
    """Documented at the typing indicator."""
    renames: tuple[int, float] = (2, 600.0)
    """Name or topic of one channel: observed since 2020, not published."""
    old_message_age: float = 3_600.0
    old_message_edits: tuple[int, float] = (30, 3_600.0)
    """Code 30046 is documented; how many edits of old messages in a channel a bot has is not (guess)."""
    heartbeat_interval: float = 41.25
    """What the gateway says in HELLO."""
    heartbeat_patience: float | None = None
    """A connection that sends no heartbeat for so long is closed. None: never, so that advancing a clock by hours does
    not cut clients that live by the real one."""
    resume_window: float = 180.0
    """How long a session without a connection can be resumed (third party: some minutes)."""
    replay_limit: int = 2_000
    """Events that a session keeps for RESUME (guess)."""
    identify_limit: int = 1_000
    """Documented: session starts in 24 hours."""
    commands_per_minute: int = 120
    """Documented: what a connection may send in 60 seconds."""
    gateway_payload: int = 4_096
    """Documented: bytes that a client may send at once."""
    file_limit: int = 10 << 20
    """Documented: bytes of one file without boosts."""
    components_bytes: int | None = 10_170
    """Bytes of all text displays of a message, with twelve more for each: beyond them the API fails with 500. Measured
    by a third party in August 2026 (discord/discord-api-docs#8554); text of 4,000 characters can have 16,000 bytes."""
    global_per_second: int | None = None
    """Documented as 50 requests; off unless given."""
    buckets: Mapping[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """Off unless given: most tests send faster than a person. `OBSERVED_BUCKETS` are the real ones."""
    seed: int = 0
    """Of the tokens of interactions and sessions."""
