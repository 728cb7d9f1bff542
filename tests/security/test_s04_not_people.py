"""S-04: senders that are not people, forwarded words, and edits."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.contract import Inbound, InboundKind, SenderKind
from gateway.access import MANY_PEOPLE, NO_RIGHTS, SPEAKERS, Policy, Right
from tests.support.intake import EVE, GROUP, OWNER, Stage, person, stage

SENDERS = {
    "anonymous administrator": person("1087968824", "Group", kind=SenderKind.ANONYMOUS),
    "channel post": person("777000", "Channel", kind=SenderKind.CHANNEL),
    "channel identity": person("136817688", "Channel", kind=SenderKind.CHANNEL),
    "bot": person("9", "Bot", kind=SenderKind.BOT),
    "webhook": person("10", "Hook", kind=SenderKind.BOT),
    "system": person("11", "Discord", kind=SenderKind.SYSTEM),
    "bot with an owner's id": person("42", "Ann", kind=SenderKind.BOT),
}


def test_every_kind_of_sender_is_decided_on() -> None:
    """Each kind that may not speak has an example above."""
    assert {sender.kind for sender in SENDERS.values()} == {kind for kind in SenderKind if not SPEAKERS[kind]}


@pytest.mark.parametrize("who", SENDERS)
async def test_no_effect(who: str, tmp_path: Path) -> None:
    """None of them starts, steers or decides anything, also where everybody may talk."""
    async with stage(tmp_path, Policy(owners=frozenset({OWNER}), dangerously_open=True)) as s:
        await s.say("hi", GROUP, SENDERS[who])
        assert s.sessions.submitted == []
        assert await s.outcomes() == []


@pytest.mark.parametrize("principal", sorted(MANY_PEOPLE))
def test_accounts_of_many_are_nobody_even_if_listed(principal: str) -> None:
    """An id that many people share gives no right, in whatever list it stands and however open we are."""
    everywhere = frozenset({principal})
    policy = Policy(users=everywhere, approvers=everywhere, owners=everywhere, dangerously_open=True)
    assert policy.rights(principal) == NO_RIGHTS
    assert not any(policy.can(principal, right) for right in Right)


@pytest.mark.parametrize("text", ["/approve aaaa", "/stop", "/new", "/cron add x", "/workspace site"])
@pytest.mark.parametrize("kind", [InboundKind.MESSAGE, InboundKind.COMMAND])
async def test_forwarded_words_are_data(text: str, kind: InboundKind, tmp_path: Path) -> None:
    """What an owner forwards is quoted, never obeyed."""
    async with stage(tmp_path) as s:
        await s.say("go")
        session = await s.session_of()
        s.sessions.ask(session, "aaaa1111")
        fields = {"command": text.split()[0][1:], "arguments": "aaaa"} if kind is InboundKind.COMMAND else {}
        await s.say(text, forwarded=True, kind=kind, **fields)
        assert s.sessions.executed == []
        assert await s.session_of() == session
        assert s.sessions.session(session).turn is not None
        message = s.sessions.messages()[-1]
        assert text not in message.text
        assert [quote.text for quote in message.quoted] == [text]


async def edited(s: Stage, original: Inbound, text: str) -> None:
    """The words are edited."""
    await s.say(text, kind=InboundKind.EDIT, ref=original.ref)


async def test_edits_start_and_steer_nothing(tmp_path: Path) -> None:
    """Editing old words into a command or a wish starts no turn, steers none and decides nothing."""
    async with stage(tmp_path) as s:
        original = await s.say("hello")
        session = await s.session_of()
        s.sessions.ask(session, "aaaa1111")
        for text in ("/run rm", "/approve aaaa", "/new", "do something else"):
            await edited(s, original, text)
        assert s.sessions.texts() == ["hello"]
        assert s.sessions.executed == []
        assert await s.session_of() == session
        s.sessions.finish(session)
        await edited(s, original, "again")
        assert s.sessions.session(session).turn is None


async def test_edit_by_somebody_else_changes_nothing(tmp_path: Path) -> None:
    """Nobody edits what another person has said, not even a listed one."""
    policy = Policy(owners=frozenset({OWNER}), users=frozenset({f"telegram:{EVE}"}))
    async with stage(tmp_path, policy) as s:
        await s.say("go", GROUP)
        waiting = await s.say("mine", GROUP)
        await s.say("theirs", GROUP, person(EVE, "Eve"), kind=InboundKind.EDIT, ref=waiting.ref)
        await s.say("", GROUP, person(EVE, "Eve"), kind=InboundKind.DELETE, ref=waiting.ref)
        [queued] = s.sessions.session(await s.session_of(GROUP)).queue
        assert queued.text == "mine"
