"""The cards of the turns that run: what each shows, and what it should show. Only the newest state counts.

Nothing of this is stored but the surface: after a crash the state is folded from the journal again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from adapters.contract import MessageRef, Phase, Place, ThreadStatus, TurnCard
from gateway.delivery.border import Destination
from gateway.ledger.digest import digest_of
from gateway.ledger.surfaces import SurfaceRow, ref_in
from gateway.views.card import turn_card
from gateway.views.turn import SessionState, TurnState

CARD_AFTER_SECONDS = 1.5
"""A turn that is over by then needs no card."""
TYPING_AFTER_SECONDS = 0.5
TYPING_EVERY_SECONDS = 4.5
"""Telegram shows "typing" for 5 s, Discord for 10 s."""
STALL_SECONDS = 300.0
MAX_EDIT_FAILURES = 3
TICKS = ((6, 5.0), (14, 15.0), (sys.maxsize, 30.0))
"""(up to which tick, its seconds): every 5 s for half a minute, every 15 s for two more, then every 30 s."""


@dataclass(slots=True, eq=False)
class Session:
    """A session that something happens in: how far its journal was read, what follows, and its live card.

    `stored` is the cursor on disk; it may lag behind `position` by events from which nothing followed. `known`: a turn
    began since this process knows the session, so none of its cards is from an earlier one.
    """

    id: str
    position: int
    stored: int
    state: SessionState = SessionState()
    live: LiveCard | None = None
    destination: Destination | None = None
    known: bool = False


@dataclass(slots=True, eq=False)
class LiveCard:
    """The card of a turn that runs. `place` is fixed when the turn starts; `shown` is the digest of what is there."""

    session: Session
    turn_id: str
    first_sequence: int
    place: Place
    labels: tuple[str, ...] = ()
    reply_to: MessageRef | None = None
    private: bool = False
    wanted: bool = False
    over: bool = False
    hopeless: bool = False
    surface_id: int | None = None
    token: str | None = None
    message_id: str | None = None
    shown: str | None = None
    failures: int = 0
    typing: bool = False
    status: str = ""
    ticks: int = 0
    ticking: bool = False
    late: bool = False
    """The time that it shows is no longer true."""

    @property
    def turn(self) -> TurnState:
        """The state of its turn."""
        turn = self.session.state.turn
        assert turn is not None, "a card lives as long as its turn"
        return turn

    @property
    def ref(self) -> MessageRef | None:
        """The message on the platform, once it is known."""
        return None if self.message_id is None else ref_in(self.place, self.message_id)

    def view(self, now_ms: int) -> TurnCard:
        """What the card should show now."""
        return turn_card(self.session.state, now_ms, token=self.token, labels=self.labels)

    @property
    def digest(self) -> str:
        """What the card should show, but for the time that goes by: that alone seldom is a reason to edit."""
        return digest_of(self.view(self.turn.started_at_ms))

    @property
    def to_send(self) -> bool:
        """It is due and was never sent."""
        return self.wanted and not self.over and not self.hopeless and self.surface_id is None

    @property
    def to_edit(self) -> bool:
        """It is there and shows something else than it should."""
        if self.over or self.hopeless or self.message_id is None:
            return False
        return self.late or self.digest != self.shown

    @property
    def tick_seconds(self) -> float:
        """How long the time that it shows may stand still: less at first, while somebody watches."""
        return next(seconds for below, seconds in TICKS if self.ticks < below)

    @property
    def to_type(self) -> bool:
        """A sign of life is due."""
        return self.typing and not self.over and self.message_id is None and self.turn.phase is not Phase.WAITING

    @property
    def to_mark(self) -> ThreadStatus | None:
        """The platform's own working state of the thread, where it should change."""
        if self.over:
            return None
        state = "suspended" if self.turn.phase is Phase.WAITING else "processing"
        return None if state == self.status else ThreadStatus(state=state)

    def adopt(self, surface: SurfaceRow) -> None:
        """The card was sent before: by an earlier process, or just now."""
        self.surface_id, self.token, self.message_id = surface.id, surface.token, surface.message_id
        self.wanted, self.hopeless = True, False
