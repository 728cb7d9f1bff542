"""Nonsense on the wire: the emulator answers with an error of the platform and goes on."""

from __future__ import annotations

import itertools
import json
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.emulators.slack import SlackEmulator
from adapters.emulators.slack.blocks import BLOCKS, ELEMENTS, length_of, numbered, problems_of
from adapters.emulators.slack.catalogue import METHODS
from adapters.emulators.slack.modals import problems_of_view
from adapters.emulators.slack.written import as_sent, rich_text
from tests.unit.emulators.slack.raw_app import ALICE, TEAM, RawApp

LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4) | st.sampled_from([*BLOCKS, *ELEMENTS])
NAMES = st.sampled_from(
    ["type", "text", "elements", "element", "label", "value", "options", "blocks", "title", "accessory", "child_blocks"]
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)

WRONG: list[Any] = [-1, True, "x", [1], [[]], {"type": 1}, "\ud800", "[["]


@given(VALUES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_any_blocks_get_an_answer(value: Any) -> None:
    """Whatever stands for blocks or a view is refused or taken; what is taken can be numbered and measured."""
    if not problems_of(value):
        assert len(numbered(value, lambda: "id")) == len(value)
        assert length_of(value) >= 0
    assert isinstance(problems_of_view(value, "modal"), list)


@pytest.mark.parametrize("name", sorted(METHODS))
async def test_no_value_breaks_a_method(emulator: SlackEmulator, app: RawApp, name: str) -> None:
    """Every method takes wrong kinds of values for its parameters, alone and all together, without failing itself."""
    method = METHODS[name]
    app.token = emulator.app.app_token if method.app_token else app.token
    ts = (await emulator.say(ALICE, "x", chat=TEAM))["ts"]
    good: dict[str, Any] = {"channel": TEAM, "channel_id": TEAM, "ts": ts, "thread_ts": ts, "timestamp": ts}
    base = {key: good.get(key, "x") for key in method.required}
    wrongs = itertools.cycle(WRONG)
    calls = [{**base, parameter: next(wrongs)} for parameter in sorted(method.parameters)]
    calls += [dict.fromkeys(method.parameters, wrong) for wrong in WRONG]
    for params in calls:
        body = await app.call(name, **params)
        assert isinstance(body["ok"], bool), body


@given(st.text())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_typed_text_keeps_its_words(typed: str) -> None:
    """Nothing is lost between what was typed and the rich text, and no bare angle bracket is left in the text."""
    blocks = rich_text(typed, "b")
    words = [one.get("text", one.get("url", "")) for block in blocks for one in block["elements"][0]["elements"]]
    assert sum(len(one) for one in words) <= len(typed)
    assert as_sent(typed).count("<") == as_sent(typed).count(">")


def test_what_is_typed() -> None:
    """References stay, addresses become links, the rest is escaped."""
    assert as_sent("a < b & <@U1> <#C1> <!here> https://x.org/?a=1&b=2") == (
        "a &lt; b &amp; <@U1> <#C1> <!here> <https://x.org/?a=1&amp;b=2>"
    )
    elements = rich_text("hi <@U1> <!here> <#C1> https://x.org", "b")[0]["elements"][0]["elements"]
    assert [one["type"] for one in elements] == [
        "text", "user", "text", "broadcast", "text", "channel", "text", "link",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json; charset=nonsense", b"{}"),
        ("application/json", b"\xff"),
        ("application/x-www-form-urlencoded", b"text=%ff&channel=\xff"),
        ("multipart/form-data", b"no boundary"),
        ("text/plain", b"text"),
    ],
)
async def test_unreadable_bytes(emulator: SlackEmulator, app: RawApp, content_type: str, body: bytes) -> None:
    """Bytes that are no text get an answer as well."""
    headers = {"Authorization": f"Bearer {app.token}", "Content-Type": content_type}
    url = f"{emulator.api_base}chat.postMessage"
    async with app.session.post(url, data=body, headers=headers) as response:
        assert response.status in (200, 400)


async def test_nonsense_at_other_addresses(emulator: SlackEmulator, app: RawApp) -> None:
    """Uploads, downloads, response URLs and sockets that nobody gave out are refused."""
    async with app.session.post(f"{emulator.url}/upload/v1/F0", data=b"x") as response:
        assert response.status == 404
    async with app.session.get(f"{emulator.url}/files-pri/T-F0/x.txt") as response:
        assert response.status == 404
    async with app.session.post(f"{emulator.url}/response/T/none", data=b"{") as response:
        assert (response.status, (await response.json())["error"]) == (404, "invalid_url")
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await app.session.ws_connect(f"{emulator.url}/link/?ticket=none")


async def test_tokens_stay_out_of_the_record(emulator: SlackEmulator, app: RawApp) -> None:
    """Neither the journal nor the snapshot holds a token or the signing secret."""
    await app.post()
    await app.connect()
    form = {"token": app.token, "channel": TEAM, "text": "x"}
    await app.session.post(f"{emulator.api_base}chat.postMessage", data=form)
    record = json.dumps([entry.to_json() for entry in emulator.journal]) + json.dumps(emulator.snapshot())
    for secret in (emulator.app.bot_token, emulator.app.app_token, emulator.app.signing_secret):
        assert secret not in record
