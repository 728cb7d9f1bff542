"""S-40 and S-38: the fence holds at the moment of opening, on whatever the path leads over."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from runtime.errors import ToolError
from runtime.tools.base import ToolContext
from runtime.tools.openers import FolderWalk, Openat2, Opener, best_opener
from runtime.tools.workspace import enter_workspace, open_in_workspace
from tests.security.workspaces import AIMED, SECRET, attempt, make_workspace

SWAPS = 10_000


@pytest.fixture(params=["openat2", "walk"])
def opener(request: pytest.FixtureRequest) -> Opener:
    """Both ways to hold the fence."""
    if request.param == "walk":
        return FolderWalk()
    if not isinstance(best_opener(), Openat2):
        pytest.skip("this kernel has no openat2")
    return Openat2()


def hostile_paths(folder: Path) -> tuple[ToolContext, dict[str, str]]:
    """A workspace full of traps, and the path of each; the secret lies outside, and in another session's workspace."""
    context, other = make_workspace(folder), make_workspace(folder, "other")
    assert context.workspace is not None
    assert other.workspace is not None
    root, outside = context.workspace.path, folder / "outside"
    outside.mkdir()
    for place in (outside, other.workspace.path):
        (place / "secret.txt").write_text(SECRET)
    (folder / "bot.db").write_text(SECRET)
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "relative.txt").symlink_to("../outside/secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "chain").symlink_to("folder")
    (root / "magic").symlink_to("/proc/self/environ")
    (root / "loop").symlink_to("loop")
    os.link(outside / "secret.txt", root / "hard.txt")
    os.mkfifo(root / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(root / "socket"))
    listener.close()
    paths = {
        "absolute": "/etc/passwd",
        "absolute secret": str(outside / "secret.txt"),
        "up": "../bot.db",
        "up from below": "x/../../bot.db",
        "other session": "../other/secret.txt",
        "process": "/proc/self/environ",
        "url": f"file://{outside}/secret.txt",
        "link": "link.txt",
        "relative link": "relative.txt",
        "link in the parent": "folder/secret.txt",
        "chain of links": "chain/secret.txt",
        "magic link": "magic",
        "loop of links": "loop",
        "hard link": "hard.txt",
        "fifo": "fifo",
        "socket": "socket",
    }
    if os.geteuid() == 0:
        os.mknod(root / "device", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: endless, if it were read
        paths["device"] = "device"
    return context, paths


def secrets_of(folder: Path) -> list[str]:
    """What stands in every file that no tool may touch."""
    return [(folder / path).read_text() for path in ("outside/secret.txt", "other/secret.txt", "bot.db")]


@pytest.mark.parametrize("aim", AIMED)
async def test_no_tool_reaches_outside(tmp_path: Path, opener: Opener, aim: str) -> None:
    """Every file tool, aimed over every kind of trap, says no at once, tells nothing and changes nothing outside."""
    context, paths = hostile_paths(tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*") if "workspace" not in path.parts)
    for trap, path in paths.items():
        if trap == "url" and aim.startswith("write_file"):
            continue  # a folder called `file:` inside the workspace: odd, and harmless
        async with asyncio.timeout(30):
            told = await attempt(aim, path, context, opener)
        assert told.startswith("refused: "), (trap, told)
        assert SECRET not in told, trap
    assert secrets_of(tmp_path) == [SECRET] * 3
    assert sorted(str(path) for path in tmp_path.rglob("*") if "workspace" not in path.parts) == before


async def test_searching_and_listing_everything_shows_no_secret(tmp_path: Path, opener: Opener) -> None:
    """A search or a listing of the whole workspace passes over the traps without following any."""
    context, _ = hostile_paths(tmp_path)
    searched = await attempt("search_files", ".", context, opener)
    listed = await attempt("list_files", ".", context, opener)
    assert searched.startswith("[nothing found")
    assert "secret.txt" not in listed
    assert "folder [link]" in listed


def test_outbound_files_come_through_the_same_fence(tmp_path: Path, opener: Opener) -> None:
    """A file that is to be sent is opened beneath the workspace too, and only a regular one."""
    context, paths = hostile_paths(tmp_path)
    assert context.workspace is not None
    for path in paths.values():
        with pytest.raises(ToolError), open_in_workspace(context.workspace, path, opener=opener):
            pytest.fail(f"{path} was opened")


def test_links_inside_may_be_read_through_and_never_written_through(tmp_path: Path) -> None:
    """A link that stays in the workspace can be read where the kernel proves it; nothing is written through it."""
    if not isinstance(best_opener(), Openat2):
        pytest.skip("this kernel has no openat2")
    context = make_workspace(tmp_path)
    assert context.workspace is not None
    root = context.workspace.path
    (root / "real.txt").write_text("inside")
    (root / "alias.txt").symlink_to("real.txt")
    with enter_workspace(context.workspace) as folder:
        assert folder.read("alias.txt") == b"inside"
        for write in (folder.append, folder.overwrite, folder.create):
            with pytest.raises(ToolError, match=r"symbolic link|exists already"):
                write("alias.txt", b"x")
    assert (root / "real.txt").read_text() == "inside"
    assert (root / "alias.txt").is_symlink()


RENAME_EXCHANGE = 2


class Attack:
    """A workspace in which a folder and a link to the outside change places all the time, in a thread."""

    def __init__(self, folder: Path) -> None:
        context = make_workspace(folder)
        assert context.workspace is not None
        self.workspace, self.outside, self.swaps = context.workspace, folder / "outside", 0
        self.outside.mkdir()
        (self.outside / "file.txt").write_text(SECRET)
        place, link = self.workspace.path / "place", self.workspace.path / "link"
        place.mkdir()
        (place / "file.txt").write_text("inside")
        link.symlink_to(self.outside)
        self._names = os.fsencode(place), os.fsencode(link)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._swap)

    def _swap(self) -> None:
        exchange = ctypes.CDLL(None, use_errno=True).renameat2
        while not self._stop.is_set():
            assert exchange(-100, self._names[0], -100, self._names[1], RENAME_EXCHANGE) == 0
            self.swaps += 1

    def __enter__(self) -> Attack:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


class NoFence:
    """What must not be used: it follows every link, wherever it leads."""

    def open(self, folder: int, parts: Sequence[str], flags: int, *, follow: bool) -> int:
        """Just open it."""
        return os.open("/".join(parts), flags, dir_fd=folder)


@pytest.mark.parametrize("act", ["read", "write", "walk"])
def test_a_race_for_the_folder_leaks_nothing(tmp_path: Path, opener: Opener, act: str) -> None:
    """While a folder and a link to the outside change places 10,000 times, not one byte crosses the fence."""
    seen, refused = 0, 0
    with Attack(tmp_path) as attack, enter_workspace(attack.workspace, opener) as folder:
        acts: dict[str, Callable[[], str]] = {
            "read": lambda: folder.read_text("place/file.txt"),
            "write": lambda: str(folder.overwrite("place/file.txt", b"inside")),
            "walk": lambda: " ".join(entry.path for entry in folder.entries("place", 3)),
        }
        while attack.swaps < SWAPS or not (seen and refused):  # both sides of the race must have been met
            assert seen + refused < 1_000_000
            try:
                assert SECRET not in acts[act]()
                seen += 1
            except ToolError:
                refused += 1
    assert (attack.outside / "file.txt").read_text() == SECRET
    assert sorted(path.name for path in attack.outside.iterdir()) == ["file.txt"]


def test_the_race_would_show_a_leak(tmp_path: Path) -> None:
    """The same attack against opening without a fence gets the secret: the test above can fail."""
    with Attack(tmp_path) as attack, enter_workspace(attack.workspace, NoFence()) as folder:
        while SECRET not in folder.read_text("place/file.txt"):
            continue
