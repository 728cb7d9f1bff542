"""S-08: nothing comes in by a webhook without its secret, compared as bytes, and there is always one."""

from __future__ import annotations

import json
import logging

import pytest

from adapters.telegram import create
from tests.unit.adapters.test_telegram_webhook import ENVIRONMENT, TOKEN, Hooked, hooked, until

pytestmark = pytest.mark.xdist_group("aiogram")
__all__ = ["hooked"]

SECRET = "s3cret-of-this-test"
FORGED = json.dumps(
    {
        "update_id": 1,
        "message": {
            "message_id": 1,
            "date": 1,
            "chat": {"id": 42, "type": "private", "first_name": "Ann"},
            "from": {"id": 42, "is_bot": False, "first_name": "Ann"},
            "text": "forged",
        },
    }
).encode()

WRONG = {
    "none": (),
    "blank": (b"",),
    "another": (b"wrong",),
    "a beginning": (SECRET[:-1].encode(),),
    "more": (SECRET.encode() + b"x",),
    "not text": (b"\xff\xfe\xc3",),
    "letters beyond ASCII": ("sécret".encode(),),
    "twice": (SECRET.encode(), SECRET.encode()),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_secrets_get_nothing(hooked: Hooked, case: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is shown instead of the secret: 401, nothing is taken in, and nothing of it is logged."""
    caplog.set_level(logging.DEBUG)
    hooked.adapter = create(hooked.settings | {"webhook_secret": SECRET}, ENVIRONMENT)
    await hooked.adapter.start(hooked.intake)
    await until(hooked.emulator, lambda: hooked.adapter.health.state == "ready")
    assert await hooked.post(FORGED, *WRONG[case]) == 401
    assert hooked.taken == []
    assert "forged" not in caplog.text
    assert await hooked.post(FORGED, SECRET.encode()) == 200
    assert hooked.taken == ["forged"]


async def test_there_is_always_a_secret(hooked: Hooked) -> None:
    """Where none is set, each start makes one that nobody can guess; a blank one is refused."""
    with pytest.raises(ValueError, match=r"telegram\.webhook_secret"):
        create(hooked.settings | {"webhook_secret": ""}, ENVIRONMENT)
    await hooked.adapter.start(hooked.intake)
    await until(hooked.emulator, lambda: hooked.adapter.health.state == "ready")
    sent = hooked.emulator.calls("setWebhook")[-1].params["secret_token"]
    assert len(sent) >= 43
    assert await hooked.post(FORGED) == 401
    assert TOKEN not in repr(hooked.adapter)


@pytest.mark.parametrize("body", [b"", b"[", b"[" * 100_000, b'"text"', b"\xff"])
async def test_bodies_that_are_no_updates(hooked: Hooked, body: bytes) -> None:
    """With the right secret and a body that is no update nothing breaks: the next one is taken in."""
    hooked.adapter = create(hooked.settings | {"webhook_secret": SECRET}, ENVIRONMENT)
    await hooked.adapter.start(hooked.intake)
    await until(hooked.emulator, lambda: hooked.adapter.health.state == "ready")
    assert await hooked.post(body, SECRET.encode()) in (200, 400)
    assert await hooked.post(FORGED, SECRET.encode()) == 200
    assert hooked.taken[-1] == "forged"
