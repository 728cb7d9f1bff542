"""S-29: knowing an id opens nothing; what is not yours and what is not there get the same answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Place
from gateway.access import Policy
from gateway.commands import TABLE
from runtime.protocol.approvals import Grant
from tests.support.intake import ANN_PRIVATE, BOB, GROUP, Stage, person, stage

BOBS = replace(ANN_PRIVATE, chat=BOB)
BOB_SPEAKS = person(BOB, "Bob")
BOTH = Policy(owners=frozenset({"telegram:42", f"telegram:{BOB}"}))
REQUEST, GRANT = "aaaa11112222", "bbbb11112222"

# What each command is given to name something of Ann's; None: it names nothing by an id.
NAMING: dict[str, str | None] = {
    "start": None,
    "help": None,
    "new": None,
    "stop": None,
    "status": None,
    "queue": None,
    "steer": None,
    "retry": None,
    "approve": REQUEST,
    "deny": REQUEST,
    "grants": f"revoke {GRANT}",
    "model": None,
    "workspace": None,
    "loop": None,
    "cron": None,  # numbers of schedules: who may see which is tested with the schedules
    "compact": None,
    "usage": None,
    "whoami": None,
}


def test_every_command_is_decided_on() -> None:
    """A new command needs a row here: does it name anything by an id?"""
    assert set(NAMING) == set(TABLE)


async def of_ann(s: Stage) -> str:
    """Ann's session, with a request and a grant."""
    await s.say("secret plan")
    session = await s.session_of()
    s.sessions.ask(session, REQUEST)
    s.sessions.stored_grants[session] = [
        Grant(
            id=GRANT,
            session_id=session,
            digest="d",
            tool="shell",
            summary="secret tool",
            granted_by=None,
            granted_at_ms=0,
            expires_at_ms=s.clock.now_ms() + 1000,
        )
    ]
    return session


@pytest.mark.parametrize("name", [name for name, argument in NAMING.items() if argument])
async def test_ids_of_others_are_not_found(name: str, tmp_path: Path) -> None:
    """With Ann's ids Bob gets, word for word, what he gets with ids that nobody has."""
    async with stage(tmp_path, BOTH) as s:
        session = await of_ann(s)
        await s.say("hi", BOBS, BOB_SPEAKS)
        submitted = len(s.sessions.submitted)
        known = NAMING[name] or ""
        await s.say(f"/{name} {known}", BOBS, BOB_SPEAKS)
        await s.say(f"/{name} {known.replace('1111', '9999')}", BOBS, BOB_SPEAKS)
        theirs, nobodys = (await s.told())[-2:]
        assert theirs == nobodys
        assert len(s.sessions.submitted) == submitted
        assert s.sessions.session(session).approval is not None


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("place", [BOBS, GROUP], ids=["own chat", "group"])
async def test_lists_show_only_what_is_here(name: str, place: Place, tmp_path: Path) -> None:
    """No command shows anything of another chat."""
    async with stage(tmp_path, BOTH) as s:
        session = await of_ann(s)
        await s.say("hi", place, BOB_SPEAKS)
        before = len(await s.told())
        await s.say(f"/{name}", place, BOB_SPEAKS)
        said = "\n".join((await s.told())[before:])
        for secret in ("secret", REQUEST[:6], GRANT[:6], session):
            assert secret not in said.replace(await s.session_of(place), "")
        assert s.sessions.session(session).turn is not None


async def test_own_session_of_a_person_in_a_group(tmp_path: Path) -> None:
    """With a session for each person, Bob's commands reach his own, never Ann's in the same group."""
    async with stage(tmp_path, BOTH) as s:
        s.fields = {"scope": "per_person"}
        await s.say("mine", GROUP)
        await s.say("his", GROUP, BOB_SPEAKS)
        ann, bob = (await s.bound()).values()
        await s.say("/queue later", GROUP)
        await s.say("/queue", GROUP, BOB_SPEAKS)
        assert (await s.told())[-1] == "Nothing is waiting."
        await s.say("/stop", GROUP, BOB_SPEAKS)
        assert s.sessions.session(ann).turn is not None
        assert s.sessions.session(bob).turn is None
