"""S-37: nobody is mentioned by what an agent says, in every send and edit; only our own words name people, by id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.adapter_worlds import ANN, BEN, CHANNEL, SLACK_ANN
from tests.security.platform_views import shown_in_discord, shown_in_slack
from tests.security.telegram_views import covered, entities, shown

HOSTILE = [
    "@everyone @here @channel @all look",
    "ask @alice, @bob_the_builder and (@carol)!",
    "**@alice** _@bob_ ~~@carol~~ @al**ice** [@dave](https://x.example)",
    "[click](tg://user?id=43) ![x](tg://user?id=43) <a href='tg://user?id=43'>x</a>",
    "<!channel> <!here> <!subteam^S1> <@U123> <#C1> <@!43> <@&43>",
    "`@alice` and ```\n@bob\n``` | @carol |",
    "@\u200balice @alice",
]


@pytest.mark.xdist_group("aiogram")
@pytest.mark.parametrize("words", HOSTILE)
async def test_telegram_mentions_nobody_but_whom_we_name(words: str) -> None:
    """After the server has looked for mentions itself, there is none; approver and presser are named by their ids."""
    async with shown(words) as emulator:
        found = [(message, one) for message in emulator.messages(ANN) for one in entities(message)]
        assert [covered(message, one) for message, one in found if one["type"] == "mention"] == []
        assert {one["user"]["id"] for _, one in found if one["type"] == "text_mention"} == {ANN}
        links = [one["url"] for _, one in found if one["type"] == "text_link"]
        assert not [link for link in links if not link.startswith(("https://x.example", "https://t.me/PilotBot?form="))]


@pytest.mark.xdist_group("aiogram")
@pytest.mark.parametrize("words", HOSTILE)
async def test_telegram_text_never_has_a_parse_mode(words: str) -> None:
    """No request asks the server to interpret a text."""
    async with shown(words) as emulator:
        assert [call.method for call in emulator.calls() if "parse_mode" in call.params] == []


@pytest.mark.xdist_group("aiogram")
async def test_mentions_would_be_found() -> None:
    """The check above sees a mention if there is one: the server finds them by itself, as the real one does."""
    async with shown("x") as emulator:
        note = await emulator.say(ANN, "hello @alice")
        assert [one["type"] for one in entities(note)] == ["mention"]


MORE = "<@U0ANN|ann> <!subteam^S1|@all> <!date^1^x|y> <@1100000000000000042> <@&1100000000000000001>"
EVERYTHING = " ".join([*HOSTILE, MORE])
CALLS_SOMEBODY = ("user", "usergroup", "channel", "broadcast")


def objects_in(given: Any) -> Iterator[dict[str, Any]]:
    """Every object within the parameters of a call."""
    if isinstance(given, dict):
        yield given
    for one in given.values() if isinstance(given, dict) else given if isinstance(given, list) else ():
        yield from objects_in(one)


@pytest.mark.xdist_group("bolt")
async def test_slack_mentions_nobody_but_whom_we_name() -> None:
    """Signs of mentions are escaped in every field that is read as markup, and blocks name only our approver."""
    async with shown_in_slack(EVERYTHING) as world:
        calls = [dict(call.params) for call in world.emulator.calls()]
        assert len(calls) > 30
        marked = [str(one.get(name, "")) for one in calls for name in ("text", "initial_comment")]
        marked += [str(chunk.get("text", "")) for one in calls for chunk in one.get("chunks") or []]
        assert [text for text in marked if "<!" in text or "<@" in text or "<#" in text] == []
        parts = [part for one in calls for part in objects_in([one.get("blocks"), one.get("view")])]
        assert [part for part in parts if part.get("type") == "mrkdwn"] == []
        named = [part for part in parts if part.get("type") in CALLS_SOMEBODY]
        assert {(part["type"], part.get("user_id")) for part in named} == {("user", SLACK_ANN)}


@pytest.mark.xdist_group("discord")
async def test_discord_mentions_nobody_but_whom_we_name() -> None:
    """No call leaves it to Discord whom to mention, and nobody was but our approver."""
    async with shown_in_discord(EVERYTHING) as world:
        calls = world.emulator.calls("create_message", "update_message")
        assert len(calls) > 20
        assert [call.params for call in calls if call.params["allowed_mentions"]["parse"] != []] == []
        seen = [one for chat in (world.thread, CHANNEL) for one in world.emulator.messages(chat)]
        ours = [one for one in seen if one["author"]["id"] != BEN]
        assert not any(one["mention_everyone"] or one["mention_roles"] for one in ours)
        assert {user["id"] for one in ours for user in one["mentions"]} == {BEN}
        answers = [call.params["data"] for call in world.emulator.calls("create_interaction_response")]
        assert [one for one in answers if one.get("allowed_mentions", {"parse": []}) != {"parse": []}] == []
