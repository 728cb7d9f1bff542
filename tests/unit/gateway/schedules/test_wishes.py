"""What people write behind `/cron add` and `/cron edit`."""

from __future__ import annotations

import pytest

from adapters.contract import Place
from gateway.schedules import calendar, wishes
from gateway.schedules.calendar import Impossible, Kind
from gateway.schedules.schedule import Announce, Misfire, Overlap, Plan, Unattended
from gateway.schedules.wishes import Usual, When, Wish, changed_plan, new_plan, read
from tests.architecture.sources import ROOT

HERE = Place(platform="telegram", account="bot", chat="42")
ELSEWHERE = Place(platform="telegram", account="bot", chat="-100")
NOW = 1_800_000_000_000  # Friday 2027-01-15 08:00 UTC
USUAL = Usual(zone="Europe/Berlin", target=HERE, workspace="notes", now_ms=NOW)
NINE = When(kind=Kind.CRON, text="0 9 * * 1-5")

READ = [
    ('"0 9 * * 1-5" write a summary', Wish(when=NINE, prompt="write a summary")),
    ("“0 9 * * 1-5” write a summary", Wish(when=NINE, prompt="write a summary")),
    ("`0 9 * * 1-5` write a summary", Wish(when=NINE, prompt="write a summary")),
    ("0 9 * * 1-5 write a summary", Wish(when=NINE, prompt="write a summary")),
    ("@daily tidy up", Wish(when=When(kind=Kind.CRON, text="@daily"), prompt="tidy up")),
    ('"0 9 * * 1-5" tz=UTC in #news go', Wish(when=NINE, options={"tz": "UTC", "in": "#news"}, prompt="go")),
    ('"0 9 * * 1-5" in <#C0123> tz=UTC go', Wish(when=NINE, options={"in": "<#C0123>", "tz": "UTC"}, prompt="go")),
    ('"0 9 * * 1-5" in -100123/17 go', Wish(when=NINE, options={"in": "-100123/17"}, prompt="go")),
    ('"0 9 * * 1-5" in English, please', Wish(when=NINE, prompt="in English, please")),
    ("every 2h look", Wish(when=When(kind=Kind.INTERVAL, text="7200"), prompt="look")),
    ("every 1d 12h look", Wish(when=When(kind=Kind.INTERVAL, text="129600"), prompt="look")),
    ("every 90 minutes look", Wish(when=When(kind=Kind.INTERVAL, text="5400"), prompt="look")),
    ("every day look", Wish(when=When(kind=Kind.INTERVAL, text="86400"), prompt="look")),
    ("at 2027-12-24T18:00 sing", Wish(when=When(kind=Kind.ONCE, text="2027-12-24T18:00"), prompt="sing")),
    ("at 2027-12-24 18:00 sing", Wish(when=When(kind=Kind.ONCE, text="2027-12-24T18:00"), prompt="sing")),
    ("at 2027-12-24T18:00+01:00 sing", Wish(when=When(kind=Kind.ONCE, text="2027-12-24T18:00+01:00"), prompt="sing")),
    ('@daily name="A report" two\nlines',
     Wish(when=When(kind=Kind.CRON, text="@daily"), options={"name": "A report"}, prompt="two\nlines")),
    ("overlap=allow", Wish(options={"overlap": "allow"})),
    ("prompt=every day is a good day", Wish(prompt="every day is a good day")),
    ("/approve ap_1", Wish(prompt="/approve ap_1")),
    ("", Wish()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wish"), READ)
def test_what_is_read(text: str, wish: Wish) -> None:
    """The time, the options behind it, and the prompt as it was written."""
    assert read(text) == wish


BAD = [
    ('"0 9 * *" go', "quotation marks"), ('"0 9 * * 1 go', "quotation marks"), ("every monday go", "every 2h"),
    ("at noon go", "2026-12-24T18:00"), ("every 2h tz=UTC tz=UTC go", "twice"), ("every 2h speed=9 go", "no option"),
    (f"every 2h {'x' * 40_000}", "longer than 32 KB"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "named"), BAD)
def test_what_cannot_be_read(text: str, named: str) -> None:
    """The sentence says how it is written."""
    with pytest.raises(Impossible, match=named):
        read(text)


def plan(text: str) -> Plan:
    """A new plan from what was written."""
    return new_plan(read(text), USUAL, None)


def test_a_new_plan_has_what_is_usual() -> None:
    """Zone, target and workspace of the place; the name from the prompt; late once; no overlap; told always."""
    assert plan('"0 9 * * 1-5" Write a summary\nof the week') == Plan(
        name="Write a summary of the week",
        calendar=calendar.cron("0 9 * * 1-5", "Europe/Berlin"),
        prompt="Write a summary\nof the week",
        target=HERE,
        workspace="notes",
        misfire=Misfire.LATEST,
        overlap=Overlap.SKIP,
        announce=Announce.ALWAYS,
        unattended=Unattended.ASK,
    )
    assert plan('"0 9 * * *" ' + "word " * 40).name == "word word word word word word word word…"
    assert plan("every 2h go").calendar.anchor_ms == NOW
    assert plan("every 2h go").origin == "cron · go"


def test_every_option_counts() -> None:
    """Each changes its own field."""
    made = plan(
        "every 2h tz=UTC name=N misfire=all catch_up=3 overlap=queue_one jitter=5m timeout=10m start=2027-02-01 "
        "end=2027-03-01T12:00 announce=on_change unattended=deny deadline=2h agent=a model=m workspace=w "
        "tools=read_file,list_files go"
    )
    assert (made.name, made.misfire, made.catch_up_runs, made.overlap) == ("N", Misfire.ALL, 3, Overlap.QUEUE_ONE)
    assert (made.jitter_seconds, made.timeout_seconds, made.approval_seconds) == (300, 600, 7200)
    assert (made.announce, made.unattended) == (Announce.ON_CHANGE, Unattended.DENY)
    assert (made.agent, made.model, made.workspace) == ("a", "m", "w")
    assert made.tools == ("read_file", "list_files")
    assert made.calendar.zone == "UTC"
    assert made.calendar.starts_at_ms == NOW + (17 * 24 - 8) * 3_600_000
    assert made.calendar.ends_at_ms == NOW + (45 * 24 + 4) * 3_600_000
    documented = {name for name in wishes.OPTIONS if name not in {"in", "prompt"}}
    assert documented == {
        "tz", "name", "misfire", "catch_up", "overlap", "jitter", "timeout", "start", "end", "announce", "unattended",
        "deadline", "agent", "model", "workspace", "tools",
    }  # fmt: skip


def test_every_option_is_documented() -> None:
    """Each has its row."""
    documented = (ROOT / "docs" / "schedules.md").read_text()
    assert [name for name in wishes.OPTIONS if f"`{name}`" not in documented and f"`{name}=`" not in documented] == []


IMPOSSIBLE = [
    ("go", "say when"), ("every 2h", "what is to be done"), ("at 2020-01-01T00:00 go", "never be due"),
    ("every 2h end=2020-01-01 go", "never be due"), ("every 2h overlap=maybe go", "skip, queue_one, allow"),
    ("every 2h jitter=2h go", "jitter"), ("every 2h timeout=soon go", "every 2h"),
    ("every 2h catch_up=0 go", "catch_up"),
    ("every 10s go", "one minute"), ("every 2h tz=Mars go", "time zone"), ("every 2h start=today go", "no time"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "named"), IMPOSSIBLE)
def test_a_plan_that_cannot_be(text: str, named: str) -> None:
    """It is refused before anything is stored, with what is wrong."""
    with pytest.raises(Impossible, match=named):
        plan(text)


def changed(made: Plan, text: str, target: Place | None = None) -> Plan:
    """The plan after an edit."""
    return changed_plan(made, read(text), target, NOW)


def test_an_edit_changes_what_it_names_and_nothing_else() -> None:
    """Time, zone, words, target or an option; the rest stays, start and end too."""
    made = plan('"0 9 * * 1-5" end=2028-01-01 name=Report Write a summary')
    assert changed(made, "overlap=allow") == _with(made, overlap=Overlap.ALLOW)
    assert changed(made, "prompt=Write two") == _with(made, prompt="Write two")
    assert changed(made, "", ELSEWHERE) == _with(made, target=ELSEWHERE)
    other = changed(made, '"0 10 * * *"')
    assert (other.calendar.expression, other.calendar.ends_at_ms) == ("0 10 * * *", made.calendar.ends_at_ms)
    assert changed(made, "tz=UTC").calendar.expression == "0 9 * * 1-5"
    assert changed(made, "tz=UTC").calendar.zone == "UTC"
    single = plan("at 2027-12-24T18:00 sing")
    assert changed(single, "tz=UTC").calendar.expression == "2027-12-24T18:00:00+00:00"
    with pytest.raises(Impossible, match="changes nothing"):
        changed(made, "overlap=skip")
    with pytest.raises(Impossible, match="never be due"):
        changed(made, "end=2027-01-01")


def _with(made: Plan, **fields: object) -> Plan:
    from dataclasses import replace

    return replace(made, **fields)  # type: ignore[arg-type]


def test_names_that_are_not_configured_are_told() -> None:
    """Workspace, agent and model, with those that there are."""
    made = plan("every 2h agent=nobody go")
    known = {"workspaces": ["notes"], "agents": ["helper"], "models": ["demo"]}
    assert wishes.unknown_names(made, **known) == "there is no agent 'nobody'; there are: helper"
    assert wishes.unknown_names(plan("every 2h go"), **known) is None
