"""A model with others behind it."""

from __future__ import annotations

import pytest

from runtime.errors import (
    ConfigurationError,
    ContextTooLong,
    ModelAuthentication,
    ModelError,
    ModelRateLimited,
    ModelRefused,
    ModelUnavailable,
)
from runtime.models.base import ModelRequest
from runtime.models.fallback import REST_SECONDS, FallbackModel
from runtime.protocol.context import Context, TextPart, UserMessage
from runtime.testing import FakeClock, ScriptedModel

REQUEST = ModelRequest(context=Context([UserMessage(id="m", author="Ann", text="hello")]), session_id="s")


async def answer(model: FallbackModel) -> str:
    """The words of one step, or the kind and words of its failure."""
    try:
        reply = await model.step(REQUEST, lambda delta: None)
    except ModelError as error:
        return f"{type(error).__name__}: {error}"
    return "".join(part.text for part in reply.parts if isinstance(part, TextPart))


@pytest.mark.parametrize(
    "error",
    [ModelUnavailable("A is away"), ModelRateLimited("A is away"), ModelAuthentication("A is away"),
     ModelRefused("A is away")],
)  # fmt: skip
async def test_next_one_answers_while_the_first_rests(error: ModelError) -> None:
    """A failure may be tried again at once, and the next model answers; after its rest the first one is asked again."""
    clock = FakeClock(0)
    first, second = ScriptedModel([error, "from A"], name="A"), ScriptedModel(["from B", "from B again"], name="B")
    model = FallbackModel([first, second], clock)
    with pytest.raises(ModelUnavailable, match="A is away; B is asked instead") as caught:
        await model.step(REQUEST, lambda delta: None)
    assert caught.value.retryable
    assert await answer(model) == "from B"
    clock.advance(REST_SECONDS - 1)
    assert await answer(model) == "from B again"
    clock.advance(1)
    assert await answer(model) == "from A"


async def test_rest_is_what_the_provider_asked_for() -> None:
    """A provider that says how long it wants peace gets it, and not longer."""
    clock = FakeClock(0)
    first = ScriptedModel([ModelRateLimited("slow", retry_after=7.0), "from A"], name="A")
    model = FallbackModel([first, ScriptedModel(["from B"], name="B")], clock)
    await answer(model)
    clock.advance(6.9)
    assert await answer(model) == "from B"
    clock.advance(0.2)
    assert await answer(model) == "from A"


async def test_failure_of_all_is_told_as_it_is() -> None:
    """Where nobody is left to ask, the last failure is raised unchanged, and the one that rests shortest is next."""
    clock = FakeClock(0)
    first = ScriptedModel([ModelRateLimited("A is slow", retry_after=5.0), "from A"], name="A")
    second = ScriptedModel([ModelAuthentication("B wants a key")], name="B")
    model = FallbackModel([first, second], clock)
    assert "B is asked instead" in await answer(model)
    assert await answer(model) == "ModelAuthentication: B wants a key"
    assert await answer(model) == "from A"


async def test_conversation_that_is_too_long_is_no_reason_to_rest() -> None:
    """It is shortened for the same model."""
    model = FallbackModel(
        [ScriptedModel([ContextTooLong("too long"), "from A"], name="A"), ScriptedModel([], name="B")], FakeClock(0)
    )
    assert await answer(model) == "ContextTooLong: too long"
    assert await answer(model) == "from A"


def test_it_speaks_for_the_first() -> None:
    """Name and window are the first one's; none at all is refused."""
    first = ScriptedModel([], name="A")
    model = FallbackModel([first, ScriptedModel([], name="B")], FakeClock(0))
    assert (model.name, model.context_window) == ("A", first.context_window)
    with pytest.raises(ConfigurationError):
        FallbackModel([], FakeClock(0))
