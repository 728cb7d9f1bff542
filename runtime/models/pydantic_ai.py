"""A model that pydantic-ai speaks to, one step at a time, without its Agent. Importing this loads pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from pydantic_ai import messages as wire
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from runtime.errors import ModelRefused, ModelUnavailable
from runtime.models.base import Delta, ModelReply, ModelRequest
from runtime.models.prices import Prices
from runtime.models.prompt import marker
from runtime.models.provider_errors import provider_errors
from runtime.models.pydantic_messages import (
    Content,
    ConversationCache,
    converter,
    native_of,
    parts_of,
    with_reminders,
)
from runtime.protocol.context import ToolCall, Usage
from runtime.tools.base import ToolSpec

DEFAULT_WINDOW = 128_000
# The SDKs retry by themselves, unseen; the runtime retries and records each attempt.
_NO_RETRIES = ModelSettings(max_retries=0)


def from_pydantic_ai(
    model: PydanticModel,
    *,
    name: str | None = None,
    context_window: int | None = None,
    settings: ModelSettings | None = None,
    prices: Prices | None = None,
    content: Content | None = None,
    marker_secret: bytes = b"",
    requires_finish_reason: bool = True,
) -> PydanticAIModel:
    """A model of pydantic-ai as one of the runtime's.

    `context_window` is in tokens; without it the library's own knowledge counts, else 128,000. `settings` hold for
    every request, and are overridden by a request's own. Without `prices` the library's own list counts.
    `content` gives the bytes of attachments by SHA-256, for a model that is shown pictures and PDF documents.
    `marker_secret` makes the marks around quoted text unpredictable to those who know this program.
    `requires_finish_reason` treats an answer that ends without saying why as broken off, for chat completions; switch
    it off for a server that never says why.
    """
    return PydanticAIModel(
        model,
        name=name or model.model_name,
        context_window=context_window or model.context_window or DEFAULT_WINDOW,
        settings=_NO_RETRIES | (settings or {}),  # type: ignore[operator]
        prices=prices,
        content=content,
        marker_secret=marker_secret,
        requires_finish_reason=requires_finish_reason and _is_chat_completions(model),
    )


class PydanticAIModel:
    """One model of a provider. Holds the converted conversations of the sessions that used it last."""

    def __init__(
        self,
        model: PydanticModel,
        *,
        name: str,
        context_window: int,
        settings: ModelSettings,
        prices: Prices | None = None,
        content: Content | None = None,
        marker_secret: bytes,
        requires_finish_reason: bool,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self._model = model
        self._settings = settings
        self._prices = prices
        self._inline_system = bool(model.profile.get("supports_inline_system_prompts", False))
        self.conversations = ConversationCache(
            converter(marker(marker_secret), inline_system=self._inline_system, content=content)
        )
        self._requires_finish_reason = requires_finish_reason
        self._definitions: dict[str, tuple[ToolSpec, ToolDefinition]] = {}

    async def step(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask once. Text streams through `on_delta`. Raises a ModelError; cancellation closes the connection."""
        messages = with_reminders(
            self.conversations.messages(request.session_id, request.context),
            request.reminders,
            inline_system=self._inline_system,
        )
        with provider_errors(self.name):
            response = await self._streamed(messages, request, on_delta)
        return self._reply(response)

    async def _streamed(
        self, messages: list[wire.ModelMessage], request: ModelRequest, on_delta: Callable[[Delta], None]
    ) -> wire.ModelResponse:
        settings = cast(ModelSettings, {**self._settings, **request.settings})
        async with model_request_stream(
            self._model, messages, model_settings=settings, model_request_parameters=self._parameters(request)
        ) as stream:
            async for event in stream:
                if text := _text_of(event):
                    on_delta(Delta(text=text))
            return stream.get()

    def _parameters(self, request: ModelRequest) -> ModelRequestParameters:
        instructions = [wire.InstructionPart(content=request.instructions)] if request.instructions else []
        return ModelRequestParameters(
            function_tools=[self._definition(spec) for spec in request.tools], instruction_parts=instructions
        )

    def _definition(self, spec: ToolSpec) -> ToolDefinition:
        known = self._definitions.get(spec.name)
        if known is None or known[0] != spec:
            schema = dict(spec.parameters)
            definition = ToolDefinition(name=spec.name, description=spec.description, parameters_json_schema=schema)
            known = self._definitions[spec.name] = (spec, definition)
        return known[1]

    def _reply(self, response: wire.ModelResponse) -> ModelReply:
        if response.state != "complete" or response.finish_reason == "error" or self._broke_off(response):
            raise ModelUnavailable(f"the answer of {self.name} broke off")
        parts = parts_of(response)
        if not parts and response.finish_reason == "content_filter":
            raise ModelRefused(f"the provider of {self.name} filtered the answer")
        return ModelReply(
            parts=parts,
            usage=_usage(response, self._prices),
            end_turn=not any(isinstance(part, ToolCall) for part in parts),
            native=native_of(response, parts),
        )

    def _broke_off(self, response: wire.ModelResponse) -> bool:
        # The library takes an answer that merely ends for a finished one; only these details tell them apart.
        details = response.provider_details or {}
        return self._requires_finish_reason and not ({"finish_reason", "refusal"} & details.keys())


def _is_chat_completions(model: PydanticModel) -> bool:
    while isinstance(model, WrapperModel):
        model = model.wrapped
    # By name: importing the class would load the SDK of a provider that may not be in use.
    return any(base.__name__ == "OpenAIChatModel" for base in type(model).__mro__)


def _text_of(event: object) -> str:
    match event:
        case wire.PartStartEvent(part=wire.TextPart(content=text)):
            return text
        case wire.PartDeltaEvent(delta=wire.TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""


def _usage(response: wire.ModelResponse, prices: Prices | None) -> Usage:
    used = response.usage
    tokens = {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cache_read_tokens": used.cache_read_tokens,
    }
    return Usage(**tokens, cost_usd=_cost(response) if prices is None else prices.cost(**tokens))


def _cost(response: wire.ModelResponse) -> float:
    """US dollars by the price list that came with the library; 0 for what it does not know."""
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return 0.0


__all__: Sequence[str] = ("PydanticAIModel", "from_pydantic_ai")
