"""Models and the routes to them. Importing this loads no provider; a name is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.models.base import Delta, Model, ModelReply, ModelRequest, ModelRouter
    from runtime.models.demo import DemoModel
    from runtime.models.fallback import FallbackModel
    from runtime.models.prices import Prices
    from runtime.models.provider import anthropic, google, openai_compatible
    from runtime.models.pydantic_ai import from_pydantic_ai

_HOMES = {
    "Delta": "base",
    "DemoModel": "demo",
    "FallbackModel": "fallback",
    "Model": "base",
    "ModelReply": "base",
    "ModelRequest": "base",
    "ModelRouter": "base",
    "Prices": "prices",
    "anthropic": "provider",
    "from_pydantic_ai": "pydantic_ai",
    "google": "provider",
    "openai_compatible": "provider",
}

__all__ = [
    "Delta",
    "DemoModel",
    "FallbackModel",
    "Model",
    "ModelReply",
    "ModelRequest",
    "ModelRouter",
    "Prices",
    "anthropic",
    "from_pydantic_ai",
    "google",
    "openai_compatible",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"runtime.models.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
