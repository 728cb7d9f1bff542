"""Errors in words for people: a kind, one sentence, and a reference under which the log has the cause."""

from __future__ import annotations

from runtime import errors
from runtime.protocol import events
from runtime.protocol.events import ErrorKind


def describe(error: BaseException, reference: str, turn_id: str | None = None) -> events.Error:
    """The event that tells people of `error`; never raw text of a database or a library."""
    kind, sentence = _words(error)
    model = error if isinstance(error, errors.ModelError) else None
    return events.Error(
        kind=kind,
        message=sentence,
        retryable=model.retryable if model else False,
        retry_after=model.retry_after if model else None,
        reference=reference,
        turn_id=turn_id,
    )


def _words(error: BaseException) -> tuple[ErrorKind, str]:
    match error:
        case errors.BudgetSpent():
            return "stopped", str(error)
        case errors.ModelRateLimited():
            return "rate_limit", "The model service asks us to wait."
        case errors.ModelAuthentication():
            return "authentication", "The model service refuses our key; its owner has to mend it."
        case errors.ContextTooLong():
            return "context_too_long", "The conversation is too long for the model; /compact or /new helps."
        case errors.ModelUnavailable():
            return "provider", "The model service did not answer."
        case errors.ModelFailed():
            return "provider", "The model could not be asked because of a fault in its connection to us."
        case errors.ModelError():
            return "provider", "The model service refused the request."
        case errors.StaleCheckpoint():
            return "stale", "Another owner has this session."
        case errors.CheckpointError():
            return "checkpoint", "The session could not be stored."
        case errors.ConfigurationError():
            return "configuration", f"The configuration does not fit: {error}."
        case errors.SandboxError():
            return "sandbox", "The sandbox refused."
        case errors.ToolError():
            return "tool", "A tool failed."
        case errors.TurnStuck():
            return "stopped", "The turn made no progress and was taken over."
        case errors.AgentStopped():
            return "stopped", "The session has ended."
        case OSError():
            return "io", "The machine could not read or write."
        case _:
            return "stopped", "Something went wrong inside; nothing that was accepted is lost."
