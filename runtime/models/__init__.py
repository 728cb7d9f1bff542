"""Models and the routes to them. Importing this loads no provider; a name is loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.models.base import Delta, Model, ModelReply, ModelRequest, ModelRouter
    from runtime.models.demo import DemoModel
    from runtime.models.provider import openai_compatible
    from runtime.models.pydantic_ai import from_pydantic_ai

_HOMES = {
    "Delta": "base",
    "DemoModel": "demo",
    "Model": "base",
    "ModelReply": "base",
    "ModelRequest": "base",
    "ModelRouter": "base",
    "from_pydantic_ai": "pydantic_ai",
    "openai_compatible": "provider",
}

__all__ = [
    "Delta",
    "DemoModel",
    "Model",
    "ModelReply",
    "ModelRequest",
    "ModelRouter",
    "from_pydantic_ai",
    "openai_compatible",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"runtime.models.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
