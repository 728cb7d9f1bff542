"""When a schedule is due: against croniter, against crontab read anew, and against a table made by hand."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from gateway.schedules import calendar
from gateway.schedules.calendar import Calendar, Impossible, cron, due, interval, next_after, once, times, words
from tests.support.cron_oracle import minutes, random_pattern, transitions

ZONES = [
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata", "UTC",
    "America/Sao_Paulo", "Africa/Cairo",
]  # fmt: skip
BEGIN = datetime(2023, 1, 1, tzinfo=UTC)
END = datetime(2028, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def ms(at: datetime) -> int:
    """Milliseconds since the epoch."""
    return int(at.timestamp()) * 1000


@pytest.fixture(scope="module")
def changes() -> dict[str, list[datetime]]:
    """When the clocks change, by zone."""
    return {zone: transitions(ZoneInfo(zone), BEGIN, END) for zone in ZONES}


@pytest.mark.parametrize("zone", ZONES)
def test_it_agrees_with_croniter_where_clocks_do_not_change(zone: str, changes: dict[str, list[datetime]]) -> None:
    """Random patterns at random instants of five years: the same due times, but for days on which clocks change."""
    chance = random.Random(f"croniter {zone}")
    compared = 0
    for _ in range(25):
        pattern = random_pattern(chance)
        made = cron(pattern, zone)
        for _ in range(3):
            start = BEGIN + timedelta(minutes=chance.randrange(int((END - BEGIN) / timedelta(minutes=1))))
            theirs = croniter(pattern, start.astimezone(ZoneInfo(zone)), implement_cron_bug=True)
            expected = [round(theirs.get_next(float)) * 1000 for _ in range(12)]
            found = due(made, ms(start), expected[-1])
            stable = [at for at in expected if not _near_a_change(at, changes[zone])]
            assert [at for at in found if not _near_a_change(at, changes[zone])] == stable, (pattern, start)
            compared += len(stable)
    assert compared > 500


def _near_a_change(at_ms: int, changes: list[datetime]) -> bool:
    return any(abs(at_ms - ms(change)) < 2 * 86_400_000 for change in changes)


@pytest.mark.parametrize("zone", ZONES)
def test_it_agrees_with_crontab_read_anew_also_where_clocks_change(
    zone: str, changes: dict[str, list[datetime]]
) -> None:
    """Random patterns around each change of the clocks of two years, and on two other days."""
    chance = random.Random(f"oracle {zone}")
    quiet = [datetime(2025, 1, 30, tzinfo=UTC), datetime(2024, 2, 28, 12, tzinfo=UTC)]
    for around in [*changes[zone][:4], *quiet]:
        for _ in range(5):
            pattern = random_pattern(chance)
            start, end = around - DAY / 2, around + DAY
            expected = minutes(pattern, ZoneInfo(zone), start, end)
            assert due(cron(pattern, zone), ms(start) - 1, ms(end) - 1) == tuple(expected), (pattern, around)


TABLE = [
    # zone, pattern, day, wall-clock times with their offset: what must be due on that day, and nothing else
    ("Europe/Berlin", "30 2 * * *", "2027-03-28", ["03:00+02:00"]),
    ("Europe/Berlin", "0,15,30,45 2 * * *", "2027-03-28", ["03:00+02:00"]),
    ("Europe/Berlin", "0 2,3 * * *", "2027-03-28", ["03:00+02:00"]),
    ("Europe/Berlin", "*/30 1-3 * * *", "2027-03-28", ["01:00+01:00", "01:30+01:00", "03:00+02:00", "03:30+02:00"]),
    ("Europe/Berlin", "0 */1 28 3 *", "2027-03-28", 23),
    ("Europe/Berlin", "30 2 * * *", "2027-10-31", ["02:30+02:00"]),
    ("Europe/Berlin", "0,30 2 * * *", "2027-10-31", ["02:00+02:00", "02:30+02:00"]),
    ("Europe/Berlin", "*/30 2 * * *", "2027-10-31", ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"]),
    ("Europe/Berlin", "0 * * * *", "2027-10-31", 25),
    ("America/New_York", "30 2 * * *", "2027-03-14", ["03:00-04:00"]),
    ("America/New_York", "30 1 * * *", "2027-11-07", ["01:30-04:00"]),
    ("America/New_York", "0 9 * * SUN", "2027-11-07", ["09:00-05:00"]),
    ("Australia/Lord_Howe", "10,20,45 2 * * *", "2027-10-03", ["02:30+11:00", "02:45+11:00"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2027-04-04", ["01:45+11:00"]),
    ("Australia/Lord_Howe", "*/30 * 4 4 *", "2027-04-04", 49),
    ("Africa/Casablanca", "30 2 * * *", "2027-03-14", ["03:00+01:00"]),
    ("Africa/Casablanca", "30 2 * * *", "2027-02-07", ["02:30+01:00"]),
    ("Africa/Cairo", "0 0 * * *", "2027-04-30", ["01:00+03:00"]),
    ("Asia/Kolkata", "30 2 * * *", "2027-03-28", ["02:30+05:30"]),
    ("UTC", "30 2 * * 7", "2027-03-28", ["02:30+00:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "pattern", "day", "expected"), TABLE)
def test_what_is_due_where_clocks_change(zone: str, pattern: str, day: str, expected: list[str] | int) -> None:
    """In a gap at the next valid minute, in an overlap once; a pattern that begins with a star by elapsed time."""
    midnight = datetime.fromisoformat(day)
    start = midnight.replace(tzinfo=ZoneInfo(zone))
    end = (midnight + DAY).replace(tzinfo=ZoneInfo(zone))
    found = due(cron(pattern, zone), ms(start) - 1, ms(end) - 1)
    if isinstance(expected, int):
        assert len(found) == expected
    else:
        assert found == tuple(ms(datetime.fromisoformat(f"{day}T{at}")) for at in expected)


FAMILIAR = [
    ("0 9 * * 1-5", "Europe/Berlin", ["2027-01-15", "2027-01-18", "2027-01-19"]),  # Monday is 1
    ("0 9 * * 0", "UTC", ["2027-01-17", "2027-01-24"]),
    ("0 9 * * 7", "UTC", ["2027-01-17", "2027-01-24"]),
    ("0 9 * * 1,7", "UTC", ["2027-01-17", "2027-01-18", "2027-01-24"]),
    ("0 9 * * 6-7", "UTC", ["2027-01-16", "2027-01-17", "2027-01-23"]),
    ("0 9 * * fri-sun", "UTC", ["2027-01-15", "2027-01-16", "2027-01-17", "2027-01-22"]),
    ("0 9 * * 1/2", "UTC", ["2027-01-15", "2027-01-18", "2027-01-20"]),
    ("0 9 13 * FRI", "UTC", ["2027-01-15", "2027-01-22", "2027-01-29", "2027-02-05", "2027-02-12", "2027-02-13"]),
    ("0 9 */2 * FRI", "UTC", ["2027-01-15", "2027-01-29", "2027-02-05"]),  # a star: both must match
    ("0 9 31 * *", "UTC", ["2027-01-31", "2027-03-31", "2027-05-31"]),
    ("0 9 L * *", "UTC", ["2027-01-31", "2027-02-28", "2027-03-31"]),
    ("0 9 29 feb *", "UTC", ["2028-02-29", "2032-02-29"]),
    ("0 9 * * 5L", "UTC", ["2027-01-29", "2027-02-26"]),
    ("0 9 * * MON#2", "UTC", ["2027-02-08", "2027-03-08"]),
    ("@weekly", "UTC", ["2027-01-17", "2027-01-24"]),
    ("@Daily", "UTC", ["2027-01-16", "2027-01-17"]),
    ("@monthly", "UTC", ["2027-02-01", "2027-03-01"]),
    ("@yearly", "UTC", ["2028-01-01", "2029-01-01"]),
]


@pytest.mark.parametrize(("pattern", "zone", "days"), FAMILIAR)
def test_the_days_of_well_known_patterns(pattern: str, zone: str, days: list[str]) -> None:
    """Weekdays count as in crontab, either day field may match, names, steps and last days work."""
    start = datetime(2027, 1, 15, 7, tzinfo=ZoneInfo(zone))
    found = times(cron(pattern, zone), ms(start))
    on = [datetime.fromtimestamp(next(found) / 1000, ZoneInfo(zone)) for _ in days]
    assert [f"{at:%Y-%m-%d}" for at in on] == days
    assert len({(at.hour, at.minute) for at in on}) == 1


BAD = [
    ("0 0 31 2 *", "day"), ("0 9 * *", "five fields"), ("* * * * * *", "five fields"), ("61 * * * *", "minute"),
    ("0 24 * * *", "hour"), ("0 9 * * 8", "day of week"), ("0 9 0 * *", "day of month"), ("0 9 * 13 *", "month"),
    ("5-1 * * * *", "minute"), ("*/0 * * * *", "minute"), ("@reboot", "@daily"), ("", "five fields"),
    ("0 9 * * MOON", "day of week"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "named"), BAD)
def test_a_pattern_that_cannot_be_is_refused_by_its_field(pattern: str, named: str) -> None:
    """The sentence names what is wrong with it."""
    with pytest.raises(Impossible, match=named):
        cron(pattern, "UTC")


def test_a_zone_that_is_none_is_refused() -> None:
    """Also one that looks like a path."""
    for name in ("Mars/Olympus", "../../etc/passwd", "", "Europe"):
        with pytest.raises(Impossible, match="time zone"):
            cron("0 9 * * *", name)


def test_every_kind_knows_its_zone() -> None:
    """A time without an offset is one of the schedule's zone, and people read it there."""
    at = once(datetime(2027, 7, 1, 18, 0), "America/New_York")
    assert next_after(at, 0) == ms(datetime(2027, 7, 1, 22, 0, tzinfo=UTC))
    assert words(at) == "once, on Thursday 2027-07-01 at 18:00 (America/New_York)"
    assert words(cron("0 9 * * 1-5", "Europe/Berlin")) == "At 09:00 on Monday through Friday (Europe/Berlin)"
    assert words(interval(5400, "Asia/Kolkata", 0)) == "every 1 hour 30 minutes (Asia/Kolkata)"
    assert calendar.next_words(cron("0 9 * * 1-5", "Europe/Berlin"), ms(datetime(2027, 1, 15, tzinfo=UTC)), "UTC") == (
        "Fri 2027-01-15 08:00 UTC", "Mon 2027-01-18 08:00 UTC", "Tue 2027-01-19 08:00 UTC",
    )  # fmt: skip


def test_one_instant_where_clocks_change() -> None:
    """One that does not exist is the next valid minute; of two, the first; an offset decides."""
    zone = "Europe/Berlin"
    cases = {
        "2027-03-28T02:30": "2027-03-28T03:00+02:00",
        "2027-10-31T02:30": "2027-10-31T02:30+02:00",
        "2027-10-31T02:30+01:00": "2027-10-31T02:30+01:00",
        "2027-12-24T18:00Z": "2027-12-24T19:00+01:00",
    }
    for given, meant in cases.items():
        made = once(datetime.fromisoformat(given), zone)
        assert next_after(made, 0) == ms(datetime.fromisoformat(meant)), given
        assert next_after(made, ms(datetime.fromisoformat(meant))) is None


def test_intervals_count_elapsed_time() -> None:
    """Every day is every 24 hours, also over a change of the clocks; counted from the anchor, which is not due."""
    anchor = datetime(2027, 3, 27, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    made = interval(86_400, "Europe/Berlin", ms(anchor))
    assert due(made, 0, ms(anchor)) == ()
    [first, second] = due(made, 0, ms(anchor) + 2 * 86_400_000)
    assert datetime.fromtimestamp(first / 1000, ZoneInfo("Europe/Berlin")).hour == 13
    assert second - first == 86_400_000
    for bad in (59, 0, -1, 400 * 86_400):
        with pytest.raises(Impossible, match="minute"):
            interval(bad, "UTC", 0)


def test_nothing_is_due_outside_start_and_end() -> None:
    """Both instants are inside."""
    start, end = ms(datetime(2027, 1, 20, 9, tzinfo=UTC)), ms(datetime(2027, 1, 22, 9, tzinfo=UTC))
    made = Calendar(**{**_fields(cron("0 9 * * *", "UTC")), "starts_at_ms": start, "ends_at_ms": end})
    assert due(made, 0, 2 * end) == (start, start + 86_400_000, end)
    assert next_after(made, end) is None


def _fields(made: Calendar) -> dict[str, object]:
    return {name: getattr(made, name) for name in ("kind", "expression", "zone", "anchor_ms")}


def test_due_is_pure_and_cut_anywhere_comes_to_the_same() -> None:
    """However the time between is cut, each due time is in exactly one part; a limit takes the first ones."""
    made = cron("*/20 1-4 * * *", "Europe/Berlin")
    since, now = ms(datetime(2027, 10, 30, tzinfo=UTC)), ms(datetime(2027, 11, 1, tzinfo=UTC))
    whole = due(made, since, now)
    chance = random.Random(7)
    for _ in range(20):
        cuts = sorted({since, now, *(chance.randrange(since, now) for _ in range(6)), *chance.sample(whole, 3)})
        parts = [due(made, a, b) for a, b in pairwise(cuts)]
        assert tuple(at for part in parts for at in part) == whole
    assert due(made, since, now, 5) == whole[:5]
    assert due(made, now, since) == ()


@pytest.mark.parametrize(
    "zone", ["Pacific/Apia", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Gaza", "America/Havana"]
)
def test_instants_only_grow(zone: str) -> None:
    """Also over a day that did not exist, and over years of changes, no instant comes twice or goes back."""
    start = datetime(2011, 12, 25, tzinfo=UTC)
    for pattern in ("30 0 * * *", "0 */6 * * *", "15 0-3 * * *"):
        found = [at for at, _ in zip(times(cron(pattern, zone), ms(start)), range(800), strict=False)]
        assert found == sorted(set(found))
