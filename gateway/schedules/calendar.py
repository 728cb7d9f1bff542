"""When a schedule is due: a pure function of its calendar and of two instants.

Cron patterns are read by cronsim as Debian's cron does: 0 and 7 are Sunday, and either day field may match where both
are given. A wall-clock time is due once on every day that matches, also where the clocks change: at the next valid
minute where it does not exist, and the first time where it exists twice. A pattern whose minute or hour begins with `*`
follows elapsed time: whenever the clocks show it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

SHORTEST_INTERVAL_SECONDS = 60
LONGEST_INTERVAL_SECONDS = 366 * 24 * 3600


class Impossible(ValueError):
    """A calendar that cannot be, in a sentence that names the remedy."""


class Kind(StrEnum):
    """How a calendar repeats."""

    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """When. Make one with `cron`, `interval` or `once`; instants are UTC milliseconds.

    `expression` is a cron pattern of five fields, a number of seconds, or a local time without offset. `anchor_ms` is
    what intervals are counted from. Nothing is due before `starts_at_ms` or after `ends_at_ms`.
    """

    kind: Kind
    expression: str
    zone: str
    anchor_ms: int = 0
    starts_at_ms: int | None = None
    ends_at_ms: int | None = None


def cron(pattern: str, zone: str) -> Calendar:
    """A cron pattern in a time zone. Impossible: it has no five fields, or can never be due."""
    return Calendar(kind=Kind.CRON, expression=checked_pattern(pattern), zone=checked_zone(zone))


def interval(seconds: int, zone: str, anchor_ms: int) -> Calendar:
    """Every so many seconds of elapsed time after `anchor_ms`."""
    if not SHORTEST_INTERVAL_SECONDS <= seconds <= LONGEST_INTERVAL_SECONDS:
        raise Impossible("an interval is from one minute to 366 days long, like every 90m or every 1d12h")
    return Calendar(kind=Kind.INTERVAL, expression=str(seconds), zone=checked_zone(zone), anchor_ms=anchor_ms)


def once(local: datetime, zone: str) -> Calendar:
    """One instant. A `local` time with an offset is taken by that; one that does not exist is the next valid minute."""
    found = zone_of(checked_zone(zone))
    naive = local if local.tzinfo is None else local.astimezone(found).replace(tzinfo=None)
    fold = 0 if local.tzinfo is None else local.astimezone(found).fold
    at = _valid(naive.replace(tzinfo=found, fold=fold))
    return Calendar(kind=Kind.ONCE, expression=at.isoformat(timespec="seconds"), zone=found_name(zone))


def checked_zone(name: str) -> str:
    """The name of a time zone of the IANA database."""
    zone_of(name)
    return found_name(name)


def found_name(name: str) -> str:
    """The name as it is kept."""
    return "UTC" if name.upper() in {"UTC", "Z"} else name


@lru_cache(maxsize=256)
def zone_of(name: str) -> tzinfo:
    """The time zone of that name. Impossible: there is none."""
    if name.upper() in {"UTC", "Z"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise Impossible(f"there is no time zone {name!r}; write one like Europe/Berlin or UTC") from error


_FIELDS = "minute, hour, day of the month, month and day of the week"


@lru_cache(maxsize=1024)
def checked_pattern(pattern: str) -> str:
    """The pattern as it is kept: macros replaced, one space between its five fields."""
    words = pattern.split()
    if len(words) == 1 and words[0].startswith("@"):
        known = MACROS.get(words[0].lower())
        if known is None:
            raise Impossible(f"there is no {words[0]}; there are {', '.join(MACROS)}")
        words = known.split()
    if len(words) != 5:
        raise Impossible(f"a cron pattern has five fields ({_FIELDS}), and {pattern!r} has {len(words)}")
    words[4] = _day_of_week(words[4].upper())
    kept = " ".join(word.upper() for word in words)
    try:
        simulation = CronSim(kept, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        what = str(error).removeprefix("Bad ")
        raise Impossible(f"the {what.replace('-', ' ')} of {pattern!r} cannot be; the fields are {_FIELDS}") from error
    if next(simulation, None) is None:
        raise Impossible(f"{pattern!r} is never due: no month has such a day")
    return kept


def _day_of_week(field: str) -> str:
    """Ranges may end on a Sunday by name, and steps from a day end with the week."""
    return ",".join(re.sub(r"^([0-6]|[A-Z]{3})/", r"\1-SAT/", re.sub("-SUN", "-7", term)) for term in field.split(","))


# ----------------------------------------------------------------------------------------------------------- instants


def next_after(calendar: Calendar, after_ms: int) -> int | None:
    """The first due time after `after_ms`, or None if there is none any more."""
    if calendar.starts_at_ms is not None:
        after_ms = max(after_ms, calendar.starts_at_ms - 1)
    found = _next(calendar, after_ms)
    past = found is not None and calendar.ends_at_ms is not None and found > calendar.ends_at_ms
    return None if past else found


def _next(calendar: Calendar, after_ms: int) -> int | None:
    match calendar.kind:
        case Kind.CRON:
            return _cron_next(calendar.expression, zone_of(calendar.zone), after_ms)
        case Kind.INTERVAL:
            step = int(calendar.expression) * 1000
            return calendar.anchor_ms + max(1, (after_ms - calendar.anchor_ms) // step + 1) * step
        case Kind.ONCE:
            at_ms = round(datetime.fromisoformat(calendar.expression).timestamp() * 1000)
            return at_ms if at_ms > after_ms else None


_DAY = timedelta(days=1)
_RAREST_DAYS = 41 * 366
"""A 29 February that has to be a certain weekday may be 40 years off, where a century comes between."""


def _cron_next(pattern: str, zone: tzinfo, after_ms: int) -> int | None:
    # A time of the day before may have been put off into this one.
    day = datetime.fromtimestamp(after_ms / 1000, zone).date() - _DAY
    fields = _fields_of(pattern)
    for _ in range(_RAREST_DAYS):
        if day.month in fields.months and fields.match_day(day):
            instants = _instants(pattern, zone, day)
            index = bisect_right(instants, after_ms)
            if index < len(instants):
                return instants[index]
        day += _DAY
    return None


@lru_cache(maxsize=1024)
def _fields_of(pattern: str) -> CronSim:
    """The pattern as read by cronsim, of which only the fields are used here.

    Its own iteration takes whole hours as steps, which is wrong where the clocks change by half an hour.
    """
    return CronSim(pattern, datetime(2000, 1, 1, tzinfo=UTC))


@lru_cache(maxsize=4096)
def _instants(pattern: str, zone: tzinfo, day: date) -> tuple[int, ...]:
    """When the pattern is due on a day that it matches, ascending."""
    fields = _fields_of(pattern)
    walls = [time(hour, minute) for hour in sorted(fields.hours) for minute in sorted(fields.minutes)]
    start, end = (_ms(datetime.combine(one, time(), zone)) for one in (day, day + _DAY))
    if end - start == 86_400_000 and _is_plain(zone, start):
        return tuple(start + (wall.hour * 60 + wall.minute) * 60_000 for wall in walls)
    follows_elapsed_time = any(part.startswith("*") for part in pattern.split()[:2])
    find = _every_time if follows_elapsed_time else _one_time
    return tuple(sorted({at_ms for wall in walls for at_ms in find(datetime.combine(day, wall), zone)}))


def _is_plain(zone: tzinfo, start_ms: int) -> bool:
    """Whether a day of 24 hours has one offset: it may also lose and win the same."""
    hours = (datetime.fromtimestamp(start_ms / 1000 + hour * 3600, zone) for hour in range(25))
    return len({hour.utcoffset() for hour in hours}) == 1


def _every_time(wall: datetime, zone: tzinfo) -> Iterator[int]:
    """Each instant at which clocks show this: none, one or two."""
    for fold in (0, 1):
        at = wall.replace(tzinfo=zone, fold=fold)
        if _exists(at):
            yield _ms(at)


def _one_time(wall: datetime, zone: tzinfo) -> Iterator[int]:
    """The first instant at which clocks show this, or else the next valid minute."""
    yield _ms(_valid(wall.replace(tzinfo=zone)))


def _valid(at: datetime) -> datetime:
    while not _exists(at):
        at = (at.replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)).replace(tzinfo=at.tzinfo)
    return at


def _exists(at: datetime) -> bool:
    return at.astimezone(UTC).astimezone(at.tzinfo).replace(tzinfo=None) == at.replace(tzinfo=None)


def _ms(at: datetime) -> int:
    return int(at.timestamp()) * 1000


def times(calendar: Calendar, after_ms: int) -> Iterator[int]:
    """Every due time after `after_ms`, ascending."""
    while (found := next_after(calendar, after_ms)) is not None:
        yield found
        after_ms = found


def due(calendar: Calendar, since_ms: int, now_ms: int, limit: int | None = None) -> tuple[int, ...]:
    """Every due time after `since_ms` up to and with `now_ms`, ascending; at most the first `limit`."""
    found = times(calendar, since_ms)
    until_now: list[int] = []
    for at_ms in islice(found, limit):
        if at_ms > now_ms:
            break
        until_now.append(at_ms)
    return tuple(until_now)


# -------------------------------------------------------------------------------------------------------- for people


def words(calendar: Calendar) -> str:
    """The calendar for people: `At 09:00 on Monday through Friday (Europe/Berlin)`."""
    match calendar.kind:
        case Kind.CRON:
            said = CronSim(calendar.expression, datetime(2000, 1, 1, tzinfo=UTC)).explain()
        case Kind.INTERVAL:
            said = f"every {duration(int(calendar.expression))}"
        case Kind.ONCE:
            at = datetime.fromisoformat(calendar.expression)
            said = f"once, on {at:%A %Y-%m-%d at %H:%M}"
    return f"{said} ({calendar.zone})"


def duration(seconds: int) -> str:
    """`1 day 12 hours`."""
    parts: list[str] = []
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {name}{'s' * (count != 1)}")
    return " ".join(parts) or "0 seconds"


def instant_words(at_ms: int, zone: str) -> str:
    """`Fri 2026-12-25 09:00 CET`: an instant in a time zone."""
    return f"{datetime.fromtimestamp(at_ms / 1000, zone_of(zone)):%a %Y-%m-%d %H:%M %Z}"


def next_words(calendar: Calendar, after_ms: int, zone: str, count: int = 3) -> tuple[str, ...]:
    """The next due times in the reader's zone."""
    return tuple(instant_words(at_ms, zone) for at_ms in islice(times(calendar, after_ms), count))
