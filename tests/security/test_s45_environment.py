"""S-45: what a program is given of an environment is an allow-list, and no variable that programs obey is let in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.errors import ToolError
from runtime.protocol.context import ToolCall
from runtime.tools.base import ToolContext
from runtime.tools.sandbox import Program
from runtime.tools.sandbox.environment import checked_environment
from runtime.tools.shell import shell_tool
from tests.security.sandboxes import CANARY, WHO, box_for, can_be

OBEYED = [
    *(
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "DYLD_INSERT_LIBRARIES",
        "GIT_EXTERNAL_DIFF",
        "GIT_DIR",
        "GIT_PAGER",
    ),
    *("PYTHONSTARTUP", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "BASH_FUNC_X", "PS4", "IFS", "ENV", "SHELLOPTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "PATH", "HOME", "TMPDIR", "JAVA_TOOL_OPTIONS", "PERL5OPT"),
    *("RUBYOPT", "MAKEFLAGS", "PAGER", "EDITOR", "PROMPT_COMMAND", "SSH_AUTH_SOCK", "GCONV_PATH", "NPM_CONFIG_PREFIX"),
]

MALFORMED = ["", "a", "http_proxy", "1A", "A-B", "A B", "A=B", "A\n", "Ä", "_A", "A" * 33, "A\0"]


@pytest.mark.parametrize("name", OBEYED + MALFORMED)
def test_a_variable_that_programs_obey_is_refused(name: str) -> None:
    """Neither variables that make a program run or load something, nor names that are none, can be set."""
    with pytest.raises(ToolError):
        checked_environment({name: "x"})


@pytest.mark.parametrize("value", ["a\0b", "x" * 2000, "\ud800", 7, None, ["x"]])
def test_a_value_that_is_no_text_is_refused(value: object) -> None:
    """A value is a text that a program can be given."""
    with pytest.raises(ToolError):
        checked_environment({"LEVEL": value})


def test_ordinary_variables_are_kept() -> None:
    """What no program obeys is passed on as it is."""
    wanted = {"LEVEL": "2", "TZ": "Europe/Berlin", "CI": "1", "NAME": "$(touch x) `id`"}
    assert checked_environment(wanted) == wanted


def test_too_many_are_refused() -> None:
    """There is a limit on their number."""
    with pytest.raises(ToolError, match="limit"):
        checked_environment({f"A{n}": "x" for n in range(100)})


def test_the_tool_refuses_them_before_anybody_is_asked(tmp_path: Path) -> None:
    """A call with such a variable is refused while it is checked, so it never becomes an action."""
    call = ToolCall(
        call_id="c1", name="shell", arguments={"command": "ls", "environment": {"PS4": f"$(touch {tmp_path}/x)"}}
    )
    with pytest.raises(ToolError, match="PS4"):
        shell_tool().validate(call)
    assert list(tmp_path.iterdir()) == []


def test_what_is_set_is_part_of_the_action() -> None:
    """Another value is another action: it has another digest."""
    tool = shell_tool()
    context = ToolContext(session_id="s1", turn_id="t1", call_id="c1")

    def digest(environment: dict[str, str]) -> str:
        call = ToolCall(call_id="c1", name="shell", arguments={"command": "ls", "environment": dict(environment)})
        action = tool.action(tool.validate(call), context)
        assert action.environment == environment
        return action.digest()

    assert len({digest({}), digest({"LEVEL": "1"}), digest({"LEVEL": "2"})}) == 3


@pytest.mark.parametrize("who", WHO)
async def test_no_secret_of_ours_gets_in(monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """A canary in our own environment is in no environment that a sandboxed program can read, by name or value."""
    if not can_be(who):
        pytest.skip("only root can try what root's sandbox does")
    for name in ("TELEGRAM_BOT_TOKEN", "OPENAI_API_KEY", "PYTHONSTARTUP", "LD_PRELOAD_X", "BASH_FUNC_ls%%"):
        monkeypatch.setenv(name, CANARY)
    with box_for(who) as box:
        printed = await box.says("env; cat /proc/*/environ | tr '\\0' '\\n'; set")
    assert "HOME=/workspace" in printed
    assert CANARY not in printed
    assert not [name for name in os.environ if CANARY in os.environ[name] and name in printed]


async def test_what_the_model_sets_is_text_for_the_program() -> None:
    """A value is never run by the shell that is started."""
    with box_for("ordinary") as box:
        program = Program(argv=("/usr/bin/env",), environment={"NAME": "$(touch made)`touch made`"})
        ended = await box.sandbox._run(program, box.path, "none", 20)
        assert "NAME=$(touch made)`touch made`" in ended.output.head.decode()
        assert list(box.path.iterdir()) == []
