"""The one place where discord.py is imported: its client keeps the gateway and the limits of the REST API for us.

Events are read from what came over the gateway and answers are plain JSON, so nothing is lost to a model that does not
know a field yet. Presses, forms and commands are events like all others: one that belongs to a message of an earlier
process arrives like any other, and no view has to be registered for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import discord
from discord.http import Route

from adapters.discord.channels import Channel, channel_of
from adapters.discord.outbound import Request
from adapters.discord.payload import Payload, an_object
from adapters.discord.redirection import connector
from adapters.discord.refusals import refusal
from adapters.discord.settings import Settings
from adapters.discord.words import Me
from adapters.errors import AdapterError, BadCredentials, NotConnected, OutcomeUnknown, RateLimited, Refused

log = logging.getLogger("pilothouse.discord")

FILE_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
IDENTIFY_PAUSE_SECONDS = 5.0
"""One session may begin in five seconds (https://discord.com/developers/docs/events/gateway#rate-limiting)."""

LONGEST_WAIT_SECONDS = 30.0
"""The client waits that long for a limit by itself, and says so beyond it; it takes no less than 30."""

Frame = Callable[[Payload], None]


class _NoVoice(logging.Filter):
    """We have no voice, so nobody has to install anything for it."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "voice will NOT be supported" not in record.getMessage()


logging.getLogger("discord.client").addFilter(_NoVoice())


class _Client(discord.Client):
    """A client that passes on every frame of the gateway, and caches no more than channels."""

    def __init__(self, settings: Settings, sleep: Callable[[float], Awaitable[None]], intents: discord.Intents) -> None:
        super().__init__(
            intents=intents,
            connector=connector(settings.api_base),
            enable_debug_events=True,  # the documented way to the frames themselves
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=0.0,
            max_ratelimit_timeout=LONGEST_WAIT_SECONDS,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self._pause = sleep
        self.frame: Frame = lambda frame: None
        self.lost: Callable[[], None] = lambda: None

    async def on_socket_raw_receive(self, message: str) -> None:
        """Every frame, in order: nothing is awaited here."""
        try:
            frame = an_object(json.loads(message))
        except ValueError:
            return
        self.frame(frame)

    async def on_disconnect(self) -> None:
        """The gateway is lost; the client is already trying to get it back."""
        self.lost()

    async def on_error(self, event_method: str, /, *args: Any, **kwargs: Any) -> None:
        """A fault in a handler of ours."""
        log.exception("the handler of %s failed", event_method)

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Begin sessions no faster than allowed."""
        if not initial:
            await self._pause(IDENTIFY_PAUSE_SECONDS)


class Connection:
    """One client for one bot. `open` it once, `close` it; after that nothing goes out."""

    def __init__(self, settings: Settings, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._settings = settings
        self._sleep = sleep
        self._client: _Client | None = None
        self.sees_content = True
        """Whether the bot may read what is not said to it; known once it is open."""

    async def open(self, frame: Frame, lost: Callable[[], None]) -> Me:
        """Check the token; the REST API can be used from now on. BadCredentials, NotConnected, OutcomeUnknown."""
        client = await self._logged_in()
        flags = client.application_flags
        if self.sees_content and not (flags.gateway_message_content or flags.gateway_message_content_limited):
            self.sees_content = False  # to ask for it all the same would end the gateway
            await self.close()
            client = await self._logged_in()
        client.frame, client.lost = frame, lost
        user = client.user
        assert user is not None, "a client that is logged in knows who it is"
        return Me(id=str(user.id), application=str(client.application_id or user.id), name=user.name)

    async def _logged_in(self) -> _Client:
        client = self._client = _Client(self._settings, self._sleep, _intents(self.sees_content))
        try:
            await self._guarded(client.login(self._settings.token))
        except BaseException:
            await self.close()
            raise
        return client

    @property
    def endpoint(self) -> str | None:
        """Where Discord sends interactions to instead of us, if it does."""
        application = self._client.application if self._client else None
        return application.interactions_endpoint_url if application else None

    async def listen(self) -> None:
        """Keep the gateway until it cannot be kept; errors are those of `adapters.errors`."""
        client = self._opened()
        try:
            await self._guarded(client.connect(reconnect=True), patient=True)
        except discord.PrivilegedIntentsRequired:
            self.sees_content = False
            raise NotConnected("Discord does not give us the content of messages: switch the intent on") from None
        except discord.ConnectionClosed as error:
            if error.code == 4004:
                raise BadCredentials("Discord does not know this token any more") from None
            raise NotConnected(f"the gateway was closed with {error.code}") from None
        raise NotConnected("the gateway was closed")

    def channel(self, number: str) -> Channel | None:
        """A channel that the gateway has told us of."""
        found: Any = self._client.get_channel(int(number)) if self._client else None
        if found is None:
            return None
        told = {"id": number, "type": found.type.value, "parent_id": getattr(found, "parent_id", None)}
        return channel_of({**told, "name": getattr(found, "name", "")})

    async def call(self, request: Request) -> Any:
        """The answer to one request, as JSON; errors are those of `adapters.errors`."""
        client = self._opened()
        route = Route(request.verb, request.path, **request.ids)
        more: dict[str, Any] = {"params": dict(request.query)} if request.query else {}
        if request.file is not None:
            more["form"] = _form(request)
        elif request.body is not None:
            more["json"] = request.body
        return await self._guarded(client.http.request(route, **more))

    async def download(self, address: str) -> AsyncGenerator[bytes]:
        """A file from Discord's own file hosts, in pieces, without our token. Refused if it is not given."""
        parts = urlsplit(address)
        if parts.scheme != "https" or parts.hostname not in FILE_HOSTS or parts.port not in (None, 443):
            raise Refused("a file is not on Discord's own hosts")
        try:
            limits = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=self._settings.request_seconds)
            async with (
                aiohttp.ClientSession(connector=connector(self._settings.api_base), timeout=limits) as session,
                session.get(address, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    raise Refused(f"Discord does not give a file ({response.status})")
                async for piece in response.content.iter_chunked(1 << 16):
                    yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OutcomeUnknown(f"a file could not be downloaded ({type(error).__name__})") from None

    async def close(self) -> None:
        """End it; what the client was told before this returns has been passed on."""
        client, self._client = self._client, None
        if client is None:
            return
        await client.close()
        for _ in range(2):
            await asyncio.sleep(0)  # handlers of the last frames are tasks of the client that begin at the next turn

    def _opened(self) -> _Client:
        if self._client is None:
            raise NotConnected("the Discord adapter is not started")
        return self._client

    async def _guarded(self, work: Awaitable[Any], *, patient: bool = False) -> Any:
        try:
            async with asyncio.timeout(None if patient else self._settings.request_seconds + LONGEST_WAIT_SECONDS):
                return await work
        except discord.LoginFailure:
            raise refusal(401, 0, "") from None
        except discord.RateLimited as error:
            raise RateLimited(str(error), retry_after=error.retry_after) from None
        except discord.HTTPException as error:
            raise _refusal(error) from None
        except (discord.GatewayNotFound, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _lost(error) from None
        except RuntimeError as error:
            if "Session is closed" in str(error):
                raise NotConnected("the connection to Discord is closed") from None
            raise


def _intents(sees_content: bool) -> discord.Intents:
    return discord.Intents(
        guilds=True,
        guild_messages=True,
        dm_messages=True,
        guild_reactions=True,
        dm_reactions=True,
        message_content=sees_content,
    )


def _form(request: Request) -> list[dict[str, Any]]:
    assert request.file is not None
    file = request.file
    told = {"name": "payload_json", "value": json.dumps(request.body)}
    content = {"name": "files[0]", "value": file.content, "filename": file.name}
    return [told, {**content, "content_type": "application/octet-stream"}]


def _refusal(error: discord.HTTPException) -> AdapterError:
    waited = error.response.headers.get("Retry-After", "0")
    try:
        seconds = float(waited)
    except ValueError:
        seconds = 0.0
    return refusal(error.status, error.code, error.text, seconds)


def _lost(error: Exception) -> AdapterError:
    """No answer came. Where not even a connection came about, nothing can have been done."""
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | discord.GatewayNotFound):
        return NotConnected(f"Discord cannot be reached ({told})")
    return OutcomeUnknown(f"no answer came from Discord ({told})")
