"""The contract as checks that any adapter can be held to, yours too. No test framework is needed.

Write a `World`: the platform (or an emulator, or a pair of pipes) as a person on the other side sees it. Then run each
check on a world of its own:

    @pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
    async def test_contract(check):
        async with my_world() as world:
            await check(world)

A check raises AssertionError with what was expected. What a platform cannot do, its adapter says by `capabilities`; a
check asks for nothing beyond them, and for everything within them: a view is shown or refused, and never lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar

from adapters.contract import (
    Adapter,
    Answer,
    ApprovalCard,
    Control,
    Document,
    File,
    Form,
    Inbound,
    InboundKind,
    MessageRef,
    Notice,
    Phase,
    Place,
    Private,
    Reaction,
    Row,
    RowState,
    SenderKind,
    Sent,
    Stream,
    Style,
    Text,
    ThreadStatus,
    TurnCard,
    Typing,
    Verbatim,
    View,
    decode_inbound,
    encode_inbound,
)
from adapters.errors import AdapterError, NotConnected, OutcomeUnknown, RateLimited, Refused, TargetGone

PATIENCE_SECONDS = 30.0
TOKEN = "apv:" + 22 * "A" + ":y"
OTHER_TOKEN = "apv:" + 22 * "B" + ":n"
LONG_ANSWER = 45_000
Result = TypeVar("Result")
Error = TypeVar("Error", bound=AdapterError)


class Failure(StrEnum):
    """How the platform fails the next request that shows something."""

    RATE_LIMITED = "rate_limited"
    GONE = "gone"
    UNKNOWN = "unknown"


class World(Protocol):
    """One platform with one chat and one person in it, who may speak to us."""

    @property
    def place(self) -> Place:
        """The chat, as the adapter names it."""
        ...

    @property
    def person(self) -> str:
        """The person's id."""
        ...

    def adapter(self) -> Adapter:
        """A new adapter on the one account, not started. The world outlives it."""
        ...

    async def say(self, text: str) -> None:
        """The person writes in the chat, so that it is addressed to us."""
        ...

    async def press(self, token: str) -> None:
        """The person presses the newest button with this token; AssertionError if none is to be seen."""
        ...

    async def shown(self) -> Sequence[str]:
        """What the person sees of ours now, oldest first: texts without markup, files as their content."""
        ...

    async def fail_next(self, failure: Failure) -> bool:
        """Let the next request that shows something fail; False if this platform cannot fail like that."""
        ...


Check: TypeAlias = Callable[[World], Awaitable[None]]


class Intake:
    """Takes in what an adapter feeds it. It refuses as often as `refuse` says, and keeps what it refused as well."""

    def __init__(self, refuse: int = 0) -> None:
        self.taken: list[Inbound] = []
        self.offered: list[Inbound] = []
        self._refuse = refuse
        self._news = asyncio.Event()

    async def __call__(self, inbound: Inbound) -> None:
        """Take one, or raise RuntimeError."""
        self.offered.append(inbound)
        self._news.set()
        if self._refuse > 0:
            self._refuse -= 1
            raise RuntimeError("not stored, on purpose")
        self.taken.append(inbound)

    async def until(self, wanted: Callable[[list[Inbound]], Result | None]) -> Result:
        """The first true value of `wanted(taken)`; AssertionError, telling what came, if it takes too long."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (found := wanted(self.taken)):
                    self._news.clear()
                    await self._news.wait()
                return found
        except TimeoutError:
            raise AssertionError(f"what was waited for did not come; {self.offered} did") from None


@asynccontextmanager
async def running(world: World, intake: Intake | None = None) -> AsyncGenerator[tuple[Adapter, Intake]]:
    """An adapter that is started, and stopped in the end."""
    adapter, intake = world.adapter(), intake or Intake()
    await adapter.start(intake)
    try:
        yield adapter, intake
    finally:
        await adapter.stop()


async def raised(kind: type[Error], work: Awaitable[object]) -> Error:
    """The error of this kind that was expected of the work; AssertionError if there was none."""
    try:
        await work
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


def said(text: str) -> Callable[[list[Inbound]], Inbound | None]:
    """The message with this text, once it came."""
    return lambda taken: next((inbound for inbound in taken if inbound.text == text), None)


# ------------------------------------------------------------------------------------------------------ life cycle


async def leaves_no_task_behind(world: World) -> None:
    """After `stop`, also without or after a second one, no task of the adapter runs and nothing is sent."""
    with tasks_made_here() as tasks:
        adapter = world.adapter()
        await adapter.stop()
        await adapter.start(Intake())
        assert adapter.account == world.place.account
        assert adapter.platform == world.place.platform
        assert adapter.health.state in ("connecting", "ready"), adapter.health
        await adapter.stop()
        await adapter.stop()
        left = [task for task in tasks if not task.done()]
        assert not left, f"tasks are left: {left}"
        assert adapter.health.state == "stopped", adapter.health
        await raised(NotConnected, adapter.send(world.place, Notice(text="after the end"), "key", 1))


@contextmanager
def tasks_made_here() -> Generator[list[asyncio.Task[Any]]]:
    """Every task that is made by what runs within, and not those of a server in the same loop."""
    made: list[asyncio.Task[Any]] = []
    loop = asyncio.get_running_loop()
    former, token = loop.get_task_factory(), _HERE.set(True)

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
        if _HERE.get():
            made.append(task)
        return task

    loop.set_task_factory(factory)
    try:
        yield made
    finally:
        loop.set_task_factory(former)
        _HERE.reset(token)


_HERE: ContextVar[bool] = ContextVar("tasks are counted", default=False)


async def starts_again(world: World) -> None:
    """An adapter that was stopped can be started again, and takes in what is said then."""
    adapter = world.adapter()
    await adapter.start(Intake())
    await adapter.stop()
    intake = Intake()
    await adapter.start(intake)
    try:
        await world.say("once more")
        await intake.until(said("once more"))
    finally:
        await adapter.stop()


# ------------------------------------------------------------------------------------------------------------ inbound


async def feeds_what_is_said(world: World) -> None:
    """A message comes whole: place, person, text, keys; and is the same after it was stored."""
    async with running(world) as (adapter, intake):
        await world.say("hello there")
        inbound = await intake.until(said("hello there"))
        assert inbound.kind is InboundKind.MESSAGE
        assert inbound.place == world.place
        assert inbound.sender.kind is SenderKind.PERSON
        assert inbound.sender.id
        assert inbound.addressed
        assert inbound.keys
        assert all(inbound.keys)
        assert inbound.ref is not None
        assert decode_inbound(encode_inbound(inbound)) == inbound
        assert adapter.health.state == "ready", adapter.health
        assert adapter.health.last_contact_ms is not None


async def keeps_the_order_of_a_chat(world: World) -> None:
    """Messages of one chat come in the order in which they were written, each once under a key of its own."""
    texts = [f"number {number}" for number in range(10)]
    async with running(world) as (_, intake):
        for text in texts:
            await world.say(text)
        await intake.until(said(texts[-1]))
    assert [inbound.text for inbound in intake.taken] == texts
    assert len({key for inbound in intake.taken for key in inbound.keys}) >= len(texts)


async def offers_again_what_was_not_stored(world: World) -> None:
    """What intake refused comes again under the same keys, before what was said after it."""
    intake = Intake(refuse=2)
    async with running(world, intake):
        await world.say("first")
        await world.say("second")
        await intake.until(said("second"))
    offers = [inbound for inbound in intake.offered if inbound.text == "first"]
    assert len(offers) == 3
    assert len({inbound.keys for inbound in offers}) == 1
    assert [inbound.text for inbound in intake.taken] == ["first", "second"]


async def knows_commands(world: World) -> None:
    """A command comes with its name and its words apart."""
    async with running(world) as (_, intake):
        await world.say("/queue do this")
        inbound = await intake.until(lambda taken: next((one for one in taken if one.command), None))
    assert inbound.kind is InboundKind.COMMAND
    assert (inbound.command, inbound.arguments) == ("queue", "do this")


# ----------------------------------------------------------------------------------------------------------- outbound


FILE_CONTENT = b"File words"
"""What `content` of a world's environment has to give for the file that is sent."""


async def content(sha256: str) -> bytes:
    """The content of `a_file`, for the environment of an adapter under test."""
    if sha256 != a_file().sha256:
        raise Refused("there is no such file")
    return FILE_CONTENT


def a_file() -> File:
    """A file to be sent; a person sees its words in it or in its caption."""
    sha256 = hashlib.sha256(FILE_CONTENT).hexdigest()
    return File(name="notes.txt", media_type="text/plain", size=len(FILE_CONTENT), sha256=sha256, caption="File words")


def views(message: MessageRef, person: str) -> tuple[View, ...]:
    """One view of each kind; where it has words, they begin with its name."""
    control = Control(label="Go on", token=TOKEN, style=Style.PRIMARY)
    rows = (Row(state=RowState.DONE, text="read a file"), Row(state=RowState.RUNNING, text="run the tests"))
    labels = ("home", "chat")
    return (
        TurnCard(phase=Phase.WORKING, headline="TurnCard words", rows=rows, labels=labels, controls=(control,)),
        Verbatim(title="Verbatim words", text="ls -la | grep `x`\n\n  **as it is**"),
        ApprovalCard(title="ApprovalCard words", lines=("asked by Ann",), body="rm -r x", controls=(control,)),
        ApprovalCard(title="ApprovalCard words", outcome="ApprovalCard outcome"),
        Answer(markdown="Answer words, *slanted*", controls=(control,), repeat=True, footer="3 steps"),
        Notice(text="Notice words", level="warning", reply_to=message),
        Document(name="notes.md", text="Document words", caption="as a file"),
        a_file(),
        Reaction(ref=message, mark="accepted"),
        Typing(),
        Stream(stream_id="s1", markdown="Stream words"),
        ThreadStatus(state="processing", title="ThreadStatus words"),
        Private(person=person, text="Private words"),
    )


async def shows_or_refuses_every_view(world: World) -> None:
    """Each kind of view is shown, or refused as `capabilities` say; none is accepted and lost."""
    async with running(world) as (adapter, intake):
        await world.say("hello")
        message = (await intake.until(said("hello"))).ref
        assert message is not None
        for view in views(message, world.person):
            await _shown_or_refused(world, adapter, view)


async def _shown_or_refused(world: World, adapter: Adapter, view: View) -> None:
    name = type(view).__name__
    try:
        sent = await adapter.send(world.place, view, f"key {name}", 1)
    except Refused:
        assert _may_be_refused(adapter, view), f"{name} was refused, although capabilities allow it"
        return
    if isinstance(view, Reaction | Typing | ThreadStatus):
        return
    assert sent.refs, f"{name} was accepted without a message"
    assert any(f"{name} " in text for text in await world.shown()), f"{name} was accepted and is not to be seen"


def _may_be_refused(adapter: Adapter, view: View) -> bool:
    can = adapter.capabilities
    match view:
        case Reaction():
            return not can.reactions
        case File():
            return can.file_limits[1] == 0
        case Stream():
            return can.native_stream == "none"
        case ThreadStatus():
            return not (can.native_stop or can.can_rename_thread)
        case Private():
            return can.ephemeral != "any"
        case _:
            return False


def _words(count: int) -> str:
    """Words that tell their number, in markdown of all kinds."""
    lines: list[str] = []
    for number in range(count):
        word = f"w{number:05d}"
        kinds = (
            f"## {word}",
            f"{word} **bold**",
            f"- {word}",
            f"```py\n{word} = 1\n```",
            f"> {word} 👍🏽",
            f"`{word}` é",
        )
        lines.append(kinds[number % len(kinds)])
    return "\n\n".join(lines)


async def shows_long_answers_whole(world: World) -> None:
    """45,000 characters arrive, in order, with every word; the platform's limit is a matter of the adapter's markup."""
    markdown = _words(3_500)[:LONG_ANSWER]
    wanted = re.findall(r"w\d{5}", markdown)
    async with running(world) as (adapter, _):
        parts = adapter.markup.split(markdown)
        assert all(part.strip() for part in parts)
        for at, part in enumerate(parts):
            await adapter.send(
                world.place, Answer(markdown=part, footer="end" * (at == len(parts) - 1)), f"part {at}", 1
            )
        assert re.findall(r"w\d{5}", "\n".join(await world.shown())) == wanted


async def shows_verbatim_as_it_is(world: World) -> None:
    """Nothing in verbatim text is interpreted or lost, and its parts are the text."""
    hostile = "`````\n</pre></code><b>x</b> **y** <!channel> @everyone [a](https://a.example) \\* _z_ ||s||"
    async with running(world) as (adapter, _):
        await adapter.send(world.place, Verbatim(title="Look", text=hostile), "key 1", 1)
        assert any(_squeezed(hostile) in _squeezed(text) for text in await world.shown())
        long = "\n".join(f"line {number}: {hostile}" for number in range(200))
        parts = adapter.markup.split_verbatim(long)
        assert "".join(parts) == long
        for at, part in enumerate(parts):
            await adapter.send(world.place, Verbatim(title=f"Part {at}", text=part), f"key 2 {at}", 1)
        shown = _squeezed("\n".join(await world.shown()))
        assert all(f"line{number}:" in shown for number in range(200))


def _squeezed(text: str) -> str:
    """Without white space and the frame that a plain platform puts around a block."""
    return re.sub(r"^ *\| |\s", "", text, flags=re.MULTILINE)


async def edits_as_it_says(world: World) -> None:
    """A message shows what it was edited to, twice as well as once; or edits are refused and `can_edit` is false."""
    async with running(world) as (adapter, _):
        sent = await adapter.send(world.place, Notice(text="before the edit"), "key", 1)
        try:
            for _ in range(2):
                await adapter.edit(sent.refs[0], Notice(text="after the edit"))
        except Refused:
            assert not adapter.capabilities.can_edit
            return
        shown = "\n".join(await world.shown())
        assert adapter.capabilities.can_edit
        assert "after the edit" in shown
        assert "before the edit" not in shown


async def makes_nothing_twice_under_one_key(world: World) -> None:
    """Where `idempotent_send` is claimed, a second attempt under one key shows nothing new."""
    async with running(world) as (adapter, _):
        if adapter.capabilities.idempotent_send == "none":
            return
        for attempt in (1, 2):
            await adapter.send(world.place, Notice(text="only once"), "one key", attempt)
        assert sum("only once" in text for text in await world.shown()) == 1


async def opens_threads_as_it_says(world: World) -> None:
    """A thread is opened, and can be written to; or it is refused and `can_create_thread` is false."""
    async with running(world) as (adapter, _):
        try:
            thread = await adapter.open_thread(world.place, "A thread", "key")
        except Refused:
            assert not adapter.capabilities.can_create_thread
            return
        assert adapter.capabilities.can_create_thread
        assert thread.thread
        await adapter.send(thread, Notice(text="inside the thread"), "key 2", 1)


async def backfills_or_has_nothing(world: World) -> None:
    """History is there if `history_backfill` says so, and empty otherwise."""
    async with running(world) as (adapter, intake):
        await world.say("hello")
        await intake.until(said("hello"))
        history = await adapter.backfill(world.place, None)
        assert bool(history) == adapter.capabilities.history_backfill


# ----------------------------------------------------------------------------------------------------------- controls


async def _card(world: World, adapter: Adapter) -> Sent:
    controls = (
        Control(label="Approve", token=TOKEN, style=Style.PRIMARY),
        Control(label="Deny", token=OTHER_TOKEN, style=Style.DANGER),
    )
    card = ApprovalCard(title="May I?", body="rm -r build", controls=controls)
    return await adapter.send(world.place, card, "key card", 1)


def _with_token(token: str, kind: InboundKind = InboundKind.PRESS) -> Callable[[list[Inbound]], Inbound | None]:
    return lambda taken: next((one for one in taken if one.kind is kind and one.token == token), None)


async def feeds_presses(world: World) -> None:
    """A press comes with its token, place, person and message; it can be answered, also too late or twice."""
    async with running(world) as (adapter, intake):
        sent = await _card(world, adapter)
        await world.press(OTHER_TOKEN)
        press = await intake.until(_with_token(OTHER_TOKEN))
        assert press.place == world.place
        assert press.sender.kind is SenderKind.PERSON
        assert press.ref is not None
        assert press.ref.id == sent.refs[-1].id
        assert press.handle
        await adapter.acknowledge(press, Text(text="You denied it.", alert=True))
        await adapter.acknowledge(press, None)


async def works_after_a_restart(world: World) -> None:
    """A button of an earlier process is pressed, and the press comes to the one that runs now."""
    async with running(world) as (adapter, _):
        await _card(world, adapter)
    if not adapter.capabilities.can_edit:
        return  # what was shown belonged to that process
    async with running(world) as (again, intake):
        await world.press(TOKEN)
        press = await intake.until(_with_token(TOKEN))
        await again.acknowledge(press, Text(text="Approved."))


async def asks_for_reasons(world: World) -> None:
    """Where there are forms, one is shown in answer to a press, and does not fail."""
    async with running(world) as (adapter, intake):
        if not adapter.capabilities.forms:
            return
        await _card(world, adapter)
        await world.press(OTHER_TOKEN)
        press = await intake.until(_with_token(OTHER_TOKEN))
        presets = (("", "No reason"), ("Too risky", "Too risky"))
        await adapter.acknowledge(press, Form(title="Why not?", label="Reason", token=OTHER_TOKEN, presets=presets))


async def collapses_cards(world: World) -> None:
    """A decided request is one line without buttons."""
    async with running(world) as (adapter, _):
        sent = await _card(world, adapter)
        if not adapter.capabilities.can_edit:
            return
        await adapter.edit(sent.refs[-1], ApprovalCard(title="May I?", outcome="Denied by Ann"))
        shown = "\n".join(await world.shown())
        assert "Denied by Ann" in shown
        assert "rm -r build" not in shown
        try:
            await world.press(TOKEN)
        except AssertionError:
            return
        raise AssertionError("a decided request still has a button")


# ------------------------------------------------------------------------------------------------------------- errors


async def says_when_to_wait(world: World) -> None:
    """A request for patience is RateLimited with the time, and nothing was shown."""
    async with running(world) as (adapter, _):
        if not await world.fail_next(Failure.RATE_LIMITED):
            return
        error = await raised(RateLimited, adapter.send(world.place, Notice(text="too much"), "key", 1))
        assert error.retry_after > 0
        assert not any("too much" in text for text in await world.shown())


async def says_what_is_gone(world: World) -> None:
    """A chat that is gone is TargetGone."""
    async with running(world) as (adapter, _):
        if not await world.fail_next(Failure.GONE):
            return
        error = await raised(TargetGone, adapter.send(world.place, Notice(text="anybody?"), "key", 1))
        assert not error.thread_only


async def says_what_it_does_not_know(world: World) -> None:
    """A request without an answer is OutcomeUnknown, or done safely again where `idempotent_send` is claimed."""
    async with running(world) as (adapter, _):
        if not await world.fail_next(Failure.UNKNOWN):
            return
        try:
            await adapter.send(world.place, Notice(text="perhaps"), "key", 1)
        except OutcomeUnknown:
            return
        assert adapter.capabilities.idempotent_send != "none", "OutcomeUnknown was expected"
        assert sum("perhaps" in text for text in await world.shown()) == 1


async def sends_nothing_before_it_starts(world: World) -> None:
    """Without a connection nothing is sent, and that is said."""
    await raised(NotConnected, world.adapter().send(world.place, Notice(text="too early"), "key", 1))


async def refuses_another_place(world: World) -> None:
    """A chat that does not exist is an error of the contract, not of the client library."""
    async with running(world) as (adapter, _):
        elsewhere = replace(world.place, chat="no such chat")
        try:
            await adapter.send(elsewhere, Notice(text="anybody?"), "key", 1)
        except (Refused, TargetGone):
            return
        assert any("anybody?" in text for text in await world.shown()), "it was accepted and is not to be seen"


CONTRACT: tuple[Check, ...] = (
    leaves_no_task_behind,
    starts_again,
    feeds_what_is_said,
    keeps_the_order_of_a_chat,
    offers_again_what_was_not_stored,
    knows_commands,
    shows_or_refuses_every_view,
    shows_long_answers_whole,
    shows_verbatim_as_it_is,
    edits_as_it_says,
    makes_nothing_twice_under_one_key,
    opens_threads_as_it_says,
    backfills_or_has_nothing,
    feeds_presses,
    works_after_a_restart,
    asks_for_reasons,
    collapses_cards,
    says_when_to_wait,
    says_what_is_gone,
    says_what_it_does_not_know,
    sends_nothing_before_it_starts,
    refuses_another_place,
)
"""Every check; a new one is added here."""
