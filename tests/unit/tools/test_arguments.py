"""Arguments of the built-in tools are checked before anything runs, and the model is told what to change."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.errors import ToolError
from runtime.protocol.context import ToolCall
from runtime.tools.base import Tool
from runtime.tools.files import workspace_tools

TOOLS: dict[str, Tool] = {tool.name: tool for tool in workspace_tools()}


def validate(name: str, **arguments: Any) -> Any:
    """The checked arguments of a call."""
    return TOOLS[name].validate(ToolCall(call_id="c1", name=name, arguments=arguments))


def test_defaults_are_filled_in() -> None:
    """What runs is complete: every argument that the schema names has a value."""
    assert validate("read_file", path="a") == {"path": "a", "offset": 1, "limit": 500}
    assert validate("write_file", path="a", content="x") == {"path": "a", "content": "x", "mode": "create"}
    assert validate("list_files") == {"path": ".", "depth": 2}
    assert validate("search_files", text="x") == {"text": "x", "path": "."}


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("read_file", {}, "read_file: the argument 'path' is missing"),
        ("read_file", {"path": "a", "encoding": "x"}, "no argument 'encoding'; it takes path, offset, limit"),
        ("read_file", {"path": 7}, "path must be of type string"),
        ("read_file", {"path": None}, "path must be of type string"),
        ("read_file", {"path": "a", "limit": True}, "limit must be of type integer"),
        ("read_file", {"path": "a", "limit": 0}, "limit must be from 1 to 2000"),
        ("read_file", {"path": "a", "offset": "1"}, "offset must be of type integer"),
        (
            "write_file",
            {"path": "a", "content": "x", "mode": "delete"},
            "mode must be one of create, overwrite, append",
        ),
        ("write_file", {"path": "a", "content": "x" * 262_145}, "content has 262145 characters; the limit is 262144"),
        ("write_file", {"path": "a", "content": "\ud800"}, "content holds half a character"),
        ("edit_file", {"path": "a", "old": "x"}, "the argument 'new' is missing"),
        ("list_files", {"depth": 99}, "depth must be from 1 to 8"),
        ("search_files", {"text": ""}, "text must be part of one line, and not empty"),
        ("search_files", {"text": "a\nb"}, "text must be part of one line, and not empty"),
        ("read_file", {"INVALID_JSON": '{"path": '}, "no argument 'INVALID_JSON'"),
    ],
)
def test_wrong_arguments_are_named(name: str, arguments: dict[str, Any], complaint: str) -> None:
    """Each kind of mistake is refused with the tool, the argument and what it should have been."""
    with pytest.raises(ToolError) as caught:
        validate(name, **arguments)
    assert complaint in str(caught.value)


READABLE = ["a", "a/b.txt", "./a", "-rf", ".git/config", "a b", "ünïcode.txt", "~", "file:"]
HOSTILE = [
    ("../x", "leaves the workspace"),
    ("a/../../x", "leaves the workspace"),
    ("a/..", "leaves the workspace"),
    ("/etc/passwd", "is absolute"),
    ("//etc/passwd", "is absolute"),
    ("a\0b", "U+0000"),
    ("a\nb", "U+000A"),
    ("a\x1b[2Kb", "U+001B"),
    ("invoice\u202etxt.exe", "U+202E"),
    ("zero\u200bwidth", "U+200B"),
    ("a\u2800b", "U+2800"),
    ("a\ufe0fb", "U+FE0F"),
    ("no\u00a0break", "U+00A0"),
    ("tag\U000e0041", "U+E0041"),
    ("half\ud800", "half a character"),
    ("x" * 300, "longer than 255 bytes"),
    ("ü" * 128, "longer than 255 bytes"),
    ("a/" * 600, "characters; the limit is 1024"),
]
WRITERS: list[tuple[str, dict[str, str]]] = [("write_file", {"content": "x"}), ("edit_file", {"old": "a", "new": "b"})]
NOT_WRITABLE = [
    ("-rf", "begins with a dash"),
    ("a/--help", "begins with a dash"),
    (".git/config", "in .git are not written"),
    ("a/.GIT/hooks/pre-commit", "in .git are not written"),
    (".git", "in .git are not written"),
    (".", "not the name of a file"),
    ("", "not the name of a file"),
    ("a/", "not the name of a file"),
]


@pytest.mark.parametrize("path", READABLE)
def test_odd_but_honest_names_may_be_read(path: str) -> None:
    """A name that stays inside is not refused for looking odd; it never meets a shell."""
    assert validate("read_file", path=path)["path"] == path


@pytest.mark.parametrize(("path", "complaint"), HOSTILE)
@pytest.mark.parametrize("name", list(TOOLS))
def test_hostile_names_are_refused_by_every_tool(name: str, path: str, complaint: str) -> None:
    """A path that leaves, hides or overflows is refused by its form, before any tool runs and any person is asked."""
    others = {"write_file": {"content": "x"}, "edit_file": {"old": "a", "new": "b"}, "search_files": {"text": "x"}}
    with pytest.raises(ToolError) as caught:
        validate(name, path=path, **others.get(name, {}))
    assert complaint in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(("path", "complaint"), NOT_WRITABLE)
@pytest.mark.parametrize(
    ("name", "others"), [("write_file", {"content": "x"}), ("edit_file", {"old": "a", "new": "b"})]
)
def test_some_names_are_never_written(name: str, others: dict[str, str], path: str, complaint: str) -> None:
    """What programs would obey, or mistake for an option, is not written."""
    with pytest.raises(ToolError) as caught:
        validate(name, path=path, **others)
    assert complaint in str(caught.value)
