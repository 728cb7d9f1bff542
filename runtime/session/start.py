"""How a session is found: loaded or made, recovered in one transaction, and what waits announced again."""

from __future__ import annotations

import logging

from runtime import loop_moves, transitions
from runtime.config import AgentConfig
from runtime.errors import CheckpointError, ConfigurationError, NoModelRoute
from runtime.middleware import Stop
from runtime.protocol import events
from runtime.protocol.checkpoint import Checkpoint
from runtime.protocol.events import Event
from runtime.session import recovery
from runtime.session.state import SessionState
from runtime.store.base import Lease
from runtime.transitions import Draft

log = logging.getLogger("pilothouse.runtime")

JOINING = (events.Message, events.AssistantMessage, events.ToolCallEnd)
"""The events with which something joined the context."""


async def find(config: AgentConfig, session_id: str, lease: Lease) -> SessionState:
    """The stored session, or a new one; refused where its id or its model route is not what it must be."""
    found = await config.store.load(session_id)
    if found is None:
        opened = Checkpoint(
            session_id=session_id,
            session_context=config.session_context,
            metadata=dict(config.metadata or {}),
            model_route=config.default_route,
        )
        return SessionState(config, opened, lease, is_new=True)
    if found.session_id != session_id:
        raise CheckpointError(f"the store gave session {found.session_id!r} for {session_id!r}")
    route = config.default_route if config.override_saved_model_route else found.model_route
    if route is None:
        raise NoModelRoute
    config.models.get(route)
    return SessionState(config, found, lease, is_new=False)


async def recover(state: SessionState) -> None:
    """The one start-up transaction, and what is told of it. Nothing is written if nothing changed."""
    state.grants = await state.store.grants(state.session_id)
    draft = _recovered(state)
    for outcome in await state.ask_hooks("session_start", draft):
        if isinstance(outcome, Stop):
            raise ConfigurationError(f"the session was refused: {outcome.reason}")
    configured = events.SessionConfigured(
        session_id=state.session_id,
        context=draft.checkpoint.session_context,
        model=state.config.models.info(draft.checkpoint.model_route or state.config.default_route),
    )
    history = await _history(state)
    if draft.changed or state.is_new:
        stored = Event(sequence=None, submission_id=None, recorded_at_ms=draft.now_ms, msg=configured)
        draft.events.insert(0, stored)
        await state.commit(draft, "start", history=history)
    else:
        state.show(configured, *([history] if history else []))
    _announce_again(state)


def _recovered(state: SessionState) -> Draft:
    config = state.config
    options = recovery.RecoveryOptions(
        on_interrupted_step=config.on_interrupted_step, on_uncertain_tools=config.on_uncertain_tools
    )
    draft = recovery.recover(
        state.checkpoint,
        options,
        state.gate.replay_of,
        state.clock.now_ms(),
        state.reference(),
        state.execution_id,
    )
    if draft.checkpoint.loop_state is not None and loop_moves.loop_of(draft.checkpoint) is None:
        log.error("session %s: its stored loop state is malformed; no loop goes on", state.session_id)
    if config.override_saved_model_route and draft.checkpoint.model_route != config.default_route:
        draft.change(model_route=config.default_route)
    if config.metadata is not None and dict(config.metadata) != dict(draft.checkpoint.metadata):
        draft.change(metadata=dict(config.metadata))
    return draft


async def _history(state: SessionState) -> events.SessionHistory | None:
    """The stored events of the last batches: from the n-th last event with which something joined the context."""
    wanted = state.config.initial_replay_batches
    if state.is_new or not wanted or not state.last_event:
        return None
    newest_first: list[Event] = []
    batches, before = 0, None
    while batches < wanted:
        page = await state.store.event_page(state.session_id, before=before, limit=200)
        for event in page.events:
            newest_first.append(event)
            batches += isinstance(event.msg, JOINING)
            if batches == wanted:
                break
        before = page.next_before
        if before is None:
            break
    return events.SessionHistory(events=tuple(reversed(newest_first))) if batches else None


def _announce_again(state: SessionState) -> None:
    """Tell what still waits: messages, and a request for approval."""
    now = state.clock.now_ms()
    state.publish(
        [
            Event(
                sequence=None,
                submission_id=message.id,
                recorded_at_ms=now,
                msg=transitions.announce(message, position),
            )
            for position, message in enumerate(state.checkpoint.pending_messages, start=1)
        ]
    )
    approval, active = state.checkpoint.pending_approval, state.checkpoint.active_execution
    if approval is not None and approval.decision is None and active is not None:
        state.show(transitions.announce_approval(approval, state.gate.summaries(approval), active))
