"""Anthropic's SDK as we want it: no hidden retries, nothing from the environment, bounded waiting."""

from __future__ import annotations

from anthropic import AsyncAnthropic
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.profiles.anthropic import AnthropicModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider

from runtime.models.connections import http_client, patience
from runtime.models.remote import Close, Remote


def messages_model(remote: Remote) -> tuple[AnthropicModel, Close]:
    """The messages model behind an address, and how to close its connections."""
    client = AsyncAnthropic(
        base_url=remote.base_url,
        api_key=remote.api_key or "none",  # a local server wants none; without one the SDK looks in the environment
        max_retries=0,
        timeout=patience(remote.timeout_seconds),
        http_client=http_client(remote.base_url, remote.timeout_seconds),
    )
    client._custom_headers = {}  # type: ignore[attr-defined]  # the SDK takes them from ANTHROPIC_CUSTOM_HEADERS
    profile = AnthropicModelProfile(context_window=remote.context_window)
    return AnthropicModel(
        remote.model, provider=AnthropicProvider(anthropic_client=client), profile=profile
    ), client.close
