"""Which files of a workspace a command names, so that their contents can be tied to an approval.

This reads a command only as far as it is plain words. It decides nothing about what may run: whatever it cannot follow
is called not fixed, and the person who decides is told so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from runtime.errors import ToolError
from runtime.tools.paths import path_parts

MAX_OPERANDS = 32

_INSIDE = "/workspace/"
_SPECIAL = frozenset("$`*?[]{}~!\\\n")
_PUNCTUATION = frozenset("();<>|&")
_NAME = re.compile(r"[A-Za-z0-9_+.-]{1,24}")
_INTERPRETERS = frozenset(
    ("bash", "sh", "dash", "zsh", "ksh", "source", ".", "python", "python3", "perl", "ruby", "node", "php", "lua")
)
# What these do depends on nothing but their words and the files that the words name.
_PLAIN = frozenset(
    (
        *("cat", "ls", "echo", "printf", "wc", "head", "tail", "grep", "sort", "uniq", "cut", "tr", "date", "pwd"),
        *("true", "false", "test", "mkdir", "touch", "cp", "mv", "rm", "rmdir", "stat", "file", "du", "df", "diff"),
        *("cmp", "sha256sum", "md5sum", "basename", "dirname", "sleep", "seq", "tee", "id", "uname", "chmod", "ln"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """The files a command names, relative to the workspace. `required` ones count even if they do not exist yet;
    `named` ones only if they do. `fixed`: nothing but these files decides what the command does."""

    required: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    fixed: bool = False


def operands(command: str, folder: str = "") -> Operands:
    """What a command for the shell names, read in `folder` of the workspace."""
    words = _words(command)
    if words is None:
        return Operands()
    found = _Found(folder)
    for simple in _simple_commands(words):
        found.add(simple)
    fixed = found.fixed and not _SPECIAL & set(command)
    named = tuple(path for path in found.named if path not in found.required)
    return Operands(
        required=tuple(found.required)[:MAX_OPERANDS],
        named=named[: MAX_OPERANDS - len(found.required[:MAX_OPERANDS])],
        fixed=fixed and len(named) + len(found.required) <= MAX_OPERANDS,
    )


def programs(command: str) -> tuple[str, ...]:
    """The names of the programs a command starts, as far as they can be read; for showing, not for deciding."""
    names: list[str] = []
    for simple in _simple_commands(_words(command) or []):
        words = [word for word in simple if not _is_assignment(word)]
        name = words[0].rpartition("/")[2] if words else ""
        if _NAME.fullmatch(name) and name not in names:
            names.append(name)
    return tuple(names)


def _words(command: str) -> list[str] | None:
    reader = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:  # a quote that is not closed
        return None


def _simple_commands(words: Sequence[str]) -> list[list[str]]:
    """Cut at everything that joins commands; redirections stay inside."""
    return [list(group) for joins, group in groupby(words, key=_joins) if not joins]


def _joins(word: str) -> bool:
    return _is_punctuation(word) and not set(word) & set("<>")


def _is_punctuation(word: str) -> bool:
    return bool(word) and set(word) <= _PUNCTUATION


class _Found:
    """Collects the files of one simple command after the other."""

    def __init__(self, folder: str) -> None:
        self.required: list[str] = []
        self.named: list[str] = []
        self.fixed = True
        self._folder: str | None = folder

    def add(self, words: list[str]) -> None:
        """Take the files of a simple command."""
        words = self._without_redirections(words)
        while words and _is_assignment(words[0]):
            self.fixed = False
            words = words[1:]
        if not words:
            return
        program, rest = words[0], words[1:]
        for word in words:
            self._name(word)
        if program in ("cd", "pushd", "popd"):
            self._enter(rest)
        self._judge(program, rest)

    def _enter(self, rest: list[str]) -> None:
        """Later words are read in the folder that was changed to; in none, if it cannot be told."""
        self._folder = self._path(rest[0]) if len(rest) == 1 else None

    def _judge(self, program: str, rest: list[str]) -> None:
        name = program.rpartition("/")[2]
        if name in _INTERPRETERS and (program == name or program.startswith(("/usr/bin/", "/bin/"))):
            script = rest[0] if rest and not rest[0].startswith("-") else None
            if script is None or not self._require(script):
                self.fixed = False
        elif "/" in program:
            self.fixed = self._require(program) and self.fixed
        elif program not in _PLAIN:
            self.fixed = False

    def _without_redirections(self, words: list[str]) -> list[str]:
        kept: list[str] = []
        target = False
        for word in words:
            if _is_punctuation(word):
                target = True
                self.fixed = self.fixed and word in ("<", ">", ">>", ">&", "<&", "&>", "&>>")
            elif target:
                target = False
                self.fixed = (word.isdigit() or word == "-" or self._require(word)) and self.fixed
            else:
                kept.append(word)
        return kept

    def _require(self, word: str) -> bool:
        path = self._path(word)
        if path is None:
            return False
        if path not in self.required:
            self.required.append(path)
        return True

    def _name(self, word: str) -> None:
        for part in (word, word.partition("=")[2]):
            path = self._path(part) if part else None
            if path is not None and path not in self.named:
                self.named.append(path)

    def _path(self, word: str) -> str | None:
        """The path within the workspace that a word would mean, if it can mean one."""
        if word.startswith(_INSIDE):
            path = word.removeprefix(_INSIDE)
        elif word.startswith("/") or self._folder is None:
            return None
        else:
            path = f"{self._folder}/{word}"
        try:
            parts = path_parts(path.lstrip("/"))
        except ToolError:
            return None
        return "/".join(parts) or None


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
