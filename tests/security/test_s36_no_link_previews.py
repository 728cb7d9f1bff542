"""S-36: no link is previewed, in every send and edit: the fetch of a preview can carry a secret away."""

from __future__ import annotations

import pytest

from adapters.contract import MessageRef
from tests.security.telegram_views import ALL_KINDS, kinds, shown, views

pytestmark = pytest.mark.xdist_group("aiogram")

WORDS = "see https://evil.example/?secret=1 and [this](https://evil.example/2)"
REF = MessageRef(platform="telegram", account="900", chat="42", id="1")


def test_every_kind_of_view_is_in_the_matrix() -> None:
    """A view that is new in the contract has to be added here, or this fails."""
    assert kinds(views(WORDS, REF)) == ALL_KINDS


async def test_telegram_never_previews() -> None:
    """Each request that shows text says that previews are off: sends, edits, plain fallbacks, answers, questions."""
    async with shown(WORDS) as emulator:
        texts = [call for call in emulator.sends if call.method in ("sendMessage", "editMessageText")]
        assert len(texts) > 20
        assert any("reply_markup" in call.params for call in texts)
        previews = [call.params.get("link_preview_options", {}) for call in texts]
        assert [one for one in previews if one.get("is_disabled") is not True] == []


async def test_no_other_method_shows_text() -> None:
    """What shows words to people goes through the methods that are looked at above, or is a file's caption."""
    async with shown(WORDS) as emulator:
        methods = {call.method for call in emulator.calls()}
        assert methods <= {
            "getMe", "getUpdates", "sendMessage", "editMessageText", "sendDocument", "sendChatAction",
            "setMessageReaction", "answerCallbackQuery", "deleteMessage",
        }  # fmt: skip
