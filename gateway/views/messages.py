"""Answers, and words of ours at the end of a turn."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from adapters.contract import (
    Answer,
    ApprovalCard,
    Control,
    Document,
    File,
    Markup,
    MessageRef,
    Notice,
    Phase,
    Private,
    Reaction,
    Stream,
    ThreadStatus,
    TurnCard,
    Typing,
    Verbatim,
    View,
)
from gateway.ledger.surfaces import Letter, payload
from gateway.strings import say, some
from gateway.views.card import continue_control, finished_words
from gateway.views.show import plain, whole
from gateway.views.turn import TurnState
from runtime.protocol import events

FILE_BEYOND_PARTS = 3
ANSWER_FILE = "answer.md"
STOPPED = "stopped"
"""The runtime's reason of a turn that a person stopped and whose session goes on."""


def answer(text: str | None, markup: Markup, reply_to: MessageRef | None = None) -> tuple[View, ...]:
    """The answer in as many messages as it needs, nothing cut; a very long one also as a file. Never empty."""
    words = whole(text or "")
    parts = markup.split(words)
    if not parts:
        return (Notice(text=say("answer.empty"), reply_to=reply_to, notify=True),)
    views = tuple(Answer(markdown=part, reply_to=reply_to if n == 0 else None) for n, part in enumerate(parts))
    if len(parts) <= FILE_BEYOND_PARTS:
        return views
    return (*views, Document(name=ANSWER_FILE, text=words, caption=say("answer.file")))


def failure(turn: TurnState, token: str, reply_to: MessageRef | None = None) -> Notice:
    """The turn failed: one sentence, a reference, and what can be done. Never a traceback."""
    error = turn.error
    lines = [say("fail.line", message=plain(error.message, 500) if error else say("fail.generic"))]
    if error and error.reference:
        lines.append(say("fail.reference", reference=plain(error.reference, 40)))
    return Notice(
        text="\n".join(lines), level="error", reply_to=reply_to, controls=failure_controls(token), notify=True
    )


def failure_controls(token: str) -> tuple[Control, ...]:
    """[Retry] [Details]."""
    return (
        Control(label=say("control.retry"), token=payload(token, Letter.RETRY)),
        Control(label=say("control.details"), token=payload(token, Letter.DETAILS)),
    )


FAILURE_CHOICES = Letter.RETRY + Letter.DETAILS


def stopped(turn: TurnState, who: str | None, token: str, reply_to: MessageRef | None = None) -> Notice:
    """The turn was stopped by a person; what had been finished stays done, so it is named. [Continue] goes on."""
    said = say("stop.done", who=who) if who else say("stop.done_nobody")
    lines = filter(None, (said, finished_words(turn)))
    return Notice(text="\n".join(lines), reply_to=reply_to, controls=(continue_control(token),))


def interrupted(token: str, reply_to: MessageRef | None = None) -> Notice:
    """A restart ended the turn."""
    controls = failure_controls(token)[:1]
    return Notice(text=say("end.restart"), level="warning", reply_to=reply_to, controls=controls, notify=True)


def ended(reason: str, reply_to: MessageRef | None = None) -> Notice:
    """The turn ended without an answer and without a fault: a policy said no, or the session was closed."""
    text = say("end.reason", reason=plain(reason, 500))
    return Notice(text=text, level="warning", reply_to=reply_to, notify=True)


def end_notice(
    turn: TurnState, msg: events.TurnAborted, who: str | None, token: str, reply_to: MessageRef | None
) -> tuple[Notice, str]:
    """What is said where a turn ended without an answer, and the letters that its controls offer."""
    match turn.phase:
        case Phase.FAILED:
            return failure(turn, token, reply_to), FAILURE_CHOICES
        case Phase.INTERRUPTED:
            return interrupted(token, reply_to), Letter.RETRY.value
        case _ if msg.by:
            notice = stopped(turn, who, token, reply_to)
            if msg.reason == STOPPED:
                return notice, Letter.CONTINUE.value
            return replace(notice, controls=()), ""  # its session has ended, so there is nothing to go on with
        case _:
            return ended(msg.reason, reply_to), ""


def without_controls(view: View) -> View:
    """`view` once its controls count no more."""
    match view:
        case TurnCard() | ApprovalCard() | Answer() | Notice() | Stream():
            return replace(view, controls=())
        case _:
            return view


def removed(count: int) -> Notice:
    """Messages that waited were removed with their session."""
    return Notice(text=some(count, "removed.one", "removed.many"))


def trouble(error: events.Error) -> Notice:
    """Something is wrong with the session, outside any turn."""
    lines = [say("session.trouble", message=plain(error.message, 500))]
    if error.reference:
        lines.append(say("fail.reference", reference=plain(error.reference, 40)))
    return Notice(text="\n".join(lines), level="error", notify=True)


# --------------------------------------------------------------------------------------------- the same, once more


def repeated(view: View, token: str | None = None) -> View | None:
    """`view` marked as perhaps being there twice, its controls with `token`; None for what is never repeated."""
    match view:
        case ApprovalCard() | Answer() | Notice():
            return replace(view, repeat=True, controls=tuple(_with_token(control, token) for control in view.controls))
        case Verbatim():
            return replace(view, title=_marked(view.title))
        case Document() | File():
            return replace(view, caption=_marked(view.caption))
        case TurnCard() | Reaction() | Typing() | Stream() | ThreadStatus() | Private():
            return None
        case _:
            assert_never(view)


def _marked(text: str) -> str:
    mark = f"({say('answer.repeat')})"
    return text if mark in text else f"{text} {mark}".strip()


def _with_token(control: Control, token: str | None) -> Control:
    if token is None:
        return control
    return replace(control, token=payload(token, Letter(control.token[-1])))


def without_markup(view: View) -> View | None:
    """The same words where the platform could not read our markup; None where there is no simpler way.

    An answer becomes plain text, and a plain text that is refused too becomes a file. An approval has no simpler way:
    what cannot be shown as it has to be shown is not asked.
    """
    match view:
        case Answer():
            return Notice(
                text=view.markdown, reply_to=view.reply_to, controls=view.controls, notify=view.notify,
                repeat=view.repeat,
            )  # fmt: skip
        case _:
            return None


def as_file(view: View) -> View | None:
    """The same words as a file, where a message is refused whatever it looks like; None where that is no way."""
    match view:
        case Answer(markdown=text, reply_to=reply_to) | Notice(text=text, reply_to=reply_to, controls=()):
            return Document(name=ANSWER_FILE, text=text, reply_to=reply_to)
        case _:
            return None


def in_parent_chat(view: View) -> View:
    """`view` for the chat of a thread that is gone, saying so."""
    note = say("answer.thread_gone")
    match view:
        case Answer():
            return replace(view, footer="\n".join(filter(None, (view.footer, note))), reply_to=None)
        case ApprovalCard():
            return replace(view, lines=(note, *view.lines))
        case Notice():
            return replace(view, text=f"{view.text}\n{note}", reply_to=None)
        case Document() | File():
            return replace(view, caption=f"{view.caption}\n{note}".strip(), reply_to=None)
        case TurnCard() | Verbatim() | Reaction() | Typing() | Stream() | ThreadStatus() | Private():
            return view
        case _:
            assert_never(view)
