"""Size of an image from its first bytes; enough to tell a picture from something else."""

from __future__ import annotations

import struct
from typing import Final

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG_SIZES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, WebP (lossy) or JPEG; None if it is none of these."""
    if content.startswith(_PNG) and len(content) >= 24:
        width, height = struct.unpack(">II", content[16:24])
        return width, height
    if content[:6] in (b"GIF87a", b"GIF89a") and len(content) >= 10:
        width, height = struct.unpack("<HH", content[6:10])
        return width, height
    if content[:4] == b"RIFF" and content[8:16] == b"WEBPVP8 " and len(content) >= 30:
        width, height = struct.unpack("<HH", content[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return _jpeg_size(content) if content[:2] == b"\xff\xd8" else None


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        (length,) = struct.unpack(">H", content[at + 2 : at + 4])
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None
