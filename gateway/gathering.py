"""Albums and long pastes arrive in parts. Which rows belong together is decided from the rows alone, so that a restart
groups them as the process before would have.

Telegram sends an album as one update per file with one `media_group_id`, and cuts a pasted text at 4,096 characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from adapters.contract import InboundKind
from gateway.ledger.inbound import InboundRow

ALBUM_MS = 300
"""How long after a part of an album the next one is waited for."""

PASTE_MS = 1500
"""How long after a long part of a paste the next one is waited for."""

LONG_PART = 3500
"""A part with at least this many characters may have been cut by the platform."""

CONTROLS = frozenset(
    {InboundKind.COMMAND, InboundKind.PRESS, InboundKind.FORM, InboundKind.STOP, InboundKind.EDIT, InboundKind.DELETE}
)
"""Kinds that no gathering holds up."""


class Next(Enum):
    """What there is besides an index into the rows that wait."""

    NOTHING = auto()
    """No part is there yet; one may still come."""
    CLOSED = auto()
    """No part will come any more."""


def patience_ms(row: InboundRow) -> int:
    """How long a further part is waited for after `row`; 0: it stands alone."""
    inbound = row.inbound
    if inbound.kind is not InboundKind.MESSAGE or is_command_text(inbound.text):
        return 0
    if len(inbound.text) >= LONG_PART:
        return PASTE_MS
    return ALBUM_MS if inbound.album is not None else 0


def deadline_ms(row: InboundRow, started_at_ms: int) -> int:
    """Until when a further part is waited for after `row`. What an earlier process had stored gets its time again,
    counted from our start: the platform may be about to send the rest."""
    patience = patience_ms(row)
    return max(row.received_at_ms, started_at_ms) + patience if patience else 0


def joins(last: InboundRow, row: InboundRow) -> bool:
    """Whether `row` goes on with what `last` is a part of."""
    before, inbound = last.inbound, row.inbound
    if row.principal != last.principal or inbound.kind is not InboundKind.MESSAGE or row.route is not None:
        return False
    if before.album is not None or inbound.album is not None:
        return before.album == inbound.album
    if is_command_text(inbound.text) or before.forwarded != inbound.forwarded or not patience_ms(last):
        return False
    if row.received_at_ms - last.received_at_ms <= PASTE_MS:
        return True
    # Parts that waited on the platform's server while we were down arrive late, but were sent together.
    return 0 <= inbound.sent_at_ms - before.sent_at_ms <= PASTE_MS and before.sent_at_ms > 0


def next_part(last: InboundRow, waiting: Sequence[InboundRow]) -> int | Next:
    """The index of the next part among the rows of the same place that wait, in order.

    Other people's words may stand between two parts; a control, or anything else of the same sender, ends the message.
    """
    if not patience_ms(last):
        return Next.CLOSED
    for index, row in enumerate(waiting):
        if row.inbound.kind in CONTROLS:
            return Next.CLOSED
        if row.principal == last.principal:
            return index if joins(last, row) else Next.CLOSED
    return Next.NOTHING


def text_of(rows: Sequence[InboundRow]) -> str:
    """The parts as one text. A pasted text was cut anywhere, so its parts are joined as they are; captions of an album
    are paragraphs."""
    texts = [row.inbound.text for row in rows if row.inbound.text]
    return ("\n\n" if rows[0].inbound.album is not None else "").join(texts)


def is_command_text(text: str) -> bool:
    """Whether a text is meant as a command."""
    return text.startswith("/") and len(text) > 1 and text[1].isalpha()
