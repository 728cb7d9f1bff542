"""Files that people send: fetched from the platform, kept, and laid into the workspace as new files.

Names, types and sizes are what the sender's side claims, and nothing is believed: bytes are counted as they come, the
type is read from them, and the name in the workspace is ours. Doing it again lays nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from adapters.contract import InboundFile, OpensFiles, Place
from adapters.errors import AdapterError
from gateway import kinds
from gateway.blobs import YOUNG_SECONDS, Blob, Blobs, BlobTooLarge, DiskFull
from gateway.ledger import files as rows
from gateway.ledger.database import Database
from gateway.places import display_name
from gateway.ports import Platforms
from gateway.strings import say
from runtime.clock import Clock
from runtime.errors import ToolError
from runtime.protocol.session import Attachment
from runtime.tools.base import Workspace
from runtime.tools.workspace import enter_workspace

log = logging.getLogger(__name__)

FILES_PER_MESSAGE = 10
FETCH_SECONDS = 120.0
INBOX = "inbox"
"""The folder of a workspace that files of people are laid into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What came of the files of a message. `refusals` are sentences for people."""

    attachments: tuple[Attachment, ...] = ()
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """Bytes of one file, and of what one person may send in 24 hours."""

    file_bytes: int = 20_000_000
    bytes_per_day: int = 200_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Where files came from and where they go. `key` names the message, and so the files in the workspace."""

    place: Place
    principal: str
    session_id: str
    workspace: Workspace
    key: str


class _NotTaken(Exception):
    """A file is not taken; the message is a sentence for people."""


class Receiving:
    """Fetches and keeps files."""

    def __init__(
        self, blobs: Blobs, database: Database, platforms: Platforms, clock: Clock, limits: Callable[[], FileLimits]
    ) -> None:
        self._blobs = blobs
        self._database = database
        self._platforms = platforms
        self._clock = clock
        self._limits = limits

    def refusal(self, file: InboundFile) -> str | None:
        """Why a file is not even fetched, by what is said of it; None if it is."""
        if kinds.is_spoken(file.media_type):
            return say("files.spoken")
        limit = self._limits().file_bytes
        if file.size > limit:
            return say("files.too_large", name=display_name(file.name), limit=_megabytes(limit))
        return None

    async def receive(self, files: Sequence[InboundFile], whose: Whose) -> Received:
        """Take the files of one message."""
        attachments: list[Attachment] = []
        refusals: list[str] = []
        for number, file in enumerate(files, start=1):
            try:
                if number > FILES_PER_MESSAGE:
                    raise _NotTaken(say("files.too_many", limit=FILES_PER_MESSAGE))
                attachments.append(await self._take(file, whose, f"{whose.key}-{number}"))
            except _NotTaken as error:
                refusals.append(str(error))
        return Received(attachments=tuple(attachments), refusals=tuple(dict.fromkeys(refusals)))

    async def _take(self, file: InboundFile, whose: Whose, key: str) -> Attachment:
        if reason := self.refusal(file):
            raise _NotTaken(reason)
        now_ms = self._clock.now_ms()
        left = self._limits().bytes_per_day - await rows.bytes_of_day(self._database, whose.principal, now_ms)
        if left <= 0:
            raise _NotTaken(say("files.quota", limit=_megabytes(self._limits().bytes_per_day)))
        blob = await self._fetch(file, whose.place, min(left, self._limits().file_bytes))
        media_type = kinds.media_type_of(blob.head)
        if kinds.is_spoken(media_type):
            raise _NotTaken(say("files.spoken"))
        await self._database.write([rows.kept(whose.session_id, blob.sha256, blob.size, whose.principal, now_ms)])
        path = f"{INBOX}/{key}_{kinds.safe_name(file.name)}"
        await asyncio.to_thread(self._lay, blob, whose.workspace, path, file)
        return Attachment(
            id=key,
            name=display_name(file.name),
            media_type=media_type,
            size=blob.size,
            sha256=blob.sha256,
            path=path,
        )

    async def _fetch(self, file: InboundFile, place: Place, limit: int) -> Blob:
        adapter = self._platforms.adapter(place.platform, place.account)
        name = display_name(file.name)
        if not isinstance(adapter, OpensFiles):
            raise _NotTaken(say("files.not_here"))
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                return await self._blobs.put(adapter.open_file(file), limit)
        except BlobTooLarge:
            raise _NotTaken(say("files.too_large", name=name, limit=_megabytes(limit))) from None
        except DiskFull:
            raise _NotTaken(say("files.disk", name=name)) from None
        except (AdapterError, TimeoutError, OSError) as error:
            log.warning("a file could not be fetched: %s", error)
            raise _NotTaken(say("files.not_fetched", name=name)) from None

    def _lay(self, blob: Blob, workspace: Workspace, path: str, file: InboundFile) -> None:
        content = self._blobs.read(blob.sha256)
        assert content is not None, "it was kept a moment ago"
        try:
            with enter_workspace(workspace) as folder:
                if folder.digest(path, self._limits().file_bytes) != blob.sha256:
                    folder.create(path, content, max_bytes=len(content))
        except ToolError as error:
            log.warning("a file could not be laid into the workspace %s: %s", workspace.id, error)
            raise _NotTaken(say("files.not_laid", name=display_name(file.name))) from None


async def sweep(blobs: Blobs, database: Database, clock: Clock) -> None:
    """Forget the files of sessions that are gone."""
    await rows.forget_gone_sessions(database, clock.now_ms() - int(YOUNG_SECONDS * 1000))
    kept = await rows.all_kept(database)
    await asyncio.to_thread(blobs.sweep, kept, clock.now_ms() / 1000)


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.0f} MB"
