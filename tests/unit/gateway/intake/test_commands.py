"""Every command: what it says, and what it does to the session."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Capabilities, InboundKind, Notice
from gateway.access import OWNER_RIGHTS, Policy
from gateway.commands import TABLE, Parsed, parse
from gateway.strings import TEXTS
from runtime.protocol import ops
from runtime.protocol.approvals import Approve, Deny, Grant
from runtime.protocol.session import Delivery
from tests.support.intake import ANN_PRIVATE, BOB, GROUP, OWNER, ROOT, Stage, person, stage

FIRST, SECOND = "aaaa11112222", "aaaa33334444"


async def ops_of(s: Stage, kind: type) -> list[ops.Op]:
    """What was submitted of a kind."""
    return [op for _, op, _ in s.sessions.submitted if isinstance(op, kind)]


PARSED = [
    ("/new", Parsed(name="new")),
    ("/new@some_bot", None),
    ("/Deny abcd too risky", Parsed(name="deny", rest="abcd too risky")),
    ("/queue first line\nsecond", Parsed(name="queue", rest="first line\nsecond")),
    ("/queue\nsecond", Parsed(name="queue", rest="second")),
    ("hello /new", None),
    ("/", None),
    ("/ new", None),
    ("//x", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "expected"), PARSED)
async def test_commands_as_text(text: str, expected: Parsed | None, tmp_path: Path) -> None:
    """A command stands at the beginning; a bot's name behind it and capitals do not matter."""
    async with stage(tmp_path) as s:
        assert parse(s.message(text)) == expected


async def test_command_of_the_platform(tmp_path: Path) -> None:
    """The platform's own commands mean the same; forwarded words are no command, whatever the adapter took them for."""
    async with stage(tmp_path) as s:
        native = s.message("", kind=InboundKind.COMMAND, command="deny", arguments=" abcd no ")
        assert parse(native) == Parsed(name="deny", rest="abcd no")
        assert parse(replace(native, forwarded=True)) is None


def test_every_command_is_explained() -> None:
    """/help has a line for every command that it shows."""
    assert {f"help.{name}" for name, command in TABLE.items() if command.usage} <= set(TEXTS)
    assert {command.right for command in TABLE.values()} <= OWNER_RIGHTS


async def test_help_shows_what_one_may_use(tmp_path: Path) -> None:
    """A person sees the commands that he may use, and no others."""
    async with stage(tmp_path) as s:
        await s.say("/help")
        await s.say("/start", replace(ANN_PRIVATE, chat="43"), person(BOB, "Bob"))
        owner, user = await s.told()
        assert "/approve id" in owner
        assert "/status" in user
        assert "/approve" not in user
        assert all(f"{mark} " in user.splitlines()[-1] for mark in "👀👌✍")


async def test_unknown_command_is_text(tmp_path: Path) -> None:
    """A command that nobody knows goes to the agent as it was typed; with strict commands it is refused."""
    async with stage(tmp_path) as s:
        await s.say("/etc is a folder")
        await s.say("", kind=InboundKind.COMMAND, command="weather", arguments="Oslo")
        assert s.sessions.texts() == ["/etc is a folder", "/weather Oslo"]
        s.strict = True
        await s.say("/weather Oslo")
        assert await s.told() == ["There is no command /weather. /help lists those there are."]


async def test_whoami(tmp_path: Path) -> None:
    """A person learns the names under which the configuration knows him and the place."""
    async with stage(tmp_path) as s:
        await s.say("/whoami", replace(GROUP, thread="7"))
        assert await s.told() == [
            "You are telegram:42\nRights: admin, approve, command, steer, stop, talk\n"
            "Place: telegram, chat -100, thread 7"
        ]


async def test_queue_and_steer(tmp_path: Path) -> None:
    """/queue and /steer force one way; without words they list, or say what is missing."""
    async with stage(tmp_path) as s:
        await s.say("/queue")
        await s.say("one")
        await s.say("/queue two")
        await s.say("/steer three")
        await s.say("/queue")
        await s.say("/steer")
        assert [message.delivery for message in s.sessions.messages()] == [None, Delivery.QUEUE, Delivery.STEER]
        told = await s.told()
        assert told[0] == "Nothing is waiting."
        assert told[-2:] == ["#1 Ann: two\n#2 Ann: three", "Write what the agent should know: /steer text"]


async def test_stop_ends_the_turn_that_runs(tmp_path: Path) -> None:
    """/stop interrupts exactly the turn that runs; with none it says so."""
    async with stage(tmp_path) as s:
        await s.say("/stop")
        await s.say("one")
        session = await s.session_of()
        turn = s.sessions.session(session).turn.turn_id
        await s.say("/stop")
        assert await ops_of(s, ops.Interrupt) == [ops.Interrupt(turn_id=turn, by=OWNER)]
        assert (await s.told(), await s.marks()) == (["Nothing is running."], ["accepted"])
        s.adapter.capabilities = Capabilities(reactions=False)
        await s.say("two")
        await s.say("/stop")
        assert await s.told() == ["Nothing is running.", "Stopping…"]


async def test_native_stop(tmp_path: Path) -> None:
    """The platform's own stop does the same, but never to a turn that began after it was pressed."""
    async with stage(tmp_path) as s:
        await s.say("one")
        pressed_before = s.clock.now_ms() - 5000
        await s.say("", kind=InboundKind.STOP, sent_at_ms=pressed_before)
        assert s.sessions.session(await s.session_of()).turn is not None
        await s.say("", kind=InboundKind.STOP)
        assert s.sessions.session(await s.session_of()).turn is None
        assert (await s.outcomes())[1:] == ["later_turn", "stopping"]


async def test_status(tmp_path: Path) -> None:
    """/status shows session, both labels, phase, queue, requests, what may not have arrived, model and usage."""
    async with stage(tmp_path) as s:
        await s.say("one")
        session = await s.session_of()
        s.sessions.ask(session, FIRST)
        await s.say("two")
        await s.database.write(
            s.desk.plan(_item(), Notice(text="lost"), "lost")  # a message of ours whose fate nobody knows
        )
        await s.store.database.write([_unknown()])
        await s.say("/status")
        assert (await s.told())[-1].split("\n") == [
            f"Session: {session}",
            "Workspace: Notes",
            "From: telegram",
            "Now: waiting for approval",
            "#1 Ann: two",
            "Waits for approval: aaaa11 (write_file)",
            "It is not known whether a message of mine of 08:00 UTC arrived.",
            "Model: demo",
            "Turns: 0, of them 0 failed and 0 stopped. Tool calls: 0",
            "Tokens: 0 in, 0 out. Cost: $0.00",
        ]


def _item():  # type: ignore[no-untyped-def]
    from gateway.handling import Item
    from gateway.ledger.inbound import InboundRow
    from tests.unit.gateway.intake.test_gathering import row

    made = row(99, place=ANN_PRIVATE)
    assert isinstance(made, InboundRow)
    return Item(rows=(made,), rights=frozenset())


def _unknown():  # type: ignore[no-untyped-def]
    from runtime.store.writer import Statement

    return Statement("UPDATE deliveries SET state = 'unknown' WHERE surface = 'lost'")


async def test_status_before_anything_was_said(tmp_path: Path) -> None:
    """/status works in a place without a session, and says when everybody may talk."""
    async with stage(tmp_path, Policy(owners=frozenset({OWNER}), dangerously_open=True)) as s:
        await s.say("/status")
        assert (await s.told())[-1].split("\n") == [
            "No conversation has begun here yet.",
            "Workspace: Notes",
            "From: telegram",
            "Nothing is running and nothing waits.",
            "⚠ Everybody may talk to me here (dangerously_open).",
        ]


async def test_new_begins_another_session(tmp_path: Path) -> None:
    """/new binds a new session in one commit, ends the old one in a second, and words go to the new one."""
    async with stage(tmp_path) as s:
        await s.say("one")
        old = await s.session_of()
        await s.say("/new")
        new = await s.session_of()
        await s.say("two")
        assert new != old
        assert s.sessions.session(old).retiring
        assert [where for where, op, _ in s.sessions.submitted if isinstance(op, ops.Message)] == [old, new]
        assert await s.rows("SELECT session_id, state FROM place_sessions ORDER BY generation") == [
            (old, "retired"),
            (new, "active"),
        ]
        assert [row[0] for row in await s.audit()] == ["session_renewed"]
        assert (await s.told())[-1] == "A new conversation begins here. Workspace: Notes"


async def test_workspace(tmp_path: Path) -> None:
    """/workspace says which there are; an owner begins a new conversation in another one, nobody else does."""
    async with stage(tmp_path) as s:
        await s.say("one")
        await s.say("/workspace")
        await s.say("/workspace site", sender=person(BOB, "Bob"))
        await s.say("/workspace nowhere")
        await s.say("/workspace site")
        assert await s.told() == [
            "Workspace: Notes. There are: notes, site",
            "You may not use /workspace.",
            "There is no workspace nowhere.",
            "A new conversation begins here. Workspace: Site",
        ]
        opening = await s.places.opening(await s.session_of())
        assert opening is not None
        assert (opening.context.workspace_id, opening.binding.workspace.id) == ("site", "site")


async def test_approve_and_deny_by_short_id(tmp_path: Path) -> None:
    """A typed decision names its request by the beginning of its id; a denial may say why."""
    async with stage(tmp_path) as s:
        await s.say("one")
        session = await s.session_of()
        s.sessions.ask(session, FIRST)
        await s.card(session_id=session, request_id=FIRST)
        await s.say("/approve AAAA11")
        s.sessions.ask(session, SECOND)
        await s.say("/deny aaaa33 too risky")
        assert await ops_of(s, ops.ResolveApproval) == [
            ops.ResolveApproval(request_id=FIRST, decision=Approve(), decided_by=OWNER),
            ops.ResolveApproval(request_id=SECOND, decision=Deny("too risky"), decided_by=OWNER),
        ]
        assert await s.told() == ["Approved.", "Denied."]
        assert [row[:2] for row in await s.audit("typed")] == [("typed", OWNER)] * 2


async def test_retry_asks_again(tmp_path: Path) -> None:
    """/retry submits the last words once more, when nothing runs."""
    async with stage(tmp_path) as s:
        await s.say("/retry")
        await s.say("one")
        await s.say("/retry")
        s.sessions.finish(await s.session_of())
        await s.say("/retry")
        assert s.sessions.texts() == ["one", "one"]
        assert await s.told() == ["There is nothing to ask again.", "A turn is running already."]


async def test_model(tmp_path: Path) -> None:
    """/model shows the models there are, and changes to one of them."""
    async with stage(tmp_path) as s:
        await s.say("/model big")
        await s.say("one")
        await s.say("/model")
        await s.say("/model huge")
        await s.say("/model big")
        assert await ops_of(s, ops.SetModel) == [ops.SetModel(route="big")]
        assert await s.told() == [
            "No conversation has begun here yet.",
            "Model: demo. There are: demo, big",
            "There is no model huge. There are: demo, big",
            "Model: big, from now on.",
        ]


async def test_grants(tmp_path: Path) -> None:
    """/grants lists what lives, and takes one back; those that are over or not here are not there."""
    async with stage(tmp_path) as s:
        await s.say("one")
        now = s.clock.now_ms()
        fields = {"session_id": "s", "digest": "d", "tool": "shell", "granted_by": OWNER, "granted_at_ms": 0}
        s.sessions.stored_grants[await s.session_of()] = [
            Grant(id="bbbb1111", summary="pytest -q", expires_at_ms=now + 1, **fields),
            Grant(id="cccc1111", summary="over", expires_at_ms=now, **fields),
        ]
        await s.say("/grants")
        await s.say("/grants revoke cccc")
        await s.say("/grants revoke bbbb", sender=person(BOB, "Bob"))
        await s.say("/grants revoke bbbb")
        assert await s.told() == [
            "May run without asking:\nbbbb11 pytest -q, until 2027-01-15",
            "There is no such grant here.",
            "You may not use /grants revoke.",
            "Taken back. It will be asked for again.",
        ]
        assert await ops_of(s, ops.RevokeGrant) == [ops.RevokeGrant(grant_id="bbbb1111")]


async def test_usage(tmp_path: Path) -> None:
    """/usage counts turns and tokens, once there is a conversation."""
    async with stage(tmp_path) as s:
        await s.say("/usage")
        await s.say("one")
        await s.say("/usage")
        told = await s.told()
        assert told[0] == "No conversation has begun here yet."
        assert told[1].startswith("Turns: 0")


async def test_command_is_acknowledged_to_a_platform_that_waits(tmp_path: Path) -> None:
    """A native command that has to be acknowledged is, once, without content: the reply is a message."""
    async with stage(tmp_path) as s:
        await s.say("", kind=InboundKind.COMMAND, command="whoami", handle="h")
        await s.until(lambda: s.adapter.acknowledged)
        assert s.adapter.answers() == [None]


async def test_replies_in_groups_point_at_their_command(tmp_path: Path) -> None:
    """In a group a reply shows what it answers."""
    async with stage(tmp_path) as s:
        said = await s.say("/usage", GROUP)
        [view] = await s.views()
        assert isinstance(view, Notice)
        assert view.reply_to == said.ref


async def test_redelivered_command_does_nothing(tmp_path: Path) -> None:
    """The platform sends /new again: one new session."""
    async with stage(tmp_path) as s:
        await s.say("one")
        again = await s.say("/new")
        bound = await s.bound()
        await s.intake(again)
        await s.settled()
        assert await s.bound() == bound
        assert len(await s.outcomes()) == 2


async def test_compact_holds_up_nothing(tmp_path: Path) -> None:
    """/compact takes as long as a model does; a stop that is sent meanwhile does not wait for it."""
    async with stage(tmp_path) as s:
        await s.say("/compact")
        await s.say("one")
        s.sessions.hold = asyncio.Event()
        await s.intake(s.message("/compact"))
        await s.until(lambda: s.sessions.waiting)
        hold, s.sessions.hold = s.sessions.hold, None
        await s.intake(s.message("/stop"))
        await s.until(lambda: s.router.held == 1)
        while not await s.marks():
            await asyncio.sleep(0)
        hold.set()
        await s.settled()
        assert await ops_of(s, ops.Compact) == [ops.Compact()]
        assert await s.told() == [
            "No conversation has begun here yet.",
            "The conversation so far is summarised.",
        ]


def test_every_command_is_documented() -> None:
    """docs/commands.md has a line for each command, with its usage and its right, and for no other."""
    text = (ROOT / "docs" / "commands.md").read_text()
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| `/")]
    documented = {cells[0].strip("| `"): cells[1] for cells in lines}
    assert documented == {command.usage or f"/{name}": command.right.value for name, command in TABLE.items()}
