"""S-39: names of files that come are hostile: each makes one new file inside the inbox, whatever was planted there."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.contract import InboundFile
from tests.unit.gateway.intake.test_files import PNG, files_stage, laid
from tests.unit.gateway.test_kinds import HOSTILE


@pytest.mark.parametrize("name", HOSTILE)
async def test_one_new_file_inside_the_inbox(tmp_path: Path, name: str) -> None:
    """The file is there once, below the inbox, with its bytes; the name is shown as one printable line."""
    async with files_stage(tmp_path, {"f": PNG}) as s:
        await s.say("look", files=(InboundFile(id="f", name=name, media_type="image/png", size=9),))
        [file] = s.sessions.messages()[0].attachments
        assert list(laid(tmp_path).values()) == [PNG]
        assert file.path is not None
        assert file.path.startswith("inbox/1-1_")
        assert "/" not in file.path.removeprefix("inbox/")
        assert file.name.isprintable()


async def test_planted_links_are_not_followed(tmp_path: Path) -> None:
    """Neither an inbox that is a link nor a link under the coming name leads a file out; the person is told."""
    outside = tmp_path / "outside"
    outside.mkdir()
    async with files_stage(tmp_path, {"f": PNG}) as s:
        (tmp_path / "ws" / "inbox").mkdir()
        (tmp_path / "ws" / "inbox" / "1-1_a.png").symlink_to(outside / "stolen")
        await s.say("look", files=(InboundFile(id="f", name="a.png", media_type="image/png", size=9),))
        assert list(outside.iterdir()) == []
        assert "could not be laid" in (await s.told())[0]


async def test_inbox_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """A folder that leads elsewhere takes nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    async with files_stage(tmp_path, {"f": PNG}) as s:
        (tmp_path / "ws" / "inbox").symlink_to(outside)
        await s.say("look", files=(InboundFile(id="f", name="a.png", media_type="image/png", size=9),))
        assert list(outside.iterdir()) == []
        assert "could not be laid" in (await s.told())[0]
