"""What Slack's own models say to the blocks and views that a client sent: they know limits on their own account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block
from slack_sdk.models.messages.chunk import Chunk
from slack_sdk.models.views import View

from adapters.emulators.slack import SlackEmulator


def objections(emulator: SlackEmulator) -> list[str]:
    """Why Slack's models would refuse something that the emulator took; empty if they would not."""
    found: list[str] = []
    for call in emulator.calls():
        if call.ok:
            found += [f"{call.method}: {one}" for one in _objections(call.params)]
    return found


def _objections(params: Any) -> Iterator[str]:
    for block in params.get("blocks") or []:
        yield from block_objections(block)
    for chunk in params.get("chunks") or []:
        if Chunk.parse(chunk) is None:
            yield f"no such chunk: {chunk}"
        for block in chunk.get("blocks") or []:
            yield from block_objections(block)
    if view := params.get("view"):
        yield from _view_objections(view)


def block_objections(block: dict[str, Any]) -> Iterator[str]:
    """Why the models refuse this block."""
    try:
        parsed = Block.parse(block)
        if parsed is None:
            yield f"no such block: {block}"
        else:
            # Only turning it back looks at what is nested.
            parsed.to_dict()
    except SlackObjectFormationError as error:
        yield f"{error} in {block}"


def _view_objections(view: dict[str, Any]) -> Iterator[str]:
    try:
        View(**view).to_dict()
    except SlackObjectFormationError as error:
        yield f"{error} in {view}"
