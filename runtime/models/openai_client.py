"""The OpenAI SDK's client as we want it: no hidden retries, nothing from the environment, bounded waiting."""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from openai import AsyncOpenAI
from openai.resources.chat import AsyncChat
from openai.resources.chat.completions import AsyncCompletions
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from runtime.models.connections import http_client, patience

_OPENAI = "api.openai.com"


class _Completions(AsyncCompletions):
    async def create(self, *, messages: Any, extra_body: Any = None, **rest: Any) -> Any:  # type: ignore[override]
        """Sends the messages and tools as they are.

        The SDK walks through every field of every message to rename none of them: 1.6 s of a blocked event loop for
        5,000 messages. What comes as `extra_body` goes into the body untouched.
        """
        body: dict[str, Any] = {**(extra_body or {}), "messages": messages}
        if isinstance(rest.get("tools"), list):
            body["tools"] = rest.pop("tools")
        return await super().create(messages=[], extra_body=body, **rest)  # pyright: ignore[reportUnknownVariableType]


class _Chat(AsyncChat):
    @cached_property
    def completions(self) -> AsyncCompletions:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Completions(self._client)


class _Client(AsyncOpenAI):
    @cached_property
    def chat(self) -> AsyncChat:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Chat(self)


def openai_client(base_url: str, api_key: str, timeout_seconds: float) -> AsyncOpenAI:
    """A client for one server. `timeout_seconds` bounds a silence, not a whole answer."""
    client = _Client(
        base_url=base_url,
        api_key=api_key or "none",  # a local server wants none, and the SDK insists on one
        max_retries=0,
        timeout=patience(timeout_seconds),
        http_client=http_client(base_url, timeout_seconds),
    )
    client.organization = client.project = None  # the SDK takes them from the environment, for any server
    return client


def chat_model(client: AsyncOpenAI, base_url: str, model: str, context_window: int) -> OpenAIChatModel:
    """The chat completions model behind a client."""
    host = urlsplit(base_url).hostname or "local"
    at_openai = host == _OPENAI
    provider: Provider[AsyncOpenAI] = (
        OpenAIProvider(openai_client=client) if at_openai else OpenAICompatibleProvider(host, openai_client=client)
    )
    profile = OpenAIModelProfile(
        openai_chat_streaming_requires_finish_reason=True,
        # The chat templates of many open models refuse a system message that does not come first.
        supports_inline_system_prompts=at_openai,
        context_window=context_window,
    )
    return OpenAIChatModel(model, provider=provider, profile=profile)
