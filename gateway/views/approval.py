"""What a person sees who has to decide: the whole action, then a card with the buttons, and in the end the outcome."""

from __future__ import annotations

from dataclasses import dataclass
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
from gateway.views.show import plain, show
from gateway.views.words import clock_time, moment
from runtime.protocol.approvals import PendingApproval, Resolution

INLINE_UNITS = 1200
"""An action that is longer goes before the card, in messages of its own: the card's own lines need room too."""

SHOWN_HOSTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who asks and who is asked. `mention` are exact platform ids of approvers, for the places where that notifies."""

    labels: tuple[str, ...] = ()
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
    lines = [*ask.labels, *_lines(pending, ask, now_ms), *above]
    return ApprovalCard(
        title=approval_title(pending),
        lines=tuple(lines),
        body=body,
        warning="\n".join(_warnings(pending)),
        controls=_controls(pending, token),
        mention=ask.mention,
    )


def approval_title(pending: PendingApproval) -> str:
    """What the card is called, before and after the decision."""
    tools = dict.fromkeys(plain(show(action.tool), 40) for action in gated_actions(pending))
    return say("approval.title", tools=", ".join(tools))


def _lines(pending: PendingApproval, ask: Ask, now_ms: int) -> list[str]:
    lines: list[str] = []
    if len(pending.gated) > 1:
        lines.append(say("approval.calls", n=len(pending.gated)))
    if pending.reason:
        lines.append(say("approval.why", reason=plain(show(pending.reason), 200)))
    if ask.requester:
        lines.append(say("approval.asked_by", who=plain(ask.requester, 60)))
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
    """The card once its request is closed: one line with the decider's name, and no controls."""
    key, values = _OUTCOMES[decision], {"who": plain(who or say("who.somebody"), 60), "at": clock_time(at_ms)}
    if decision is Resolution.DENIED and reason:
        key, values["reason"] = "outcome.denied_because", plain(reason, 200)
    return ApprovalCard(title=title, outcome=say(key, **values))
