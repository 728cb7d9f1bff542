"""What is to be done next about a thread that we open ourselves. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from adapters.contract import Capabilities
from gateway.ledger.threads import Opening

Step: TypeAlias = Literal["root", "open", "parent", "unknown"]
"""Send its first message to the parent; ask the platform for it; use the parent, which is known or not to be all."""


def next_step(thread: Opening, capabilities: Capabilities | None, *, root_waits: bool) -> Step:
    """The next step for a thread that is not settled. `root_waits`: its first message has still to go out.

    A topic begins empty; everywhere else a thread hangs on a message. Where the platform may open a second one under
    the same key, one that may be open already is not asked for again.
    """
    if capabilities is None:
        return "root" if root_waits else "open"  # both wait for the platform
    if not capabilities.can_create_thread or capabilities.threads == "none":
        return "parent"
    if thread.stage == "opening":
        return "unknown" if capabilities.idempotent_send == "none" else "open"
    if capabilities.threads == "topic" or thread.root is not None:
        return "open"
    return "root" if root_waits else "parent"
