"""What a person sees who has to decide: the whole action, then a card with the buttons, and in the end the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from adapters.contract import ApprovalCard, Capabilities, Control, Markup, Style, Verbatim, View
from gateway.ledger.surfaces import Letter, payload
from gateway.strings import say, some
from gateway.views.action import (
    MAX_ACTION_BYTES,
    MAX_SHOWN_BYTES,
    action_text,
    gated_actions,
    hidden_in,
    hosts_in,
    raw_bytes,
    whole_digest,
)
from gateway.views.question import question_card, question_choices
from gateway.views.show import plain, show
from gateway.views.words import clock_time, moment
from runtime.protocol.approvals import PendingApproval, Resolution
from runtime.tools.ask_user import question_of

INLINE_UNITS = 1200
"""An action that is longer goes before the card, in messages of its own: the card's own lines need room too."""

SHOWN_HOSTS = 5
TITLE_LIMIT = 100
ORDINARY_REASON = "policy"
"""The runtime's word where the tool simply has to be asked for: it tells nobody anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who asks and who is asked. `mention` are exact platform ids of approvers, for the places where that notifies.

    `summaries`: one line for each gated call, in their order; only to say in short what the whole action says.
    """

    labels: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()
    requester: str | None = None
    deciders: tuple[str, ...] = ()
    mention: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TooLong:
    """Nobody can check it in a chat, so nobody is asked. `reason` is for the model."""

    reason: str


def approval_parts(
    pending: PendingApproval, ask: Ask, token: str, now_ms: int, markup: Markup, capabilities: Capabilities
) -> tuple[View, ...] | TooLong:
    """The messages that ask for a decision: the action first if it is long, the card with the buttons last.

    Every byte of every gated action is in them. The card repeats the digest of what stands above it.
    """
    question = question_of(pending)
    if question is not None:
        return (question_card(question, ask.labels, pending.expires_at_ms, token, now_ms),)
    actions = gated_actions(pending)
    text = action_text(actions)
    if raw_bytes(actions) > MAX_ACTION_BYTES or len(text.encode()) > MAX_SHOWN_BYTES:
        return TooLong(say("approval.too_long"))
    digest = whole_digest(pending.digests, pending.gated)
    pieces = () if _fits(text, markup, capabilities) else markup.split_verbatim(text)
    parts = tuple(
        Verbatim(title=say("approval.part", part=n, parts=len(pieces), digest=digest[:16]), text=piece)
        for n, piece in enumerate(pieces, 1)
    )
    return (*parts, _card(pending, ask, token, now_ms, "" if pieces else text, _above(len(pieces), digest)))


def _fits(text: str, markup: Markup, capabilities: Capabilities) -> bool:
    return units(text, capabilities.text_unit) <= min(INLINE_UNITS, capabilities.max_text // 2) and (
        len(markup.split_verbatim(text)) <= 1
    )


def units(text: str, unit: Literal["utf16", "chars", "bytes"]) -> int:
    """The length of `text` as the platform counts it."""
    match unit:
        case "chars":
            return len(text)
        case "bytes":
            return len(text.encode("utf-8", "surrogatepass"))
        case "utf16":
            return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _above(messages: int, digest: str) -> list[str]:
    return [some(messages, "approval.above_one", "approval.above", digest=digest[:16])] if messages else []


def _card(pending: PendingApproval, ask: Ask, token: str, now_ms: int, body: str, above: list[str]) -> ApprovalCard:
    lines = [*_calls(pending, ask), *_labels(pending, ask), *_lines(pending, ask, now_ms), *above]
    return ApprovalCard(
        title=approval_title(pending, ask.summaries),
        lines=tuple(lines),
        body=body,
        warning="\n".join(_warnings(pending)),
        controls=_controls(pending, token),
        mention=ask.mention,
    )


def approval_title(pending: PendingApproval, summaries: Sequence[str] = ()) -> str:
    """What the card is called: the calls in short. Once it is decided, these alone; see `outcome_card`."""
    return say("approval.title", tools=plain(", ".join(dict.fromkeys(_in_short(pending, summaries))), TITLE_LIMIT))


def _in_short(pending: PendingApproval, summaries: Sequence[str]) -> list[str]:
    """Each gated call in one line: its tool, and what it is called with."""
    tools = [plain(show(action.tool), 40) for action in gated_actions(pending)]
    return [
        f"{tool} {plain(show(said))}".strip()
        for tool, said in zip_longest(tools, summaries[: len(tools)], fillvalue="")
    ]


def _calls(pending: PendingApproval, ask: Ask) -> list[str]:
    calls = _in_short(pending, ask.summaries)
    if len(calls) <= 1:
        return []  # the title says it
    return [say("approval.calls", n=len(calls)), *(f"{n}. {plain(call, 120)}" for n, call in enumerate(calls, 1))]


def _labels(pending: PendingApproval, ask: Ask) -> list[str]:
    """The session's labels, without that of a workspace that the action itself names in the same words."""
    named = {action.workspace_id for action in gated_actions(pending)}
    [only] = named if len(named) == 1 else [None]
    known = None if only is None else say("card.workspace", label=plain(only, 80)).casefold()
    return [label for label in ask.labels if label.casefold() != known]


def _lines(pending: PendingApproval, ask: Ask, now_ms: int) -> list[str]:
    lines: list[str] = []
    if pending.reason and pending.reason != ORDINARY_REASON:
        lines.append(say("approval.why", reason=plain(show(pending.reason), 200)))
    if ask.requester:
        lines.append(say("approval.asked_by", who=plain(ask.requester, 220)))
    if ask.deciders:
        lines.append(say("approval.deciders", who=", ".join(plain(name, 60) for name in ask.deciders)))
    if pending.expires_at_ms is not None:
        lines.append(say("approval.expires", at=moment(pending.expires_at_ms, now_ms)))
    return lines


def _warnings(pending: PendingApproval) -> list[str]:
    actions = gated_actions(pending)
    warnings = [say("approval.high_risk")] if pending.high_risk else []
    if count := hidden_in(actions):
        warnings.append(some(count, "approval.hidden_one", "approval.hidden"))
    hosts = hosts_in(actions)
    warnings += [say("approval.host", shown=show(host), ascii=punycode) for host, punycode in hosts[:SHOWN_HOSTS]]
    if len(hosts) > SHOWN_HOSTS:
        warnings.append(say("approval.hosts_more", n=len(hosts) - SHOWN_HOSTS))
    return warnings


def _controls(pending: PendingApproval, token: str) -> tuple[Control, ...]:
    confirm = say("control.confirm_high_risk") if pending.high_risk else None
    approve = Control(
        label=say("control.approve"), token=payload(token, Letter.APPROVE), style=Style.PRIMARY, confirm=confirm
    )
    deny = Control(label=say("control.deny"), token=payload(token, Letter.DENY), style=Style.DANGER)
    session = Control(label=say("control.session"), token=payload(token, Letter.SESSION))
    details = Control(label=say("control.details"), token=payload(token, Letter.DETAILS))
    return (approve, deny, details) if pending.high_risk else (approve, deny, session, details)


def approval_choices(pending: PendingApproval) -> str:
    """The letters that the card offers; any other press is refused."""
    question = question_of(pending)
    if question is not None:
        return question_choices(question)
    letters = (Letter.APPROVE, Letter.DENY, *(() if pending.high_risk else (Letter.SESSION,)), Letter.DETAILS)
    return "".join(letters)


_OUTCOMES = {
    Resolution.APPROVED: "outcome.approved",
    Resolution.APPROVED_FOR_SESSION: "outcome.approved_for_session",
    Resolution.EDITED: "outcome.edited",
    Resolution.DENIED: "outcome.denied",
    Resolution.ABORTED: "outcome.aborted",
    Resolution.EXPIRED: "outcome.expired",
    Resolution.UNDELIVERABLE: "outcome.undeliverable",
    Resolution.INTERRUPTED: "outcome.interrupted",
    Resolution.INVALIDATED: "outcome.invalidated",
}


def outcome_card(title: str, decision: Resolution, who: str | None, at_ms: int, reason: str = "") -> ApprovalCard:
    """The card once its request is closed: one line with the decider's name and the calls in short, no controls.

    `title` is that of the card that asked.
    """
    title = title.removeprefix(say("approval.title", tools=""))
    key, values = _OUTCOMES[decision], {"who": plain(who or say("who.somebody"), 60), "at": clock_time(at_ms)}
    if decision is Resolution.EDITED and reason:
        key, values["reason"] = "outcome.answered", plain(show(reason), 200)
    if decision is Resolution.DENIED and reason:
        key, values["reason"] = "outcome.denied_because", plain(reason, 200)
    return ApprovalCard(title=title, outcome=say(key, **values))
