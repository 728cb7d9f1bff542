"""S-01 and S-04 at the edge: what each platform sends names the right kind of sender, which the door decides by."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from adapters.contract import Inbound, SenderKind
from adapters.discord.channels import Channel
from adapters.discord.inbound import Event
from adapters.discord.inbound import read as read_discord
from adapters.discord.words import Me as DiscordMe
from adapters.slack.identity import Me as SlackMe
from adapters.slack.inbound import read as read_slack
from gateway.access import Authorized, Policy, authorize

SLACK = SlackMe(app="A1", team="T1", user="U0BOT", bot="B0BOT")
DISCORD = DiscordMe(id="900")
LISTED = Policy(owners=frozenset({"slack:T1:U1", "discord:42"}), dangerously_open=True)

# Each row: what is different from a word of the owner's, and who has said it then.
SLACK_SENDERS: dict[str, tuple[dict[str, Any], SenderKind]] = {
    "owner": ({}, SenderKind.PERSON),
    "bot under the owner's id": ({"bot_id": "B1"}, SenderKind.BOT),
    "app that posts as the owner": ({"bot_profile": {"id": "B1", "name": "x"}}, SenderKind.BOT),
    "ourselves": ({"user": "U0BOT"}, SenderKind.BOT),
    "Slack itself": ({"user": "USLACKBOT"}, SenderKind.SYSTEM),
    "nobody": ({"user": ""}, SenderKind.SYSTEM),
    "same id of another team": ({"user_team": "T2"}, SenderKind.STRANGER),
    "another team's through a shared channel": ({"source_team": "T2"}, SenderKind.STRANGER),
    "another team's, told by the message": ({"team": "T2"}, SenderKind.STRANGER),
}
SLACK_WEBHOOK = {"subtype": "bot_message", "bot_id": "B1", "user": None, "username": "Ann"}

DISCORD_SENDERS: dict[str, tuple[dict[str, Any], SenderKind]] = {
    "owner": ({}, SenderKind.PERSON),
    "webhook with the owner's name and id": ({"webhook_id": "42"}, SenderKind.BOT),
    "webhook of an application": ({"webhook_id": "42", "application_id": "42"}, SenderKind.BOT),
    "bot": ({"author": {"id": "42", "username": "ann", "bot": True}}, SenderKind.BOT),
    "system": ({"author": {"id": "42", "username": "ann", "system": True}}, SenderKind.SYSTEM),
    "nobody": ({"author": {}}, SenderKind.SYSTEM),
    "id that is none": ({"author": {"id": "@ann", "username": "ann"}}, SenderKind.SYSTEM),
}


def slack_event(kind: str, different: dict[str, Any]) -> Inbound:
    said = {"type": "message", "channel": "D1", "channel_type": "im", "ts": "1.000100", "text": "run", "user": "U1"}
    said |= different
    event = {
        "message": said,
        "app_mention": said | {"type": "app_mention"},
        "edit": {"type": "message", "subtype": "message_changed", "channel": "D1", "message": said, "ts": "2.0",
                 "previous_message": {**said, "text": "x"}},
    }[kind]  # fmt: skip
    return read_slack({"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event}, SLACK)


def discord_event(kind: str, different: dict[str, Any]) -> Inbound:
    author = {"id": "42", "username": "ann"}
    said = {"id": "77", "channel_id": "10", "type": 0, "content": "run", "author": author, **different}
    if kind == "MESSAGE_UPDATE":
        said["edited_timestamp"] = "2026-11-30T20:00:00.000000+00:00"
    return read_discord(Event(name=kind, data=said, mark="s:1"), Channel(id="10", kind="dm"), DISCORD)


def is_let_in(inbound: Inbound) -> bool:
    return isinstance(authorize(LISTED, inbound), Authorized)


@pytest.mark.parametrize(("kind", "who"), [*product(("message", "app_mention", "edit"), SLACK_SENDERS)])
def test_slack_tells_who_has_spoken(kind: str, who: str) -> None:
    """Whatever kind of event brings the words, only a person of our team is a person, and gets in."""
    different, expected = SLACK_SENDERS[who]
    inbound = slack_event(kind, different)
    assert inbound.sender.kind is expected
    assert is_let_in(inbound) is (expected is SenderKind.PERSON)


def test_slack_webhook_is_a_bot() -> None:
    """An incoming webhook with a listed person's name is a bot."""
    inbound = slack_event("message", SLACK_WEBHOOK)
    assert inbound.sender.kind is SenderKind.BOT
    assert not is_let_in(inbound)


@pytest.mark.parametrize("kind", ["block_actions", "view_submission", "command"])
@pytest.mark.parametrize("team", ["T1", "T2", ""])
def test_slack_press_form_and_command_belong_to_a_team(kind: str, team: str) -> None:
    """A press, a form or a command of somebody with the owner's id in another team is a stranger's."""
    user = {"id": "U1", "name": "ann", "team_id": team}
    body = {"type": kind, "api_app_id": "A1", "team": {"id": "T2"}, "user": user, "trigger_id": "1.2"}
    if kind == "command":
        body = {"command": "/pilothouse", "text": "stop", "team_id": team, "user_id": "U1", "channel_id": "D1"}
    inbound = read_slack(body, SLACK)
    expected = SenderKind.PERSON if team == "T1" else SenderKind.STRANGER
    assert inbound.sender.kind is (expected if team or kind != "command" else SenderKind.STRANGER)


@pytest.mark.parametrize(("kind", "who"), [*product(("MESSAGE_CREATE", "MESSAGE_UPDATE"), DISCORD_SENDERS)])
def test_discord_tells_who_has_spoken(kind: str, who: str) -> None:
    """Whichever event brings the words, only a person is a person, and gets in."""
    different, expected = DISCORD_SENDERS[who]
    inbound = discord_event(kind, different)
    assert inbound.sender.kind is expected
    assert is_let_in(inbound) is (expected is SenderKind.PERSON)
