"""S-07: bots do not talk to bots: what a bot says starts nothing, so two of them cannot keep each other going."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.contract import Inbound
from adapters.discord.channels import Channel
from adapters.discord.inbound import Event
from adapters.discord.inbound import read as read_discord
from adapters.discord.words import Me as DiscordMe
from adapters.slack.identity import Me as SlackMe
from adapters.slack.inbound import read as read_slack
from gateway.access import Policy
from tests.support.intake import OWNER, stage

SLACK = SlackMe(app="A1", team="T1", user="U0BOT", bot="B0BOT")
DISCORD = DiscordMe(id="900")
CHANNEL = Channel(id="10", kind="text")
ROUNDS = 40


def of_slack(number: int) -> Inbound:
    """Another app names us in Slack."""
    event = {
        "type": "app_mention", "channel": "C1", "ts": f"{number}.000100", "text": "<@U0BOT> go on", "user": "U9",
        "bot_id": "B9", "app_id": "A9",
    }  # fmt: skip
    return read_slack({"type": "event_callback", "team_id": "T1", "event_id": f"Ev{number}", "event": event}, SLACK)


def of_discord(number: int) -> Inbound:
    """Another bot names us in Discord."""
    author = {"id": "42", "username": "other", "bot": True}
    data = {"id": str(1000 + number), "channel_id": "10", "type": 0, "content": "<@900> go on", "author": author}
    return read_discord(
        Event(name="MESSAGE_CREATE", data=data, mark=f"s:{number}"), Channel(id="10", kind="text"), DISCORD
    )


def of_ourselves(number: int) -> Inbound:
    """Our own words come back from Discord."""
    author = {"id": "900", "username": "pilot", "bot": True}
    data = {"id": str(2000 + number), "channel_id": "10", "type": 0, "content": "<@900> go on", "author": author}
    return read_discord(
        Event(name="MESSAGE_CREATE", data=data, mark=f"o:{number}"), Channel(id="10", kind="text"), DISCORD
    )


@pytest.mark.parametrize("said", [of_slack, of_discord, of_ourselves])
async def test_a_bot_that_answers_everything_gets_no_answer(said: object, tmp_path: Path) -> None:
    """However often it speaks, and where everybody may talk: no turn, no word or mark of ours, one row of audit."""
    assert callable(said)
    policy = Policy(owners=frozenset({OWNER, "discord:42", "slack:T1:U9"}), dangerously_open=True)
    async with stage(tmp_path, policy) as s:
        for number in range(ROUNDS):
            inbound = said(number)
            assert isinstance(inbound, Inbound)
            # The stage has an adapter for one platform only, and would have nobody to answer through otherwise.
            place = replace(inbound.place, platform="telegram", account="bot")
            await s.intake(replace(inbound, place=place, ref=None))
        await s.settled()
        assert s.sessions.submitted == []
        assert await s.planned() == []
        assert len(await s.audit()) <= 1
