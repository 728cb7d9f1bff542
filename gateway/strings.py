"""Every sentence that people see, by key, in English.

Keys are `moment.detail`. Placeholders are named. Words carry the meaning; signs only help.
"""

from __future__ import annotations

from typing import Final

TEXTS: Final[dict[str, str]] = {
    # The card of a running turn
    "card.starting": "Starting",
    "card.thinking": "Thinking",
    "card.working": "Working",
    "card.waiting": "Waiting for approval",
    "card.stopping": "Stopping…",
    "card.done": "Done",
    "card.failed": "Failed",
    "card.stopped": "Stopped",
    "card.stopped_by": "Stopped by {who}",
    "card.interrupted": "Interrupted by a restart",
    "card.ended": "Ended",
    "card.recovered": "↻ Restarted, going on by itself",
    "card.retrying": "The model service did not answer, trying again",
    "card.steered": "↪ {who}: {text}",
    "card.compacted": "Earlier conversation summarised",
    "card.unknown_tool": "{what}: a restart came between, so the result is unknown",
    "card.skipped_tool": "{what}: skipped",
    "card.stalled": "No output for {minutes} min, still running {what}",
    "card.stalled_model": "No output for {minutes} min, still waiting for the model",
    "card.workspace": "Workspace: {label}",
    "card.origin": "From: {label}",
    # Counters
    "count.tool": "{n} tool",
    "count.tools": "{n} tools",
    "count.tokens": "{n} tokens",
    "count.cost": "${amount}",
    # Controls
    "control.approve": "Approve",
    "control.deny": "Deny",
    "control.session": "Allow for this session",
    "control.details": "Details",
    "control.stop": "Stop",
    "control.retry": "Retry",
    "control.confirm_high_risk": "This action can do lasting harm. Run it?",
    # Approvals
    "approval.title": "Approval needed · {tools}",
    "approval.asked_by": "Asked by {who}",
    "approval.deciders": "Can decide: {who}",
    "approval.expires": "Expires {at}",
    "approval.why": "Reason: {reason}",
    "approval.calls": "{n} actions, decided together",
    "approval.above": "The whole action is in the {n} messages above · sha256 {digest}",
    "approval.above_one": "The whole action is in the message above · sha256 {digest}",
    "approval.part": "Action to approve, part {part} of {parts} · sha256 {digest}",
    "approval.hidden": "⚠ contains {n} hidden characters, shown as \\u{{…}}",
    "approval.hidden_one": "⚠ contains 1 hidden character, shown as \\u{{…}}",
    "approval.host": "⚠ {shown} is the host {ascii}",
    "approval.hosts_more": "⚠ and {n} more hosts with letters beyond ASCII",
    "approval.high_risk": "⚠ High risk",
    "approval.too_long": (
        "The action is longer than 16 KiB, so nobody can check it in a chat. "
        "Write it into a script file first, then ask to run that file."
    ),
    "approval.refused": "An action was not asked for: it is longer than 16 KiB. Nothing was run.",
    "approval.not_shown": "The request could not be shown in the chat",
    "outcome.approved": "✅ Approved by {who} · {at}",
    "outcome.approved_for_session": "✅ Allowed for this session by {who} · {at}",
    "outcome.edited": "✅ Approved with changes by {who} · {at}",
    "outcome.denied": "🚫 Denied by {who} · {at}",
    "outcome.denied_because": "🚫 Denied by {who} · {at}: {reason}",
    "outcome.aborted": "⏹ Refused and stopped by {who} · {at}",
    "outcome.expired": "⌛ Expired, not run · {at}",
    "outcome.undeliverable": "⚠ Could not be shown in full, not run · {at}",
    "outcome.interrupted": "⏹ The turn was stopped, not run · {at}",
    "outcome.invalidated": "No longer valid, not run · {at}",
    # The end of a turn
    "answer.empty": "Done. There is nothing to add.",
    "answer.file": "The whole answer as a file",
    "answer.thread_gone": "The thread of this conversation is gone, so this comes here.",
    "answer.repeat": "sent again, it may be there twice",
    "stop.done": "⏹ Stopped by {who}.",
    "stop.done_nobody": "⏹ Stopped.",
    "stop.steps": "Finished before that: {tools}.",
    "fail.generic": "Something went wrong. Your work so far is kept.",
    "fail.line": "✖ {message}",
    "fail.reference": "Reference: {reference}",
    "end.reason": "The turn ended without an answer: {reason}",
    "end.restart": "⚠ A restart interrupted this turn. Your work so far is kept.",
    "removed.one": "1 waiting message was removed from the queue.",
    "removed.many": "{n} waiting messages were removed from the queue.",
    "session.trouble": "⚠ {message}",
    # Somebody else is told
    "who.nobody": "nobody",
    "who.somebody": "somebody",
    "owner.dead_chat": (
        "The {platform} chat {chat} takes nothing from me any more: {reason}. What waited for it was given up."
    ),
    "owner.bad_credentials": "{platform} refuses my credentials ({account}). What waits is kept until they work.",
}


def say(key: str, /, **values: object) -> str:
    """The sentence under `key` with its placeholders filled. KeyError names a key or a placeholder that is missing."""
    return TEXTS[key].format(**values)


def some(count: int, one: str, many: str, **values: object) -> str:
    """`one` or `many`, as `count` asks; `n` is filled with the count."""
    return say(one if count == 1 else many, n=count, **values)
