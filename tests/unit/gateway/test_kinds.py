"""What a file is by its bytes, and what its name may be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kinds import is_spoken, media_type_of, safe_name


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"%PDF-1.7", "application/pdf"),
        (b"OggS\0", "audio/ogg"),
        (b"\0\0\0\x18ftypmp42", "video/mp4"),
        (b"PK\x03\x04", "application/zip"),
        ("grüße\n".encode(), "text/plain"),
        (("x" * 511 + "ü").encode()[:512], "text/plain"),
        (b"<html>", "text/plain"),
        (b"\0\1\2", "application/octet-stream"),
        (b"\xff\xfe\xfd\xfc\xfb", "application/octet-stream"),
        (b"", "text/plain"),
    ],
)
def test_type_by_bytes(head: bytes, expected: str) -> None:
    """The first bytes decide; text that was cut inside a letter is text."""
    assert media_type_of(head) == expected


def test_sound_and_film_are_known_whatever_the_spelling() -> None:
    """Parameters and capitals do not hide them."""
    assert is_spoken("Audio/OGG; codecs=opus")
    assert is_spoken("video/mp4")
    assert not is_spoken("image/png")


HOSTILE = [
    "../x", "/abs/y.txt", "..\\x", "C:\\x", ".", "", "\0", "a" * 300, "CON", "\u202egnp.exe", "-rf", ".git/config",
    "..", ".bashrc", "a b.txt", "ü.png", "x." + "y" * 100, "a/b/../c", "$(touch x).sh",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_become_harmless(name: str) -> None:
    """Whatever comes, the name is 1 to 64 harmless characters, and neither hidden nor an option."""
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", safe_name(name))


@given(st.text())
def test_any_name_becomes_harmless(name: str) -> None:
    """The same for any text."""
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", safe_name(name))


def test_name_still_reminds_of_itself() -> None:
    """A usual name stays as it is, and a long one keeps its ending."""
    assert safe_name("report-2026.pdf") == "report-2026.pdf"
    assert safe_name("x" * 100 + ".pdf").endswith(".pdf")
