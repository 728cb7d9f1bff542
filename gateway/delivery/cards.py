"""The cards of the turns that run: what each shows, and what it should show. Only the newest state counts.

Nothing of this is stored but the surface: after a crash the state is folded from the journal again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

from adapters.contract import MessageRef, Phase, Place, Reaction, Stream, ThreadStatus, TurnCard
from gateway.delivery.border import Destination
from gateway.ledger.digest import digest_of
from gateway.ledger.surfaces import Letter, SurfaceRow, ref_in
from gateway.views.card import turn_card
from gateway.views.loop import LoopProgress
from gateway.views.loop_card import LOOP_CHOICES, loop_card
from gateway.views.stream import Writing, turn_stream, written
from gateway.views.turn import SessionState, TurnState, recovered, stalled

CARD_AFTER_SECONDS = 1.5
"""A turn that is over by then needs no card."""
TYPING_AFTER_SECONDS = 0.5
TYPING_EVERY_SECONDS = 4.5
"""Telegram shows "typing" for 5 s, Discord for 10 s."""
MARK_AFTER_SECONDS = 1.0
"""A message that is answered by then needs no mark: marks are paid from the budget that answers need."""
STALL_SECONDS = 300.0
STREAM_EVERY_SECONDS = 1.0
"""What was written meanwhile goes out together. Slack takes 100 pieces a minute, Telegram's drafts 20 in 5 s."""
MAX_EDIT_FAILURES = 3
TICKS = ((6, 5.0), (14, 15.0), (sys.maxsize, 30.0))
"""(up to which tick, its seconds): every 5 s for half a minute, every 15 s for two more, then every 30 s."""


@dataclass(slots=True, eq=False)
class Session:
    """A session that something happens in: how far its journal was read, what follows, and its live cards.

    `stored` is the cursor on disk; it may lag behind `position` by events from which nothing followed. `known`: a turn
    began since this process knows the session, so none of its cards is from an earlier one.
    """

    id: str
    position: int
    stored: int
    state: SessionState = SessionState()
    live: LiveCard | None = None
    loop: LoopCard | None = None
    destination: Destination | None = None
    known: bool = False

    @property
    def cards(self) -> tuple[LiveCard, ...]:
        """Those of the turn and the loop that go on."""
        return tuple(card for card in (self.live, self.loop) if card is not None)


@dataclass(slots=True, eq=False)
class LiveCard:
    """The card of a turn that runs. `place` is fixed when the turn starts; `shown` is the digest of what is there."""

    session: Session
    turn_id: str
    first_sequence: int
    place: Place
    labels: tuple[str, ...] = ()
    reply_to: MessageRef | None = None
    asked: MessageRef | None = None
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
    marking: bool = False
    title: str | None = None
    streams: bool = False
    """It is a native stream: what was shown of its text stays, and its end is the answer."""
    drafts: bool = False
    """Beside it, what is being written is shown as a draft."""
    writing: Writing | None = None
    streamed: str = ""
    """What this process has shown of the text."""
    writing_soon: bool = False
    draft_due: bool = False
    draft_failures: int = 0
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
    def key(self) -> str:
        """A name for it among all cards of its chat."""
        return f"{self.session.id}/{self.turn_id}"

    @property
    def choices(self) -> str:
        """The letters that its controls offer."""
        return Letter.STOP

    @property
    def began_at_ms(self) -> int:
        """When that began which it shows."""
        return self.turn.started_at_ms

    @property
    def since_ms(self) -> int:
        """When something last happened."""
        return self.turn.since_ms

    @property
    def waiting(self) -> bool:
        """A person has to decide something."""
        return self.turn.phase is Phase.WAITING

    def mark_recovered(self) -> None:
        """It goes on after a restart that people noticed."""
        self.session.state = replace(self.session.state, turn=recovered(self.turn))

    def mark_stalled(self) -> None:
        """Nothing has happened for long."""
        self.session.state = replace(self.session.state, turn=stalled(self.turn))

    @property
    def ref(self) -> MessageRef | None:
        """The message on the platform, once it is known."""
        return None if self.message_id is None else ref_in(self.place, self.message_id)

    def view(self, now_ms: int) -> TurnCard | Stream:
        """What the card should show now."""
        if self.streams:
            return turn_stream(self.session.state, now_ms, self.text, stream_id=self.turn_id, labels=self.labels)
        return turn_card(self.session.state, now_ms, token=self.token, labels=self.labels)

    @property
    def text(self) -> str:
        """What a stream of it says. Once somebody spoke, or something was taken back, nothing is added to it: the
        answer is a message of its own then."""
        if self.turn.steered:
            return self.streamed
        now = written(self.turn, self.writing)
        return now if now.startswith(self.streamed) else self.streamed

    @property
    def to_draft(self) -> Stream | None:
        """The draft that is due."""
        if not (self.drafts and self.draft_due) or self.over or self.turn.steered:
            return None
        text = written(self.turn, self.writing)
        if not text or text == self.streamed:
            return None
        return Stream(stream_id=self.turn_id, markdown=text)

    @property
    def digest(self) -> str:
        """What the card should show, but for the time that goes by: that alone seldom is a reason to edit."""
        return digest_of(self.view(self.began_at_ms))

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
        return self.typing and not self.over and self.message_id is None and not self.waiting

    @property
    def to_accept(self) -> Reaction | None:
        """The mark on the message that it answers, where nothing else has shown by now that it was taken."""
        if self.asked is None or not self.marking or self.over or self.message_id is not None or self.waiting:
            return None
        return Reaction(ref=self.asked, mark="accepted")

    @property
    def to_mark(self) -> ThreadStatus | None:
        """The platform's own working state of the thread, where it should change."""
        if self.over:
            return None
        state = "suspended" if self.waiting else "processing"
        return None if state == self.status else ThreadStatus(state=state, title=self.title)

    def adopt(self, surface: SurfaceRow) -> None:
        """The card was sent before: by an earlier process, or just now."""
        self.surface_id, self.token, self.message_id = surface.id, surface.token, surface.message_id
        self.wanted, self.hopeless = True, False


@dataclass(slots=True, eq=False)
class LoopCard(LiveCard):
    """The one card of a loop, in place of those of its turns. `turn_id` is the loop's id."""

    @property
    def loop(self) -> LoopProgress:
        """Where the loop stands."""
        loop = self.session.state.loop
        assert loop is not None, "a card lives as long as its loop"
        return loop

    @property
    def choices(self) -> str:
        """The letters that its controls offer."""
        return LOOP_CHOICES

    @property
    def began_at_ms(self) -> int:
        """When the loop began."""
        return self.loop.started_at_ms

    @property
    def since_ms(self) -> int:
        """When something last happened."""
        iteration = self.session.state.iteration
        return iteration.since_ms if iteration is not None else self.loop.since_ms

    @property
    def waiting(self) -> bool:
        """A person has to decide something in the iteration that runs."""
        iteration = self.session.state.iteration
        return iteration is not None and iteration.phase is Phase.WAITING

    def mark_recovered(self) -> None:
        """It goes on after a restart that people noticed."""
        if not self.waiting:
            self.session.state = replace(self.session.state, loop=replace(self.loop, recovered=True))

    def mark_stalled(self) -> None:
        """Nothing has happened for long in the iteration that runs."""
        iteration = self.session.state.iteration
        if iteration is not None:
            self.session.state = replace(self.session.state, turn=stalled(iteration))

    def view(self, now_ms: int) -> TurnCard:
        """What the card should show now."""
        return loop_card(self.session.state, now_ms, token=self.token, labels=self.labels)
