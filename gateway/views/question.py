"""What people see who are asked something: the question, a button for each choice, and in the end the answer."""

from __future__ import annotations

from adapters.contract import ApprovalCard, Control
from gateway.ledger.surfaces import CHOICES, payload
from gateway.strings import say
from gateway.views.show import plain, show
from gateway.views.words import moment
from runtime.protocol.approvals import Action
from runtime.tools.ask_user import choices_of

SHORT = 100


def question_card(
    question: Action, labels: tuple[str, ...], expires_at_ms: int | None, token: str, now_ms: int
) -> ApprovalCard:
    """The card that asks; its text is the model's, shown as it is, with nothing in it interpreted."""
    text = show(str(question.arguments["question"]))
    short = plain(text, SHORT)
    lines = [*labels, say("question.how" if choices_of(question) else "question.how_words")]
    if expires_at_ms is not None:
        lines.append(say("question.expires", at=moment(expires_at_ms, now_ms)))
    controls = tuple(
        Control(label=plain(show(choice), 60), token=payload(token, letter))
        for choice, letter in zip(choices_of(question), CHOICES, strict=False)
    )
    return ApprovalCard(
        title=say("question.title", question=short), lines=tuple(lines), body="" if text == short else text,
        controls=controls,
    )  # fmt: skip


def question_choices(question: Action) -> str:
    """The letters that the card offers."""
    return "".join(CHOICES[: len(choices_of(question))])
