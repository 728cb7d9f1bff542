"""The models that tests of the runtime lean on do what they say."""

from __future__ import annotations

import asyncio

import pytest

from runtime.errors import ModelRefused, ModelUnavailable
from runtime.models.base import Delta, ModelReply, ModelRequest
from runtime.models.scripted import BlockingModel, CountingModel, FailingModel, ScriptedModel
from runtime.protocol.context import Context, TextPart, ToolCall, UserMessage

REQUEST = ModelRequest(context=Context([UserMessage(id="m1", author="Ann", text="hello")]))


def ignore(delta: Delta) -> None:
    """Nobody listens."""


async def test_replies_come_in_order_and_requests_are_kept() -> None:
    """A text ends the turn, calls do not, and every request is recorded."""
    call = ToolCall(call_id="c1", name="read_file", arguments={"path": "a"})
    whole = ModelReply(parts=(TextPart(text="whole"),), end_turn=True)
    model = ScriptedModel([[call], "two words", whole, lambda request: request.context[0].text])  # type: ignore[union-attr]
    replies = [await model.step(REQUEST, ignore) for _ in range(4)]
    assert [(reply.parts, reply.end_turn) for reply in replies] == [
        ((call,), False),
        ((TextPart(text="two words"),), True),
        ((TextPart(text="whole"),), True),
        ((TextPart(text="hello"),), True),
    ]
    assert model.requests == [REQUEST] * 4


async def test_an_exception_of_the_script_is_raised_once() -> None:
    """An error in the script is raised by its own request only."""
    model = ScriptedModel([ModelUnavailable("gone"), "back"])
    with pytest.raises(ModelUnavailable, match="gone"):
        await model.step(REQUEST, ignore)
    assert (await model.step(REQUEST, ignore)).parts == (TextPart(text="back"),)


async def test_a_request_beyond_the_script_says_so() -> None:
    """An exhausted script fails with an error that no retry hides."""
    model = ScriptedModel([])
    with pytest.raises(ModelRefused, match="0 replies and this is request 1") as caught:
        await model.step(REQUEST, ignore)
    assert not caught.value.retryable


@pytest.mark.parametrize("text", ["one", "two  words\n", "  led by blanks", ""])
async def test_the_stream_is_the_text(text: str) -> None:
    """The pieces of the stream put together are the text, whatever its blanks."""
    pieces: list[str] = []
    await ScriptedModel([text]).step(REQUEST, lambda delta: pieces.append(delta.text))
    assert "".join(pieces) == text


async def test_failing_and_counting_models_count() -> None:
    """Both tell how often they were asked."""
    failing, counting = FailingModel(ModelUnavailable("no")), CountingModel("yes")
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            await failing.step(REQUEST, ignore)
        await counting.step(REQUEST, ignore)
    assert (failing.calls, counting.calls) == (2, 2)


async def test_a_blocking_model_waits_for_its_release() -> None:
    """It says that it started, answers after the release, and counts a cancelled request."""
    model = BlockingModel("free")
    held = asyncio.create_task(model.step(REQUEST, ignore))
    await model.started.wait()
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    model.release.set()
    assert (await model.step(REQUEST, ignore)).parts == (TextPart(text="free"),)
    assert (model.calls, model.cancelled) == (2, 1)
