"""What `doctor` reports: one finding per thing that is wrong or worth knowing, under an id that never changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How bad it is. Only an error keeps something from working."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing. `id` is stable, for scripts and for looking it up in docs/operations.md."""

    id: str
    level: Level
    message: str
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"id": self.id, "level": self.level.value, "message": self.message, "remedy": self.remedy or None}


def error(name: str, message: str, remedy: str = "") -> Finding:
    """Something does not work."""
    return Finding(id=name, level=Level.ERROR, message=message, remedy=remedy)


def warning(name: str, message: str, remedy: str = "") -> Finding:
    """Something works and should be otherwise."""
    return Finding(id=name, level=Level.WARNING, message=message, remedy=remedy)


def note(name: str, message: str, remedy: str = "") -> Finding:
    """Something that is good to know."""
    return Finding(id=name, level=Level.NOTE, message=message, remedy=remedy)
