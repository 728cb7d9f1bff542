"""Models by what a configuration says of them. Nothing of a provider's library is loaded before it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from runtime.errors import ConfigurationError
from runtime.models.base import Delta, ModelReply, ModelRequest
from runtime.models.prices import Prices
from runtime.models.remote import Close, Remote
from runtime.protocol.context import JsonValue

if TYPE_CHECKING:
    from pydantic_ai.models import Model as PydanticModel

    from runtime.models.pydantic_ai import PydanticAIModel

DEFAULT_WINDOW = 128_000
DEFAULT_TIMEOUT_SECONDS = 300.0

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
GOOGLE_URL = "https://generativelanguage.googleapis.com"

Load: TypeAlias = "Callable[[Remote], tuple[PydanticModel, Close]]"


def openai_compatible(
    base_url: str,
    api_key: str,
    model: str,
    *,
    name: str | None = None,
    context_window: int = DEFAULT_WINDOW,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    settings: Mapping[str, JsonValue] | None = None,
    prices: Prices | None = None,
    content: Callable[[str], bytes | None] | None = None,
    marker_secret: bytes = b"",
) -> ProviderModel:
    """A model behind any server that speaks OpenAI's chat completions.

    `base_url` ends before `/chat/completions`, mostly in `/v1`. `timeout_seconds` bounds a silence of the server,
    not a whole answer. `settings` are pydantic-ai's model settings (`temperature`, `max_tokens`, …). Without `prices`
    those of the library's price list count, where it knows the model. With `content`, which gives the bytes of an
    attachment by its SHA-256, the model is shown pictures and PDF documents. ConfigurationError if the address is none.
    """
    remote = _remote(base_url, api_key, model, context_window, timeout_seconds)
    return ProviderModel(_load_openai, remote, name, settings, prices, content, marker_secret)


def anthropic(
    api_key: str,
    model: str,
    *,
    base_url: str = ANTHROPIC_URL,
    name: str | None = None,
    context_window: int = DEFAULT_WINDOW,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    settings: Mapping[str, JsonValue] | None = None,
    prices: Prices | None = None,
    content: Callable[[str], bytes | None] | None = None,
    marker_secret: bytes = b"",
) -> ProviderModel:
    """A model behind Anthropic's messages; needs the extra `anthropic`. See `openai_compatible` for the rest.

    `base_url` ends before `/v1/messages`. The provider's cache is used for what stays the same between two steps.
    """
    remote = _remote(base_url, api_key, model, context_window, timeout_seconds)
    settings = {"anthropic_cache": True, **(settings or {})}
    return ProviderModel(_load_anthropic, remote, name, settings, prices, content, marker_secret)


def google(
    api_key: str,
    model: str,
    *,
    base_url: str = GOOGLE_URL,
    name: str | None = None,
    context_window: int = DEFAULT_WINDOW,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    settings: Mapping[str, JsonValue] | None = None,
    prices: Prices | None = None,
    content: Callable[[str], bytes | None] | None = None,
    marker_secret: bytes = b"",
) -> ProviderModel:
    """A model behind Google's Gemini API; needs the extra `google`. See `openai_compatible` for the rest.

    `base_url` ends before `/v1beta/models`.
    """
    remote = _remote(base_url, api_key, model, context_window, timeout_seconds)
    return ProviderModel(_load_google, remote, name, settings, prices, content, marker_secret)


def _remote(base_url: str, api_key: str, model: str, context_window: int, timeout_seconds: float) -> Remote:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"base_url of the model {model!r} must be an http or https address, not {base_url!r}")
    if not model:
        raise ConfigurationError(f"the model behind {base_url} has no name")
    return Remote(
        base_url=base_url,
        api_key=api_key,
        model=model,
        context_window=context_window,
        timeout_seconds=timeout_seconds,
    )


def _load_openai(remote: Remote) -> tuple[PydanticModel, Close]:
    from runtime.models.openai_client import chat_model, openai_client

    client = openai_client(remote.base_url, remote.api_key, remote.timeout_seconds)
    return chat_model(client, remote.base_url, remote.model, remote.context_window), client.close


def _load_anthropic(remote: Remote) -> tuple[PydanticModel, Close]:
    with _named_extra("anthropic"):
        from runtime.models.anthropic_client import messages_model
    return messages_model(remote)


def _load_google(remote: Remote) -> tuple[PydanticModel, Close]:
    with _named_extra("google"):
        from runtime.models.google_client import gemini_model
    return gemini_model(remote)


class _named_extra:
    """Turns the absence of a provider's library into a sentence with the remedy."""

    def __init__(self, extra: str) -> None:
        self._extra = extra

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ImportError):
            raise ConfigurationError(
                f"the library for the provider {self._extra} is not installed; "
                f"install it with `pip install 'pilothouse[{self._extra}]'`"
            ) from error


class ProviderModel:
    """Loads its library in a thread at the first request, or by `warm_up`. Close it with `aclose`."""

    def __init__(
        self,
        load: Load,
        remote: Remote,
        name: str | None,
        settings: Mapping[str, JsonValue] | None,
        prices: Prices | None,
        content: Callable[[str], bytes | None] | None,
        marker_secret: bytes,
    ) -> None:
        self.name = name or remote.model
        self.context_window = remote.context_window
        self._load = load
        self._remote = remote
        self._settings = dict(settings or {})
        self._prices = prices
        self._content = content
        self._marker_secret = marker_secret
        self._loading = asyncio.Lock()
        self._loaded: PydanticAIModel | None = None
        self._close: Close | None = None

    def __repr__(self) -> str:
        return f"ProviderModel({self._remote!r})"  # which leaves the key out

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask once. Raises a ModelError; cancellation closes the connection at once."""
        loaded = self._loaded or await self.warm_up()
        return await loaded.step(request, on_delta)

    async def warm_up(self) -> PydanticAIModel:
        """The library is loaded on return; it takes seconds, in a thread, so that the first answer need not wait."""
        async with self._loading:
            if self._loaded is None:
                self._loaded, self._close = await asyncio.to_thread(self._made)
            return self._loaded

    def _made(self) -> tuple[PydanticAIModel, Close]:
        from runtime.models.pydantic_ai import PydanticAIModel

        model, close = self._load(self._remote)
        return PydanticAIModel(
            model,
            name=self.name,
            context_window=self.context_window,
            settings=self._settings,  # type: ignore[arg-type]
            prices=self._prices,
            content=self._content,
            marker_secret=self._marker_secret,
            requires_finish_reason=self._load is not _load_openai,  # where the model's profile says it already
        ), close

    async def aclose(self) -> None:
        """Close the connections; a request afterwards opens new ones."""
        async with self._loading:
            close, self._close, self._loaded = self._close, None, None
        if close is not None:
            await close()
