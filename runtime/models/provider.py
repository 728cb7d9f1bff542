"""Models by what a configuration says of them. Nothing of a provider's library is loaded before it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runtime.errors import ConfigurationError
from runtime.models.base import Delta, ModelReply, ModelRequest
from runtime.protocol.context import JsonValue

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from runtime.models.pydantic_ai import PydanticAIModel

DEFAULT_WINDOW = 128_000
DEFAULT_TIMEOUT_SECONDS = 300.0


def openai_compatible(
    base_url: str,
    api_key: str,
    model: str,
    *,
    name: str | None = None,
    context_window: int = DEFAULT_WINDOW,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    settings: Mapping[str, JsonValue] | None = None,
    marker_secret: bytes = b"",
) -> OpenAICompatibleModel:
    """A model behind any server that speaks OpenAI's chat completions.

    `base_url` ends before `/chat/completions`, mostly in `/v1`. `timeout_seconds` bounds a silence of the server,
    not a whole answer. `settings` are pydantic-ai's model settings (`temperature`, `max_tokens`, …).
    ConfigurationError if the address is none.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"base_url of the model {model!r} must be an http or https address, not {base_url!r}")
    if not model:
        raise ConfigurationError(f"the model behind {base_url} has no name")
    return OpenAICompatibleModel(
        base_url,
        api_key,
        model,
        name=name or model,
        context_window=context_window,
        timeout_seconds=timeout_seconds,
        settings=dict(settings or {}),
        marker_secret=marker_secret,
    )


class OpenAICompatibleModel:
    """Loads its library in a thread at the first request, or by `warm_up`. Close it with `aclose`."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        *,
        name: str,
        context_window: int,
        timeout_seconds: float,
        settings: dict[str, JsonValue],
        marker_secret: bytes,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self._base_url = base_url
        self._api_key = api_key
        self._model = model
        self._timeout_seconds = timeout_seconds
        self._settings = settings
        self._marker_secret = marker_secret
        self._loading = asyncio.Lock()
        self._loaded: PydanticAIModel | None = None
        self._client: AsyncOpenAI | None = None

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self._base_url!r}, model={self._model!r})"  # without the key

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask once. Raises a ModelError; cancellation closes the connection at once."""
        loaded = self._loaded or await self.warm_up()
        return await loaded.step(request, on_delta)

    async def warm_up(self) -> PydanticAIModel:
        """The library is loaded on return; it takes seconds, in a thread, so that the first answer need not wait."""
        async with self._loading:
            if self._loaded is None:
                self._client, self._loaded = await asyncio.to_thread(self._load)
            return self._loaded

    def _load(self) -> tuple[AsyncOpenAI, PydanticAIModel]:
        from runtime.models.openai_client import chat_model, openai_client
        from runtime.models.pydantic_ai import PydanticAIModel

        client = openai_client(self._base_url, self._api_key, self._timeout_seconds)
        model = chat_model(client, self._base_url, self._model, self.context_window)
        return client, PydanticAIModel(
            model,
            name=self.name,
            context_window=self.context_window,
            settings=self._settings,  # type: ignore[arg-type]
            marker_secret=self._marker_secret,
            requires_finish_reason=False,  # the model's profile says it already
        )

    async def aclose(self) -> None:
        """Close the connections; a request afterwards opens new ones."""
        async with self._loading:
            client, self._client, self._loaded = self._client, None, None
        if client is not None:
            await client.close()
