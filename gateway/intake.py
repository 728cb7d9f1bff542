"""The door: authorise, store, and only then let the platform be told that it arrived.

Behind the door stands the router (`gateway.router`), which takes what is stored. The door waits for nothing but the
store; that a stranger is refused costs one audit row an hour and no more.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, assert_never

from adapters.contract import Inbound, InboundKind, Notice, Place
from gateway.access import Access, Authorized, Policy, Reason, Refusal, authorize
from gateway.budget import Priority
from gateway.claim import Attempt, Claim
from gateway.ledger import audit, deliveries, people, surfaces
from gateway.ledger import inbound as rows
from gateway.ledger import places as place_rows
from gateway.ledger.audit import Subject
from gateway.ledger.database import Database
from gateway.places import conversation, display_name
from gateway.ports import Outbox
from gateway.schedules import ledger as schedule_rows
from gateway.strings import say
from runtime.clock import Clock
from runtime.faults import NO_FAULTS, Faults
from runtime.store.writer import Statement

log = logging.getLogger(__name__)

QUIET_MS = 60 * 60 * 1000
"""A stranger is refused, and written down, at most this often."""

REMEMBERED = 4096
"""Principals that are remembered at most, of strangers and of names."""

LOUD = frozenset({InboundKind.MESSAGE, InboundKind.COMMAND})
"""Kinds for which a stranger is told that he may not."""


def chat_moved(place: Place, chat: str, now_ms: int) -> tuple[Statement, ...]:
    """A chat has another id: places, schedules, what waits for routing, and an audit row. For whoever learns of it."""
    subject = Subject(place=place)
    return (
        place_rows.move_chat(place, chat),
        schedule_rows.move_chat(place, chat),
        rows.move_chat(place, chat),
        audit.audit_statement(now_ms, "chat_moved", subject=subject, detail={"to": chat}),
    )


class Intake:
    """Takes one inbound; see `adapters.contract.Intake`.

    `news` is called after each commit that brought work; `turn_away` with a press that was not let in and what to say.
    """

    def __init__(
        self,
        access: Access,
        database: Database,
        outbox: Outbox,
        *,
        clock: Clock,
        news: Callable[[], None],
        turn_away: Callable[[Inbound, str], None],
        claim: Claim | None = None,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self._access = access
        self._database = database
        self._outbox = outbox
        self._clock = clock
        self._news = news
        self._turn_away = turn_away
        self._claim = claim
        self._faults = faults
        self._refused: OrderedDict[str, int] = OrderedDict()
        self._unclaimed: OrderedDict[str, int] = OrderedDict()
        self._names: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, inbound: Inbound) -> None:
        """On return it is stored under its keys, or was there before, or is refused for good.

        If it raises, nothing may be acknowledged: the platform has to send it again.
        """
        match authorize(self._access.policy, inbound):
            case Authorized() as let_in if inbound.kind is InboundKind.CHAT_MIGRATED:
                await self._migrate(let_in.inbound)
            case Authorized() as let_in:
                await self._store(let_in)
            case Refusal() as refusal:
                await self._refuse(inbound, refusal)

    # ---------------------------------------------------------------------------------------- let in

    async def _store(self, let_in: Authorized) -> None:
        now = self._clock.now_ms()
        unit = rows.store(let_in.inbound, let_in.principal, now)
        name = display_name(let_in.inbound.sender.name)
        if name and self._names.get(let_in.principal) != name:
            unit.append(people.seen(let_in.principal, name, now))
        self._faults.reach("intake.store.before")
        try:
            await self._database.write(unit)
        finally:
            self._news()  # also if it raised: the row may be there all the same
        self._faults.reach("intake.store.after")
        _remember(self._names, let_in.principal, name)

    async def _migrate(self, inbound: Inbound) -> None:
        """Every table follows the chat in one transaction. Doing it again finds nothing to move."""
        if not inbound.moved_to:
            return
        now, place, chat = self._clock.now_ms(), inbound.place, inbound.moved_to
        if not await self._knows(place):
            return
        outgoing = (deliveries.move_chat(place, chat, now), surfaces.move_chat(place, chat, now))
        await self._database.write([*chat_moved(place, chat, now), *outgoing])
        self._news()

    async def _knows(self, place: Place) -> bool:
        found = await self._database.read(
            "SELECT 1 FROM places WHERE platform = ? AND account = ? AND chat = ? LIMIT 1",
            (place.platform, place.account, place.chat),
        )
        return bool(found)

    # ---------------------------------------------------------------------------------------- not let in

    async def _refuse(self, inbound: Inbound, refusal: Refusal) -> None:
        if self._claim is not None and self._claim.open:
            return await self._while_unclaimed(inbound, refusal, self._claim)
        if not _worth_noting(inbound, refusal):
            return None
        if refusal.reason is Reason.MALFORMED and inbound.kind is InboundKind.PRESS and self._is_listed(refusal):
            # A platform that cannot say any more where something old hangs; nothing can be bound to it.
            self._turn_away(inbound, say("control.stale"))
            return None
        now = self._clock.now_ms()
        last = self._refused.get(refusal.principal)
        if last is not None and now - last < QUIET_MS:
            return None
        noted = await self._database.write(
            [
                audit.refused_statement(
                    now,
                    refusal.principal,
                    Subject(place=inbound.place),
                    {"kind": inbound.kind.value, "reason": refusal.reason.value, "sender": inbound.sender.kind.value},
                    quiet_ms=QUIET_MS,
                )
            ]
        )
        _remember(self._refused, refusal.principal, now)
        if noted[0].rows:
            await self._tell_refused(inbound, refusal, noted[0].rows[0][0], now)
        return None

    def _is_listed(self, refusal: Refusal) -> bool:
        return bool(self._access.policy.rights(refusal.principal, guest=True))

    async def _tell_refused(self, inbound: Inbound, refusal: Refusal, audit_id: int, now: int) -> None:
        if refusal.reason not in (Reason.NOT_LISTED, Reason.MISSING_RIGHT):
            return
        if inbound.kind is InboundKind.PRESS:
            self._turn_away(inbound, say("refused.stranger"))
        elif inbound.kind in LOUD and inbound.chat_kind == "private":
            await self._say(inbound.place, f"au:{audit_id}", say("refused.stranger"), now)

    async def _while_unclaimed(self, inbound: Inbound, refusal: Refusal, claim: Claim) -> None:
        now, subject = self._clock.now_ms(), Subject(place=inbound.place)
        attempt = claim.attempt(inbound)
        match attempt:
            case Attempt.NONE:
                self._log_unclaimed(inbound, refusal.principal, now)
            case Attempt.WRONG:
                log.warning("wrong code from %s, %d tries left", refusal.principal, claim.tries_left)
                failed = audit.audit_statement(now, "claim_failed", principal=refusal.principal, subject=subject)
                await self._database.write([failed])
            case Attempt.RIGHT:
                await self._make_owner(inbound, refusal.principal, claim, now)
            case _:
                assert_never(attempt)

    def _log_unclaimed(self, inbound: Inbound, principal: str, now: int) -> None:
        """Outside nobody hears anything; whoever mistyped the code finds here why. Never what was written."""
        last = self._unclaimed.get(principal)
        if inbound.kind not in LOUD or inbound.chat_kind != "private" or (last is not None and now - last < QUIET_MS):
            return
        _remember(self._unclaimed, principal, now)
        log.info("%s wrote something that is not a code; nobody owns this gateway yet", principal)

    async def _make_owner(self, inbound: Inbound, principal: str, claim: Claim, now: int) -> None:
        """Durable first, then in force. The message itself is done, so that the code never reaches a model."""
        welcome = deliveries.plan(
            source=f"claim:{principal}",
            surface="welcome",
            place=conversation(inbound.place),
            views=[Notice(text=say("claim.done", principal=principal), notify=True)],
            priority=Priority.CONTROL,
            now_ms=now,
        )
        name = display_name(inbound.sender.name)
        unit = [
            people.claim(principal, name, now),
            *rows.store(inbound, principal, now, done_as="claimed"),
            audit.audit_statement(now, "claimed", principal=principal, subject=Subject(place=inbound.place)),
            people.seen(principal, name or principal, now),
            *welcome,
        ]
        await self._database.write(unit)
        claim.close()
        self._access.replace(with_claimed(self._access.policy, await people.claimed_owners(self._database)))
        log.info("%s became the owner", principal)
        self._outbox.wake(inbound.place)

    async def _say(self, place: Place, source: str, text: str, now: int) -> None:
        home = conversation(place)
        await self._database.write(
            deliveries.plan(
                source=source,
                surface="refusal",
                place=home,
                views=[Notice(text=text)],
                priority=Priority.PROGRESS,
                now_ms=now,
            )
        )
        self._outbox.wake(home)


def _worth_noting(inbound: Inbound, refusal: Refusal) -> bool:
    """What others say in a group among themselves is no attempt to use us."""
    if refusal.reason is Reason.UNKNOWN_KIND:
        return False
    spoken = inbound.kind in (InboundKind.MESSAGE, InboundKind.EDIT, InboundKind.DELETE, InboundKind.REACTION)
    return inbound.addressed or not spoken


def _remember(memory: OrderedDict[str, Any], key: str, value: Any) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)


def with_claimed(policy: Policy, claimed: frozenset[str]) -> Policy:
    """The policy with the owner by code. Owners that the configuration names always win: then nobody is one by code."""
    if policy.owners or not claimed:
        return policy
    return Policy(
        version=policy.version,
        users=policy.users,
        approvers=policy.approvers,
        owners=claimed,
        dangerously_open=policy.dangerously_open,
    )


async def settle_claims(database: Database, policy: Policy, clock: Clock) -> Policy:
    """At start and after a reload: the owner by code counts while the configuration names none.

    Once it names one, the claim is given up for good, so that removing a name later never brings rights back.
    """
    claimed = await people.claimed_owners(database)
    if not claimed or not policy.owners:
        return with_claimed(policy, claimed)
    ended = audit.audit_statement(clock.now_ms(), "claim_ended", detail={"owners": ", ".join(sorted(claimed))})
    await database.write([people.give_up_claims(), ended])
    return policy
