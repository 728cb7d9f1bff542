"""Files that hold secrets: closed to others from their first byte, and never half written."""

from __future__ import annotations

import os
from pathlib import Path


def write_closed(file: Path, text: str) -> None:
    """Put the text there as a whole, with mode 0600 from its first byte; an old file is replaced in one step."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600), "w", encoding="utf-8") as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    draft.replace(file)
