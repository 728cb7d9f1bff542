"""Google's SDK as we want it: no hidden retries, nothing from the environment, bounded waiting."""

from __future__ import annotations

from google.genai.types import HttpRetryOptions
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.google import GoogleProvider

from runtime.models.connections import http_client
from runtime.models.remote import Close, Remote


def gemini_model(remote: Remote) -> tuple[GoogleModel, Close]:
    """The Gemini model behind an address, and how to close its connections."""
    connections = http_client(remote.base_url, remote.timeout_seconds)
    provider = GoogleProvider(
        api_key=remote.api_key or "none",  # a local server wants none; without one the SDK looks in the environment
        base_url=remote.base_url,
        http_client=connections,
        retry_options=HttpRetryOptions(attempts=1),
    )
    profile = ModelProfile(context_window=remote.context_window)
    return GoogleModel(remote.model, provider=provider, profile=profile), connections.aclose
