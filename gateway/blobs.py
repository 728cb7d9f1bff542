"""The folder of files that came and go out, by the SHA-256 of their content. Nothing else writes or reads in there.

A blob is whole and durable before it has its name. Everything here blocks and belongs in a thread, but for `put`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FOLDER = "blobs"
FLOOR_BYTES = 256 * 1024 * 1024
"""Free space that is never used up for files: the database needs it."""

YOUNG_SECONDS = 3600.0
"""A blob is put before the row that keeps it, so a young one is never swept."""

_NAME = re.compile(r"[0-9a-f]{64}")


class BlobTooLarge(Exception):
    """There is more than was allowed; nothing of it is kept. The message is a sentence for people."""


class DiskFull(Exception):
    """There is too little space left; nothing is kept. The message is a sentence for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A content that is kept. `head` are its first bytes, by which its kind is known."""

    sha256: str
    size: int
    head: bytes


class Blobs:
    """One folder of blobs, closed to others."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / FOLDER

    async def put(self, pieces: AsyncIterable[bytes], max_bytes: int) -> Blob:
        """Keep what comes. Counts while it comes, whatever size was declared. BlobTooLarge, DiskFull."""
        await asyncio.to_thread(self._make_room, max_bytes)
        draft = self._folder / f".{secrets.token_hex(8)}.part"
        digest, size, head = hashlib.sha256(), 0, b""
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            async for piece in pieces:
                size += len(piece)
                if size > max_bytes:
                    raise BlobTooLarge(f"it is larger than {max_bytes} bytes")
                digest.update(piece)
                head += piece[: 512 - len(head)]
                await asyncio.to_thread(_write, descriptor, piece)
            await asyncio.to_thread(os.fsync, descriptor)
            blob = Blob(sha256=digest.hexdigest(), size=size, head=head)
            await asyncio.to_thread(self._name, draft, blob.sha256)
            return blob
        finally:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                draft.unlink()

    def read(self, sha256: str) -> bytes | None:
        """The content; None if it is not kept (any more)."""
        if not _NAME.fullmatch(sha256):
            return None
        try:
            return (self._folder / sha256).read_bytes()
        except OSError:
            return None

    def sweep(self, kept: Collection[str], now: float) -> int:
        """Remove what nobody keeps and what a crash left half; how many files that were. `now` in seconds."""
        if not self._folder.is_dir():
            return 0
        gone = 0
        for file in self._folder.iterdir():
            if file.name not in kept and file.lstat().st_mtime < now - YOUNG_SECONDS:
                file.unlink(missing_ok=True)
                gone += 1
        return gone

    def _make_room(self, max_bytes: int) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if shutil.disk_usage(self._folder).free < FLOOR_BYTES + max_bytes:
            raise DiskFull("there is too little free space on the disk of this machine")

    def _name(self, draft: Path, sha256: str) -> None:
        # A content that is there already gets a new time, so that no sweep takes it away before its row is written.
        draft.replace(self._folder / sha256)
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write(descriptor: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]
