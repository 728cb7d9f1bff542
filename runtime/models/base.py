"""What a model is to the runtime: one step at a time, ours to store between two steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runtime.errors import ConfigurationError, UnknownRoute
from runtime.protocol.context import AssistantPart, Context, JsonValue, Usage
from runtime.protocol.events import ModelInfo
from runtime.tools.base import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model. `reminders` hold for this request only and are not stored."""

    context: Context
    tools: Sequence[ToolSpec] = ()
    instructions: str = ""
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    reminders: Sequence[str] = ()
    session_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One answer of a model. `end_turn`: the model gives the floor back (it asked for no tool)."""

    parts: tuple[AssistantPart, ...]
    usage: Usage = Usage()
    end_turn: bool = True
    native: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A piece of text as it streams."""

    text: str


class Model(Protocol):
    """A language model. Implementations do not retry: the runtime does, and records each attempt."""

    @property
    def name(self) -> str:
        """The model's name, for people."""
        ...

    @property
    def context_window(self) -> int:
        """In tokens."""
        ...

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask once. Raises a ModelError; cancellation ends the request at once."""
        ...


class ModelRouter:
    """Ordered, named routes; the first is the default."""

    def __init__(self, name: str, model: Model) -> None:
        self._routes: dict[str, Model] = {name: model}
        self.default = name

    def register(self, name: str, model: Model) -> ModelRouter:
        """Add a route; a name that is taken is a ConfigurationError. Returns the router."""
        if name in self._routes:
            raise ConfigurationError(f"model route {name!r} is registered twice")
        self._routes[name] = model
        return self

    def get(self, name: str) -> Model:
        """The model of a route; UnknownRoute if there is none."""
        try:
            return self._routes[name]
        except KeyError:
            raise UnknownRoute(name) from None

    def info(self, name: str) -> ModelInfo:
        """Name and window of a route; UnknownRoute if there is none."""
        model = self.get(name)
        return ModelInfo(route=name, name=model.name, context_window=model.context_window)

    @property
    def names(self) -> tuple[str, ...]:
        """Every route, in the order of registration."""
        return tuple(self._routes)
