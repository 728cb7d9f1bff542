"""getUpdates: offsets, long polls, and the conflict of two pollers, as the official server's source has them."""

from __future__ import annotations

from typing import Final

from adapters.emulators.telegram.bots import Bot, Poll
from adapters.emulators.telegram.call import Call
from adapters.emulators.telegram.errors import ApiError, conflict
from adapters.emulators.telegram.platform import Platform
from adapters.emulators.wire_json import JsonObject, is_array

MAX_TIMEOUT: Final = 50
OTHER_POLLER: Final = "terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK_SET: Final = "terminated by setWebhook request"
WEBHOOK_ACTIVE: Final = (
    "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)


async def get_updates(platform: Platform, call: Call) -> list[JsonObject]:
    """Pending updates; waits up to `timeout` for the first.

    Updates come again until a call with a higher offset confirms them. A poll that has to wait ends the poll of
    another instance with 409; the newer one stays.
    """
    bot = call.bot
    if bot.webhook is not None:
        raise await _told_later(platform, bot, WEBHOOK_ACTIVE)
    offset = call.integer("offset")
    limit = call.integer("limit", 100, 1, 100)
    timeout = call.integer("timeout", 0, 0, MAX_TIMEOUT)
    remember_allowed(platform, call)
    timeout, limit = _slow_down(platform, bot, offset, timeout, limit)
    batch = _take(platform, bot, offset, limit)
    if batch or timeout == 0:
        return batch
    return await _wait(platform, bot, offset if offset > 0 else 0, limit, timeout)


def remember_allowed(platform: Platform, call: Call) -> None:
    """`allowed_updates` holds until it is given again; an empty list means the default kinds."""
    given = call.lenient_json("allowed_updates")
    if is_array(given):
        kinds = frozenset(str(kind) for kind in given)
        call.bot.allowed = kinds or None


def _slow_down(platform: Platform, bot: Bot, offset: int, timeout: int, limit: int) -> tuple[int, int]:
    """The server brakes a client that asks for the same offset over and over."""
    now, knobs = platform.clock.now(), platform.knobs
    if offset == bot.previous_offset and now < bot.previous_poll_at + knobs.repeated_poll_hold:
        timeout = max(timeout, int(knobs.repeated_poll_hold))
    if offset == bot.previous_offset and now < bot.previous_poll_at + knobs.repeated_poll_single:
        limit = 1
    bot.previous_offset, bot.previous_poll_at = offset, now
    return timeout, limit


def _take(platform: Platform, bot: Bot, offset: int, limit: int) -> list[JsonObject]:
    batch = bot.queue.take(offset, limit, platform.clock.now())
    platform.trace(bot, "confirmed", batch.confirmed)
    platform.trace(bot, "expired", batch.expired)
    platform.trace(bot, "handed", batch.updates)
    return [update.to_wire() for update in batch.updates]


async def _wait(platform: Platform, bot: Bot, offset: int, limit: int, timeout: int) -> list[JsonObject]:
    if bot.poll is not None:
        bot.poll.abort(OTHER_POLLER)
    poll = bot.poll = Poll()
    try:
        await platform.clock.wait(poll.wake, timeout)
    finally:
        if bot.poll is poll:
            bot.poll = None
    if poll.aborted == CLOSING:
        raise ApiError(500, "Internal Server Error: restart")
    if poll.aborted is not None:
        raise await _told_later(platform, bot, poll.aborted)
    return _take(platform, bot, offset, limit)


CLOSING: Final = "closing"


async def _told_later(platform: Platform, bot: Bot, message: str) -> ApiError:
    """The conflict, at once if none was told lately, otherwise after a pause."""
    now = platform.clock.now()
    if now >= bot.next_conflict_at:
        bot.next_conflict_at = now + platform.knobs.conflict_interval
    else:
        await platform.clock.sleep(platform.knobs.conflict_interval)
    return conflict(message)
