"""What a chat's lane does next. Pure: the most urgent first, in order within a thread, fair between threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from adapters.contract import Place, Reaction, Stream, ThreadStatus, View
from gateway.budget import Priority
from gateway.delivery.cards import LiveCard
from gateway.delivery.opening import Step
from gateway.ledger.deliveries import DeliveryRow, Repair
from gateway.ledger.threads import ROOT, Opening, is_new

Thread: TypeAlias = "tuple[str | None, str | None, bool]"
"""(thread, person, marks): what goes out in order. Marks on messages are in no order with what is said."""


@dataclass(frozen=True, slots=True)
class SendRow:
    """The next part of its thread. `urgency` is that of the most urgent part behind it."""

    row: DeliveryRow
    urgency: Priority


@dataclass(frozen=True, slots=True)
class EditMessage:
    """A message of the past has to show another view."""

    repair: Repair


@dataclass(frozen=True, slots=True)
class ShowCard:
    """A live card goes out, or changes."""

    card: LiveCard
    what: Literal["send", "edit"]


Sign: TypeAlias = ThreadStatus | Reaction | Stream


@dataclass(frozen=True, slots=True)
class GiveSign:
    """A sign of life: typing, the platform's own working state, a mark on the message that was taken, or a draft."""

    card: LiveCard
    view: Sign | None = None


@dataclass(frozen=True, slots=True)
class OpenThread:
    """A thread of ours is opened, or its parent is used. `urgency`: that of the most urgent part that waits for it."""

    thread: Opening
    step: Step
    urgency: Priority


Job: TypeAlias = SendRow | EditMessage | ShowCard | GiveSign | OpenThread


def thread_of(place: Place, view: View | None = None) -> Thread:
    """The part of a place within which order is kept."""
    return place.thread, place.person, isinstance(view, Reaction | ThreadStatus)


def urgency_of(job: Job) -> Priority:
    """As which priority the job is paid from the budget."""
    match job:
        case SendRow(urgency=urgency) | OpenThread(urgency=urgency):
            return urgency
        case EditMessage(repair=repair):
            return repair.priority
        case ShowCard() | GiveSign():
            return Priority.PROGRESS


@dataclass(frozen=True, slots=True)
class Work:
    """All that a lane could do now. `served` is when each thread had its last turn, in any growing number.

    `opening`: threads that are not open yet, by the name that stands for them.
    """

    rows: Sequence[DeliveryRow] = ()
    repairs: Sequence[Repair] = ()
    cards: Sequence[LiveCard] = ()
    served: Mapping[Thread, int] | None = None
    repairs_first: bool = False
    opening: Mapping[str, tuple[Opening, Step]] = field(default_factory=dict[str, "tuple[Opening, Step]"])
    thread_states: bool = False
    marks: bool = False


def choose(work: Work, now_ms: int) -> Job | None:
    """The next job, or None where nothing is due; see `next_due_ms` for what is due later.

    After a start, messages of the past are put right before anything new is said.
    """
    if work.repairs_first and work.repairs:
        return EditMessage(work.repairs[0])
    jobs = [*_sends(work, now_ms), *(EditMessage(repair) for repair in work.repairs[:1]), *_signs(work)]
    return min(jobs, key=lambda job: _rank(job, work.served or {}), default=None)


def _rank(job: Job, served: Mapping[Thread, int]) -> tuple[int, int, int, int]:
    """Smaller goes first: by priority, an old message before a new one if it has to be put right at once, else after
    it; then whoever waited longest; then the older."""
    match job:
        case SendRow(row=row, urgency=urgency):
            return urgency, 1, served.get(thread_of(row.place, row.view), 0), row.id
        case OpenThread(thread=thread, urgency=urgency):
            return urgency, 1, served.get(thread_of(thread.place), 0), 0
        case EditMessage(repair=repair):
            return repair.priority, 0 if repair.priority is Priority.CONTROL else 2, 0, repair.surface_id
        case ShowCard(card=card, what=what):
            return Priority.PROGRESS, 3 if what == "send" else 4, served.get(thread_of(card.place), 0), 0
        case GiveSign(card=card):
            return Priority.PROGRESS, 5, served.get(thread_of(card.place), 0), 0


def _sends(work: Work, now_ms: int) -> Iterable[SendRow | OpenThread]:
    heads: dict[Thread, DeliveryRow] = {}
    urgency: dict[Thread, Priority] = {}
    for row in work.rows:
        thread = thread_of(row.place, row.view)
        heads.setdefault(thread, row)
        urgency[thread] = min(urgency.get(thread, Priority.PROGRESS), row.priority)
    for thread, row in heads.items():
        if row.not_before_ms <= now_ms and (not is_new(row.place) or _is_root_to_send(row, work)):
            yield SendRow(row, urgency[thread])
    for opening, step in work.opening.values():
        if step != "root":
            yield OpenThread(opening, step, urgency.get(thread_of(opening.place), Priority.PROGRESS))


def _is_root_to_send(row: DeliveryRow, work: Work) -> bool:
    _, step = work.opening.get(row.place.thread or "", (None, None))
    return row.surface == ROOT and step == "root"


def _signs(work: Work) -> Iterable[Job]:
    for card in work.cards:
        if is_new(card.place):
            continue  # nothing of ours is there yet
        if card.to_send:
            yield ShowCard(card, "send")
        elif card.to_edit:
            yield ShowCard(card, "edit")
        if card.to_type:
            yield GiveSign(card)
        if work.thread_states and (status := card.to_mark) is not None:
            yield GiveSign(card, status)
        if work.marks and (mark := card.to_accept) is not None:
            yield GiveSign(card, mark)
        if (draft := card.to_draft) is not None:
            yield GiveSign(card, draft)


def next_due_ms(work: Work, now_ms: int) -> int | None:
    """When the first row that is not due yet will be."""
    return min((row.not_before_ms for row in work.rows if row.not_before_ms > now_ms), default=None)
