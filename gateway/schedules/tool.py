"""The agent's way to a schedule: its tool `schedule_task`, which a person has to approve each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from adapters.contract import Place
from gateway.ledger.database import Database
from gateway.places import Places, conversation
from gateway.schedules import ledger
from gateway.schedules.calendar import Impossible, Kind, next_after, next_words, words
from gateway.schedules.schedule import Announce, Plan
from gateway.schedules.wishes import Usual, When, Wish, new_plan, seconds_of
from runtime.clock import Clock
from runtime.errors import ToolError
from runtime.protocol.context import JsonValue, ToolCall
from runtime.tools.base import Tool, ToolContext

NAME = "schedule_task"

_TIMES = {"cron": Kind.CRON, "every": Kind.INTERVAL, "at": Kind.ONCE}
_ADDED = ("when", "next_runs")
_NOWHERE = Place(platform="-", account="-", chat="-")


_PARAMETERS: Any = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "What is to be done each time, complete in itself."},
        "cron": {"type": "string", "description": "Five crontab fields, like '0 9 * * 1-5'. 0 and 7 are Sunday."},
        "every": {"type": "string", "description": "Elapsed time between runs, like '2h' or '1d12h'."},
        "at": {"type": "string", "description": "Once: local time in ISO 8601, like '2026-12-24T18:00'."},
        "timezone": {"type": "string", "description": "IANA name, like 'Europe/Berlin'; usual if absent."},
        "name": {"type": "string", "description": "At most 40 characters."},
        "announce": {"type": "string", "enum": [one.value for one in Announce]},
    },
    "required": ["prompt"],
    "additionalProperties": False,
}


class ScheduleTask(Tool):
    """Makes a schedule in the place of the conversation, whatever the model says of places.

    What is asked for is the whole text with the time in words and the next three runs; they are worked out when the
    request is made and stay as they were shown. Made twice under one key, it is one schedule.
    """

    name = NAME
    description = (
        "Let something be done later, or again and again: the prompt is then given to an agent in a conversation of its"
        " own, and the result is posted here. Use it only if a person asked for that. Give exactly one of cron, every"
        " and at. A person has to approve it."
    )
    parameters = _PARAMETERS
    approval = "always"
    replay = "by_key"
    high_risk = True  # it lasts: nobody allows it for a whole session

    def __init__(
        self,
        places: Places,
        database: Database,
        *,
        clock: Clock,
        zone: Callable[[], str],
        made: Callable[[], None],
    ) -> None:
        self._places = places
        self._database = database
        self._clock = clock
        self._zone = zone
        self._made = made

    def validate(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The arguments with the time in words and the next three runs, worked out now; what the model says of those
        two is left out."""
        given = {name: value for name, value in call.arguments.items() if name not in _ADDED}
        checked = super().validate(replace(call, arguments=given))
        plan = self._plan(checked, _NOWHERE, "-")
        runs = next_words(plan.calendar, self._clock.now_ms(), plan.calendar.zone)
        return {**checked, "when": words(plan.calendar), "next_runs": list(runs)}

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Its time; the words are in the request."""
        return f"schedule, {next((f'{name} {arguments[name]}' for name in _TIMES if arguments.get(name)), '?')}"[:80]

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Store it, once."""
        session = await self._places.session(context.session_id)
        if session is None or context.principal is None or context.workspace is None:
            raise ToolError("there is no chat that a schedule could belong to")
        plan = self._plan(arguments, conversation(session.place), context.workspace.id)
        key = f"tool:{context.idempotency_key or context.call_id}"
        now_ms = self._clock.now_ms()
        made = ledger.create(
            plan, key=key, by=context.principal, now_ms=now_ms, next_due_ms=next_after(plan.calendar, now_ms)
        )
        await self._database.write([made])
        self._made()
        schedule = await ledger.by_key(self._database, key)
        assert schedule is not None, "it was stored"
        runs = "; ".join(next_words(plan.calendar, now_ms, plan.calendar.zone))
        return f"Made schedule #{schedule.id} ({plan.name}): {words(plan.calendar)}. Next: {runs}."

    def _plan(self, arguments: Mapping[str, Any], target: Place, workspace: str) -> Plan:
        given = [name for name in _TIMES if arguments.get(name)]
        if len(given) != 1:
            raise ToolError(f"{NAME}: give exactly one of cron, every and at")
        options = {"tz": "timezone", "name": "name", "announce": "announce"}
        try:
            text = str(arguments[given[0]])
            when = When(kind=_TIMES[given[0]], text=str(seconds_of(text)) if given[0] == "every" else text)
            wish = Wish(
                when=when,
                options={ours: str(arguments[name]) for ours, name in options.items() if arguments.get(name)},
                prompt=str(arguments["prompt"]).strip() or None,
            )
            usual = Usual(zone=self._zone(), target=target, workspace=workspace, now_ms=self._clock.now_ms())
            return new_plan(wish, usual, None)
        except Impossible as error:
            raise ToolError(f"{NAME}: {error}") from error
