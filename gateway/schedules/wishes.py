"""What people write behind `/cron add` and `/cron edit`, read into a plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from adapters.contract import Place
from gateway.schedules import calendar
from gateway.schedules.calendar import Calendar, Impossible, Kind
from gateway.schedules.schedule import NAME_LENGTH, Announce, Misfire, Overlap, Plan, Unattended

PROMPT_BYTES = 32_768
OPTIONS = (
    "tz", "name", "in", "misfire", "catch_up", "overlap", "jitter", "timeout", "start", "end", "announce",
    "unattended", "deadline", "agent", "model", "workspace", "tools", "prompt",
)  # fmt: skip
"""Every option, in the order in which they are documented."""

_CHOICES: Mapping[str, type[StrEnum]] = {
    "misfire": Misfire,
    "overlap": Overlap,
    "announce": Announce,
    "unattended": Unattended,
}
_DURATIONS = {"jitter": (0, 3600), "timeout": (60, 7 * 86_400), "deadline": (60, 30 * 86_400)}
_QUOTES = {'"': '"', "“": "”", "„": "“", "«": "»", "`": "`", "'": "'", "‘": "’"}
_TARGET = re.compile(r"here|#[^\s#]+|<#[^>\s]+>|-?\d{2,}(/[\d.]+)?|[CDG][A-Z0-9]{7,}(/[\d.]+)?|[a-z_]+:[^\s:]+")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_PERIOD = re.compile(
    r"(\d+)\s*(s|m|h|d|w|secs?|seconds?|mins?|minutes?|hours?|hrs?|days?|weeks?)(?![a-z])", re.IGNORECASE
)
_FIELD = re.compile(r"[\d*][\d*,/\-L#W]*|[A-Z]{3}(?:[-,/][A-Z0-9,/\-]+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A time as it was written: a cron pattern, a number of seconds, or a local time."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was written; None and absent options: as it is, or as it usually is."""

    when: When | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What holds where nothing is said."""

    zone: str
    target: Place
    workspace: str
    now_ms: int


def read(text: str) -> Wish:
    """`"0 9 * * 1-5" tz=Europe/Berlin in #news Write a summary`: a time, options, and the prompt behind them.

    Impossible: what cannot be read, in a sentence with an example.
    """
    when, rest = _when(text.strip())
    options: dict[str, str] = {}
    while True:
        found = _option(rest) or _target(rest)
        if found is None:
            break
        name, value, rest = found
        if name in options:
            raise Impossible(f"{name} is given twice")
        options[name] = value
        if name == "prompt":
            break
    prompt = options.pop("prompt", rest).strip() or None
    if prompt is not None and len(prompt.encode()) > PROMPT_BYTES:
        raise Impossible(f"the prompt is longer than {PROMPT_BYTES // 1024} KB")
    return Wish(when=when, options=options, prompt=prompt)


def _when(text: str) -> tuple[When | None, str]:
    word, _, rest = text.partition(" ")
    if text[:1] in _QUOTES:
        end = text.find(_QUOTES[text[0]], 1)
        quoted = text[1:end] if end > 0 else ""
        if len(quoted.split()) == 5 or quoted.startswith("@"):
            return When(kind=Kind.CRON, text=quoted), text[end + 1 :].strip()
        raise Impossible('write the time in quotation marks, like "0 9 * * 1-5", and the prompt behind it')
    if word.startswith("@"):
        return When(kind=Kind.CRON, text=word), rest.strip()
    if word.lower() == "every":
        seconds, rest = _period(rest)
        return When(kind=Kind.INTERVAL, text=str(seconds)), rest
    if word.lower() == "at":
        return _at(rest.strip())
    fields = text.split(maxsplit=5)
    if len(fields) >= 5 and fields[0][0] in "*0123456789" and all(_FIELD.fullmatch(one) for one in fields[:5]):
        return When(kind=Kind.CRON, text=" ".join(fields[:5])), fields[5] if len(fields) > 5 else ""
    return None, text


def _at(text: str) -> tuple[When, str]:
    found = re.match(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)(?=\s|$)", text)
    if found is None:
        raise Impossible("write the time like at 2026-12-24T18:00")
    return When(kind=Kind.ONCE, text=f"{found[1]}T{found[2]}"), text[found.end() :].strip()


def _period(text: str) -> tuple[int, str]:
    single = re.match(r"(minute|hour|day|week)(?=\s|$)", text.strip(), re.IGNORECASE)
    if single is not None:
        return _UNITS[single[1][0].lower()], text.strip()[single.end() :].strip()
    seconds, rest = 0, text.strip()
    while (found := _PERIOD.match(rest)) is not None:
        seconds += int(found[1]) * _UNITS[found[2][0].lower()]
        rest = rest[found.end() :].strip()
    if seconds == 0:
        raise Impossible('write the period like every 2h or every 1d12h; for days of the week, like "0 9 * * 1-5"')
    return seconds, rest


def seconds_of(text: str) -> int:
    """A duration like `90s`, `15m` or `1h30m` in seconds. Impossible: it is none."""
    if text.strip() == "0":
        return 0
    seconds, rest = _period(text)
    if rest:
        raise Impossible(f"{text!r} is no duration; write one like 15m or 1h30m")
    return seconds


def _option(text: str) -> tuple[str, str, str] | None:
    found = re.match(r"([a-z_]+)=", text)
    if found is None:
        return None
    name, rest = found[1], text[found.end() :]
    if name not in OPTIONS:
        raise Impossible(f"there is no option {name}=; there are {', '.join(OPTIONS)}")
    if name == "prompt":
        return name, rest, ""
    if rest[:1] in _QUOTES and (end := rest.find(_QUOTES[rest[0]], 1)) > 0:
        return name, rest[1:end], rest[end + 1 :].strip()
    value, *behind = rest.split(maxsplit=1) if rest[:1].strip() else ["", rest]
    return name, value, behind[0] if behind else ""


def _target(text: str) -> tuple[str, str, str] | None:
    words = text.split(maxsplit=2)
    if len(words) < 2 or words[0].lower() != "in" or not _TARGET.fullmatch(words[1]):
        return None
    return "in", words[1], words[2] if len(words) > 2 else ""


# ------------------------------------------------------------------------------------------------------------- a plan


def new_plan(wish: Wish, usual: Usual, target: Place | None) -> Plan:
    """The plan of a new schedule. Impossible: something is missing, or cannot be."""
    if wish.when is None:
        raise Impossible('say when: "0 9 * * 1-5", every 2h, or at 2026-12-24T18:00; then what is to be done')
    if wish.prompt is None:
        raise Impossible("say what is to be done, behind the time")
    made = _calendar(wish.when, wish.options.get("tz") or usual.zone, usual.now_ms)
    plan = Plan(
        name=name_of(wish.options.get("name") or wish.prompt),
        calendar=made,
        prompt=wish.prompt,
        target=target or usual.target,
        workspace=usual.workspace,
    )
    return _checked(_with_options(plan, wish.options), usual.now_ms)


def changed_plan(plan: Plan, wish: Wish, target: Place | None, now_ms: int) -> Plan:
    """The plan with what was wished changed. A calendar that is changed begins anew, now."""
    changed = plan
    zone = wish.options.get("tz") or plan.calendar.zone
    if wish.when is not None:
        bounds = {"starts_at_ms": plan.calendar.starts_at_ms, "ends_at_ms": plan.calendar.ends_at_ms}
        changed = replace(changed, calendar=replace(_calendar(wish.when, zone, now_ms), **bounds))
    elif zone != plan.calendar.zone:
        changed = replace(changed, calendar=_moved(plan.calendar, zone))
    if "name" in wish.options:
        changed = replace(changed, name=name_of(wish.options["name"]))
    if wish.prompt is not None:
        changed = replace(changed, prompt=wish.prompt)
    if target is not None:
        changed = replace(changed, target=target)
    changed = _with_options(changed, wish.options)
    if changed == plan:
        raise Impossible("that changes nothing; name what is to be changed, like overlap=allow or prompt=…")
    return changed if changed.calendar == plan.calendar else _checked(changed, now_ms)


def name_of(text: str) -> str:
    """A name of one line that fits a label."""
    printable = "".join(one if one.isprintable() else " " for one in text)
    name = " ".join(printable.split())
    if not name:
        raise Impossible("the name is empty")
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1].rstrip()}…"


def _calendar(when: When, zone: str, now_ms: int) -> Calendar:
    match when.kind:
        case Kind.CRON:
            return calendar.cron(when.text, zone)
        case Kind.INTERVAL:
            return calendar.interval(int(when.text), zone, now_ms)
        case Kind.ONCE:
            return calendar.once(_local(when.text), zone)


def _moved(made: Calendar, zone: str) -> Calendar:
    """The same wall clock in another zone."""
    if made.kind is Kind.ONCE:
        return calendar.once(datetime.fromisoformat(made.expression).replace(tzinfo=None), zone)
    return replace(made, zone=calendar.checked_zone(zone))


def _checked(plan: Plan, now_ms: int) -> Plan:
    if calendar.next_after(plan.calendar, now_ms) is None:
        raise Impossible("it would never be due: its time is over, or outside of start and end")
    return plan


def _with_options(plan: Plan, options: Mapping[str, str]) -> Plan:
    changes: dict[str, object] = {}
    for name, value in options.items():
        match name:
            case "misfire" | "overlap" | "announce" | "unattended":
                changes[name] = _choice(name, value, _CHOICES[name])
            case "jitter" | "timeout":
                changes[f"{name}_seconds"] = _bounded(name, value)
            case "deadline":
                changes["approval_seconds"] = _bounded(name, value)
            case "agent" | "model":
                changes[name] = value or None
            case "workspace":
                changes[name] = value
            case "tools":
                changes[name] = _names(value)
            case "catch_up":
                changes["catch_up_runs"] = _count(value)
            case _:
                pass
    return replace(plan, calendar=_with_bounds(plan.calendar, options), **changes)  # type: ignore[arg-type]


def _with_bounds(made: Calendar, options: Mapping[str, str]) -> Calendar:
    for name, column in (("start", "starts_at_ms"), ("end", "ends_at_ms")):
        if name in options:
            at_ms = _instant(options[name], made.zone) if options[name] else None
            made = replace(made, **{column: at_ms})
    return made


def _instant(text: str, zone: str) -> int:
    whole = f"{text}T00:00" if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) else text
    at_ms = calendar.next_after(calendar.once(_local(whole), zone), -1)
    assert at_ms is not None, "every instant comes after the beginning"
    return at_ms


def _local(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise Impossible(f"{text!r} is no time; write one like 2026-12-24T18:00") from error


Choice = TypeVar("Choice", bound=StrEnum)


def _choice(name: str, value: str, of: type[Choice]) -> Choice:
    try:
        return of(value)
    except ValueError as error:
        raise Impossible(f"{name}={value}: it is one of {', '.join(of)}") from error


def _bounded(name: str, value: str) -> int:
    low, high = _DURATIONS[name]
    seconds = seconds_of(value)
    if not low <= seconds <= high:
        raise Impossible(f"{name} is from {calendar.duration(low)} to {calendar.duration(high)} long")
    return seconds


def _count(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 100:
        raise Impossible("catch_up is a number of runs, from 1 to 100")
    return int(value)


def _names(value: str) -> tuple[str, ...] | None:
    """`all` takes the cut back; `none` leaves no tool."""
    if value == "all":
        return None
    return () if value == "none" else tuple(dict.fromkeys(one for one in value.split(",") if one))


def unknown_names(plan: Plan, *, workspaces: Sequence[str], agents: Sequence[str], models: Sequence[str]) -> str | None:
    """What the plan names that is not configured, in a sentence."""
    for what, name, known in (
        ("workspace", plan.workspace, workspaces),
        ("agent", plan.agent, agents),
        ("model", plan.model, models),
    ):
        if name is not None and name not in known:
            return f"there is no {what} {name!r}; there are: {', '.join(known) or 'none'}"
    return None
