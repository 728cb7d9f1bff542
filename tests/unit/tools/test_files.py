"""The built-in file tools: what they do to files, and what they tell the model."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ToolError
from runtime.protocol.context import ToolCall
from runtime.tools import files
from runtime.tools.base import Tool, ToolContext, Workspace
from runtime.tools.files import workspace_tools
from runtime.tools.openers import Opener
from runtime.tools.workspace import MAX_FILE_BYTES


class Caller:
    """Validates and runs calls, as the runtime does."""

    def __init__(self, tools: tuple[Tool, ...], context: ToolContext) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.context = context

    async def __call__(self, name: str, **arguments: Any) -> str:
        """What the model is told."""
        tool = self.tools[name]
        output = await tool.run(tool.validate(ToolCall(call_id="c1", name=name, arguments=arguments)), self.context)
        assert isinstance(output, str)
        return output

    async def refused(self, name: str, **arguments: Any) -> str:
        """The sentence of the ToolError that the call must raise."""
        with pytest.raises(ToolError) as caught:
            await self(name, **arguments)
        return str(caught.value)


@pytest.fixture
def call(opener: Opener, context: ToolContext) -> Caller:
    """Calls the tools, once with each way to hold the fence."""
    return Caller(workspace_tools(opener), context)


def drafts(root: Path) -> list[str]:
    """Unfinished files that were left lying about."""
    return [path.name for path in root.rglob("*") if path.name.endswith(".pilothouse-draft")]


async def test_append_makes_the_file_and_adds_lines(call: Caller, root: Path) -> None:
    """An append makes a missing file with its folders, and the model is told the words that stand there."""
    assert await call("write_file", path="a/todo.txt", content="milk\n", mode="append") == (
        "Appended 1 line to a/todo.txt (a new file): milk"
    )
    assert await call("write_file", path="a/todo.txt", content="eggs\n", mode="append") == (
        "Appended 1 line to a/todo.txt: eggs"
    )
    assert (root / "a" / "todo.txt").read_text() == "milk\neggs\n"
    assert drafts(root) == []


async def test_append_ends_an_unended_line_first(call: Caller, root: Path) -> None:
    """What is appended stands on a line of its own even if the file did not end its last one."""
    (root / "todo.txt").write_text("milk")
    await call("write_file", path="todo.txt", content="eggs\n", mode="append")
    assert (root / "todo.txt").read_text() == "milk\neggs\n"


async def test_create_never_touches_an_existing_file(call: Caller, root: Path) -> None:
    """`create` refuses a taken name and leaves the file alone."""
    assert await call("write_file", path="a.txt", content="one\ntwo\n") == "Created a.txt (2 lines, 8 bytes)."
    assert await call.refused("write_file", path="a.txt", content="other") == "a.txt exists already."
    assert (root / "a.txt").read_text() == "one\ntwo\n"


async def test_overwrite_replaces_everything_and_keeps_the_mode(call: Caller, root: Path) -> None:
    """`overwrite` leaves exactly the new content, under the old permissions."""
    script = root / "run.sh"
    script.write_text("old and longer\n")
    script.chmod(0o750)
    assert (
        await call("write_file", path="run.sh", content="new\n", mode="overwrite") == "Wrote run.sh (1 line, 4 bytes)."
    )
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("new\n", 0o750)
    assert (
        await call("write_file", path="fresh.txt", content="", mode="overwrite")
        == "Wrote fresh.txt (0 lines, 0 bytes)."
    )
    assert drafts(root) == []


async def test_edit_replaces_the_only_place(call: Caller, root: Path) -> None:
    """An edit changes its piece and nothing else, line ends included."""
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert await call("edit_file", path="a.txt", old="two", new="2\n2½") == "Replaced 1 line by 2 in a.txt, at line 2."
    assert (root / "a.txt").read_bytes() == "one\r\n2\n2½\r\nthree\r\n".encode()


@pytest.mark.parametrize(
    ("old", "complaint"),
    [("four", "does not occur"), ("o", "more than once"), ("aa", "more than once"), ("", "is empty")],
)
async def test_edit_refuses_what_is_not_unique(call: Caller, root: Path, old: str, complaint: str) -> None:
    """A piece that is missing, repeated (also overlapping) or empty changes nothing."""
    (root / "a.txt").write_text("one\ntwo\naaa\n")
    assert complaint in await call.refused("edit_file", path="a.txt", old=old, new="x")
    assert (root / "a.txt").read_text() == "one\ntwo\naaa\n"


async def test_edit_refuses_a_file_that_changed_meanwhile(
    call: Caller, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change by another program between reading and replacing is not lost: the edit is refused."""
    from runtime.tools import workspace

    def change_it(old: str, text: str, path: str) -> int:
        (root / "a.txt").write_text("somebody else was here")
        return text.index(old)

    (root / "a.txt").write_text("one")
    monkeypatch.setattr(workspace, "_only_place_of", change_it)
    assert "changed by somebody else" in await call.refused("edit_file", path="a.txt", old="one", new="two")
    assert (root / "a.txt").read_text() == "somebody else was here"


async def test_read_pages_through_a_file(call: Caller, root: Path) -> None:
    """A whole file comes as it is; a part says which lines it has and where to go on."""
    (root / "n.txt").write_text("".join(f"{n}\n" for n in range(1, 11)))
    assert await call("read_file", path="n.txt") == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
    assert await call("read_file", path="n.txt", limit=2) == "1\n2\n[lines 1 to 2 of 10; go on with offset=3]"
    assert await call("read_file", path="n.txt", offset=9, limit=5) == "9\n10\n[lines 9 to 10 of 10]"
    assert await call.refused("read_file", path="n.txt", offset=11) == "n.txt has only 10 lines."


async def test_read_is_bounded(call: Caller, root: Path) -> None:
    """Neither many lines nor a long one fill the context; what is left out is said."""
    (root / "long.txt").write_text("x" * 5000 + "\n" + "y" * 5000)
    text = await call("read_file", path="long.txt")
    assert text.count("x") + text.count("y") == 4000
    assert text.count("[… 500") == 2
    (root / "many.txt").write_text(("z" * 999 + "\n") * 100)
    text = await call("read_file", path="many.txt")
    assert text.endswith("[lines 1 to 50 of 100; go on with offset=51]")
    (root / "empty.txt").write_text("")
    assert await call("read_file", path="empty.txt") == "[the file is empty]"


async def test_read_refuses_what_is_not_text_or_too_large(call: Caller, root: Path) -> None:
    """Bytes that are no UTF-8, folders, missing files and giants are told apart."""
    (root / "b.bin").write_bytes(b"ab\xff")
    (root / "folder").mkdir()
    with (root / "giant").open("wb") as giant:
        giant.truncate(MAX_FILE_BYTES + 1)
    assert await call.refused("read_file", path="b.bin") == "b.bin is not UTF-8 text (byte 2 of 3)."
    assert await call.refused("read_file", path="folder") == "folder is a folder."
    assert await call.refused("read_file", path=".") == ". is a folder."
    assert await call.refused("read_file", path="none") == "none does not exist."
    assert await call.refused("read_file", path="none/deeper") == "none/deeper does not exist."
    assert await call.refused("read_file", path="b.bin/x") == "b.bin/x has something on its way that is not a folder."
    assert "has 8388609 bytes; the limit is 8388608" in await call.refused("read_file", path="giant")


async def test_a_file_does_not_grow_past_the_limit(call: Caller, root: Path) -> None:
    """An append that would pass the limit is refused and leaves the file as it was."""
    with (root / "giant").open("wb") as giant:
        giant.truncate(MAX_FILE_BYTES)
    assert "the limit is" in await call.refused("write_file", path="giant", content="x", mode="append")
    assert (root / "giant").stat().st_size == MAX_FILE_BYTES


async def test_list_names_everything_but_git(call: Caller, root: Path) -> None:
    """Folders, files with sizes and links are told apart, sorted, to the wished depth; `.git` stays out."""
    (root / ".git").mkdir()
    (root / "a" / "deep" / "deeper").mkdir(parents=True)
    (root / "a" / "deep" / "x.txt").write_text("12345")
    (root / "b\u202e.txt").write_text("")
    (root / "link").symlink_to("a")
    (root / ".1-1.pilothouse-draft").write_text("left by a crash")
    assert await call("list_files") == "a/\na/deep/\nb\\u{202E}.txt (0)\nlink [link]"
    assert await call("list_files", path="a", depth=3) == "a/deep/\na/deep/deeper/\na/deep/x.txt (5)"
    assert await call("list_files", path="a/deep/deeper") == "[the folder is empty]"
    assert await call.refused("list_files", path="b") == "b does not exist."


async def test_list_is_bounded(call: Caller, root: Path) -> None:
    """A huge folder is cut, and says so."""
    for number in range(510):
        (root / f"{number:03}").touch()
    lines = (await call("list_files")).splitlines()
    assert lines[-2:] == ["499 (0)", "[more than 500; list a folder below]"]


async def test_search_is_literal(call: Caller, root: Path) -> None:
    """The text is no pattern; binary files, giants and `.git` are passed over."""
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("x = 1\n  # (a+)+$ here\nx\n")
    (root / "src" / "b.bin").write_bytes(b"\0(a+)+$")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("(a+)+$")
    (root / "big.txt").write_text("(a+)+$" + " " * files.MAX_SEARCHED_FILE_BYTES)
    assert await call("search_files", text="(a+)+$") == "src/a.py:2: # (a+)+$ here"
    assert await call("search_files", text=".*") == "[nothing found in 2 files]"
    assert await call("search_files", text="x", path="src") == "src/a.py:1: x = 1\nsrc/a.py:3: x"


async def test_search_is_bounded(call: Caller, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many matches and many files end the search, and the answer says that it ended early."""
    (root / "a.txt").write_text("hit\n" * 500)
    (root / "b.txt").write_text("hit\n")
    lines = (await call("search_files", text="hit")).splitlines()
    assert (len(lines), lines[-1]) == (101, "[the first 100 matches; ask for something rarer]")
    monkeypatch.setattr(files, "MAX_SEARCHED_FILES", 1)
    assert "[stopped here" in await call("search_files", text="miss")


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
async def test_the_action_names_the_content_it_would_change(call: Caller, root: Path, name: str) -> None:
    """The digest of a writing action changes with the file's content, so that an approval holds for what was shown."""
    tool, arguments = call.tools[name], {"path": "a.txt", "content": "x", "old": "1", "new": "2"}
    absent = tool.action(arguments, call.context)
    (root / "a.txt").write_text("1")
    present = tool.action(arguments, call.context)
    (root / "a.txt").write_text("3")
    changed = tool.action(arguments, call.context)
    assert absent.files == {"a.txt": "absent"}
    assert present.files == {"a.txt": hashlib.sha256(b"1").hexdigest()}
    assert len({action.digest() for action in (absent, present, changed)}) == 3
    assert (present.workspace_id, present.requester) == ("w1", "telegram:42")


async def test_the_action_of_a_refused_file_still_comes_about(call: Caller, root: Path) -> None:
    """A call whose file is refused has an action too; what it binds is the refusal."""
    (root / "folder").mkdir()
    (root / "out").symlink_to("../outside/secret.txt")
    write = call.tools["write_file"]
    for path in ("folder", "out", "../x"):
        assert write.action({"path": path, "content": "x"}, call.context).files == {path: "refused"}


def test_summaries_are_short_and_hide_the_content() -> None:
    """A summary is one printable line of at most 80 characters without a word of the content."""
    tools = {tool.name: tool for tool in workspace_tools()}
    secret, long = "password\n", "dir/" * 30 + "\u202ename\n.txt"
    table: list[tuple[str, dict[str, Any], str]] = [
        ("write_file", {"path": "todo.txt", "content": secret, "mode": "append"}, "todo.txt (+1 line)"),
        (
            "write_file",
            {"path": "todo.txt", "content": secret * 2, "mode": "overwrite"},
            "todo.txt (replaced by 2 lines)",
        ),
        ("write_file", {"path": "todo.txt", "content": secret, "mode": "create"}, "todo.txt (new, 1 line)"),
        ("edit_file", {"path": "todo.txt", "old": secret, "new": secret * 3}, "todo.txt (1 line replaced by 3)"),
        ("read_file", {"path": "todo.txt"}, "todo.txt"),
        ("list_files", {"path": "src"}, "src/"),
        ("search_files", {"path": "src/", "text": secret}, "src/"),
    ]
    for name, arguments, summary in table:
        assert tools[name].summary(arguments) == summary
        shown = tools[name].summary({**arguments, "path": long})
        assert len(shown) <= 80
        assert shown.isprintable()
    assert tools["write_file"].summary({}) == " (new, 0 lines)"


def test_policies() -> None:
    """Reading never asks and may be repeated; writing follows the policy and is never repeated."""
    assert {tool.name: (tool.approval, tool.replay, tool.high_risk) for tool in workspace_tools()} == {
        "read_file": ("never", "safe", False),
        "list_files": ("never", "safe", False),
        "search_files": ("never", "safe", False),
        "write_file": ("policy", "unsafe", False),
        "edit_file": ("policy", "unsafe", False),
    }


async def test_without_a_workspace_there_are_no_files() -> None:
    """A session without a workspace, or with one that is gone, is told so."""
    context = ToolContext(session_id="s", turn_id="t", call_id="c")
    for tool in workspace_tools():
        with pytest.raises(ToolError, match="no workspace"):
            await tool.run({"path": "a", "content": "", "mode": "append", "old": "", "new": "", "text": ""}, context)
    gone = Workspace(id="w", label="gone", path=Path("/nonexistent-workspace"))
    with pytest.raises(ToolError, match="gone cannot be opened"):
        await Caller(workspace_tools(), ToolContext(session_id="s", turn_id="t", call_id="c", workspace=gone))(
            "read_file", path="a"
        )


async def test_a_cancelled_write_has_ended(call: Caller, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a cancelled call comes back, its thread is done: no effect follows after the turn was said to be over."""
    entered, go_on, ended = asyncio.Event(), threading.Event(), threading.Event()
    loop, append = asyncio.get_running_loop(), files.WorkspaceFolder.append

    def slow_append(self: files.WorkspaceFolder, path: str, content: bytes) -> Any:
        loop.call_soon_threadsafe(entered.set)
        go_on.wait(30)
        done = append(self, path, content)
        ended.set()
        return done

    monkeypatch.setattr(files.WorkspaceFolder, "append", slow_append)
    task = asyncio.create_task(call("write_file", path="a.txt", content="x\n", mode="append"))
    await entered.wait()
    task.cancel()
    loop.call_soon(go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert (root / "a.txt").read_text() == "x\n"


async def test_many_writers_lose_nothing(call: Caller, root: Path) -> None:
    """Appends at the same time all arrive, each on its own line."""
    await asyncio.gather(
        *(call("write_file", path="log.txt", content=f"{number}\n", mode="append") for number in range(40))
    )
    assert sorted((root / "log.txt").read_text().splitlines(), key=int) == [str(number) for number in range(40)]
