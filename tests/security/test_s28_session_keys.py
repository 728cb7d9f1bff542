"""S-28: places do not collide, and none falls through to a shared session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.contract import InboundKind, Place
from gateway.access import Policy, is_whole
from gateway.ledger.places import key
from gateway.places import place_for
from tests.support.intake import ANN_PRIVATE, BOB, GROUP, person, stage, words

IDS = st.text(alphabet=":/|%\0ab-1", min_size=1, max_size=4)
PLACES = st.builds(Place, platform=IDS, account=IDS, chat=IDS, thread=st.none() | IDS)


@given(places=st.lists(PLACES, min_size=2, max_size=6, unique=True))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_distinct_places_have_distinct_sessions(
    places: list[Place], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever ids are made of, two places never share a session, and one place keeps its own."""
    async with stage(tmp_path_factory.mktemp("x"), Policy(dangerously_open=True)) as s:
        for _ in range(2):
            for number, place in enumerate(places):
                await s.intake(s.message(f"from {number}", place, person(tenant="t"), chat_kind="private"))
                await s.settled()
        bound = await s.rows("SELECT session_id FROM places")
        assert len({row[0] for row in bound}) == len(places)
        spoken = {(op.text, where) for where, op, _ in s.sessions.submitted}
        assert len(spoken) == len(places)


@given(PLACES, PLACES)
def test_equal_keys_mean_equal_places(one: Place, other: Place) -> None:
    """The key of a place loses nothing of it."""
    assert (key(one) == key(other)) == (one == other)


MISSING = [{"chat": ""}, {"account": ""}, {"platform": ""}, {"thread": ""}, {"person": ""}]


@pytest.mark.parametrize("missing", MISSING)
async def test_missing_part_is_an_error(missing: dict[str, str], tmp_path: Path) -> None:
    """A place without one of its parts has no session, and none that is shared by accident."""
    place = replace(ANN_PRIVATE, **missing)
    assert not is_whole(place)
    with pytest.raises(ValueError, match="missing"):
        key(place)
    async with stage(tmp_path, Policy(dangerously_open=True)) as s:
        await s.intake(s.message("hi", place))
        await s.settled()
        assert await s.bound() == {}


async def test_threads_of_a_chat_do_not_mix(tmp_path: Path) -> None:
    """Two topics of a group, the group itself, and the same topic number of another group are four sessions."""
    async with stage(tmp_path) as s:
        four = (GROUP, replace(GROUP, thread="1"), replace(GROUP, thread="2"), replace(GROUP, chat="-200", thread="1"))
        for place in four:
            await s.say("@bot hi", place)
        assert len(set((await s.bound()).values())) == 4


@pytest.mark.parametrize("kind", InboundKind)
def test_one_key_function_for_every_kind(kind: InboundKind) -> None:
    """Which session something goes to depends on place, scope and sender, and on nothing else of it."""
    bob = person(BOB, "Bob")
    assert place_for(words(kind=kind, place=GROUP), "shared") == GROUP
    assert place_for(words(kind=kind, place=GROUP, sender=bob), "per_person") == replace(GROUP, person=BOB)
    assert place_for(words(kind=kind, place=replace(GROUP, person="someone")), "shared") == GROUP


async def test_restart_keeps_every_session(tmp_path: Path) -> None:
    """The map from places to sessions is on disk."""
    async with stage(tmp_path) as s:
        await s.say("one")
        before = await s.bound()
        await s.restart()
        await s.say("two")
        assert await s.bound() == before
        assert {where for where, _, _ in s.sessions.submitted} == set(before.values())
