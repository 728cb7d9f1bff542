"""The runtime's errors, as one tree.

RuntimeFailure
├── ConfigurationError        the caller's configuration cannot work (nothing was started)
│   ├── UnknownRoute          a model route that is not registered
│   └── NoModelRoute          a saved session without a model route
├── AgentStopped              the agent has ended; nothing was acknowledged
├── TurnStuck                 a turn made no progress; its session was taken from its agent
├── CheckpointError           the store refused, or may not have kept, a save
│   ├── StaleCheckpoint       another writer won; nothing of the save stays
│   ├── CommitUnknown         the commit failed in a way that may have kept it: re-read
│   ├── SchemaTooNew          the file was written by a newer program
│   ├── InvalidCheckpoint     the checkpoint contradicts itself
│   ├── DuplicateReceipt      the submission has its receipt already; nothing was written
│   └── StoreFailure          the database refused, for a reason that `kind` names; nothing was written
├── ModelError                a model call failed (retryable or not)
│   ├── ModelUnavailable      connection, time-out, 5xx
│   ├── BudgetSpent           a limit of ours on spending is reached; nobody was asked
│   ├── ModelRateLimited      429, with retry_after
│   ├── ModelAuthentication   401, 403
│   ├── ContextTooLong        the request does not fit the window
│   ├── ModelRefused          any other 4xx
│   └── ModelFailed           the code that speaks to the model broke
├── ToolError                 a tool could not do what was asked (told to the model)
├── SandboxError              the sandbox refused or is missing
└── LoopError                 a bounded loop failed
"""

from __future__ import annotations

from typing import Literal, TypeAlias

FailureKind: TypeAlias = Literal[
    "constraint", "full", "busy", "io", "corrupt", "read_only", "unopened", "closed", "other"
]
"""Why a database refused."""


class RuntimeFailure(Exception):
    """Base of every error that the runtime raises on purpose."""


class ConfigurationError(RuntimeFailure):
    """The configuration cannot work; nothing was started."""


class UnknownRoute(ConfigurationError):
    """A model route that no one registered."""

    def __init__(self, name: str) -> None:
        super().__init__(f"model route {name!r} is not registered")
        self.name = name


class NoModelRoute(ConfigurationError):
    """A saved session that does not say which model it uses."""

    def __init__(self) -> None:
        super().__init__("saved session has no model route")


class AgentStopped(RuntimeFailure):
    """The agent has ended, for `reason`. What was asked was not accepted and not acknowledged."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TurnStuck(RuntimeFailure):
    """A turn made no progress for too long. Its agent was given up; a successor recovers the session."""


class CheckpointError(RuntimeFailure):
    """The store refused, or may not have kept, a save."""


class StaleCheckpoint(CheckpointError):
    """Another writer won the race. Nothing of the refused transaction stays."""


class CommitUnknown(CheckpointError):
    """The commit failed in a way that may have kept it; the caller re-reads the head before it goes on."""


class SchemaTooNew(CheckpointError):
    """The file was written by a newer program than this one."""


class InvalidCheckpoint(CheckpointError):
    """The checkpoint contradicts itself; it was neither saved nor loaded."""


class DuplicateReceipt(CheckpointError):
    """A save brought the receipt of a submission that has one already; nothing of it was written."""

    def __init__(self, submission_id: str) -> None:
        super().__init__(f"submission {submission_id!r} has its receipt already; nothing was written")
        self.submission_id = submission_id


class StoreFailure(CheckpointError):
    """The database refused; nothing was written. `kind` says why."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind


class ModelError(RuntimeFailure):
    """A model call failed. `retry_after` is in seconds, where the provider gave one."""

    retryable = False

    def __init__(self, message: str, *, retryable: bool | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        if retryable is not None:
            self.retryable = retryable


class BudgetSpent(ModelError):
    """A limit of ours on spending is reached, so nobody was asked. The message is a sentence for people."""


class ModelUnavailable(ModelError):
    """Connection refused or lost, time-out, or a 5xx answer."""

    retryable = True


class ModelRateLimited(ModelError):
    """The provider asks for patience."""

    retryable = True


class ModelAuthentication(ModelError):
    """The key is missing, wrong or has no right."""


class ContextTooLong(ModelError):
    """The request does not fit the model's window."""


class ModelRefused(ModelError):
    """The provider refuses the request as it is."""


class ModelFailed(ModelError):
    """The code that speaks to the model raised something that is no ModelError; its cause says what."""


class ToolError(RuntimeFailure):
    """A tool could not do what was asked; the text is told to the model."""


class SandboxError(RuntimeFailure):
    """The sandbox refused, or there is none."""


class LoopError(RuntimeFailure):
    """A bounded loop ended by a failure."""
