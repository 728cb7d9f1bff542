"""Which paths may name a file of a workspace, and how a path is shown."""

from __future__ import annotations

import unicodedata

from runtime.errors import ToolError

MAX_PATH_CHARACTERS = 1024
MAX_NAME_BYTES = 255  # of every common file system


def path_parts(path: str) -> tuple[str, ...]:
    """The names of a relative path, `()` for the workspace itself; ToolError if it cannot name anything inside."""
    if len(path) > MAX_PATH_CHARACTERS:
        raise ToolError(f"The path is longer than {MAX_PATH_CHARACTERS} characters.")
    if path.startswith("/"):
        raise ToolError(f"{printable(path)} is absolute; paths are relative to the workspace.")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    for part in parts:
        if part == "..":
            raise ToolError(f"{printable(path)} leaves the workspace.")
        if hidden := next((c for c in part if _is_hidden(c)), None):
            raise ToolError(f"The path holds the invisible character U+{ord(hidden):04X}.")
        if len(part.encode()) > MAX_NAME_BYTES:
            raise ToolError(f"A name in the path is longer than {MAX_NAME_BYTES} bytes.")
    return parts


def writable_parts(path: str) -> tuple[str, ...]:
    """Like `path_parts`, for a file that is to be written: more names are refused."""
    parts = path_parts(path)
    if not parts or path.endswith("/"):
        raise ToolError(f"{printable(path) or 'An empty path'} is not the name of a file.")
    for part in parts:
        if part.casefold() == ".git":
            raise ToolError("Files in .git are not written by tools: programs run what stands there.")
        if part.startswith("-"):
            raise ToolError(f"{printable(part)} begins with a dash, and programs would take it for an option.")
    return parts


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")  # letters by category, and nothing to see


def _is_hidden(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    category = unicodedata.category(character)
    if category in _HIDDEN or category == "Zs" or character in _BLANK_LETTERS:
        return True
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"  # variation selectors


def printable(text: str, limit: int = 200) -> str:
    """One line without anything invisible, at most `limit` characters: the middle of a longer one is left out."""
    line = "".join(f"\\u{{{ord(c):X}}}" if _is_hidden(c) else c for c in text[: 2 * limit])
    if len(line) <= limit and len(text) <= 2 * limit:
        return line
    tail = limit // 3
    return f"{line[: limit - tail - 1]}…{line[-tail:]}"
