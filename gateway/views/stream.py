"""A turn as a native stream: its words while they come, its calls as rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.contract import Control, Row, RowState, Stream
from gateway.secrets import without_begun_secret
from gateway.strings import say
from gateway.views.card import WORDS as PHASE_WORDS
from gateway.views.card import notes
from gateway.views.show import whole
from gateway.views.turn import WORDS, SessionState, TurnState


@dataclass(slots=True)
class Writing:
    """What a model step has written so far; known to this process alone."""

    turn_id: str
    step_id: str
    text: str = ""


def written(turn: TurnState, writing: Writing | None) -> str:
    """What the turn has said so far, without the end of it that may be half a secret.

    As long as nothing of it is taken back, it is the beginning of everything that it will have said.
    """
    parts = [turn.spoken, turn.words]
    if writing is not None and writing.turn_id == turn.turn_id and writing.step_id != turn.over_step:
        parts.append(without_begun_secret(writing.text))
    return _joined(*parts)


def in_full(turn: TurnState, answer: str | None) -> str:
    """Everything that a turn that is over has said."""
    return _joined(turn.spoken, answer or "")


def _joined(*parts: str) -> str:
    return whole("\n\n".join(stripped for part in parts if (stripped := part.strip())))


def turn_stream(state: SessionState, now_ms: int, text: str, *, stream_id: str, labels: tuple[str, ...] = ()) -> Stream:
    """The turn while it runs: `text` so far, and a row for each call, always in the same order."""
    turn = state.turn
    assert turn is not None, "only a turn is streamed"
    return Stream(
        stream_id=stream_id,
        markdown=text,
        rows=_rows(turn, labels),
        title=_title(state, turn, now_ms),
    )


def _title(state: SessionState, turn: TurnState, now_ms: int) -> str:
    """What it does. Time is not shown: each second would be one more thing to stream."""
    waiting = (say("stream.queue", n=len(state.waiting)),) if state.waiting else ()
    return " · ".join((say(PHASE_WORDS[turn.phase]), *waiting, *(row.text for row in notes(turn, now_ms))))


def _rows(turn: TurnState, labels: tuple[str, ...]) -> tuple[Row, ...]:
    told = (Row(state=RowState.NOTE, text=label) for label in labels)
    return (*told, *(line.row for line in turn.lines if line.key != WORDS))


def last_stream(
    turn: TurnState,
    text: str,
    headline: str,
    *,
    stream_id: str,
    labels: tuple[str, ...] = (),
    controls: tuple[Control, ...] = (),
) -> Stream:
    """The stream of a turn that is over, closed; `headline` says how it ended. A call without an end has none."""
    rows = tuple(
        Row(state=RowState.SKIPPED, text=row.text) if row.state is RowState.RUNNING else row
        for row in _rows(turn, labels)
    )
    return Stream(stream_id=stream_id, markdown=text, rows=rows, title=headline, closed=True, controls=controls)
