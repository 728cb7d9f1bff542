"""Numbers of the platform that a test or a playground may want otherwise, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodLimits:
    """Sending limits. Telegram publishes them as guidance, not as thresholds (core.telegram.org/bots/faq).

    Edits count as sends. `drafts_short` and `drafts_long` are (calls, seconds) per chat, shared with sendChatAction
    (third-party measurement).
    """

    per_chat_per_second: float = 1.0
    chat_burst: int = 3
    group_per_minute: int = 20
    overall_per_second: float = 30.0
    drafts_short: tuple[int, float] = (20, 5.0)
    drafts_long: tuple[int, float] = (40, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """All durations are seconds on the emulator's clock."""

    callback_deadline: float = 15.0
    """Undocumented; reports say ten to fifteen seconds."""
    second_callback_answer_refused: bool = True
    """Third-party report."""
    draft_life: float = 30.0
    """Documented at sendMessageDraft."""
    update_life: float = 86_400.0
    """Documented at getUpdates: updates are kept for 24 hours."""
    delete_window: float = 172_800.0
    """Documented at deleteMessage: 48 hours."""
    file_link_life: float = 3_600.0
    """Documented at getFile: a link is good for at least one hour."""
    repeated_poll_hold: float = 3.0
    repeated_poll_single: float = 0.5
    """The server's source: the same offset again within 3 s waits 3 s, within 0.5 s returns one update."""
    conflict_interval: float = 3.0
    """The server's source: one conflict is told at once, further ones within this time are told that much later."""
    set_webhook_interval: float = 1.0
    """The server's source: setWebhook more often than this is refused with 429."""
    webhook_timeout: float = 30.0
    """How long a webhook may take to answer (guess)."""
    webhook_retry_cap: tuple[float, float] = (60.0, 120.0)
    """The server's source: the delay between attempts doubles up to a random time in this range."""
    logged_out: float = 600.0
    """Documented at logOut: no login for ten minutes."""
    implicit_topic_reply: bool = True
    """Messages in topics carry the topic's first message as `reply_to_message`."""
    flood: FloodLimits | None = None
    """Off unless given: most tests send faster than a person."""
    first_update_id: int = 1000
    seed: int = 0
    """Of the random delays of webhook retries."""
