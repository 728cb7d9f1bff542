"""Who and where, from the gateway's own tables and the policy of the moment."""

from __future__ import annotations

from collections.abc import Callable

from adapters.contract import MessageRef, Place
from gateway.delivery.border import Asking, Decider, Destination
from gateway.ledger import people, places
from gateway.ledger.database import Database
from gateway.schedules.recipe import in_recipe
from gateway.schedules.schedule import Announce

MAX_NAMED = 5
"""Deciders that an approval names and mentions; more would be noise."""


class LedgerDirectory:
    """The directory that the gateway uses. `deciders` gives the principals of a platform who may decide now."""

    def __init__(self, database: Database, deciders: Callable[[str], tuple[str, ...]]) -> None:
        self._database = database
        self._deciders = deciders

    async def destination(self, session_id: str) -> Destination | None:
        """The place of a session; None if no chat began it."""
        found = await places.session(self._database, session_id)
        if found is None:
            return None
        run = in_recipe(found.recipe)
        return Destination(
            place=found.place,
            workspace=found.context.workspace_label,
            origin=found.context.origin_label,
            quiet_turn=None if run is None or run.announce is Announce.ALWAYS else run.submission_id,
        )

    async def asking(self, message_id: str) -> Asking | None:
        """The message on the platform that became the submission `message_id`, if one did."""
        prefix, _, number = message_id.partition(":")
        if prefix != "in" or not number.isdecimal():
            return None
        rows = await self._database.read(
            "SELECT platform, account, chat, thread, message_id, kind,"
            " CASE WHEN payload = '' THEN NULL ELSE json_extract(payload, '$.chat_kind') END,"
            " CASE WHEN payload = '' THEN NULL ELSE json_extract(payload, '$.text') END"
            " FROM inbound WHERE id = ? AND message_id IS NOT NULL",
            (int(number),),
        )
        if not rows:
            return None
        platform, account, chat, thread, message, kind, chat_kind, text = rows[0]
        ref = MessageRef(platform=platform, account=account, chat=chat, thread=thread or None, id=message)
        return Asking(ref=ref, private=chat_kind == "private", spoken=kind in ("message", "command"), text=text or "")

    async def name(self, principal: str) -> str:
        """A name for people to read; the principal itself where none is known."""
        return await people.name_of(self._database, principal) or principal

    async def deciders(self, place: Place) -> tuple[Decider, ...]:
        """Who may decide approvals there, now."""
        principals = self._deciders(place.platform)[:MAX_NAMED]
        return tuple([Decider(name=await self.name(who), id=who.rpartition(":")[2]) for who in principals])
