"""The environment of a sandboxed program: an allow-list, never a copy of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.errors import ToolError
from runtime.tools.paths import printable

BASE: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/workspace",
    "TMPDIR": "/tmp",  # noqa: S108 - the sandbox's own, empty at each start
    "LANG": "C.UTF-8",
}

MAX_VARIABLES = 16
MAX_VALUE_CHARACTERS = 1024

_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,31}")
_RESERVED = frozenset({"PATH", "HOME", "TMPDIR", "SHELL", "USER", "LOGNAME", "PWD", "OLDPWD"})
# Each makes some program run or load what its value names.
_OBEYED = frozenset(
    (
        *("PS4", "IFS", "ENV", "SHELLOPTS", "CDPATH", "GLOBIGNORE", "PROMPT_COMMAND", "HISTFILE"),
        *("MAKEFLAGS", "MAKEFILES", "LESSOPEN", "LESSCLOSE", "EDITOR", "VISUAL", "PAGER", "BROWSER"),
        *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "GCONV_PATH", "LOCPATH", "NLSPATH"),
    )
)
_OBEYED_PREFIXES = ("LD_", "DYLD_", "GIT_", "PYTHON", "NODE_", "NPM_", "BASH_", "PERL", "RUBY", "SSH_", "MALLOC_")
_OBEYED_SUFFIXES = ("_PROXY",)


def checked_environment(wanted: Mapping[str, object]) -> dict[str, str]:
    """What may be set beside the fixed variables; ToolError names the first that may not."""
    if len(wanted) > MAX_VARIABLES:
        raise ToolError(f"There are {len(wanted)} environment variables; the limit is {MAX_VARIABLES}.")
    checked: dict[str, str] = {}
    for name, value in wanted.items():
        if not _NAME.fullmatch(name):
            raise ToolError(f"{printable(name, 40)!r} cannot be an environment variable: A-Z, 0-9 and _ only.")
        if name in _RESERVED or _is_obeyed(name):
            raise ToolError(f"The environment variable {name} cannot be set: programs obey or rely on it.")
        checked[name] = _checked_value(name, value)
    return checked


def _is_obeyed(name: str) -> bool:
    return name in _OBEYED or name.startswith(_OBEYED_PREFIXES) or name.endswith(_OBEYED_SUFFIXES)


def _checked_value(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ToolError(f"The environment variable {name} must be a text.")
    if len(value) > MAX_VALUE_CHARACTERS or "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise ToolError(f"The environment variable {name} is too long, or holds what no program can be given.")
    return value
