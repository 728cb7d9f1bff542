"""Files of the agent on their way out: kept as a blob, planned as a delivery, once under the key of their call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from adapters.contract import File, Place
from adapters.errors import Refused
from gateway import kinds
from gateway.blobs import Blobs, DiskFull
from gateway.budget import Priority
from gateway.ledger import deliveries
from gateway.ledger import files as rows
from gateway.ledger.database import Database
from gateway.places import Places, conversation, display_name
from gateway.ports import Platforms
from runtime.clock import Clock
from runtime.errors import ToolError
from runtime.tools.base import ToolContext
from runtime.tools.send_file import OutgoingFile


class Posting:
    """What `send_file` hands its files to; see `runtime.tools.send_file.Post`."""

    def __init__(
        self,
        blobs: Blobs,
        database: Database,
        places: Places,
        platforms: Platforms,
        wake: Callable[[Place], None],
        clock: Clock,
    ) -> None:
        self._blobs = blobs
        self._database = database
        self._places = places
        self._platforms = platforms
        self._wake = wake
        self._clock = clock

    async def __call__(self, outgoing: OutgoingFile, context: ToolContext) -> None:
        """Plan it for the thread of the session; on return that is on disk. ToolError: it cannot be sent there."""
        session = await self._places.session(context.session_id)
        if session is None:
            raise ToolError("This session has no chat that a file could be sent to.")
        place = conversation(session.place)
        adapter = self._platforms.adapter(place.platform, place.account)
        limit = adapter.capabilities.file_limits[1] if adapter is not None else len(outgoing.content)
        if len(outgoing.content) > limit:
            size = len(outgoing.content)
            takes = f"files of at most {limit} bytes, and this one has {size}" if limit else "no files from us"
            raise ToolError(f"{place.platform} takes {takes}.")
        try:
            blob = await self._blobs.put(_in_one(outgoing.content), len(outgoing.content))
        except DiskFull as error:
            raise ToolError(f"The file was not sent: {error}.") from None
        view = File(
            name=display_name(outgoing.name) or "file",
            media_type=kinds.media_type_of(blob.head),
            size=blob.size,
            sha256=blob.sha256,
            caption=outgoing.caption,
        )
        now_ms = self._clock.now_ms()
        planned = deliveries.plan(
            source=f"file:{context.session_id}:{context.idempotency_key}",
            surface="file",
            place=place,
            views=[view],
            priority=Priority.ANSWER,
            now_ms=now_ms,
            session_id=context.session_id,
        )
        keep = rows.kept(context.session_id, blob.sha256, blob.size, None, now_ms)
        await self._database.write([keep, *planned])
        self._wake(place)


async def content_of(blobs: Blobs, sha256: str) -> bytes:
    """The content of a file for an adapter; Refused if it is not kept any more."""
    content = await asyncio.to_thread(blobs.read, sha256)
    if content is None:
        raise Refused("the file is not kept any more")
    return content


async def _in_one(content: bytes) -> AsyncIterator[bytes]:
    yield content
