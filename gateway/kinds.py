"""What a file is, by its bytes: what its sender's side says of it is only a hint. Pure."""

from __future__ import annotations

import re

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Pictures that models are shown."""

PDF = "application/pdf"
SPOKEN = ("audio/", "video/")

_SAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"%PDF-", PDF),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"PK\x05\x06", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
)


def media_type_of(head: bytes) -> str:
    """The media type by the first bytes; `text/plain` for text, `application/octet-stream` for what is not known."""
    for at, magic, media_type in _MAGIC:
        if head[at : at + len(magic)] == magic:
            return media_type
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}[head[8:12]]
    return "text/plain" if _is_text(head) else "application/octet-stream"


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3 and len(head) > 3  # cut inside a letter
    return True


def is_spoken(media_type: str) -> bool:
    """Whether it is sound or film, which no model of ours is given."""
    return media_type.partition(";")[0].strip().lower().startswith(SPOKEN)


def safe_name(name: str) -> str:
    """At most 64 harmless characters that remind of the name: no path, no option, no hidden file."""
    base = name.replace("\\", "/").rpartition("/")[2]
    cleaned = _SAFE.sub("_", base).strip("._-")
    stem, dot, ending = cleaned.rpartition(".")
    if dot and len(ending) <= 8:
        return f"{stem[: 63 - len(ending)]}.{ending}" if stem else f"file.{ending}"
    return cleaned[:64] or "file"
