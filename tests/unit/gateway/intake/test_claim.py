"""The first owner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import InboundKind, Notice, SenderKind
from gateway.access import Access, Policy
from gateway.claim import TRIES, VALID_MS, Attempt, Claim
from gateway.intake import settle_claims
from gateway.ledger import people
from runtime.testing import FakeClock
from tests.support.intake import ANN_PRIVATE, EVE, GROUP, Numbers, Stage, person, stage

NOBODY = Policy()
EVES = replace(ANN_PRIVATE, chat=EVE)


def claiming(s: Stage) -> Claim:
    """Let nobody be an owner, and the gateway be claimed."""
    s.access = Access(NOBODY)
    s.claim = Claim(s.numbers.bytes, s.clock)
    return s.claim


async def test_who_sends_the_code_becomes_the_owner(tmp_path: Path) -> None:
    """The code in a private chat makes its sender the owner, at once and durably; the code reaches no session."""
    async with stage(tmp_path) as s:
        claim = claiming(s)
        await s.restart()
        code = s.message(f" {claim.code.lower()} ")
        await s.intake(code)
        assert s.access.policy.owners == {"telegram:42"}
        assert await people.claimed_owners(s.database) == {"telegram:42"}
        assert not claim.open
        await s.intake(code)
        await s.say("hello")
        assert s.sessions.texts() == ["hello"]
        assert [row[:2] for row in await s.audit()] == [("claimed", "telegram:42")]
        assert (await s.views())[0] == Notice(
            text="You are the owner now (telegram:42). Write to me in your own words, or /help.", notify=True
        )


async def test_code_behind_start(tmp_path: Path) -> None:
    """Telegram's links send the code behind /start."""
    async with stage(tmp_path) as s:
        claim = claiming(s)
        await s.restart()
        await s.say("", kind=InboundKind.COMMAND, command="start", arguments=claim.code)
        assert s.access.policy.owners == {"telegram:42"}


async def test_tries_are_in_the_log_and_codes_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever started the gateway reads why nothing happens: a wrong code, or something that is none."""
    caplog.set_level("INFO", "gateway.intake")
    async with stage(tmp_path) as s:
        claiming(s)
        await s.restart()
        for _ in range(2):
            await s.say("AAAA-AAAA", EVES, person(EVE, "Eve"))
        await s.say("AAAA-AAAA-AAAAB", EVES, person(EVE, "Eve"))
    assert [one.getMessage() for one in caplog.records if one.name == "gateway.intake"] == [
        f"telegram:{EVE} wrote something that is not a code; nobody owns this gateway yet",
        f"wrong code from telegram:{EVE}, {TRIES - 1} tries left",
    ]


async def test_nothing_else_is_answered(tmp_path: Path) -> None:
    """While there is no owner, nobody learns from outside that there is a code; only wrong codes are written down."""
    async with stage(tmp_path) as s:
        claiming(s)
        await s.restart()
        await s.say("hello", EVES, person(EVE, "Eve"))
        await s.say("AAAA-AAAA-AAAAB", EVES, person(EVE, "Eve"))
        assert await s.planned() == []
        assert [row[0] for row in await s.audit()] == ["claim_failed"]
        assert await s.outcomes() == []


async def test_five_wrong_codes_end_it(tmp_path: Path) -> None:
    """After five wrong codes the right one counts no more."""
    async with stage(tmp_path) as s:
        claim = claiming(s)
        await s.restart()
        for number in range(TRIES):
            await s.say(f"AAAA-AAAA-AAA{'ABCDE'[number]}Z", EVES, person(EVE, "Eve"))
        await s.say(claim.code)
        assert s.access.policy.owners == frozenset()


def attempt(claim: Claim, s: Stage, **fields: object) -> Attempt:
    """The code, sent in some way."""
    return claim.attempt(replace(s.message(claim.code), **fields))  # type: ignore[arg-type]


async def test_only_a_person_in_private(tmp_path: Path) -> None:
    """A group, a bot, a forward or an edit claims nothing, and costs no try."""
    async with stage(tmp_path) as s:
        claim = claiming(s)
        for fields in (
            {"chat_kind": "group", "place": GROUP},
            {"chat_kind": "channel"},
            {"sender": person(kind=SenderKind.BOT)},
            {"sender": person(kind=SenderKind.ANONYMOUS)},
            {"sender": person(kind=SenderKind.STRANGER)},
            {"forwarded": True},
            {"kind": InboundKind.EDIT},
            {"kind": InboundKind.PRESS},
            {"kind": InboundKind.COMMAND, "command": "new", "arguments": claim.code},
            {"text": "hello"},
            {"text": ""},
        ):
            assert attempt(claim, s, **fields) is Attempt.NONE, fields
        assert attempt(claim, s) is Attempt.RIGHT


def test_code_is_64_random_bits() -> None:
    """The code has 64 bits, in groups that people can type; another start makes another one."""
    clock = FakeClock()
    claim = Claim(lambda count: bytes(range(count)), clock)
    assert claim.code == "AAAQ-EAYE-AUDAO"
    assert claim.ends_at_ms - clock.now_ms() == VALID_MS
    numbers = Numbers()
    assert Claim(numbers.bytes, clock).code != Claim(numbers.bytes, clock).code


async def test_code_ends_after_a_quarter_of_an_hour(tmp_path: Path) -> None:
    """A code that is 15 minutes old makes nobody an owner; strangers are refused as ever from then on."""
    async with stage(tmp_path) as s:
        claim = claiming(s)
        await s.restart()
        s.clock.advance(15 * 60)
        await s.say(claim.code, EVES, person(EVE, "Eve"))
        assert s.access.policy.owners == frozenset()
        assert await s.told() == ["You are not allowed to use this bot here."]


async def test_claim_that_is_not_stored_counts_for_nothing(tmp_path: Path) -> None:
    """A second claim cannot overwrite the first: the store has the last word."""
    async with stage(tmp_path) as s:
        claim = claiming(s)
        await s.restart()
        await s.database.write([people.claim("telegram:1", "First", 0)])
        with pytest.raises(people.AlreadyClaimed):
            await s.intake(s.message(claim.code))
        assert s.access.policy.owners == frozenset()


async def test_claim_counts_until_the_configuration_names_an_owner(tmp_path: Path) -> None:
    """At start the owner by code counts while no owner is configured; once one is, the claim is gone for good."""
    async with stage(tmp_path) as s:
        await s.database.write([people.claim("telegram:42", "Ann", 0)])
        users = Policy(users=frozenset({"telegram:43"}))
        assert (await settle_claims(s.database, users, s.clock)).owners == {"telegram:42"}
        configured = Policy(owners=frozenset({"telegram:7"}))
        assert await settle_claims(s.database, configured, s.clock) == configured
        assert (await settle_claims(s.database, users, s.clock)).owners == frozenset()
        assert [row[0] for row in await s.audit()] == ["claim_ended"]
