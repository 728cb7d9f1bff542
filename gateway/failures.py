"""From an error to what a person at a terminal reads, and to the exit code."""

from __future__ import annotations

import os
from dataclasses import dataclass

from adapters.errors import AdapterError, BadCredentials
from gateway.config import ConfigurationInvalid
from gateway.exits import ExitCode
from gateway.state_folder import StateFolderBusy, StateFolderUnusable
from runtime.errors import CheckpointError, ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What to print and how to end."""

    code: ExitCode
    sentences: list[str]


class Unavailable(Exception):
    """What was asked for is not there: one sentence with the remedy."""


def explain(failure: Exception) -> Explained | None:
    """Sentences and code of an error that we know; None for any other, which is a defect and keeps its traceback."""
    match failure:
        case ConfigurationInvalid():
            return Explained(code=failure.exit_code, sentences=[str(one) for one in failure.problems])
        case StateFolderBusy():
            return Explained(code=ExitCode.BUSY, sentences=[str(failure)])
        case StateFolderUnusable() | CheckpointError():
            return Explained(code=ExitCode.DATABASE, sentences=[_sentence(failure)])
        case BadCredentials():
            return Explained(code=ExitCode.CREDENTIALS, sentences=[_sentence(failure)])
        case ConfigurationError() | Unavailable():
            return Explained(code=ExitCode.CONFIGURATION, sentences=[_sentence(failure)])
        case AdapterError():
            return Explained(code=ExitCode.FAILED, sentences=[_sentence(failure)])
        case FileExistsError():
            return Explained(
                code=ExitCode.CONFIGURATION, sentences=[f"{failure.filename} exists already; name another file."]
            )
        case OSError(filename=str() | bytes() as name, strerror=str(reason)):
            return Explained(code=ExitCode.FAILED, sentences=[f"{os.fsdecode(name)}: {reason.lower()}."])
        case _:
            return None


def _sentence(failure: Exception) -> str:
    text = str(failure)
    # A key of the configuration keeps its spelling: `telegram.token: must …`.
    if text.partition(" ")[0].isalpha():
        text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith((".", "!", "?")) else f"{text}."
