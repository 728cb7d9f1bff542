"""Tools of other packages: the documented example, and whatever can be wrong with them."""

from __future__ import annotations

import logging
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from gateway.plugins import GROUP, tools_of_others
from runtime.errors import ToolError
from runtime.protocol.context import ToolCall
from runtime.tools.base import Tool, ToolContext, tool
from runtime.tools.files import workspace_tools

DOCS = (Path(__file__).parents[3] / "docs" / "tools.md").read_text().partition("## Your own")[2]
CONTEXT = ToolContext(session_id="s", turn_id="t", call_id="c")


def entry(name: str, value: str) -> EntryPoint:
    """An entry point as an installed package has it."""
    return EntryPoint(name=name, value=value, group=GROUP)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An importable module, `strangers`."""
    made = ModuleType("strangers")
    monkeypatch.setitem(sys.modules, "strangers", made)
    return made


async def test_documented_example_works(module: ModuleType) -> None:
    """The example of the documentation, at most 20 lines long, is offered by its entry point, runs, and refuses."""
    example = re.search(r"```python\n(.*?)```", DOCS, re.DOTALL)
    named = re.search(r'"pilothouse\.tools"\]\n(\w+) = "\w+:(\w+)"', DOCS)
    assert example is not None
    assert named is not None
    assert len(example[1].splitlines()) <= 20
    exec(compile(example[1], "example", "exec", dont_inherit=True), module.__dict__)
    [weather] = tools_of_others((), [entry(named[1], f"strangers:{named[2]}")])
    assert weather.description == "Say what the weather is like in a town."
    arguments = weather.validate(ToolCall(call_id="c", name="weather", arguments={"town": "Oslo"}))
    assert await weather.run(arguments, CONTEXT) == "4 °C, rain"
    with pytest.raises(ToolError, match="Nothing is known of Bonn"):
        await weather.run({"town": "Bonn"}, CONTEXT)
    with pytest.raises(ToolError):
        weather.validate(ToolCall(call_id="c", name="weather", arguments={"city": "Oslo"}))


@tool()
async def one() -> str:
    """One."""
    return "1"


@tool(name="two")
async def second() -> str:
    """Two."""
    return "2"


@tool(name="no name")
async def nameless() -> str:
    """A tool whose name no model can say."""
    return ""


def names(module: ModuleType, **things: object) -> list[str]:
    """Which tools are offered where a package has these things as entry points."""
    for name, thing in things.items():
        setattr(module, name, thing)
    return [
        found.name for found in tools_of_others({"read_file"}, [entry(name, f"strangers:{name}") for name in things])
    ]


def test_one_several_or_a_function_that_returns_them(module: ModuleType) -> None:
    """An entry point may name any of these."""
    assert names(module, a=one, b=[second]) == ["one", "two"]
    assert names(module, a=lambda: one) == ["one"]
    assert names(module, a=lambda: (one, second)) == ["one", "two"]


def broken() -> Tool:
    """A factory that fails."""
    raise RuntimeError("no database")


def test_what_is_wrong_is_left_out_and_told(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """A taken or impossible name, a failing factory and a thing that is no tool do not keep the others away."""
    read_file = next(found for found in workspace_tools() if found.name == "read_file")
    with caplog.at_level(logging.ERROR):
        assert names(module, a=broken, b=read_file, c=nameless, d=["text"], e=7, f=one, g=one) == ["one"]
    told = caplog.text
    for words in (
        "could not be loaded",
        "no database",
        "its name is taken",
        "is no name for a tool",
        "no tool but a str",
    ):
        assert words in told
    assert tools_of_others((), [entry("x", "absent_module:thing")]) == []
