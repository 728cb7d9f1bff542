"""Structured logs: one line per event, JSON or for people, with correlation ids and without secrets.

Our own code logs through structlog, libraries through `logging`; both end in one handler, whose whole output is
redacted, so that no exception text, argument or stack can carry a secret past it.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, TextIO

import structlog
from structlog.contextvars import bound_contextvars
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import Processor

from gateway.secrets import redact

# What they tell below WARNING is a copy of the traffic: addresses with tokens in them, whole request bodies.
TALKATIVE = (
    "aiogram",
    "aiohttp",
    "aiosqlite",
    "anthropic",
    "apscheduler",
    "asyncio",
    "discord",
    "google",
    "httpcore",
    "httpx",
    "openai",
    "slack_bolt",
    "slack_sdk",
)


def configure(
    *, level: str = "info", form: Literal["auto", "console", "json"] = "auto", stream: TextIO | None = None
) -> None:
    """Send every log of the process to `stream` (standard error) and nowhere else, redacted; may be called again.

    Uncaught exceptions of any thread and warnings are logged too, instead of being printed as they are.
    """
    target = stream or sys.stderr
    people = form == "console" or (form == "auto" and target.isatty())
    handler = RedactingHandler(target)
    handler.setFormatter(_formatter(people=people, colours=people and target.isatty()))
    root = logging.getLogger()
    # Whatever hangs there already writes without redaction.
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.PositionalArgumentsFormatter(),
            ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=False,
    )
    _log_what_would_be_printed()


def get_logger(name: str) -> BoundLogger:
    """A logger that takes an event and fields: `log.info("turn_started", phase="model")`."""
    return structlog.stdlib.get_logger(name)


@contextmanager
def correlated(**ids: str | int | None) -> Generator[None]:
    """Add these ids to every log of the block, in this task and those that it starts. A None is left out."""
    with bound_contextvars(**{name: value for name, value in ids.items() if value is not None}):
        yield


class RedactingHandler(logging.StreamHandler[TextIO]):
    """Writes what the formatter made, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """The finished line, redacted: whatever a part of it was before."""
        return redact(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:
        """Say that a line was lost. The inherited method would print the record's raw arguments."""
        error = sys.exc_info()[0]
        self.stream.write(f"a log line of {record.name} was lost: {error.__name__ if error else 'unknown error'}\n")


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _formatter(*, people: bool, colours: bool) -> ProcessorFormatter:
    # Both renderings of an exception are the plain ones: the pretty ones print local variables.
    rendering: list[Processor] = (
        [_printable, structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)]
        if people
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    )
    return ProcessorFormatter(
        foreign_pre_chain=_shared(), processors=[ProcessorFormatter.remove_processors_meta, *rendering]
    )


def _printable(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Text of strangers may hold characters that move the cursor or colour the terminal: they are shown, not obeyed."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in value)
    return event


def _log_what_would_be_printed() -> None:
    logging.captureWarnings(True)
    log = logging.getLogger("gateway.uncaught")

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.critical("uncaught exception", exc_info=(kind, error, trace))

    def uncaught_in_thread(details: threading.ExceptHookArgs) -> None:
        if details.exc_value is not None:
            uncaught(details.exc_type, details.exc_value, details.exc_traceback)

    def unraisable(details: Any) -> None:
        log.error("exception ignored: %s", details.err_msg or "while cleaning up", exc_info=details.exc_value)

    sys.excepthook = uncaught
    sys.unraisablehook = unraisable
    threading.excepthook = uncaught_in_thread
