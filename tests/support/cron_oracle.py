"""Crontab read anew, as slowly and plainly as possible: which minutes match, looked at one by one."""

from __future__ import annotations

import calendar
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
RANGES = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def matches(pattern: str, at: datetime) -> bool:
    """Whether the wall clock `at` fits the pattern."""
    minute, hour, day, month, weekday = pattern.upper().split()
    if not (_in(minute, 0, at.minute) and _in(hour, 1, at.hour) and _in(month, 3, at.month)):
        return False
    sunday_first = at.isoweekday() % 7
    of_month = _in(day, 2, at.day) or ("L" in day.split(",") and at.day == calendar.monthrange(at.year, at.month)[1])
    of_week = _in(weekday, 4, sunday_first) or (sunday_first == 0 and _in(weekday, 4, 7))
    both = day.startswith("*") or weekday.startswith("*")
    return (of_month and of_week) if both else (of_month or of_week)


def _in(field: str, index: int, value: int) -> bool:
    return any(_term(term, index, value) for term in field.split(","))


def _term(term: str, index: int, value: int) -> bool:
    body, _, step = term.partition("/")
    low, high = RANGES[index]
    if body == "L":
        return False
    if body != "*":
        first, _, last = body.partition("-")
        low = _number(first, index)
        high = _number(last, index) if last else (low if not step else high)
    return low <= value <= high and (value - low) % int(step or 1) == 0


def _number(word: str, index: int) -> int:
    if word in MONTHS and index == 3:
        return MONTHS.index(word) + 1
    return DAYS.index(word) if word in DAYS and index == 4 else int(word)


def minutes(pattern: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[int]:
    """Every due instant in [start, end), in milliseconds, by Debian's rule where the clocks change.

    With `*` in front of minute or hour every real minute counts whose wall clock fits. Else every wall-clock time
    counts once: the first of two, or the next valid minute where it does not exist.
    """
    found: set[int] = set()
    if pattern.split()[0].startswith("*") or pattern.split()[1].startswith("*"):
        at = start
        while at < end:
            if matches(pattern, at.astimezone(zone)):
                found.add(_ms(at))
            at += MINUTE
        return sorted(found)
    wall = start.astimezone(zone).replace(tzinfo=None) - DAY
    while wall < end.astimezone(zone).replace(tzinfo=None) + HOUR:
        if matches(pattern, wall):
            real = wall.replace(tzinfo=zone)
            while real.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != real.replace(tzinfo=None):
                real = (real.replace(tzinfo=None) + MINUTE).replace(tzinfo=zone)
            found.add(_ms(real.astimezone(UTC)))
        wall += MINUTE
    return sorted(at for at in found if _ms(start) <= at < _ms(end))


def _ms(at: datetime) -> int:
    return int(at.timestamp()) * 1000


def transitions(zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """The hours, in UTC, in which the zone's offset changes."""
    found: list[datetime] = []
    at = start
    while at < end:
        if _changes(zone, at, DAY):
            found += [hour for hour in (at + HOUR * n for n in range(24)) if _changes(zone, hour, HOUR)]
        at += DAY
    return found


def _changes(zone: ZoneInfo, at: datetime, within: timedelta) -> bool:
    return at.astimezone(zone).utcoffset() != (at + within).astimezone(zone).utcoffset()


def random_pattern(chance: random.Random) -> str:
    """A pattern of everything that crontab knows, that is due some day."""
    minute = chance.choice([_random_field(chance, 0), "*/7", "20", "0,30"])
    return " ".join([minute, *(_random_field(chance, index) for index in range(1, 5))])


def _random_field(chance: random.Random, index: int) -> str:
    low, high = RANGES[index]
    a, b = sorted(chance.sample(range(low, (28 if index == 2 else high) + 1), 2))
    names = {3: MONTHS[a - 1] if index == 3 else "", 4: DAYS[a % 7] if index == 4 else ""}
    choices = ["*", "*", "*", str(a), f"{a}-{b}", f"{a},{b}", f"*/{chance.randint(2, 6)}", f"{a}-{b}/2"]
    if index == 2:
        choices += ["L", f"{a},L"]
    if index >= 3:
        choices += ["*", "*", names[index]]
    if index == 4:
        choices += ["0", "7", "1-5", "5-7", "MON-FRI"]
    return chance.choice(choices)
