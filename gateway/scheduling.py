"""`/cron`: what is wished, whether it may be, and how schedules and runs are told. Reading them changes nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from adapters.contract import Place
from gateway.access import Right
from gateway.handling import Desk, Item
from gateway.ledger.audit import Subject
from gateway.ledger.database import Rows
from gateway.places import conversation
from gateway.schedules import ledger
from gateway.schedules.calendar import Impossible, instant_words, next_after, next_words, words
from gateway.schedules.decisions import claim
from gateway.schedules.ledger import Open
from gateway.schedules.schedule import Overlap, Plan, Run, Schedule, Shown, State
from gateway.schedules.wishes import Usual, changed_plan, new_plan, read, unknown_names
from gateway.strings import say
from runtime.protocol.context import JsonValue
from runtime.store.writer import Statement

TELLING = frozenset({"list", "show", "history"})
CHANGING = frozenset({"add", "edit", "pause", "resume", "run", "remove"})

SHOWN_RUNS = 10
SHOWN_PROMPT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """It is settled with words."""

    text: str
    error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be committed, and by which the words are found afterwards."""

    statements: Sequence[Statement]
    detail: dict[str, JsonValue]


Step: TypeAlias = Told | Change


async def step(desk: Desk, item: Item, rest: str) -> Step:
    """What `/cron rest` comes to; nothing is written yet."""
    word, _, behind = rest.partition(" ")
    act = word.lower() or "list"
    if act not in TELLING | CHANGING:
        return Told(text=say("cron.usage"), error=True)
    if act in CHANGING and Right.APPROVE not in item.rights:
        return Told(text=say("command.not_allowed", command=f"cron {act}"), error=True)
    try:
        if act == "list":
            return Told(text=await _list(desk, item))
        if act == "add":
            return await _add(desk, item, behind)
        number, _, more = behind.strip().partition(" ")
        schedule = await _found(desk, item, number)
        if schedule is None:
            return Told(text=say("cron.unknown", id=number or "?"), error=True)
        return await _with(desk, item, act, schedule, more.strip())
    except Impossible as error:
        return Told(text=say("cron.refused", reason=str(error)), error=True)


async def _with(desk: Desk, item: Item, act: str, schedule: Schedule, more: str) -> Step:
    match act:
        case "show":
            return Told(text="\n".join(await show_lines(desk, schedule)))
        case "history":
            count = min(int(more), 50) if more.isdecimal() and int(more) > 0 else SHOWN_RUNS
            runs = await ledger.history(desk.database, schedule.id, count)
            lines = [run_line(run, desk.zone()) for run in runs] or [say("cron.no_runs")]
            return Told(text="\n".join([say("cron.history", name=schedule.plan.origin, id=schedule.id), *lines]))
        case "edit":
            return await _edit(desk, item, schedule, more)
        case "run":
            return await _run(desk, item, schedule)
        case _:
            return _state(desk, item, act, schedule)


async def _found(desk: Desk, item: Item, number: str) -> Schedule | None:
    digits = number.removeprefix("#")
    schedule = await ledger.by_id(desk.database, int(digits)) if digits.isdecimal() and len(digits) < 10 else None
    return schedule if schedule is not None and _may_see(item, schedule) else None


def _may_see(item: Item, schedule: Schedule) -> bool:
    """Who may decide sees all; others see their own, and those that speak in this chat."""
    target = schedule.plan.target
    here = (target.platform, target.account, target.chat) == (item.place.platform, item.place.account, item.place.chat)
    return Right.APPROVE in item.rights or here or schedule.created_by == item.principal


# ------------------------------------------------------------------------------------------------------------ changes


async def _add(desk: Desk, item: Item, text: str) -> Step:
    now_ms = desk.clock.now_ms()
    wish = read(text)
    target = await target_of(desk.database, item.place, wish.options.get("in"))
    workspace = desk.places.binding(target or item.place).workspace.id
    usual = Usual(zone=desk.zone(), target=item.place, workspace=workspace, now_ms=now_ms)
    plan = new_plan(wish, usual, target)
    _check_names(desk, plan)
    next_ms = next_after(plan.calendar, now_ms)
    made = ledger.create(plan, key=item.source, by=item.principal, now_ms=now_ms, next_due_ms=next_ms)
    return Change(statements=[made, _audit(desk, item, "schedule_created", plan)], detail={"act": "add"})


async def _edit(desk: Desk, item: Item, schedule: Schedule, text: str) -> Step:
    now_ms = desk.clock.now_ms()
    wish = read(text)
    plan = changed_plan(schedule.plan, wish, await target_of(desk.database, item.place, wish.options.get("in")), now_ms)
    _check_names(desk, plan)
    open_rows = await ledger.open_rows(desk.database, [schedule.id])
    statements = edited(schedule, plan, open_rows.get(schedule.id, Open()), now_ms)
    return Change(
        statements=[*statements, _audit(desk, item, "schedule_edited", plan, schedule.id)],
        detail={"act": "edit", "id": schedule.id},
    )


def edited(schedule: Schedule, plan: Plan, open_rows: Open, now_ms: int) -> list[Statement]:
    """The statements of an edit. What was due before it under the old calendar keeps its rows; a new one begins now."""
    if plan.calendar == schedule.plan.calendar or schedule.state is not State.ACTIVE:
        same = plan.calendar == schedule.plan.calendar
        until_ms = schedule.accounted_until_ms if same else max(schedule.accounted_until_ms, now_ms)
        next_ms = schedule.next_due_ms if same else next_after(plan.calendar, until_ms)
        return [ledger.change_plan(schedule, plan, now_ms, accounted_until_ms=until_ms, next_due_ms=next_ms)]
    due = claim(schedule, now_ms, open_rows)
    until_ms = max(due.accounted_until_ms, now_ms)
    next_ms = next_after(plan.calendar, until_ms)
    change = ledger.change_plan(schedule, plan, now_ms, accounted_until_ms=until_ms, next_due_ms=next_ms)
    return [change, *ledger.rows_of(schedule.id, due, now_ms)]


async def _run(desk: Desk, item: Item, schedule: Schedule) -> Step:
    now_ms = desk.clock.now_ms()
    open_rows = (await ledger.open_rows(desk.database, [schedule.id])).get(schedule.id, Open())
    if schedule.plan.overlap is Overlap.SKIP and open_rows != Open():
        return Told(text=say("cron.still_running", name=schedule.plan.origin), error=True)
    at_ms = await free_instant(desk.database, schedule.id, now_ms)
    return Change(
        statements=[
            ledger.run_by_hand(schedule.id, at_ms),
            _audit(desk, item, "schedule_run_by_hand", schedule.plan, schedule.id),
        ],
        detail={"act": "run", "id": schedule.id, "due_at_ms": at_ms},
    )


async def free_instant(database: Rows, schedule_id: int, now_ms: int) -> int:
    """The instant as whose run one by hand is kept: now, or soon after where a row has it."""
    while await ledger.run_at(database, schedule_id, now_ms) is not None:
        now_ms += 1
    return now_ms


_PAST = {"pause": "paused", "resume": "resumed", "remove": "removed"}


def _state(desk: Desk, item: Item, act: str, schedule: Schedule) -> Step:
    now_ms = desk.clock.now_ms()
    statements = moved(act, schedule, now_ms)
    if statements is None:
        return Told(text=say("cron.is_already", id=schedule.id, state=say(f"cron.state.{schedule.state}")), error=True)
    audit = _audit(desk, item, f"schedule_{_PAST[act]}", schedule.plan, schedule.id)
    return Change(statements=[*statements, audit], detail={"act": act, "id": schedule.id})


def moved(act: str, schedule: Schedule, now_ms: int) -> list[Statement] | None:
    """The statements that pause, resume or remove a schedule; None if it is so already. Impossible: it is over."""
    match act:
        case "pause":
            active = schedule.state is State.ACTIVE
            return ledger.change_state(schedule, State.PAUSED, "paused", now_ms) if active else None
        case "resume":
            if schedule.state is State.ACTIVE:
                return None
            next_ms = next_after(schedule.plan.calendar, max(now_ms, schedule.accounted_until_ms))
            if next_ms is None:
                raise Impossible("its time is over; give it another one with /cron edit")
            return [ledger.resume(schedule, now_ms, next_ms)]
        case _:
            return ledger.change_state(schedule, State.REMOVED, "removed", now_ms)


def _check_names(desk: Desk, plan: Plan) -> None:
    unknown = unknown_names(
        plan,
        workspaces=[one.id for one in desk.places.workspaces],
        agents=desk.agents(),
        models=desk.routes(),
    )
    if unknown is not None:
        raise Impossible(unknown)


def _audit(desk: Desk, item: Item, kind: str, plan: Plan, schedule_id: int | None = None) -> Statement:
    detail: dict[str, JsonValue] = {
        "schedule": schedule_id,
        "when": words(plan.calendar),
        "prompt": plan.prompt,
        "target": [plan.target.platform, plan.target.chat, plan.target.thread],
    }
    return desk.audit(item, kind, Subject(place=item.place, origin_label=plan.origin), detail)


async def done(desk: Desk, item: Item, detail: dict[str, JsonValue]) -> str:
    """The words once a change is committed; the runner is told of it."""
    desk.schedules_changed()
    act = str(detail["act"])
    if act == "add":
        schedule = await ledger.by_key(desk.database, item.source)
    else:
        schedule = await ledger.by_id(desk.database, int(str(detail["id"])))
    if schedule is None:
        return say("cron.removed", id=detail.get("id", "?"))
    match act:
        case "add" | "edit":
            return "\n".join([say(f"cron.{act}", id=schedule.id), *await show_lines(desk, schedule)])
        case "run":
            return say("cron.run", name=schedule.plan.origin, key=f"{schedule.id}:{detail['due_at_ms']}")
        case _:
            return say("cron.now", name=schedule.plan.origin, id=schedule.id, state=say(f"cron.state.{schedule.state}"))


# ------------------------------------------------------------------------------------------------------------ targets

_CHAT = re.compile(r"(?:([a-z_]+):)?<?#?([^/|>]+)(?:\|[^>]*)?>?(?:/(.+))?")


async def target_of(database: Rows, here: Place, text: str | None) -> Place | None:
    """The place that `in …` names. Impossible: nobody we may talk to was ever heard there, or it takes nothing."""
    if text is None or text == "here":
        return None if text is None else conversation(here)
    found = _CHAT.fullmatch(text)
    if found is None:
        raise Impossible(f"{text!r} is no chat; write #name, its id, or id/thread")
    platform, chat, thread = found[1] or here.platform, found[2], found[3]
    account = here.account if platform == here.platform else await ledger.account_on(database, platform)
    if account is None:
        raise Impossible(say("cron.chat_unknown", chat=text))
    known = await ledger.known_chats(database, platform, account)
    named = [one for one, title in known.items() if one == chat or (title or "").casefold() == chat.casefold()]
    if len(named) != 1:
        key = "cron.chat_ambiguous" if named else "cron.chat_unknown"
        raise Impossible(say(key, chat=text))
    place = Place(platform=platform, account=account, chat=named[0], thread=thread)
    if await ledger.is_dead(database, place):
        raise Impossible(say("cron.chat_dead", chat=text))
    return place


# -------------------------------------------------------------------------------------------------------------- lines


async def _list(desk: Desk, item: Item) -> str:
    found = [one for one in await ledger.every(desk.database) if _may_see(item, one)]
    return "\n".join(schedule_line(one, desk.zone()) for one in found) or say("cron.none")


def schedule_line(schedule: Schedule, zone: str) -> str:
    """`#3 cron · Morning report: At 09:00 … · next … · Notes`."""
    plan = schedule.plan
    parts = [f"#{schedule.id} {plan.origin}: {words(plan.calendar)}", state_words(schedule, zone), plan.workspace]
    return " · ".join(parts)


def state_words(schedule: Schedule, zone: str) -> str:
    """When it is due next, or why it is not."""
    if schedule.state is State.ACTIVE and schedule.next_due_ms is not None:
        return say("cron.next", at=instant_words(schedule.next_due_ms, zone))
    reason = f" ({schedule.reason})" if schedule.reason and schedule.reason != schedule.state else ""
    return f"{say(f'cron.state.{schedule.state}')}{reason}"


async def show_lines(desk: Desk, schedule: Schedule) -> list[str]:
    """Everything about a schedule, with the next three runs in the reader's zone."""
    creator = await desk.name(schedule.created_by)
    return plan_lines(schedule, creator, desk.zone(), desk.clock.now_ms())


def plan_lines(schedule: Schedule, creator: str, zone: str, now_ms: int) -> list[str]:
    """The same, for whoever has the names."""
    plan = schedule.plan
    following = next_words(plan.calendar, max(now_ms, schedule.accounted_until_ms), zone)
    active = schedule.state is State.ACTIVE
    rules = f"misfire={plan.misfire} overlap={plan.overlap} announce={plan.announce} unattended={plan.unattended}"
    cut = {
        "agent": plan.agent,
        "model": plan.model,
        "tools": None if plan.tools is None else ", ".join(plan.tools) or "none",
    }
    return [
        f"{plan.origin} (#{schedule.id})",
        words(plan.calendar),
        say("cron.next_runs", runs="; ".join(following) or "-") if active else state_words(schedule, zone),
        say("cron.target", place=place_words(plan.target)),
        say("card.workspace", label=plan.workspace),
        rules,
        *(f"{name}: {value}" for name, value in cut.items() if value is not None),
        say("cron.created_by", who=creator),
        say("cron.prompt", prompt=_cut(plan.prompt)),
    ]


def place_words(place: Place) -> str:
    """A place as `in` takes it."""
    return f"{place.platform}:{place.chat}" + (f"/{place.thread}" if place.thread else "")


def _cut(prompt: str) -> str:
    if len(prompt) <= SHOWN_PROMPT:
        return prompt
    return f"{prompt[:SHOWN_PROMPT]}… (+{len(prompt) - SHOWN_PROMPT})"


def run_line(run: Run, zone: str) -> str:
    """`Fri 2027-01-15 09:00 CET · run 3 · succeeded · delivered`."""
    parts = [instant_words(run.due_at_ms, zone)]
    if run.covers_until_ms is not None:
        parts[0] += f" - {instant_words(run.covers_until_ms, zone)}"
    if run.number is not None:
        parts.append(say("cron.run_number", n=run.number))
    parts.append(f"{run.state}" + (f" ({run.reason})" if run.reason else ""))
    if run.shown is not Shown.NONE:
        parts.append(f"{run.shown}" + (f" ({run.shown_reason})" if run.shown_reason else ""))
    return " · ".join(parts)
