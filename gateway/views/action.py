"""A whole action as text: every byte of it, in a fixed layout that nothing in it can imitate.

Lines of ours start at the margin. A value that goes on after a line end goes on four blanks further in, so no value
can pretend to be a line of ours. `read_action` gives back what was written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gateway.secrets import redact_registered
from gateway.views.show import foreign_hosts, hidden_count, show, unshow
from runtime.protocol.approvals import Action, PendingApproval
from runtime.protocol.context import JsonValue

MAX_ACTION_BYTES = 16 * 1024
MAX_SHOWN_BYTES = 4 * MAX_ACTION_BYTES
"""What is all escapes grows eightfold; nobody reads that either."""

_INDENT = "\n    "
_LINE_END = "⏎\n"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_ENTRY = re.compile(r'(?P<kind>[a-z]+)(?: (?P<name>"[^"]*"|[A-Za-z_][A-Za-z0-9_.-]*))?(?P<is>:| =) ')


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of an action. `json`: the text is JSON, else the value is that very text."""

    kind: str
    name: str | None
    text: str
    json: bool = False


def gated_actions(pending: PendingApproval) -> tuple[Action, ...]:
    """The actions to decide on, in the order of their calls."""
    return tuple(pending.actions[call_id] for call_id in pending.gated)


def entries(action: Action) -> Iterator[Entry]:
    """Every value of the action that says what would happen."""
    yield Entry("tool", None, action.tool)
    for name, value in action.arguments.items():
        yield _argument(name, value)
    for argument in action.argv:
        yield Entry("argv", None, argument)
    if action.cwd is not None:
        yield Entry("folder", None, action.cwd)
    for name, value in action.environment.items():
        yield Entry("environment", name, value)
    if action.stdin_hash is not None:
        yield Entry("stdin", None, f"sha256 {action.stdin_hash}")
    for name, digest in action.files.items():
        yield Entry("file", name, f"sha256 {digest}" if _SHA256.fullmatch(digest) else digest)
    yield Entry("network", None, action.network)
    yield Entry("sandbox", None, action.sandbox)
    if action.timeout_seconds is not None:
        yield Entry("seconds", None, f"{action.timeout_seconds:g}")
    if action.workspace_id is not None:
        yield Entry("workspace", None, action.workspace_id)


def _argument(name: str, value: JsonValue) -> Entry:
    if isinstance(value, str):
        return Entry("argument", name, value)
    return Entry("argument", name, json.dumps(value, ensure_ascii=False), json=True)


def action_text(actions: Sequence[Action]) -> str:
    """All of `actions`, for reading before a decision; only registered secrets are masked."""
    blocks = ["\n".join(_line(entry) for entry in entries(action)) for action in actions]
    if len(blocks) == 1:
        return blocks[0]
    return "\n".join(f"action {n} of {len(blocks)}\n{block}" for n, block in enumerate(blocks, 1))


def _line(entry: Entry) -> str:
    name = "" if entry.name is None else f" {_name(redact_registered(entry.name))}"
    sign = " =" if entry.json else ":"
    shown = show(redact_registered(entry.text))
    if shown.endswith(_LINE_END):  # its sign says it; an empty line below would only look as if something were missing
        shown = shown[:-1]
    return f"{entry.kind}{name}{sign} {shown.replace(chr(10), _INDENT)}"


def _name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    return '"' + show(name).replace('"', "\\u{22}").replace("\n", _INDENT) + '"'


def read_action(text: str) -> list[list[Entry]]:
    """The entries of each action that `action_text` wrote."""
    actions: list[list[Entry]] = []
    for line in re.split(r"\n(?! {4})", text):
        if re.fullmatch(r"action [0-9]+ of [0-9]+", line):
            actions.append([])
            continue
        if not actions:
            actions.append([])
        actions[-1].append(_read_line(line))
    return actions


def _read_line(line: str) -> Entry:
    match = _ENTRY.match(line)
    if match is None:
        raise ValueError(f"not a line of an action: {line!r}")
    name = match["name"]
    if name is not None and name.startswith('"'):
        name = unshow(name[1:-1].replace(_INDENT, "\n"))
    shown = line[match.end() :].replace(_INDENT, "\n")
    if shown.endswith(_LINE_END[0]):
        shown += "\n"
    return Entry(match["kind"], name, unshow(shown), json=match["is"] == " =")


def raw_bytes(actions: Sequence[Action]) -> int:
    """The size of all values in UTF-8."""
    return sum(
        len(entry.text.encode("utf-8", "surrogatepass")) + len((entry.name or "").encode("utf-8", "surrogatepass"))
        for action in actions
        for entry in entries(action)
    )


def hidden_in(actions: Sequence[Action]) -> int:
    """How many characters of the actions are hidden."""
    return sum(hidden_count(entry.text) + hidden_count(entry.name or "") for a in actions for entry in entries(a))


def hosts_in(actions: Sequence[Action]) -> tuple[tuple[str, str], ...]:
    """Host names with letters beyond ASCII in the actions, with their punycode."""
    found = (pair for action in actions for entry in entries(action) for pair in foreign_hosts(entry.text))
    return tuple(dict.fromkeys(found))


def whole_digest(digests: Mapping[str, str], gated: Sequence[str]) -> str:
    """One digest for all gated actions of a request."""
    if len(gated) == 1:
        return digests[gated[0]]
    return hashlib.sha256(msgspec.json.encode([digests[call_id] for call_id in gated])).hexdigest()
