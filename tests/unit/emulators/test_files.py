"""Files in both directions, within the platform's limits."""

from __future__ import annotations

import io
import json
import struct

import aiohttp
import pytest

from adapters.emulators import FaultKind
from adapters.emulators.telegram import TelegramEmulator
from adapters.emulators.telegram.images import image_size
from tests.unit.emulators.conftest import ALICE
from tests.unit.emulators.raw_client import RawBot

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 64, 48) + b"\x08\x02\x00\x00\x00"


def upload(method_field: str, content: bytes, name: str = "a.txt", **params: str) -> aiohttp.FormData:
    """A multipart body whose parameter names its part by attach://."""
    data = aiohttp.FormData({"chat_id": str(ALICE), method_field: "attach://part", **params})
    data.add_field("part", io.BytesIO(content), filename=name, content_type="text/plain")
    return data


async def test_document_goes_out_and_comes_back(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A sent document is in the chat with its caption; getFile gives a link that works for an hour."""
    body = await bot.form("sendDocument", upload("document", b"data", caption="<b>c</b>", parse_mode="HTML"))
    sent = body["result"]
    assert (sent["caption"], sent["caption_entities"]) == ("c", [{"type": "bold", "offset": 0, "length": 1}])
    document = sent["document"]
    assert (document["file_name"], document["mime_type"], document["file_size"]) == ("a.txt", "text/plain", 4)
    link = await bot.result("getFile", file_id=document["file_id"])
    async with bot.session.get(f"{bot.files}/{link['file_path']}") as response:
        assert (response.status, await response.read()) == (200, b"data")
    await emulator.advance(3601)
    async with bot.session.get(f"{bot.files}/{link['file_path']}") as response:
        assert (response.status, await response.json()) == (
            404,
            {"ok": False, "error_code": 404, "description": "Not Found"},
        )
    again = await bot.result("sendDocument", chat_id=ALICE, document=document["file_id"])
    assert again["document"]["file_id"] == document["file_id"]
    (call, _) = emulator.sends
    assert call.call.data["files"] == {"part": {"name": "a.txt", "mime_type": "text/plain", "size": 4}}
    emulator.assert_clean()


@pytest.mark.parametrize(
    ("size", "params", "error"),
    [
        (0, {}, "400 Bad Request: file must be non-empty"),
        (1, {"caption": "c" * 1025}, "400 Bad Request: message caption is too long"),
        ((50 << 20) + 1, {}, "413 Request Entity Too Large"),
    ],
)
async def test_documents_are_limited(bot: RawBot, size: int, params: dict[str, str], error: str) -> None:
    """Empty files, long captions and more than 50 MB are refused."""
    body = await bot.form("sendDocument", upload("document", b"x" * size, **params))
    assert f"{body['error_code']} {body['description']}" == error


async def test_references_to_files_are_checked(bot: RawBot) -> None:
    """Unknown ids are refused, and no address is ever fetched."""
    for reference, error in (
        ("nonsense", "wrong file identifier/HTTP URL specified"),
        ("attach://missing", "wrong file identifier/HTTP URL specified"),
        ("https://a.example/x.txt", "failed to get HTTP URL content"),
    ):
        assert await bot.error("sendDocument", chat_id=ALICE, document=reference) == f"400 Bad Request: {error}"
    assert await bot.error("sendDocument", chat_id=ALICE) == "400 Bad Request: there is no document in the request"
    assert await bot.error("getFile", file_id="x") == (
        "400 Bad Request: wrong file_id or the file is temporarily unavailable"
    )


async def test_photos_must_be_pictures(bot: RawBot) -> None:
    """A picture has its size; something else is refused."""
    body = await bot.form("sendPhoto", upload("photo", PNG, "p.png"))
    assert [(one["width"], one["height"]) for one in body["result"]["photo"]] == [(64, 48)]
    body = await bot.form("sendPhoto", upload("photo", b"not a picture"))
    assert body["description"] == "Bad Request: IMAGE_PROCESS_FAILED"


async def test_album_is_one_group(emulator: TelegramEmulator, bot: RawBot) -> None:
    """An album of two to ten becomes messages of one group; documents do not mix with pictures."""
    media = [{"type": "document", "media": "attach://a", "caption": "c"}, {"type": "document", "media": "attach://b"}]
    data = aiohttp.FormData({"chat_id": str(ALICE), "media": json.dumps(media)})
    for name in "ab":
        data.add_field(name, name.encode(), filename=f"{name}.txt")
    sent = (await bot.form("sendMediaGroup", data))["result"]
    assert len({one["media_group_id"] for one in sent}) == 1
    assert [one.get("caption") for one in sent] == ["c", None]
    assert await bot.error("sendMediaGroup", chat_id=ALICE, media=media[:1]) == (
        "400 Bad Request: wrong number of messages in an album: must include 2-10 items"
    )
    mixed = [media[0], {"type": "photo", "media": "x"}]
    assert "can't be mixed" in await bot.error("sendMediaGroup", chat_id=ALICE, media=mixed)


async def test_people_send_files_and_albums(emulator: TelegramEmulator, bot: RawBot) -> None:
    """Uploads arrive with their kind; an album arrives as separate updates of one group."""
    await emulator.upload(ALICE, b"report", file_name="r.pdf", mime_type="application/pdf", caption="see /this")
    await emulator.upload(ALICE, b"sound", kind="voice")
    await emulator.album(ALICE, [("photo", PNG), ("photo", PNG + b"2")], caption="two")
    messages = [update["message"] for update in await bot.updates()]
    document, voice, first, second = messages
    assert (document["document"]["file_name"], document["caption_entities"][0]["type"]) == ("r.pdf", "bot_command")
    assert voice["voice"]["mime_type"] == "audio/ogg"
    assert first["media_group_id"] == second["media_group_id"]
    assert (first["caption"], "caption" in second) == ("two", False)
    link = await bot.result("getFile", file_id=first["photo"][-1]["file_id"])
    assert link["file_path"].startswith("photos/")


async def test_large_files_cannot_be_downloaded(emulator: TelegramEmulator, bot: RawBot) -> None:
    """People may send more than 20 MB, but a bot cannot get it."""
    sent = await emulator.upload(ALICE, b"x" * ((20 << 20) + 1), file_name="big")
    assert await bot.error("getFile", file_id=sent["document"]["file_id"]) == "400 Bad Request: file is too big"


async def test_downloads_can_fail(emulator: TelegramEmulator, bot: RawBot) -> None:
    """A fault on `file` hits the download and not the API."""
    sent = await emulator.upload(ALICE, b"x")
    link = await bot.result("getFile", file_id=sent["document"]["file_id"])
    # Twice, because aiohttp tries a GET once more by itself when the connection breaks.
    emulator.fault("file", FaultKind.DROP, times=2)
    with pytest.raises(aiohttp.ClientError):
        await bot.session.get(f"{bot.files}/{link['file_path']}")
    async with bot.session.get(f"{bot.files}/{link['file_path']}") as response:
        assert await response.read() == b"x"


@pytest.mark.parametrize(
    ("content", "size"),
    [
        (PNG, (64, 48)),
        (b"GIF89a" + struct.pack("<HH", 3, 5), (3, 5)),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 7, 9) + b"\x00", (9, 7)),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 " + b"\x00" * 10 + struct.pack("<HH", 20, 10), (20, 10)),
        (b"\xff\xd8\xff", None),
        (b"text", None),
    ],
)
def test_image_size_from_the_first_bytes(content: bytes, size: tuple[int, int] | None) -> None:
    """Width and height of the usual kinds of picture; None for anything else."""
    assert image_size(content) == size
