"""The one place where aiogram is imported: requests go out through it, and its answers come back as plain JSON.

aiogram types, checks and encodes what we send. What the server answers is left unread by its models: a message that
was sent must not turn into an error because the server has a field that this version of the library does not know.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

from aiohttp import ClientConnectorError, ClientError, ClientTimeout, ConnectionTimeoutError

from adapters.errors import AdapterError, NotConnected, OutcomeUnknown, Refused
from adapters.telegram.model_builds import load_aiogram
from adapters.telegram.outbound import Request
from adapters.telegram.payload import Payload, a_text, an_object, objects
from adapters.telegram.refusals import refusal
from adapters.telegram.settings import Settings

_METHODS = (
    "AnswerCallbackQuery",
    "CreateForumTopic",
    "DeleteMessage",
    "EditMessageText",
    "GetFile",
    "GetMe",
    "GetMyCommands",
    "GetUpdates",
    "GetWebhookInfo",
    "SendChatAction",
    "SendDocument",
    "SendMessage",
    "SendMessageDraft",
    "SetMessageReaction",
    "SetMyCommands",
    "SetWebhook",
)


def _prove_requests_can_be_made() -> None:
    from aiogram import methods

    for name in _METHODS:
        getattr(methods, name).model_rebuild()
    user = {"id": 1, "is_bot": False, "first_name": "x"}
    methods.SendMessage.model_validate(
        {
            "chat_id": 1,
            "text": "x",
            "entities": [{"type": "text_mention", "offset": 0, "length": 1, "user": user}],
            "link_preview_options": {"is_disabled": True},
            "reply_parameters": {"message_id": 1},
            "reply_markup": {"inline_keyboard": [[{"text": "x", "callback_data": "x", "style": "danger"}]]},
        }
    )  # fmt: skip


BUILDS_DEFERRED = load_aiogram(_prove_requests_can_be_made)
"""Whether the quick import worked; False if aiogram had been imported before."""

from aiogram import Bot, methods  # noqa: E402
from aiogram.client.default import DefaultBotProperties  # noqa: E402
from aiogram.client.session.aiohttp import AiohttpSession  # noqa: E402
from aiogram.client.telegram import TelegramAPIServer  # noqa: E402
from aiogram.exceptions import TelegramNetworkError  # noqa: E402
from aiogram.methods import Response, TelegramMethod  # noqa: E402
from aiogram.types import BufferedInputFile  # noqa: E402
from pydantic import ValidationError  # noqa: E402

CONNECT_SECONDS = 15.0
DOWNLOAD_LIMIT = 20 * 1024 * 1024
UPLOAD_LIMIT = 50 * 1024 * 1024
"""Limits of the public Bot API server, in bytes (https://core.telegram.org/bots/api#sending-files)."""


class _NotOk(Exception):
    """The server answered, and not with a result."""

    def __init__(self, error: AdapterError) -> None:
        super().__init__(str(error))
        self.error = error


class _JsonSession(AiohttpSession):
    """A session whose answers are the JSON that came."""

    def check_response(self, bot: Bot, method: TelegramMethod[Any], status_code: int, content: str) -> Response[Any]:
        """The result as it came; _NotOk if there is none."""
        try:
            answer = an_object(json.loads(content))
        except ValueError:
            # A proxy in front of the server, most likely: whether the server got the request is not known.
            answer, status_code = {}, max(status_code, 500)
        if 200 <= status_code < 300 and answer.get("ok") is True:
            return Response[Any].model_construct(ok=True, result=answer.get("result"))
        raise _NotOk(refusal(status_code, a_text(answer.get("description")), an_object(answer.get("parameters"))))

    async def close(self) -> None:
        """End all connections. aiohttp waits for them to end since 3.12, so nothing is waited for here."""
        if self._session is not None and not self._session.closed:
            await self._session.close()


class Connection:
    """Connections to the Bot API for one bot. `close` it; after that nothing goes out."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._closed = False
        api = TelegramAPIServer.from_base(settings.api_base)
        self._session = _JsonSession(api=api, timeout=settings.request_seconds)
        self._bot = Bot(settings.token, session=self._session, default=DefaultBotProperties())

    async def close(self) -> None:
        """End it."""
        self._closed = True
        await self._session.close()

    async def call(self, request: Request, *, timeout: float | None = None) -> Any:
        """The result of one call, as JSON; errors are those of `adapters.errors`. `timeout` in seconds."""
        try:
            method = self._method(request)
        except ValidationError as error:
            raise Refused(f"{request.method} cannot be asked like this: {error.errors(include_url=False)}") from None
        return await self._ask(method, timeout or self._settings.request_seconds)

    async def updates(
        self, offset: int | None, seconds: int, kinds: Sequence[str] | None, limit: int = 100
    ) -> list[Payload]:
        """Updates from `offset` on, waiting up to `seconds` for one; asking confirms all that are older."""
        allowed = list(kinds) if kinds is not None else None
        poll = methods.GetUpdates(offset=offset, timeout=seconds, allowed_updates=allowed, limit=limit)
        # The caller's own alarm is to ring first: it does not depend on the loop's clock.
        return objects(await self._ask(poll, 4.0 * seconds + self._settings.request_seconds))

    async def download(self, file_id: str) -> AsyncGenerator[bytes]:
        """The content of a file, in pieces; Refused if the server does not give it."""
        found = an_object(await self._ask(methods.GetFile(file_id=file_id), self._settings.request_seconds))
        url = self._session.api.file_url(self._bot.token, a_text(found.get("file_path")))
        try:
            async for piece in self._session.stream_content(url, timeout=int(self._settings.request_seconds) + 1):
                yield piece
        except (ClientError, TimeoutError) as error:
            # Not chained: aiohttp's error holds the address, and the address holds the token.
            raise Refused(f"a file could not be downloaded ({type(error).__name__})") from None

    def _method(self, request: Request) -> TelegramMethod[Any]:
        made = cast("type[TelegramMethod[Any]]", getattr(methods, request.method[0].upper() + request.method[1:]))
        fields: Mapping[str, Any] = request.fields
        if upload := request.file:
            if len(upload.content) > UPLOAD_LIMIT:
                raise Refused(f"{upload.name!r} has {len(upload.content)} bytes, and Telegram takes {UPLOAD_LIMIT}")
            fields = {**fields, upload.parameter: BufferedInputFile(upload.content, upload.name)}
        return made(**fields)

    async def _ask(self, method: TelegramMethod[Any], seconds: float) -> Any:
        if self._closed:
            raise NotConnected("the connection to Telegram is closed")
        limits = ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        try:
            return await self._bot(method, request_timeout=cast("int", limits))
        except _NotOk as answer:
            raise answer.error from None
        except TelegramNetworkError as error:
            raise self._lost(error) from None
        except UnicodeError as error:
            raise Refused(
                f"a text cannot be encoded: {error.reason}" if isinstance(error, UnicodeEncodeError) else ""
            ) from None

    def _lost(self, error: TelegramNetworkError) -> AdapterError:
        """No answer came. Where not even a connection came about, nothing can have been done."""
        cause = error.__cause__
        told = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
        told = told.replace(self._bot.token, "<token>")
        if isinstance(cause, ClientConnectorError | ConnectionTimeoutError):
            return NotConnected(f"Telegram cannot be reached ({told})")
        return OutcomeUnknown(f"no answer came from Telegram ({told})")
