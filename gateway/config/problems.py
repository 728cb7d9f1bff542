"""What is wrong with a configuration, in sentences that name place, expectation and remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from gateway.config.lines import KeyPath, line_of
from gateway.exits import ExitCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong. `message` goes on from the key: "must be a number"."""

    key: KeyPath = ()
    message: str
    remedy: str
    file: Path | None = None
    line: int | None = None
    code: ExitCode = ExitCode.CONFIGURATION

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else str(self.file) if self.file else ""
        subject = dotted(self.key)
        head = f"{where}: {subject}".strip(": ") if subject else where
        end = "" if self.remedy.endswith("?") else "."
        return f"{head} {self.message}; {self.remedy}{end}".lstrip()

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "file": str(self.file) if self.file else None,
            "line": self.line,
            "key": dotted(self.key) or None,
            "message": self.message,
            "remedy": self.remedy,
            "exit_code": int(self.code),
        }


class ConfigurationInvalid(Exception):
    """The configuration cannot work: every problem that was found, and nothing was started."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)

    @property
    def exit_code(self) -> ExitCode:
        """The code of the first thing to repair: the file comes before credentials, and those before folders."""
        return min(problem.code for problem in self.problems)


class Wrong(ValueError):
    """Raised by a validator: the value is of the right type and still cannot work."""

    def __init__(
        self, message: str, remedy: str, *, key: KeyPath = (), code: ExitCode = ExitCode.CONFIGURATION
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.key = key
        self.code = code


def dotted(key: Iterable[str | int]) -> str:
    """`models[0].name`, as a person would point at it."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def problems_of(
    error: ValidationError, model: type[BaseModel], file: Path | None, lines: Mapping[KeyPath, int]
) -> tuple[Problem, ...]:
    """What pydantic found, in our words. No value is repeated: it may be a secret in the wrong place."""
    return tuple(_problem(details, model, file, lines) for details in error.errors(include_url=False))


def _problem(details: Any, model: type[BaseModel], file: Path | None, lines: Mapping[KeyPath, int]) -> Problem:
    key = _without_validator_marks(details["loc"])
    code = ExitCode.CONFIGURATION
    match details:
        case {"type": "value_error", "ctx": {"error": Wrong() as wrong}}:
            key = (*key, *wrong.key)
            message, remedy, code = wrong.message, wrong.remedy, wrong.code
        case {"type": "extra_forbidden"}:
            message, remedy = "is not a key that pilothouse knows", _did_you_mean(key, model)
        case {"type": "missing"}:
            message, remedy = "is missing", f"add `{key[-1]} = …` there"
        case _:
            message, remedy = _mismatch(details)
    return Problem(key=key, message=message, remedy=remedy, file=file, line=line_of(lines, key), code=code)


_KINDS = {
    "string_type": ("text", "write it in double quotes"),
    "int_type": ("a whole number", "write it without quotes, like 30"),
    "float_type": ("a number", "write it without quotes, like 0.5"),
    "bool_type": ("true or false", "write true or false, without quotes"),
    "tuple_type": ("a list", 'write it in brackets, like ["a", "b"]'),
    "dict_type": ("a table", "write its keys below a header in brackets"),
    "model_type": ("a table", "write its keys below a header in brackets"),
    "string_too_short": ("text that is not empty", "fill it in, or remove the key"),
    "finite_number": ("a finite number", "write an ordinary number"),
}

_LIMITS = {
    "greater_than_equal": ("at least", "ge", "raise it"),
    "greater_than": ("more than", "gt", "raise it"),
    "less_than_equal": ("at most", "le", "lower it"),
    "less_than": ("less than", "lt", "lower it"),
}


def _mismatch(details: Any) -> tuple[str, str]:
    kind, context = str(details["type"]), details.get("ctx", {})
    found = _kind_of(details.get("input"))
    if kind in _KINDS:
        wanted, remedy = _KINDS[kind]
        return f"must be {wanted}, and it is {found}", remedy
    if kind in _LIMITS:
        words, name, remedy = _LIMITS[kind]
        return f"must be {words} {context[name]:g}", remedy
    if kind == "literal_error":
        return f"must be one of {context['expected']}", "choose one of these words"
    if kind in ("int_from_float", "int_parsing"):
        return f"must be a whole number, and it is {found}", _KINDS["int_type"][1]
    return f"cannot be used ({kind.replace('_', ' ')})", "see docs/configuration.md for what belongs there"


def _kind_of(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case str():
            return "empty text" if not value else "text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def _did_you_mean(key: KeyPath, model: type[BaseModel]) -> str:
    known = _keys_beside(key, model)
    close = difflib.get_close_matches(str(key[-1]), known, n=1)
    return f"did you mean `{close[0]}`?" if close else "remove it, or see docs/configuration.md for the keys there are"


def _keys_beside(key: KeyPath, model: type[BaseModel]) -> list[str]:
    current: type[BaseModel] | None = model
    for part in key[:-1]:
        if current is None:
            return []
        if isinstance(part, str):
            current = _model_in(current.model_fields[part].annotation) if part in current.model_fields else None
    return list(current.model_fields) if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `tuple[Model, ...]`, `Model | None` and the like."""
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    for argument in get_args(annotation):
        if (found := _model_in(argument)) is not None:
            return found
    return None


def _without_validator_marks(location: Sequence[str | int]) -> KeyPath:
    """Pydantic adds the names of wrapping validators to some locations; they are no keys."""
    return tuple(part for part in location if not (isinstance(part, str) and "[" in part))
