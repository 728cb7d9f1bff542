"""Model steps, and what becomes of the context. Pure, into a draft."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from runtime import loop_moves
from runtime.protocol import events
from runtime.protocol.approvals import PendingTool
from runtime.protocol.checkpoint import (
    ActiveModelStep,
    ExecutionPhase,
)
from runtime.protocol.context import (
    AssistantMessage,
    AssistantPart,
    Context,
    ContextItem,
    JsonValue,
    SystemMessage,
    TextPart,
    ToolCall,
    Usage,
)
from runtime.transitions.draft import Draft, set_loop


def start_step(draft: Draft, model_step_id: str) -> None:
    """A model call is about to start."""
    active = draft.active
    step = ActiveModelStep(model_step_id=model_step_id, step_index=active.next_model_step, started_at_ms=draft.now_ms)
    draft.change(active_model_step=step)
    draft.change_active(model_calls=active.model_calls + 1, phase=ExecutionPhase.model())
    loop = loop_moves.within_iteration(draft.checkpoint)
    if loop is not None:
        set_loop(draft, loop_moves.round_started(loop, step.step_index))
    draft.emit(events.ModelStepStarted(turn_id=active.turn_id, model_step_id=model_step_id, step_index=step.step_index))


def close_step(
    draft: Draft, outcome: Literal["completed", "failed", "interrupted", "retrying"], usage: Usage | None = None
) -> ActiveModelStep | None:
    """The model call in flight is over; its index is used again unless it completed."""
    step = draft.checkpoint.active_model_step
    if step is None:
        return None
    draft.change(active_model_step=None)
    draft.emit(
        events.ModelStepCompleted(
            turn_id=draft.active.turn_id,
            model_step_id=step.model_step_id,
            step_index=step.step_index,
            outcome=outcome,
            usage=usage or Usage(),
        )
    )
    return step


def finish_step(
    draft: Draft,
    parts: tuple[AssistantPart, ...],
    usage: Usage,
    native: JsonValue,
    context_window: int,
) -> None:
    """The model has answered: its calls wait to be authorised, or the turn is about to complete."""
    step = close_step(draft, "completed", usage)
    assert step is not None, "no model step was active"
    active = draft.active
    draft.append(AssistantMessage(parts=parts, native=native))
    calls = tuple(part for part in parts if isinstance(part, ToolCall))
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    draft.change(
        total_usage=draft.checkpoint.total_usage + usage,
        pending_tools=tuple(
            PendingTool(call=call, state="pending", idempotency_key=f"{step.model_step_id}:{call.call_id}")
            for call in calls
        ),
    )
    draft.change_active(
        usage=active.usage + usage,
        next_model_step=active.next_model_step + 1,
        crash_count=0,
        phase=ExecutionPhase.model() if calls else ExecutionPhase.completion(text or None),
    )
    if text:
        draft.emit(events.AssistantMessage(turn_id=active.turn_id, model_step_id=step.model_step_id, text=text))
    draft.emit(events.TokenCount(last=usage, total=draft.checkpoint.total_usage, context_window=context_window))


def overtake(draft: Draft, ending: ExecutionPhase, model_step_id: str) -> None:
    """A steer overtook the ending: what was to be the answer is a message of its own, and the turn goes on."""
    text = ending.last_assistant_message
    draft.change_active(phase=ExecutionPhase.model())
    if not text:
        return
    for position, event in enumerate(draft.events):
        if isinstance(event.msg, events.AssistantMessage) and event.msg.text == text:
            draft.events[position] = replace(event, msg=replace(event.msg, overtaken=True))
            return
    draft.emit(
        events.AssistantMessage(turn_id=draft.active.turn_id, model_step_id=model_step_id, text=text, overtaken=True)
    )


def compact(draft: Draft, summary: str, keep_from: int, usage: Usage, submission_id: str | None = None) -> None:
    """Begin a new epoch: the summary, and the newest part of the context as it is. Alone in its transaction."""
    assert not draft.items, "what was appended before would be lost"
    before = draft.checkpoint.context
    kept = before.since(keep_from)
    items: tuple[ContextItem, ...] = (SystemMessage(text=summary), *kept)
    draft.new_epoch = True
    draft.change(
        context=Context(items),
        context_epoch=draft.checkpoint.context_epoch + 1,
        total_usage=draft.checkpoint.total_usage + usage,
    )
    if draft.checkpoint.active_execution is not None:
        draft.change_active(usage=draft.active.usage + usage)
    draft.emit(
        events.ContextCompacted(epoch=draft.checkpoint.context_epoch, items_before=len(before), items_after=len(items)),
        submission_id,
    )


def note(draft: Draft, text: str) -> None:
    """Let the model see a remark of ours."""
    draft.append(SystemMessage(text=text))
