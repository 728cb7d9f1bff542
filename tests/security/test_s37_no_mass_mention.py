"""S-37: nobody is mentioned by what an agent says, in every send and edit; only our own words name people, by id."""

from __future__ import annotations

import pytest

from tests.contract.adapter_worlds import ANN
from tests.security.telegram_views import covered, entities, shown

pytestmark = pytest.mark.xdist_group("aiogram")

HOSTILE = [
    "@everyone @here @channel @all look",
    "ask @alice, @bob_the_builder and (@carol)!",
    "**@alice** _@bob_ ~~@carol~~ @al**ice** [@dave](https://x.example)",
    "[click](tg://user?id=43) ![x](tg://user?id=43) <a href='tg://user?id=43'>x</a>",
    "<!channel> <!here> <!subteam^S1> <@U123> <#C1> <@!43> <@&43>",
    "`@alice` and ```\n@bob\n``` | @carol |",
    "@\u200balice @alice",
]


@pytest.mark.parametrize("words", HOSTILE)
async def test_telegram_mentions_nobody_but_whom_we_name(words: str) -> None:
    """After the server has looked for mentions itself, there is none; approver and presser are named by their ids."""
    async with shown(words) as emulator:
        found = [(message, one) for message in emulator.messages(ANN) for one in entities(message)]
        assert [covered(message, one) for message, one in found if one["type"] == "mention"] == []
        assert {one["user"]["id"] for _, one in found if one["type"] == "text_mention"} == {ANN}
        links = [one["url"] for _, one in found if one["type"] == "text_link"]
        assert not [link for link in links if not link.startswith(("https://x.example", "https://t.me/PilotBot?form="))]


@pytest.mark.parametrize("words", HOSTILE)
async def test_telegram_text_never_has_a_parse_mode(words: str) -> None:
    """No request asks the server to interpret a text."""
    async with shown(words) as emulator:
        assert [call.method for call in emulator.calls() if "parse_mode" in call.params] == []


async def test_mentions_would_be_found() -> None:
    """The check above sees a mention if there is one: the server finds them by itself, as the real one does."""
    async with shown("x") as emulator:
        note = await emulator.say(ANN, "hello @alice")
        assert [one["type"] for one in entities(note)] == ["mention"]
