"""Files of people: fetched, counted, kept, laid into the workspace, and told of."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.contract import InboundFile, Notice
from adapters.errors import Refused
from gateway.blobs import YOUNG_SECONDS, Blobs
from gateway.config.model import WorkspaceSection
from gateway.receiving import FileLimits, Receiving, sweep
from runtime.faults import NO_FAULTS, Faults
from runtime.protocol.session import Attachment, Quoted
from tests.support.intake import CrashAt, FakeAdapter, Stage, stage

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
OGG = b"OggS" + bytes(100)


class FileAdapter(FakeAdapter):
    """Gives out files by their id. `pulled` counts the bytes that were asked for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__()
        self.files = files
        self.pulled = 0

    async def open_file(self, file: InboundFile) -> AsyncGenerator[bytes]:
        if file.id not in self.files:
            raise Refused("it is gone")
        content = self.files[file.id]
        for start in range(0, len(content), 1000):
            self.pulled += 1000
            yield content[start : start + 1000]


@contextlib.asynccontextmanager
async def files_stage(
    folder: Path, files: dict[str, bytes], faults: Faults = NO_FAULTS, **limits: int
) -> AsyncIterator[Stage]:
    """A stage whose platform gives out files, with a workspace of its own."""
    (folder / "ws").mkdir()
    async with stage(folder, faults=faults) as s:
        await s.stop()
        s.workspaces = (WorkspaceSection(id="notes", label="Notes", path=folder / "ws"),)
        s.platforms.one = s.adapter = FileAdapter(files)
        s.receiving = Receiving(Blobs(folder), s.database, s.platforms, s.clock, lambda: FileLimits(**limits))
        s.build()
        await s.start()
        yield s


def sent(*ids: str, **fields: Any) -> tuple[InboundFile, ...]:
    """Files as a platform tells of them."""
    return tuple(
        InboundFile(**{"id": id, "name": f"{id}.png", "media_type": "image/png", "size": 1, **fields}) for id in ids
    )


def laid(folder: Path) -> dict[str, bytes]:
    """What lies in the workspace."""
    return {
        str(file.relative_to(folder / "ws")): file.read_bytes() for file in (folder / "ws").rglob("*") if file.is_file()
    }


async def test_picture_reaches_the_session_and_the_workspace(tmp_path: Path) -> None:
    """A picture with words becomes an attachment with its own hash, lies in the inbox, and is kept as a blob."""
    async with files_stage(tmp_path, {"cat": PNG}) as s:
        await s.say("what is this?", files=sent("cat", name="my cat.png", media_type="text/html"))
        [op] = s.sessions.messages()
        [file] = op.attachments
        assert op.text == "what is this?"
        assert file == Attachment(
            id="1-1", name="my cat.png", media_type="image/png", size=len(PNG), sha256=file.sha256,
            path="inbox/1-1_my_cat.png",
        )  # fmt: skip
        assert laid(tmp_path) == {"inbox/1-1_my_cat.png": PNG}
        assert Blobs(tmp_path).read(file.sha256) == PNG
        assert await s.views() == []


async def test_files_alone_are_a_message(tmp_path: Path) -> None:
    """Without words, the files are what is said; an album comes as one message."""
    async with files_stage(tmp_path, {"a": PNG, "b": b"text"}) as s:
        await s.say("", files=sent("a", "b"))
        [op] = s.sessions.messages()
        assert op.text == "Files came along, without words."
        assert [file.media_type for file in op.attachments] == ["image/png", "text/plain"]


@pytest.mark.parametrize(
    ("content", "fields"), [(OGG, {"media_type": "audio/ogg"}), (OGG, {}), (b"\0\0\0 ftypmp42", {"media_type": "x/y"})]
)
async def test_voice_and_video_are_refused_with_a_sentence(
    tmp_path: Path, content: bytes, fields: dict[str, Any]
) -> None:
    """By what is said of them without a download, else by their bytes; no turn comes of it, and nothing is laid."""
    async with files_stage(tmp_path, {"v": content}) as s:
        await s.say("", files=sent("v", **fields))
        assert s.sessions.messages() == []
        assert await s.told() == ["I cannot listen to voice messages or watch videos. Please write it as text."]
        assert laid(tmp_path) == {}
        if "audio/ogg" in fields.values():
            assert s.adapter.pulled == 0  # type: ignore[attr-defined]


async def test_words_go_on_without_a_file_that_is_refused(tmp_path: Path) -> None:
    """The model is told that something is missing, and so is the person, silently."""
    async with files_stage(tmp_path, {}) as s:
        await s.say("look at this", files=sent("gone"))
        [op] = s.sessions.messages()
        why = "gone.png could not be fetched from the chat. Please send it again."
        assert op.quoted == (Quoted(source="note", author=None, text=f"A file came along and was left out: {why}"),)
        [view] = await s.views()
        assert isinstance(view, Notice)
        assert (view.text, view.notify) == (why, False)


async def test_declared_size_is_not_believed(tmp_path: Path) -> None:
    """A file that says it is small is cut off at the limit, and nothing of it stays on disk."""
    async with files_stage(tmp_path, {"big": bytes(1_000_000)}, file_bytes=50_000) as s:
        await s.say("", files=sent("big", size=1))
        assert "larger than 0 MB" in (await s.told())[0]
        assert s.adapter.pulled <= 51_000  # type: ignore[attr-defined]
        assert list((tmp_path / "blobs").iterdir()) == []


async def test_declared_size_beyond_the_limit_is_not_fetched(tmp_path: Path) -> None:
    """What is too large by its own word costs nothing."""
    async with files_stage(tmp_path, {"big": PNG}) as s:
        await s.say("", files=sent("big", size=21_000_000))
        assert "larger than 20 MB" in (await s.told())[0]
        assert s.adapter.pulled == 0  # type: ignore[attr-defined]


async def test_one_person_has_a_daily_ration(tmp_path: Path) -> None:
    """Beyond it files are refused until a day has passed."""
    async with files_stage(tmp_path, {"a": PNG, "b": PNG + b"1", "c": PNG + b"2"}, bytes_per_day=len(PNG) + 50) as s:
        await s.say("one", files=sent("a"))
        await s.say("two", files=sent("b"))
        assert [len(op.attachments) for op in s.sessions.messages()] == [1, 0]
        s.clock.advance(86_401)
        await s.say("three", files=sent("c"))
        assert len(s.sessions.messages()[-1].attachments) == 1


async def test_ten_files_of_a_message_are_taken(tmp_path: Path) -> None:
    """The eleventh is told of, and not fetched."""
    names = [f"f{number}" for number in range(12)]
    async with files_stage(tmp_path, {name: name.encode() for name in names}) as s:
        await s.say("look", files=sent(*names))
        assert len(s.sessions.messages()[0].attachments) == 10
        assert "first 10 files" in (await s.told())[0]


async def test_done_again_nothing_is_laid_twice(tmp_path: Path) -> None:
    """A crash after the file was laid and before the message was submitted leaves one file, under the same name."""
    faults = CrashAt("intake.submit.before")
    async with files_stage(tmp_path, {"cat": PNG}, faults=faults) as s:
        await s.intake(s.message("look", files=sent("cat")))
        await s.crashed()
        assert s.sessions.messages() == []
        assert laid(tmp_path) == {"inbox/1-1_cat.png": PNG}
        await s.restart()
        await s.settled()
        [op] = s.sessions.messages()
        assert laid(tmp_path) == {op.attachments[0].path: PNG}


async def test_content_is_kept_once_and_swept_with_its_sessions(tmp_path: Path) -> None:
    """Two messages with one content keep one blob; it goes once its session is gone, and a young one never does."""
    async with files_stage(tmp_path, {"a": PNG, "b": b"other"}) as s:
        await s.say("one", files=sent("a"))
        await s.say("two", files=sent("a", "b"))
        blobs, folder = Blobs(tmp_path), tmp_path / "blobs"
        names = {file.name for file in folder.iterdir()}
        assert len(names) == 2
        assert {file.stat().st_mode & 0o077 for file in (folder, *folder.iterdir())} == {0}
        assert {name for (name,) in await s.rows("SELECT sha256 FROM session_files")} == names
        await sweep(blobs, s.database, s.clock)
        assert {file.name for file in folder.iterdir()} == names
        s.clock.advance(2 * YOUNG_SECONDS)  # the session was never begun in truth, so it counts as gone by now
        await sweep(blobs, s.database, s.clock)
        assert list(folder.iterdir()) == []
