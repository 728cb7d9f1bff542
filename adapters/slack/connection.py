"""Calls of Slack's Web API through slack_sdk; answers come back as plain JSON, failures as errors of ours."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from adapters.errors import AdapterError, NotConnected, OutcomeUnknown, Refused
from adapters.payload import Payload, a_text, an_object
from adapters.slack.outbound import Request
from adapters.slack.refusals import refusal
from adapters.slack.settings import Settings

CONNECT_SECONDS = 15.0
FILE_LIMIT = 1 << 30
"""1 GB in bytes, for what is sent and for what comes (https://slack.com/help/articles/201330736)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What Slack answered, and the scopes that our token has."""

    body: Payload
    scopes: frozenset[str]


class Connection:
    """Connections to the Web API for one app; made within a loop. `close` it; after that nothing goes out."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        timeout = aiohttp.ClientTimeout(total=settings.request_seconds, sock_connect=CONNECT_SECONDS)
        self._session = aiohttp.ClientSession(timeout=timeout)
        self.client = web_client(settings, settings.bot_token, self._session)

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    async def call(self, request: Request) -> Payload:
        """The answer to one call; errors are those of `adapters.errors`."""
        return (await self.ask(request)).body

    async def ask(self, request: Request) -> Answer:
        """The same, with what came beside it."""
        if self._session.closed:
            raise NotConnected("the connection to Slack is closed")
        method = getattr(self.client, request.method.replace(".", "_"))
        try:
            response = await method(**request.fields)
        except SlackApiError as error:
            raise _refused(request.method, error) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._lost(request.method, error) from None
        except (SlackClientError, UnicodeError, TypeError) as error:
            raise Refused(f"{request.method} cannot be asked like this ({type(error).__name__})") from None
        granted = a_text(response.headers.get("x-oauth-scopes", "")) if response.headers else ""
        scopes = frozenset(one.strip() for one in granted.split(",") if one.strip())
        return Answer(body=an_object(response.data), scopes=scopes)

    def _lost(self, method: str, error: Exception) -> AdapterError:
        """No answer came. Where not even a connection came about, nothing can have been done."""
        told = f"{method}: {type(error).__name__}"
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return NotConnected(f"Slack cannot be reached ({told})")
        return OutcomeUnknown(f"no answer came from Slack ({told})")

    # ------------------------------------------------------------------------------------------------------------ files

    async def upload(self, name: str, content: bytes) -> str:
        """Bring a file to Slack, which shows it to nobody yet; its id."""
        asked = Request(method="files.getUploadURLExternal", fields={"filename": name, "length": len(content)})
        given = await self.call(asked)
        address = a_text(given.get("upload_url"))
        self._check_host(address)
        try:
            async with self._session.post(address, data=content, allow_redirects=False) as response:
                if response.status != 200:
                    raise _of_file(response.status, "taken")
        except (aiohttp.ClientError, TimeoutError) as error:
            # Nobody sees a file that was not completed, so it is safe to begin anew.
            raise NotConnected(f"a file could not be brought to Slack ({type(error).__name__})") from None
        return a_text(given.get("file_id"))

    async def download(self, file_id: str) -> AsyncGenerator[bytes]:
        """The content of a file, in pieces; asked by its id, and of Slack's own file host only."""
        info = an_object((await self.call(Request(method="files.info", fields={"file": file_id}))).get("file"))
        address = a_text(info.get("url_private_download")) or a_text(info.get("url_private"))
        self._check_host(address)
        headers = {"Authorization": f"Bearer {self._settings.bot_token}"}
        try:
            async with self._session.get(address, headers=headers, allow_redirects=False) as response:
                if response.status != 200:
                    raise _of_file(response.status, "given")
                if response.content_type == "text/html" and info.get("mimetype") != "text/html":
                    raise Refused("Slack asks for a login in place of a file: the app lacks the scope files:read")
                async for piece in response.content.iter_chunked(1 << 16):
                    yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OutcomeUnknown(f"a file broke off on its way ({type(error).__name__})") from None

    def _check_host(self, address: str) -> None:
        """Our token goes to Slack's own host and nowhere else, whatever an event or an answer names."""
        asked, base = urlsplit(address), urlsplit(self._settings.api_base)
        files = f"files.{(base.hostname or '').removeprefix('www.')}"
        ours = asked.scheme == "https" and asked.netloc == files
        here = self._settings.on_loopback and (asked.scheme, asked.netloc) == (base.scheme, base.netloc)
        if not (ours or here):
            raise Refused("a file lies at an address that is not Slack's")


def _of_file(status: int, what: str) -> AdapterError:
    if status >= 500 or status == 429:
        return OutcomeUnknown(f"a file was not {what}: Slack answers {status}")
    return Refused(f"a file was not {what}: Slack answers {status}")


def web_client(settings: Settings, token: str | None, session: aiohttp.ClientSession | None = None) -> AsyncWebClient:
    """A client that sends each request once: by itself it would post again after a broken connection.

    slack_sdk takes any proxy of the environment, for loopback too, and knows nothing of `no_proxy`.
    """
    client = AsyncWebClient(token=token, base_url=f"{settings.api_base}/", session=session, retry_handlers=[])
    if goes_direct(settings):
        client.proxy = None
    return client


def goes_direct(settings: Settings) -> bool:
    """Whether no proxy leads to the platform."""
    return settings.on_loopback or bool(proxy_bypass(urlsplit(settings.api_base).netloc))


def _refused(method: str, error: SlackApiError) -> AdapterError:
    """What an answer that is not ok means. Where it is no JSON, the SDK gives aiohttp's own response."""
    response: Any = error.response
    data: object = getattr(response, "data", None)
    status = getattr(response, "status_code", None) or getattr(response, "status", 500)
    headers: Mapping[str, str] = getattr(response, "headers", None) or {}
    body = an_object(data)
    if not body and status < 500:
        status = 502  # something in between answered: whether Slack got the request is not known
    return refusal(method, int(status), body, retry_after=headers.get("Retry-After", ""))
