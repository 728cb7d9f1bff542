"""What every CheckpointStore must do. A store joins by an entry in STORES."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from pathlib import Path

import pytest

from runtime.errors import CheckpointError, DuplicateReceipt, InvalidCheckpoint, StaleCheckpoint
from runtime.protocol import (
    ActiveModelStep,
    Checkpoint,
    Context,
    ContextDelta,
    Event,
    Receipt,
    Resolution,
    SessionContext,
    ToolResult,
    events,
)
from runtime.store.base import CheckpointStore, Head, SessionSummary
from runtime.store.ownership import Process, start_of, this_process
from runtime.store.sqlite import SqliteStore
from runtime.testing import FakeClock
from tests.support.checkpoints import (
    EVENTS,
    GRANT,
    ITEMS,
    MESSAGES,
    READ,
    RECEIPTS,
    RECORD,
    TOOLS,
    approval,
    following,
    full_checkpoint,
    grown,
    text_item,
)
from tests.support.open_connections import connections_are_closed

__all__ = ["connections_are_closed"]  # the fixture works where it is named

NOW = 1_800_000_000_000
OpenStore = Callable[[], Awaitable[CheckpointStore]]


async def open_sqlite(folder: Path, process: Process) -> CheckpointStore:
    return await SqliteStore.open(folder / "sessions.db", clock=FakeClock(NOW), process=process)


STORES: dict[str, Callable[[Path, Process], Awaitable[CheckpointStore]]] = {"sqlite": open_sqlite}


@pytest.fixture(params=STORES)
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    """Opens instances over the same data. The first is ours; each further one stands for another living process."""
    me = this_process()
    parent = replace(me, pid=os.getppid(), start=start_of(os.getppid()) or 0)
    processes = iter((me, parent))
    async with AsyncExitStack() as stack:

        async def another() -> CheckpointStore:
            store = await STORES[request.param](tmp_path, next(processes))
            stack.push_async_callback(store.aclose)
            return store

        yield another


@pytest.fixture
async def store(open_store: OpenStore) -> CheckpointStore:
    return await open_store()


# -- checkpoints


async def test_an_unknown_session_is_none(store: CheckpointStore) -> None:
    """A session that was never saved has no checkpoint, no head, no events and no records."""
    assert await store.load("nobody") is None
    assert await store.head("nobody") is None
    page = await store.event_page("nobody")
    assert (page.events, page.next_before, page.latest_sequence) == ((), None, 0)
    assert (await store.execution_page("nobody")).executions == ()


async def test_an_empty_checkpoint_is_kept(store: CheckpointStore) -> None:
    """The first save may have sequence 0."""
    saved = await store.save(Checkpoint.empty("s"))
    assert await store.load("s") == Checkpoint.empty("s")
    assert await store.head("s") == Head(
        sequence=0, save_id=saved.save_id, context_epoch=0, context_length=0, event_sequence=0
    )


async def test_the_sample_leaves_no_field_at_its_default() -> None:
    """The round trip below sees every field of a checkpoint, also those that are added later."""
    empty, full = Checkpoint.empty("x"), full_checkpoint()
    assert [f.name for f in fields(Checkpoint) if getattr(empty, f.name) == getattr(full, f.name)] == ["version"]


async def test_every_field_survives(store: CheckpointStore, open_store: OpenStore) -> None:
    """What is loaded equals what was saved, here and in another process."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    assert await store.load("s") == checkpoint
    assert await (await open_store()).load("s") == checkpoint


async def test_every_field_may_go_back_to_its_default(store: CheckpointStore, open_store: OpenStore) -> None:
    """Nothing of a former state lingers."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    plain = replace(
        Checkpoint.empty("s"),
        sequence=2,
        session_context=checkpoint.session_context,
        context=checkpoint.context,
        context_epoch=checkpoint.context_epoch,
    )
    await store.save(plain)
    assert await (await open_store()).load("s") == plain


async def test_odd_texts_survive(store: CheckpointStore) -> None:
    """NUL, line separators, lone surrogates and text that looks like SQL or JSON come back as they were."""
    odd = '\x00 \u2028 \ud800 \'); DROP TABLE sessions; -- {"a": 1} 👩‍👩‍👧 \x7f'
    result = ToolResult(call_id="c", name="t", output=odd)
    message = replace(MESSAGES[1], text=odd)
    checkpoint = replace(
        Checkpoint.empty("s"), title=odd, context=Context((result,)), pending_messages=(message,), metadata={odd: odd}
    )
    await store.save(checkpoint, events=[events.Warning(message=odd)])
    assert await store.load("s") == checkpoint
    assert (await store.event_page("s")).events[0].msg == events.Warning(message=odd)


async def test_a_mebibyte_of_text_survives(store: CheckpointStore) -> None:
    """The largest message that may be accepted can be stored."""
    message = replace(MESSAGES[1], text="ü" * (1 << 19))
    checkpoint = replace(Checkpoint.empty("s"), pending_messages=(message,))
    await store.save(checkpoint)
    assert await store.load("s") == checkpoint


@pytest.mark.parametrize("sequence", [0, 2, 3])
async def test_a_save_needs_a_greater_sequence(store: CheckpointStore, sequence: int) -> None:
    """A sequence that is not greater than the stored one is stale, and nothing of the save stays."""
    first = replace(Checkpoint.empty("s"), sequence=3)
    await store.save(first)
    late = replace(first, sequence=sequence, title="late", context=Context((text_item(1),)))
    with pytest.raises(StaleCheckpoint, match="'s'"):
        await store.save(late, events=[EVENTS[0]], receipts=[RECEIPTS[0]], execution=RECORD, grants=[GRANT])
    assert await store.load("s") == first
    assert (await store.event_page("s")).events == ()
    assert (await store.execution_page("s")).executions == ()
    assert await store.receipt("message-1") is None
    assert await store.grants("s") == ()


async def test_the_loser_of_a_race_is_told(open_store: OpenStore) -> None:
    """Two processes save over the same checkpoint: the first wins whole, the second is stale and changes nothing."""
    one, other = await open_store(), await open_store()
    await one.save(Checkpoint.empty("s"))
    base = await other.load("s")
    assert base is not None
    winner, delta = grown(base, (text_item(1),))
    await one.save(winner, delta, events=[events.Warning(message="first")])
    with pytest.raises(StaleCheckpoint):
        await other.save(following(base, title="late"), events=[events.Warning(message="second")])
    assert await other.load("s") == winner
    assert [event.msg for event in (await other.event_page("s")).events] == [events.Warning(message="first")]


async def test_a_process_that_fell_behind_can_go_on_after_a_load(open_store: OpenStore) -> None:
    """What a store remembers never stands in the way of a save that is right by what is stored."""
    one, other = await open_store(), await open_store()
    checkpoint = replace(full_checkpoint(), pending_approval=None)
    await one.save(checkpoint)
    second = following(checkpoint, pending_messages=MESSAGES[:1], pending_tools=TOOLS[1:], title="b")
    await other.save(second)
    third = following(second, pending_messages=(MESSAGES[1], MESSAGES[0]), pending_tools=TOOLS[:1], title="c")
    await one.save(third)  # by hand, from what the other told it
    assert await other.load("s") == third


async def test_saves_of_one_session_that_race_have_one_winner(store: CheckpointStore) -> None:
    """Of many saves with the same number at once exactly one is kept."""
    await store.save(Checkpoint.empty("s"))
    racers = [replace(Checkpoint.empty("s"), sequence=1, title=str(number)) for number in range(20)]
    results = await asyncio.gather(*(store.save(racer) for racer in racers), return_exceptions=True)
    won = [racer for racer, result in zip(racers, results, strict=True) if not isinstance(result, BaseException)]
    assert all(isinstance(result, StaleCheckpoint) for result in results if isinstance(result, BaseException))
    assert [await store.load("s")] == won


async def test_saves_of_many_sessions_at_once_all_stay(store: CheckpointStore, open_store: OpenStore) -> None:
    """Sessions that save together do not disturb each other, and one bad save fails alone."""
    checkpoints = [full_checkpoint(f"s{number:03}") for number in range(40)]
    checkpoints[7] = replace(checkpoints[7], pending_approval=None)
    await store.save(checkpoints[7])
    results = await asyncio.gather(*(store.save(each) for each in checkpoints), return_exceptions=True)
    assert [index for index, result in enumerate(results) if isinstance(result, BaseException)] == [7]
    assert isinstance(results[7], StaleCheckpoint)
    other = await open_store()
    assert [await other.load(each.session_id) for each in checkpoints] == checkpoints


async def test_the_save_id_is_the_callers_or_random(store: CheckpointStore) -> None:
    """The head names the newest save, so that a writer can recognise its own."""
    first = await store.save(Checkpoint.empty("s"))
    second = await store.save(replace(Checkpoint.empty("s"), sequence=1), save_id="mine")
    head = await store.head("s")
    assert head is not None
    assert (head.save_id, head.sequence) == (second.save_id, 1) == ("mine", 1)
    assert first.save_id not in ("", "mine")


async def test_labels_never_change(store: CheckpointStore, open_store: OpenStore) -> None:
    """A save with other labels is refused, whoever tries."""
    checkpoint = full_checkpoint()
    await store.save(checkpoint)
    changed = following(checkpoint, session_context=SessionContext(user_name="Eve"))
    for each in (store, await open_store()):
        with pytest.raises(InvalidCheckpoint, match="labels"):
            await each.save(changed)
    assert await store.load("s") == checkpoint


async def test_metadata_is_replaced_as_a_whole(store: CheckpointStore, open_store: OpenStore) -> None:
    """The stored map is exactly the last one given, also when the caller changed its own in place."""
    metadata: dict[str, object] = {"a": [1], "b": 2}
    checkpoint = replace(Checkpoint.empty("s"), metadata=metadata)
    await store.save(checkpoint)
    metadata["c"] = 3
    del metadata["b"]
    await store.save(following(checkpoint))
    loaded = await (await open_store()).load("s")
    assert loaded is not None
    assert loaded.metadata == {"a": [1], "c": 3}


@pytest.mark.parametrize(
    "broken",
    [
        replace(
            Checkpoint.empty("s"),
            sequence=1,
            active_model_step=ActiveModelStep(model_step_id="x", step_index=0, started_at_ms=1),
        ),
        replace(Checkpoint.empty("s"), sequence=1, pending_tools=TOOLS),
        replace(full_checkpoint(), pending_messages=(MESSAGES[0], MESSAGES[0])),
        replace(Checkpoint.empty("s"), sequence=1, version=2),
        Checkpoint.empty(""),
    ],
    ids=["step without turn", "tools without turn", "message twice", "version", "no id"],
)
async def test_a_checkpoint_that_contradicts_itself_is_refused(store: CheckpointStore, broken: Checkpoint) -> None:
    """The store checks every save, and keeps nothing of a bad one."""
    with pytest.raises(InvalidCheckpoint):
        await store.save(broken)
    assert await store.load("s") is None


async def test_a_record_of_a_running_turn_is_refused(store: CheckpointStore) -> None:
    """A terminal record belongs to an idle checkpoint."""
    with pytest.raises(InvalidCheckpoint):
        await store.save(full_checkpoint(), execution=RECORD)


# -- context


async def test_a_delta_is_appended(store: CheckpointStore, open_store: OpenStore) -> None:
    """Each save adds its items behind those stored before."""
    checkpoint = replace(Checkpoint.empty("s"))
    await store.save(checkpoint)
    for number in range(5):
        checkpoint, delta = grown(checkpoint, (text_item(2 * number), text_item(2 * number + 1)))
        await store.save(checkpoint, delta)
    loaded = await (await open_store()).load("s")
    assert loaded == checkpoint
    assert len(checkpoint.context) == 10


@pytest.mark.parametrize(("epoch", "start"), [(0, 0), (0, 3), (0, 5), (1, 4), (2, 0)])
async def test_a_delta_must_start_where_the_context_ends(store: CheckpointStore, epoch: int, start: int) -> None:
    """Any other start is stale and leaves nothing."""
    checkpoint = replace(Checkpoint.empty("s"), context=Context(ITEMS))
    await store.save(checkpoint)
    wrong = following(checkpoint, context_epoch=epoch, title="wrong")
    with pytest.raises(StaleCheckpoint, match="epoch"):
        await store.save(wrong, ContextDelta(epoch=epoch, start=start, items=(text_item(1),)))
    assert await store.load("s") == checkpoint


async def test_a_delta_of_another_epoch_than_the_checkpoint_is_refused(store: CheckpointStore) -> None:
    """Delta and checkpoint must agree."""
    with pytest.raises(InvalidCheckpoint, match="epoch"):
        await store.save(Checkpoint.empty("s"), ContextDelta(epoch=1, start=0, items=()))


async def test_compaction_starts_the_next_epoch(store: CheckpointStore, open_store: OpenStore) -> None:
    """A new epoch replaces the context that is loaded, and grows on its own."""
    checkpoint = replace(Checkpoint.empty("s"), context=Context(ITEMS))
    await store.save(checkpoint)
    short = (text_item(1),)
    compacted = following(checkpoint, context=Context(short), context_epoch=1)
    await store.save(compacted, ContextDelta(epoch=1, start=0, items=short))
    after, delta = grown(compacted, (text_item(2),))
    await store.save(after, delta)
    reader = await open_store()
    assert await reader.load("s") == after
    by_hand = following(after, context=Context((text_item(3),)), context_epoch=2)
    await store.save(by_hand)
    assert await reader.load("s") == by_hand


async def test_without_a_delta_the_rest_of_the_context_is_taken(open_store: OpenStore) -> None:
    """A checkpoint made by hand needs no delta, also where the store has not seen the session before."""
    one, other = await open_store(), await open_store()
    checkpoint = replace(Checkpoint.empty("s"), context=Context(ITEMS[:2]))
    await one.save(checkpoint)
    second = following(checkpoint, context=Context(ITEMS))
    await other.save(second)
    third = following(second, context=Context((*ITEMS, text_item(1))))
    await one.save(third)
    assert await other.load("s") == third


async def test_a_shorter_context_is_stale(store: CheckpointStore) -> None:
    """A checkpoint that lacks stored items cannot be the successor."""
    checkpoint = replace(Checkpoint.empty("s"), context=Context(ITEMS))
    await store.save(checkpoint)
    with pytest.raises(StaleCheckpoint, match="4 items"):
        await store.save(following(checkpoint, context=Context(ITEMS[:2])))


# -- journals


async def test_every_event_survives(store: CheckpointStore, open_store: OpenStore) -> None:
    """Every kind that may be stored comes back as it was, under the submission and the instant of its save."""
    kinds = {events.kind_of(msg) for msg in EVENTS}
    assert kinds == events.KINDS.keys() - {"assistant_delta", "session_history", "session_resume_requested"}
    saved = await store.save(Checkpoint.empty("s"), events=EVENTS, submission_id="message-1")
    page = await (await open_store()).event_page("s", after=0)
    assert page.events == tuple(
        Event(sequence=number, submission_id="message-1", recorded_at_ms=NOW, msg=msg)
        for number, msg in enumerate(EVENTS, start=saved.first_event)
    )
    assert saved.first_event == 1


async def test_an_event_with_its_own_envelope_keeps_it(store: CheckpointStore) -> None:
    """An `Event` brings its submission and its instant; its place is given by the journal."""
    own = Event(sequence=None, submission_id="other", recorded_at_ms=7, msg=events.Warning(message="x"))
    await store.save(Checkpoint.empty("s"), events=[events.Warning(message="w"), own], submission_id="message-1")
    page = await store.event_page("s", after=0)
    assert [(e.sequence, e.submission_id, e.recorded_at_ms) for e in page.events] == [
        (1, "message-1", NOW),
        (2, "other", 7),
    ]


@pytest.mark.parametrize(
    "msg",
    [
        events.AssistantDelta(turn_id="t", model_step_id="m", text="x"),
        events.SessionHistory(events=()),
        events.SessionResumeRequested(session_id="x", context=SessionContext()),
    ],
)
async def test_live_only_events_are_refused(store: CheckpointStore, msg: events.EventMsg) -> None:
    """What is live only never reaches the journal."""
    with pytest.raises(InvalidCheckpoint, match="live only"):
        await store.save(Checkpoint.empty("s"), events=[msg])
    assert await store.load("s") is None


async def test_the_journal_is_consecutive(store: CheckpointStore) -> None:
    """Numbers go on over saves with many, one and no events, and each save is told its first."""
    checkpoint = Checkpoint.empty("s")
    firsts: list[int] = []
    for count in (2, 0, 1, 3):
        saved = await store.save(checkpoint, events=[events.Warning(message="w")] * count)
        firsts.append(saved.first_event)
        checkpoint = following(checkpoint)
    assert firsts == [1, 3, 3, 4]
    assert [event.sequence for event in (await store.event_page("s", after=0)).events] == [1, 2, 3, 4, 5, 6]


async def test_a_refused_save_leaves_no_gap(store: CheckpointStore) -> None:
    """The number that a refused event would have had is the next one's."""
    checkpoint = Checkpoint.empty("s")
    await store.save(checkpoint, events=[EVENTS[0]], receipts=[RECEIPTS[0]])
    with pytest.raises(DuplicateReceipt):
        await store.save(following(checkpoint), events=[EVENTS[1]], receipts=[RECEIPTS[0]])
    saved = await store.save(following(checkpoint), events=[EVENTS[2]])
    assert saved.first_event == 2
    assert [event.msg for event in (await store.event_page("s", after=0)).events] == [EVENTS[0], EVENTS[2]]


async def test_pages_of_the_journal(store: CheckpointStore) -> None:
    """Newest first without a cursor or with `before`, ascending with `after`; every page leads to the one before it."""
    await store.save(Checkpoint.empty("s"), events=[events.Warning(message=str(n)) for n in range(1, 11)])

    async def page(**at: int) -> tuple[list[int | None], int | None, int]:
        got = await store.event_page("s", **at)
        return [event.sequence for event in got.events], got.next_before, got.latest_sequence

    assert await page(limit=3) == ([10, 9, 8], 8, 10)
    assert await page(before=8, limit=3) == ([7, 6, 5], 5, 10)
    assert await page(before=3, limit=3) == ([2, 1], None, 10)
    assert await page(before=1) == ([], None, 10)
    assert await page(limit=10) == ([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], None, 10)
    assert await page(after=0, limit=3) == ([1, 2, 3], None, 10)
    assert await page(after=3, limit=3) == ([4, 5, 6], 4, 10)
    assert await page(after=10) == ([], None, 10)
    assert await page(after=3, before=6) == ([4, 5], 4, 10)


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_page_of_nothing_is_an_error(store: CheckpointStore, limit: int) -> None:
    """A limit below one is the caller's mistake, and is named."""
    with pytest.raises(ValueError, match="limit"):
        await store.event_page("s", limit=limit)
    with pytest.raises(ValueError, match="limit"):
        await store.execution_page("s", limit=limit)
    with pytest.raises(ValueError, match="limit"):
        await store.list_sessions(limit=limit)


async def test_pages_of_execution_records(store: CheckpointStore) -> None:
    """Newest first, each page leading to the next."""
    checkpoint = Checkpoint.empty("s")
    records = [replace(RECORD, turn_id=f"turn-{number}") for number in range(5)]
    for record in records:
        await store.save(checkpoint, execution=record)
        checkpoint = following(checkpoint)
    first = await store.execution_page("s", limit=2)
    second = await store.execution_page("s", before=first.next_before, limit=2)
    last = await store.execution_page("s", before=second.next_before, limit=2)
    assert first.executions + second.executions + last.executions == tuple(reversed(records))
    assert last.next_before is None


async def test_a_turn_has_one_record(store: CheckpointStore) -> None:
    """A second record of the same turn fails its save."""
    checkpoint = Checkpoint.empty("s")
    await store.save(checkpoint, execution=RECORD)
    with pytest.raises(CheckpointError, match="turn-0"):
        await store.save(following(checkpoint, title="again"), execution=RECORD)
    assert await store.load("s") == checkpoint
    await store.save(replace(Checkpoint.empty("other")), execution=RECORD)  # another session's turn


# -- receipts, grants, state


async def test_receipts_survive(store: CheckpointStore, open_store: OpenStore) -> None:
    """Every form of receipt comes back as it was."""
    await store.save(Checkpoint.empty("s"), receipts=RECEIPTS)
    other = await open_store()
    assert tuple([await other.receipt(each.submission_id) for each in RECEIPTS]) == RECEIPTS
    assert await other.receipt("unknown") is None


async def test_a_second_receipt_fails_its_save(store: CheckpointStore) -> None:
    """One submission is admitted once, also from two sessions."""
    await store.save(Checkpoint.empty("s"), receipts=[RECEIPTS[0]])
    again = Receipt(submission_id="message-1", status="accepted", disposition="turn")
    with pytest.raises(DuplicateReceipt, match="message-1") as raised:
        await store.save(Checkpoint.empty("other"), receipts=[again])
    assert raised.value.submission_id == "message-1"
    assert await store.load("other") is None
    assert await store.receipt("message-1") == RECEIPTS[0]


async def test_grants_are_listed_until_revoked(store: CheckpointStore) -> None:
    """A grant is listed for its session; saved again as revoked, it is not."""
    checkpoint = Checkpoint.empty("s")
    second = replace(GRANT, id="grant-2", digest="d2")
    await store.save(checkpoint, grants=[GRANT, second])
    assert await store.grants("s") == (GRANT, second)
    assert await store.grants("other") == ()
    await store.save(following(checkpoint), grants=[replace(GRANT, revoked_at_ms=5)])
    assert await store.grants("s") == (second,)


async def test_state_by_key(store: CheckpointStore, open_store: OpenStore) -> None:
    """The newest value under scope and key is kept, and nothing else is touched."""
    assert await store.load_state("agent", "route") is None
    await store.save_state("agent", "route", {"a": [1, 2.5, None, "ü"]})
    await store.save_state("agent", "other", 1)
    await store.save_state("tool", "route", False)
    await store.save_state("agent", "other", 2)
    other = await open_store()
    assert await other.load_state("agent", "route") == {"a": [1, 2.5, None, "ü"]}
    assert await other.load_state("agent", "other") == 2
    assert await other.load_state("tool", "route") is False


# -- approvals and tools


async def test_an_approval_is_decided_once(open_store: OpenStore) -> None:
    """The stored decision stands: neither this process nor another can replace it."""
    one, other = await open_store(), await open_store()
    asked = replace(
        full_checkpoint(),
        pending_approval=approval(decision=None, decided_by=None, decided_at_ms=None),
    )
    await one.save(asked)
    decided = following(asked, pending_approval=approval(decision=Resolution.DENIED))
    await one.save(decided)
    flipped = following(decided, pending_approval=approval(decision=Resolution.APPROVED))
    for each in (one, other):
        with pytest.raises(CheckpointError):
            await each.save(flipped)
        assert await each.load("s") == decided


async def test_a_closed_request_does_not_open_again(store: CheckpointStore) -> None:
    """A request id is used once."""
    asked = replace(full_checkpoint(), pending_approval=approval(decision=None, decided_by=None, decided_at_ms=None))
    await store.save(asked)
    closed = following(asked, pending_approval=None)
    await store.save(closed)
    with pytest.raises(CheckpointError):
        await store.save(following(closed, pending_approval=asked.pending_approval))
    assert await store.load("s") == closed


async def test_call_ids_may_come_again_in_the_next_batch(store: CheckpointStore, open_store: OpenStore) -> None:
    """Some providers number the calls of each batch anew: done and begun again in one save are two calls."""
    first = replace(full_checkpoint(), pending_approval=None, pending_tools=(replace(TOOLS[0], state="started"),))
    await store.save(first)
    done = following(first, pending_tools=(replace(TOOLS[0], state="done"),))
    await store.save(done)
    again = following(done, pending_tools=(replace(TOOLS[0], state="pending", idempotency_key="new"), TOOLS[1]))
    await store.save(again)
    other_call = following(
        again, pending_tools=(replace(TOOLS[0], call=replace(READ, arguments={"path": "z"}), state="pending"),)
    )
    await store.save(other_call)
    assert await (await open_store()).load("s") == other_call


# -- lists, copies, deletion


async def test_sessions_are_listed_by_id(store: CheckpointStore) -> None:
    """A line says whether a turn runs and how many messages wait; pages follow each other by id."""
    await store.save(full_checkpoint("b"))
    await store.save(replace(Checkpoint.empty("a"), title="idle"))
    await store.save(Checkpoint.empty("c"))
    first = await store.list_sessions(limit=2)
    assert first == (
        SessionSummary(
            session_id="a",
            title="idle",
            workspace_label=None,
            origin_label=None,
            running=False,
            queued=0,
            updated_at_ms=NOW,
        ),
        SessionSummary(
            session_id="b",
            title="A title",
            workspace_label="project",
            origin_label="cron",
            running=True,
            queued=2,
            updated_at_ms=NOW,
        ),
    )
    rest = await store.list_sessions(limit=2, after="b")
    assert [line.session_id for line in rest] == ["c"]


async def test_a_copy_has_the_conversation_and_nothing_that_waits(
    store: CheckpointStore, open_store: OpenStore
) -> None:
    """A copy of an idle session takes context, labels, metadata, route and title, and begins anew otherwise."""
    source = replace(
        full_checkpoint(),
        active_execution=None,
        active_model_step=None,
        pending_tools=(),
        pending_approval=None,
    )
    await store.save(source, events=EVENTS, receipts=[RECEIPTS[0]], grants=[GRANT])
    copy = await store.fork("s", "copy")
    assert copy == replace(
        Checkpoint.empty("copy"),
        session_context=source.session_context,
        metadata=source.metadata,
        model_route=source.model_route,
        title=source.title,
        context=source.context,
    )
    other = await open_store()
    assert await other.load("copy") == copy
    assert await other.load("s") == source
    assert (await other.event_page("copy")).events == ()
    assert await other.grants("copy") == ()
    after, delta = grown(copy, (text_item(9),))
    await other.save(after, delta)
    assert await store.load("s") == source


async def test_a_copy_that_cannot_be_made_is_refused(store: CheckpointStore) -> None:
    """No source, a running source and a taken id are errors that name the session."""
    await store.save(full_checkpoint("running"))
    await store.save(Checkpoint.empty("idle"))
    for source, target, named in (("none", "x", "none"), ("running", "x", "running"), ("idle", "running", "running")):
        with pytest.raises(CheckpointError, match=named):
            await store.fork(source, target)
    assert await store.load("x") is None


async def test_deletion_leaves_receipts_only(store: CheckpointStore, open_store: OpenStore) -> None:
    """Nothing of the session can be read any more, but its submissions are still recognised; others are untouched."""
    other_session = full_checkpoint("other")
    await store.save(other_session)
    await store.save(full_checkpoint(), events=EVENTS, receipts=RECEIPTS, grants=[GRANT])
    await store.delete("s")
    await store.delete("s")  # a missing session is no error
    reader = await open_store()
    assert await reader.load("s") is None
    assert (await reader.event_page("s")).events == ()
    assert await reader.grants("s") == ()
    assert [line.session_id for line in await reader.list_sessions()] == ["other"]
    assert await reader.receipt("message-1") == RECEIPTS[0]
    assert await reader.load("other") == other_session


async def test_a_deleted_session_may_begin_again(store: CheckpointStore) -> None:
    """Under the same id a new session starts empty, with its journal at 1."""
    await store.save(full_checkpoint(), events=EVENTS)
    await store.delete("s")
    saved = await store.save(Checkpoint.empty("s"), events=[EVENTS[0]])
    assert saved.first_event == 1
    assert await store.load("s") == Checkpoint.empty("s")


# -- leases


async def test_a_lease_is_needed_by_nobody_and_checked_for_those_who_bring_it(store: CheckpointStore) -> None:
    """A save without a lease goes by its sequence; with one it needs the newest generation."""
    await store.save(Checkpoint.empty("s"))
    first = await store.claim("s")
    await store.save(replace(Checkpoint.empty("s"), sequence=1), lease=first)
    await store.release(first)
    second = await store.claim("s")
    assert (second.session_id, second.generation) == ("s", first.generation + 1)
    with pytest.raises(StaleCheckpoint):
        await store.save(replace(Checkpoint.empty("s"), sequence=2), lease=first)
    await store.save(replace(Checkpoint.empty("s"), sequence=2), lease=second)
    await store.save(replace(Checkpoint.empty("s"), sequence=3))


async def test_a_released_lease_saves_nothing(store: CheckpointStore) -> None:
    """Who gave the session back cannot write it."""
    lease = await store.claim("s")
    await store.release(lease)
    with pytest.raises(StaleCheckpoint, match="given back"):
        await store.save(Checkpoint.empty("s"), lease=lease)
    assert await store.load("s") is None


async def test_a_session_may_be_claimed_before_its_first_save(store: CheckpointStore) -> None:
    """A claim alone makes no session: it is not loaded, listed or forked, and its first save is an ordinary one."""
    lease = await store.claim("new")
    assert await store.load("new") is None
    assert await store.head("new") is None
    assert await store.list_sessions() == ()
    checkpoint = full_checkpoint("new", sequence=0)
    saved = await store.save(checkpoint, lease=lease, events=[EVENTS[0]])
    assert saved.first_event == 1
    assert await store.load("new") == checkpoint


async def test_a_save_without_lease_may_be_the_first_of_a_claimed_session(store: CheckpointStore) -> None:
    """Tools save by sequence only, whatever is claimed."""
    await store.claim("new")
    await store.save(full_checkpoint("new"))
    assert await store.load("new") == full_checkpoint("new")


async def test_a_living_owner_is_named(open_store: OpenStore) -> None:
    """Two owners never hold a session at once; the second is told who has it, and gets it once it is given back."""
    one, other = await open_store(), await open_store()
    lease = await one.claim("s")
    with pytest.raises(StaleCheckpoint, match=f"process {os.getpid()} on host"):
        await other.claim("s")
    await one.release(lease)
    taken = await other.claim("s")
    assert taken.generation > lease.generation
    await one.release(lease)  # late, and without effect
    await other.save(Checkpoint.empty("s"), lease=taken)


async def test_an_owner_that_closed_its_store_holds_nothing(open_store: OpenStore) -> None:
    """Closing gives all sessions back."""
    one, other = await open_store(), await open_store()
    await one.claim("a")
    await one.claim("b")
    await one.aclose()
    await other.claim("a")
    await other.claim("b")


async def test_the_newer_claim_of_a_process_fences_the_older(store: CheckpointStore) -> None:
    """Within a process a session may be taken over; what the older holder saves is stale."""
    older, newer = await store.claim("s"), await store.claim("s")
    assert newer.generation == older.generation + 1
    with pytest.raises(StaleCheckpoint):
        await store.save(Checkpoint.empty("s"), lease=older)
    await store.release(older)
    await store.save(Checkpoint.empty("s"), lease=newer)


async def test_of_two_processes_that_claim_at_once_one_wins(open_store: OpenStore) -> None:
    """A session goes to exactly one process, however close the claims are."""
    one, other = await open_store(), await open_store()
    for number in range(10):
        results = await asyncio.gather(one.claim(f"s{number}"), other.claim(f"s{number}"), return_exceptions=True)
        lost = [result for result in results if isinstance(result, BaseException)]
        assert [type(error) for error in lost] == [StaleCheckpoint]


async def test_the_lease_of_a_deleted_session_saves_nothing(store: CheckpointStore) -> None:
    """An agent that outlived its session cannot bring it back."""
    lease = await store.claim("s")
    await store.save(Checkpoint.empty("s"), lease=lease)
    await store.delete("s")
    with pytest.raises(StaleCheckpoint):
        await store.save(replace(Checkpoint.empty("s"), sequence=1), lease=lease)
    assert await store.load("s") is None


# -- the end


async def test_a_closed_store_takes_nothing(store: CheckpointStore) -> None:
    """After `aclose` a save is refused, not lost silently; closing twice is no error."""
    await store.aclose()
    with pytest.raises(CheckpointError):
        await store.save(Checkpoint.empty("s"))
    await store.aclose()


async def test_saves_that_wait_at_the_end_are_kept(open_store: OpenStore) -> None:
    """Closing lets saves that were begun come to their commit."""
    one, other = await open_store(), await open_store()
    saves = [asyncio.ensure_future(one.save(full_checkpoint(f"s{number}"))) for number in range(10)]
    await asyncio.gather(*saves[:1])
    await asyncio.gather(*saves[1:], one.aclose(), return_exceptions=True)
    kept = [await other.load(f"s{number}") is not None for number in range(10)]
    assert kept == [not isinstance(save.exception(), BaseException) for save in saves]
    assert kept[0]
