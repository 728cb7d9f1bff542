"""Commands, as text or as the platform's own: one table from name to right and handler.

None of them waits for a turn, so all of them work while one is stuck. What a command acts on (session, turn, request)
is fixed before it acts: done again after a crash, it cannot hit anything that came later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from adapters.contract import Inbound, InboundKind
from gateway import looping, scheduling, status
from gateway.access import Right
from gateway.acts import interrupt, last_message, requesters, resolve, result_words, retire
from gateway.gathering import is_command_text
from gateway.handling import Desk, Item, Routed, Settled
from gateway.ledger import deliveries, surfaces
from gateway.ledger.audit import Subject
from gateway.ledger.inbound import StoredRoute
from gateway.ledger.places import PlaceSession
from gateway.messages import (
    begin_loop,
    is_meant_for_us,
    mark_or_say,
    message_of,
    refused,
    route_to_session,
    submit_message,
    too_fast,
)
from gateway.places import author_of
from gateway.strings import say
from runtime.errors import ConfigurationError
from runtime.protocol import ops
from runtime.protocol.approvals import Approve, Decision, Deny, Grant, PendingApproval
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.session import Delivery
from runtime.store.writer import Statement

SHORTEST_ID = 4
"""Characters of an id that have to be typed at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A command as it was given. `name` has no slash and is in small letters; `rest` is everything behind it."""

    name: str
    rest: str = ""

    @property
    def text(self) -> str:
        """As a person would have typed it."""
        return f"/{self.name} {self.rest}".strip()


def parse(inbound: Inbound) -> Parsed | None:
    """The command in what somebody said, or None. Forwarded words are data, whatever they look like."""
    if inbound.forwarded:
        return None
    if inbound.kind is InboundKind.COMMAND and inbound.command:
        return Parsed(name=inbound.command.removeprefix("/").lower(), rest=inbound.arguments.strip())
    if inbound.kind is not InboundKind.MESSAGE or not is_command_text(inbound.text):
        return None
    word = inbound.text.split(maxsplit=1)[0]
    if "@" in word:  # our own name was taken out by the adapter: this one is somebody else's
        return None
    return Parsed(name=word[1:].lower(), rest=inbound.text[len(word) :].strip())


Step: TypeAlias = "Callable[[Commands, Item, str], Awaitable[Routed | Settled]]"
Act: TypeAlias = "Callable[[Commands, Item, str, StoredRoute], Awaitable[Settled]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`usage` is what /help shows; '' keeps the command out of it. `act` is None where `step` settles everything.

    `slow`: it takes as long as a model does, so nothing in its place waits for it. `acting`: the right that `act` asks
    for, where `step` may also only tell something.
    """

    right: Right
    usage: str
    step: Step
    act: Act | None = None
    slow: bool = False
    acting: Right | None = None


class Commands:
    """Handles commands."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def route(self, item: Item) -> Routed | Settled:
        """Decide what the command acts on, or settle it at once. Unknown ones are text, unless commands are strict."""
        parsed = _parsed(item)
        try:
            if not await is_meant_for_us(self._desk, item.inbound):
                return Settled(outcome="not_for_us", forget=True)
            command = TABLE.get(parsed.name)
            if command is None:
                return await self._unknown(item, parsed)
            if command.right not in item.rights:
                return self._not_allowed(item, parsed.name)
            return await command.step(self, item, parsed.rest)
        except ConfigurationError as error:
            return refused(self._desk, item, str(error))

    async def perform(self, item: Item, route: StoredRoute) -> Settled:
        """Act; the route says on what."""
        parsed = _parsed(item)
        command = TABLE.get(parsed.name)
        if command is None or command.act is None:
            return await self._submit_text(item, route, parsed.text, None)
        # It was routed with the rights of then; a restart or a reload may lie between.
        if not {command.right, command.acting or command.right} <= item.rights:
            return self._not_allowed(item, parsed.name)
        return await command.act(self, item, parsed.rest, route)

    async def _unknown(self, item: Item, parsed: Parsed) -> Routed | Settled:
        if self._desk.strict_commands():
            return self._says(item, "unknown_command", say("command.unknown", command=parsed.name), error=True)
        return await route_to_session(self._desk, item)

    # ---------------------------------------------------------------------------------------- what is said at once

    async def help(self, item: Item, rest: str) -> Settled:
        """List the commands that this person may use."""
        lines = [
            f"{command.usage} - {say(f'help.{name}')}"
            for name, command in TABLE.items()
            if command.usage and command.right in item.rights
        ]
        return self._says(item, "help", "\n".join([say("help.head"), *lines, "", say("help.marks")]))

    async def whoami(self, item: Item, rest: str) -> Settled:
        """Who the person is to us, which rights that gives, and how the place is called in a binding."""
        place = item.place
        text = say(
            "whoami.text",
            principal=item.principal,
            rights=", ".join(sorted(item.rights)),
            platform=place.platform,
            chat=place.chat,
            thread=place.thread or "-",
        )
        return self._says(item, "whoami", text)

    async def status(self, item: Item, rest: str) -> Settled:
        """What the session of this place is doing."""
        desk = self._desk
        session, checkpoint = await self._session(item)
        if session is None:
            lines = status.no_session_lines(item.place, desk.places.binding(item.inbound.place).workspace)
        else:
            lines = status.label_lines(session, desk.places.workspaces)
        lines += status.activity_lines(checkpoint)
        lines += [status.request_line(approval) for _, approval in await self._open_requests(item)]
        lines += map(status.unknown_line, await deliveries.unknown_in(desk.database, item.place))
        if checkpoint is not None:
            lines += [say("status.model", route=checkpoint.model_route or "-"), *status.usage_lines(checkpoint)]
        if desk.access.policy.dangerously_open:
            lines.append(say("status.open"))
        return self._says(item, "status", "\n".join(lines))

    async def usage(self, item: Item, rest: str) -> Settled:
        """What the session has used so far."""
        _, checkpoint = await self._session(item)
        lines = status.usage_lines(checkpoint) if checkpoint else [say("status.no_session")]
        return self._says(item, "usage", "\n".join([*lines, *await self._desk.spent(item.inbound)]))

    # ---------------------------------------------------------------------------------------- words with a wish

    async def queue(self, item: Item, rest: str) -> Routed | Settled:
        """Let words wait for a turn of their own; without words, list what waits."""
        if rest:
            return too_fast(self._desk, item) or await route_to_session(self._desk, item)
        _, checkpoint = await self._session(item)
        return self._says(item, "queue", "\n".join(status.queue_lines(checkpoint)) or say("queue.empty"))

    async def queue_text(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Submit the words to the queue."""
        return await self._submit_text(item, route, rest, Delivery.QUEUE)

    async def steer(self, item: Item, rest: str) -> Routed | Settled:
        """Let words enter the turn that runs."""
        if rest:
            return too_fast(self._desk, item) or await route_to_session(self._desk, item)
        return self._says(item, "steer", say("steer.empty"), error=True)

    async def steer_text(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Submit the words as a steer."""
        return await self._submit_text(item, route, rest, Delivery.STEER)

    async def _submit_text(self, item: Item, route: StoredRoute, text: str, delivery: Delivery | None) -> Settled:
        size, limit = len(text.encode()), self._desk.message_bytes()
        if size > limit:
            return refused(self._desk, item, say("message.too_long", size=size, limit=limit))
        scope = self._desk.places.binding(item.inbound.place).scope
        return await submit_message(self._desk, item, route, message_of(item, text, scope, delivery))

    async def retry(self, item: Item, rest: str) -> Routed | Settled:
        """Ask once more what was asked last, if nothing runs."""
        session, checkpoint = await self._session(item)
        if session is None or last_message(checkpoint) is None:
            return self._says(item, "retry", say("retry.nothing"), error=True)
        if checkpoint is not None and not checkpoint.idle:
            return self._says(item, "retry", say("retry.running"), error=True)
        return Routed(session_id=session.session_id)

    async def retry_last(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Submit it once more."""
        return await ask_again(self._desk, item, route)

    # ---------------------------------------------------------------------------------------- loops

    async def loop(self, item: Item, rest: str) -> Routed | Settled:
        """Repeat a prompt, stop that, or say how it stands."""
        wish = looping.wish_of(rest)
        match wish:
            case looping.Unclear(words=words):
                return self._says(item, "loop", words, error=True)
            case looping.Tell():
                _, checkpoint = await self._session(item)
                lines = looping.loop_lines(checkpoint) or [say("loop.none"), say("loop.usage")]
                return self._says(item, "loop", "\n".join(lines))
            case looping.End(now=now):
                return await self._loop_to_stop(item, now)
            case looping.Begin():
                if (refusal := too_fast(self._desk, item)) is not None:
                    return refusal
                routed = await route_to_session(self._desk, item)
                return replace(routed, detail={**routed.detail, "act": "begin"})
            case _:
                assert_never(wish)

    async def _loop_to_stop(self, item: Item, now: bool) -> Routed | Settled:
        if Right.STOP not in item.rights:
            return self._not_allowed(item, "loop stop")
        session, checkpoint = await self._session(item)
        loop = looping.running(checkpoint)
        if session is None or loop is None:
            return self._says(item, "not_running", say("loop.none"))
        return Routed(session_id=session.session_id, detail={"act": "end", "loop_id": loop.loop_id, "now": now})

    async def loop_act(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Start the loop, or stop the one that was found."""
        assert route.session_id is not None
        if route.detail["act"] == "end":
            loop_id, now = str(route.detail["loop_id"]), bool(route.detail["now"])
            outcome, words = await looping.stop_loop(
                self._desk, route.session_id, loop_id, item.principal, route.submission_id, now=now
            )
            return self._says(item, outcome, words)
        wish = looping.wish_of(rest)
        assert isinstance(wish, looping.Begin), "it was read the same way when it was routed"
        size, limit = len(wish.prompt.encode()), self._desk.message_bytes()
        if size > limit:
            return refused(self._desk, item, say("message.too_long", size=size, limit=limit))
        return await begin_loop(self._desk, item, route, wish)

    # ---------------------------------------------------------------------------------------- schedules

    async def cron(self, item: Item, rest: str) -> Routed | Settled:
        """List and show schedules, or change them, which needs an approver."""
        wish = await scheduling.step(self._desk, item, rest)
        match wish:
            case scheduling.Told(text=text, error=error):
                return self._says(item, "cron", text, error=error)
            case scheduling.Change(statements=statements, detail=detail):
                return Routed(session_id=None, detail=detail, statements=statements)
            case _:
                assert_never(wish)

    async def cron_done(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Say what the change came to; it was committed with the route."""
        return self._says(item, "cron", await scheduling.done(self._desk, item, dict(route.detail)))

    # ---------------------------------------------------------------------------------------- stop and new

    async def stop(self, item: Item, rest: str) -> Routed | Settled:
        """End the turn that runs now, and no later one."""
        session, checkpoint = await self._session(item)
        active = checkpoint.active_execution if checkpoint else None
        if session is None or active is None:
            return self._says(item, "not_running", say("stop.idle"))
        return Routed(session_id=session.session_id, detail={"turn_id": active.turn_id})

    async def stop_turn(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Interrupt the turn."""
        assert route.session_id is not None
        turn_id = str(route.detail["turn_id"])
        result = await interrupt(self._desk, route.session_id, turn_id, item.principal, route.submission_id)
        if result.status == "stopping":  # what came of it is told by its end, once
            return Settled(outcome=result.status, statements=mark_or_say(self._desk, item, "accepted", say("stop.now")))
        return self._says(item, result.status, say("stop.idle"))

    async def new(self, item: Item, rest: str) -> Routed | Settled:
        """Begin a new conversation here; the one before takes no more messages from this commit on."""
        return await self._renew(item, None)

    async def workspace(self, item: Item, rest: str) -> Routed | Settled:
        """Say which workspace is used; with an id, begin a new conversation in that one."""
        known = self._desk.places.workspaces
        if not rest:
            session, _ = await self._session(item)
            usual = self._desk.places.binding(item.inbound.place).workspace.title
            label = (session.context.workspace_label if session else None) or usual
            ids = ", ".join(one.id for one in known)
            return self._says(item, "workspace", say("workspace.here", label=label, ids=ids))
        if Right.ADMIN not in item.rights:
            return self._not_allowed(item, "workspace")
        if all(one.id != rest for one in known):
            return self._says(item, "workspace", say("workspace.unknown", name=rest), error=True)
        return await self._renew(item, rest)

    async def _renew(self, item: Item, workspace_id: str | None) -> Routed | Settled:
        desk = self._desk
        chosen = next((one for one in desk.places.workspaces if one.id == workspace_id), None)
        row = await desk.places.find(item.inbound)
        if row is None:
            begun = desk.places.begin(item.inbound, item.principal, chosen)
            return self._new_words(item, begun.context.workspace_label, begun.statements)
        begun = desk.places.begin_next(row, item.inbound, item.principal, chosen, item.submission_id)
        label = begun.context.workspace_label
        subject = Subject(place=item.place, session_id=row.session_id, workspace_label=label)
        audit = desk.audit(item, "session_renewed", subject, {"next": begun.session_id})
        return Routed(session_id=row.session_id, detail={"label": label}, statements=[*begun.statements, audit])

    async def end_old(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """End the old session's turn, approval and loop, and remove what waited in it."""
        assert route.session_id is not None
        ended = await retire(self._desk, route.session_id, item.principal, route.submission_id)
        return self._new_words(item, str(route.detail.get("label") or "-"), ended)

    def _new_words(self, item: Item, label: str | None, statements: Sequence[Statement]) -> Settled:
        words = self._desk.reply(item, say("new.done", label=label or "-"))
        return Settled(outcome="new", statements=[*statements, *words])

    # ---------------------------------------------------------------------------------------- approvals

    async def decide(self, item: Item, rest: str) -> Routed | Settled:
        """Find the request that is meant: by its id, or the only one that waits in this thread."""
        waiting = await self._open_requests(item)
        typed = rest.split(maxsplit=1)[0] if rest else ""
        chosen = [one for one in waiting if _names(typed, one[1].request_id)] if typed else waiting
        if not chosen:
            return self._says(item, "no_request", say("approve.unknown" if typed else "approve.none"), error=True)
        if len(chosen) > 1:
            lines = [say("approve.which"), *(status.request_line(approval) for _, approval in waiting)]
            return self._says(item, "which_request", "\n".join(lines), error=True)
        session, approval = chosen[0]
        if _parsed(item).name == "approve":
            objection = await self._not_to_approve(item, session, approval)
            if objection is not None:
                return objection
        return Routed(session_id=session.session_id, detail={"request_id": approval.request_id})

    async def _not_to_approve(self, item: Item, session: PlaceSession, approval: PendingApproval) -> Settled | None:
        """Nobody approves what was never shown, nor, under four eyes, what was asked for in his own name."""
        if not await surfaces.was_shown(self._desk.database, approval.request_id):
            return self._says(item, "not_shown", say("approve.not_shown"), error=True)
        asked = requesters(await self._desk.sessions.peek(session.session_id))
        if self._desk.places.binding(session.place).four_eyes and item.principal in asked:
            return self._says(item, "four_eyes", say("press.four_eyes"), error=True)
        return None

    async def approve_request(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Submit the approval."""
        return await self._resolve(item, route, Approve())

    async def deny_request(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Submit the denial; what follows the id is the reason."""
        return await self._resolve(item, route, Deny(rest.partition(" ")[2].strip()))

    async def _resolve(self, item: Item, route: StoredRoute, decision: Decision) -> Settled:
        assert route.session_id is not None
        request_id = str(route.detail["request_id"])
        result = await resolve(
            self._desk, route.session_id, request_id, decision, item.principal, route.submission_id
        )  # fmt: skip
        subject = Subject(place=item.place, session_id=route.session_id, request_id=request_id)
        audit = self._desk.audit(item, "typed", subject, {"wish": type(decision).__name__, "result": result.status})
        return Settled(
            outcome=result.status,
            statements=[audit, *self._desk.reply(item, await result_words(self._desk, result))],
        )

    async def _open_requests(self, item: Item) -> list[tuple[PlaceSession, PendingApproval]]:
        """Requests that wait in this thread, whoever they belong to; never those of another one."""
        found: list[tuple[PlaceSession, PendingApproval]] = []
        for session in await self._desk.places.sessions_here(item.inbound.place):
            checkpoint = await self._desk.sessions.peek(session.session_id)
            approval = checkpoint.pending_approval if checkpoint else None
            if approval is not None and approval.decision is None:
                found.append((session, approval))
        return found

    async def grants(self, item: Item, rest: str) -> Routed | Settled:
        """List what is allowed without asking in this session; `revoke` withdraws one."""
        session, _ = await self._session(item)
        alive = await self._living_grants(session)
        word, _, typed = rest.partition(" ")
        if word.lower() != "revoke":
            lines = [say("grants.head"), *map(status.grant_line, alive)] if alive else [say("grants.none")]
            return self._says(item, "grants", "\n".join(lines))
        if Right.APPROVE not in item.rights:
            return self._not_allowed(item, "grants revoke")
        chosen = [one for one in alive if _names(typed.strip(), one.id)]
        if session is None or len(chosen) != 1:
            return self._says(item, "grants", say("grants.unknown"), error=True)
        return Routed(session_id=session.session_id, detail={"grant_id": chosen[0].id})

    async def _living_grants(self, session: PlaceSession | None) -> list[Grant]:
        stored = await self._desk.grants.grants(session.session_id) if session else ()
        now = self._desk.clock.now_ms()
        return [one for one in stored if one.expires_at_ms > now and one.revoked_at_ms is None]

    async def revoke_grant(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Withdraw it."""
        assert route.session_id is not None
        grant_id = str(route.detail["grant_id"])
        receipt = await self._desk.submit(route.session_id, ops.RevokeGrant(grant_id=grant_id), route.submission_id)
        key = "grants.unknown" if receipt.status == "rejected" else "grants.revoked"
        subject = Subject(place=item.place, session_id=route.session_id)
        audit = self._desk.audit(item, "grant_revoked", subject, {"grant": grant_id, "result": receipt.status})
        return Settled(outcome="grants", statements=[audit, *self._desk.reply(item, say(key))])

    # ---------------------------------------------------------------------------------------- models

    async def model(self, item: Item, rest: str) -> Routed | Settled:
        """Say which model is used; with a name, use that one from now on."""
        routes = ", ".join(self._desk.routes())
        session, checkpoint = await self._session(item)
        if not rest:
            usual = self._desk.places.binding(item.inbound.place).models[0]
            here = (checkpoint.model_route if checkpoint else None) or usual
            return self._says(item, "model", say("model.here", route=here, names=routes))
        if rest not in self._desk.routes():
            return self._says(item, "model", say("model.unknown", name=rest, names=routes), error=True)
        if session is None:
            return self._says(item, "model", say("status.no_session"), error=True)
        return Routed(session_id=session.session_id, detail={"route": rest})

    async def set_model(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Change the model."""
        assert route.session_id is not None
        name = str(route.detail["route"])
        receipt = await self._desk.submit(route.session_id, ops.SetModel(route=name), route.submission_id)
        if receipt.status == "rejected":
            return refused(self._desk, item, receipt.reason or "")
        return self._says(item, "model", say("model.set", route=name))

    async def compact(self, item: Item, rest: str) -> Routed | Settled:
        """Summarise the conversation, so that it takes less of the model's window."""
        session, checkpoint = await self._session(item)
        if session is None or last_message(checkpoint) is None:
            return self._says(item, "compact", say("status.no_session"), error=True)
        return Routed(session_id=session.session_id)

    async def summarise(self, item: Item, rest: str, route: StoredRoute) -> Settled:
        """Ask for the summary; the answer comes once it is stored."""
        assert route.session_id is not None
        receipt = await self._desk.submit(route.session_id, ops.Compact(), route.submission_id)
        if receipt.status == "rejected":
            return refused(self._desk, item, receipt.reason or "")
        return self._says(item, "compact", say("compact.done"))

    # ---------------------------------------------------------------------------------------- shared

    async def _session(self, item: Item) -> tuple[PlaceSession | None, Checkpoint | None]:
        """The session that this person talks to here, and its state."""
        row = await self._desk.places.find(item.inbound)
        if row is None:
            return None, None
        return await self._desk.places.session(row.session_id), await self._desk.sessions.peek(row.session_id)

    def _says(self, item: Item, outcome: str, text: str, *, error: bool = False) -> Settled:
        return Settled(outcome=outcome, statements=self._desk.reply(item, text, error=error))

    def _not_allowed(self, item: Item, command: str) -> Settled:
        return self._says(item, "missing_right", say("command.not_allowed", command=command), error=True)


def is_slow(inbound: Inbound) -> bool:
    """Whether it is a command that takes as long as a model does."""
    parsed = parse(inbound)
    command = TABLE.get(parsed.name) if parsed is not None else None
    return command is not None and command.slow


def _parsed(item: Item) -> Parsed:
    parsed = parse(item.inbound)
    assert parsed is not None, "only commands are handled here"
    return parsed


def _names(typed: str, whole: str) -> bool:
    """Whether what was typed is a beginning of the id that is long enough to be meant."""
    return len(typed) >= SHORTEST_ID and whole.lower().startswith(typed.lower())


async def ask_again(desk: Desk, item: Item, route: StoredRoute) -> Settled:
    """Submit the last words of the conversation once more, as words of whoever wants that."""
    assert route.session_id is not None
    last = last_message(await desk.sessions.peek(route.session_id))
    if last is None:
        return Settled(outcome="nothing", statements=desk.reply(item, say("retry.nothing"), error=True))
    scope = desk.places.binding(item.inbound.place).scope
    op = ops.Message(
        text=last.text,
        author=author_of(item.inbound, scope),
        principal=item.principal,
        quoted=last.quoted,
        attachments=last.attachments,
    )
    return await submit_message(desk, item, route, op)


def menu() -> Mapping[str, str]:
    """Every command of /help with what it does, for platforms that show a menu."""
    return {name: say(f"help.{name}") for name, command in TABLE.items() if command.usage}


TABLE: Mapping[str, Command] = {
    "start": Command(right=Right.COMMAND, usage="", step=Commands.help),
    "help": Command(right=Right.COMMAND, usage="/help", step=Commands.help),
    "new": Command(right=Right.COMMAND, usage="/new", step=Commands.new, act=Commands.end_old),
    "stop": Command(right=Right.STOP, usage="/stop", step=Commands.stop, act=Commands.stop_turn),
    "status": Command(right=Right.COMMAND, usage="/status", step=Commands.status),
    "queue": Command(right=Right.TALK, usage="/queue [text]", step=Commands.queue, act=Commands.queue_text),
    "steer": Command(right=Right.STEER, usage="/steer text", step=Commands.steer, act=Commands.steer_text),
    "retry": Command(right=Right.TALK, usage="/retry", step=Commands.retry, act=Commands.retry_last),
    "loop": Command(right=Right.TALK, usage="/loop [n text]", step=Commands.loop, act=Commands.loop_act),
    "cron": Command(
        right=Right.COMMAND,
        usage="/cron [add …]",
        step=Commands.cron,
        act=Commands.cron_done,
        acting=Right.APPROVE,
    ),
    "approve": Command(right=Right.APPROVE, usage="/approve id", step=Commands.decide, act=Commands.approve_request),
    "deny": Command(right=Right.APPROVE, usage="/deny id [reason]", step=Commands.decide, act=Commands.deny_request),
    "grants": Command(
        right=Right.COMMAND,
        usage="/grants [revoke id]",
        step=Commands.grants,
        act=Commands.revoke_grant,
        acting=Right.APPROVE,
    ),
    "model": Command(right=Right.COMMAND, usage="/model [name]", step=Commands.model, act=Commands.set_model),
    "workspace": Command(
        right=Right.COMMAND,
        usage="/workspace [id]",
        step=Commands.workspace,
        act=Commands.end_old,
        acting=Right.ADMIN,
    ),
    "compact": Command(right=Right.COMMAND, usage="/compact", step=Commands.compact, act=Commands.summarise, slow=True),
    "usage": Command(right=Right.COMMAND, usage="/usage", step=Commands.usage),
    "whoami": Command(right=Right.COMMAND, usage="/whoami", step=Commands.whoami),
}
"""Every command that there is. A command that is not in here is text for the agent."""
