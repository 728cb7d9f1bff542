"""S-36: no link is previewed, in every send and edit: the fetch of a preview can carry a secret away."""

from __future__ import annotations

import pytest

from adapters.contract import Answer, MessageRef, Notice
from adapters.discord.outbound import SUPPRESS_EMBEDS, changed_card
from adapters.emulators.journal import EntryKind
from tests.security.platform_views import shown_in_discord, shown_in_slack
from tests.security.telegram_views import ALL_KINDS, kinds, shown, views
from tests.support.discord_reader import pieces

WORDS = "see https://evil.example/?secret=1 and [this](https://evil.example/2)"
REF = MessageRef(platform="telegram", account="900", chat="42", id="1")


def test_every_kind_of_view_is_in_the_matrix() -> None:
    """A view that is new in the contract has to be added here, or this fails."""
    assert kinds(views(WORDS, REF)) == ALL_KINDS


@pytest.mark.xdist_group("aiogram")
async def test_telegram_never_previews() -> None:
    """Each request that shows text says that previews are off: sends, edits, plain fallbacks, answers, questions."""
    async with shown(WORDS) as emulator:
        texts = [call for call in emulator.sends if call.method in ("sendMessage", "editMessageText")]
        assert len(texts) > 20
        assert any("reply_markup" in call.params for call in texts)
        previews = [call.params.get("link_preview_options", {}) for call in texts]
        assert [one for one in previews if one.get("is_disabled") is not True] == []


@pytest.mark.xdist_group("aiogram")
async def test_no_other_method_shows_text() -> None:
    """What shows words to people goes through the methods that are looked at above, or is a file's caption."""
    async with shown(WORDS) as emulator:
        methods = {call.method for call in emulator.calls()}
        assert methods <= {
            "getMe", "getUpdates", "sendMessage", "editMessageText", "sendDocument", "sendChatAction",
            "setMessageReaction", "answerCallbackQuery", "deleteMessage",
        }  # fmt: skip


@pytest.mark.xdist_group("bolt")
async def test_slack_previews_nothing() -> None:
    """Each message says that nothing is to be unfurled, nothing was, and no other method shows a message."""
    async with shown_in_slack(WORDS) as world:
        calls = world.emulator.calls()
        posts = [call.params for call in calls if call.method == "chat.postMessage"]
        assert len(posts) > 8
        switches = [one.get(name) for one in posts for name in ("unfurl_links", "unfurl_media")]
        assert [one for one in switches if one is not False] == []
        assert [one for one in world.emulator.journal.of(EntryKind.SCREEN) if one.name == "preview"] == []
        # None of the others has a switch for previews: edits, streams and what one person sees are never unfurled.
        assert {call.method for call in calls if call.method.startswith(("chat.", "files.", "views."))} <= {
            "chat.postMessage", "chat.update", "chat.postEphemeral", "chat.startStream", "chat.appendStream",
            "chat.stopStream", "files.getUploadURLExternal", "files.completeUploadExternal", "files.info", "views.open",
        }  # fmt: skip


@pytest.mark.xdist_group("discord")
async def test_discord_previews_nothing() -> None:
    """Each message and edit suppresses embeds; the answer to a press has no link that could have one."""
    async with shown_in_discord(WORDS) as world:
        calls = world.emulator.calls()
        shows = [call for call in calls if call.method in ("create_message", "update_message")]
        assert {call.method for call in shows} == {"create_message", "update_message"}
        assert [call.params for call in shows if not call.params.get("flags", 0) & SUPPRESS_EMBEDS] == []
        answers = [call.params["data"] for call in calls if call.method == "create_interaction_response"]
        told = [piece.kind for one in answers if "content" in one for piece in pieces(one["content"])]
        assert told
        assert "link" not in told


@pytest.mark.parametrize("view", [Answer(markdown=WORDS), Notice(text=WORDS)])
def test_discord_card_that_becomes_words_previews_nothing(view: Answer | Notice) -> None:
    """A card that is edited into words keeps its previews off."""
    assert changed_card(view).fields["flags"] & SUPPRESS_EMBEDS
