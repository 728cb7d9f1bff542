"""Modals: triggers, the stack, what a form holds, and what its acknowledgement does."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.emulators.errors import NotKnown, NotPossible
from adapters.emulators.slack import SlackEmulator
from tests.unit.emulators.slack.raw_app import ALICE, BOB, TEAM, RawApp, RawSocket, buttons, plain, section


def option(value: str) -> dict[str, Any]:
    """An option of a menu."""
    return {"text": plain(value.title()), "value": value}


def field(name: str, element: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A form's field whose block, action and label have related names."""
    labelled = {"type": "input", "block_id": name, "label": plain(f"{name}?")}
    return {**labelled, "element": {"action_id": f"{name}_action", **element}, **more}


def form(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A modal."""
    given = blocks or (field("why", {"type": "plain_text_input", "min_length": 2}),)
    return {"type": "modal", "title": plain("Form"), "submit": plain("Send"), "blocks": list(given), **more}


@pytest.fixture
async def socket(emulator: SlackEmulator, app: RawApp) -> RawSocket:
    """An open socket."""
    return await app.connect()


async def trigger(emulator: SlackEmulator, app: RawApp, socket: RawSocket, user: str = ALICE) -> str:
    """The trigger of a fresh press."""
    ts = await app.post(text="x", blocks=[buttons("ask")])
    await socket.take()
    await emulator.press(user, ts, button="ask", chat=TEAM)
    identity = (await socket.take())["payload"]["trigger_id"]
    # An acknowledgement that is still under way would miss its deadline when the clock moves.
    await emulator.wait_for(lambda: not emulator.pending())
    return identity


async def test_trigger_opens_one_view_briefly(emulator: SlackEmulator, app: RawApp, socket: RawSocket) -> None:
    """A trigger works once and for three seconds; a made-up one does not work at all."""
    good = await trigger(emulator, app, socket)
    opened = (await app.result("views.open", trigger_id=good, view=form()))["view"]
    assert [one["id"] for one in await emulator.views(ALICE)] == [opened["id"]]
    assert await app.error("views.open", trigger_id=good, view=form()) == "exchanged_trigger_id"
    late = await trigger(emulator, app, socket)
    await emulator.advance(3.1)
    assert await app.error("views.open", trigger_id=late, view=form()) == "expired_trigger_id"
    assert await app.error("views.open", trigger_id="made-up", view=form()) == "invalid_trigger_id"


VIEWS: list[tuple[dict[str, Any], str]] = [
    ({**form(), "title": plain("x" * 25)}, "must be less than 25 characters [json-pointer:/view/title/text]"),
    ({**form(), "callback_id": "x" * 256}, "must be less than 256 characters [json-pointer:/view/callback_id]"),
    ({**form(), "colour": "red"}, "invalid additional property: colour [json-pointer:/view]"),
    ({**form(), "blocks": []}, "no fewer than 1 items allowed [json-pointer:/view/blocks]"),
    (
        {**form(), "blocks": [{"type": "markdown", "text": "x"}]},
        "unsupported type: markdown [json-pointer:/view/blocks/0/type]",
    ),
    (
        {name: item for name, item in form().items() if name != "submit"},
        "missing required field: submit [json-pointer:/view]",
    ),
]


@pytest.mark.parametrize(("view", "problem"), VIEWS, ids=range(len(VIEWS)))
async def test_refused_views(
    emulator: SlackEmulator, app: RawApp, socket: RawSocket, view: dict[str, Any], problem: str
) -> None:
    """The refusal names the place, and the trigger is not used up."""
    good = await trigger(emulator, app, socket)
    body = await app.call("views.open", trigger_id=good, view=view)
    assert body["error"] == "invalid_arguments"
    assert body["response_metadata"]["messages"] == [f"[ERROR] {problem}"]
    await app.result("views.open", trigger_id=good, view=form())


async def test_form_is_filled_and_sent(emulator: SlackEmulator, app: RawApp, socket: RawSocket) -> None:
    """Fields are named by block, action or label, and arrive in the shape of their kind."""
    view = form(
        field("reason", {"type": "plain_text_input"}),
        field("kind", {"type": "radio_buttons", "options": [option("good"), option("bad")]}),
        field("tags", {"type": "checkboxes", "options": [option("a"), option("b")]}, optional=True),
        field("who", {"type": "users_select"}, optional=True),
        private_metadata="secret",
        callback_id="feedback",
    )
    await app.result("views.open", trigger_id=await trigger(emulator, app, socket), view=view)
    await emulator.submit(ALICE, {"reason": "because", "kind_action": "Bad", "who?": BOB})
    payload = (await socket.take())["payload"]
    assert (payload["type"], payload["view"]["private_metadata"]) == ("view_submission", "secret")
    assert payload["view"]["state"]["values"] == {
        "reason": {"reason_action": {"type": "plain_text_input", "value": "because"}},
        "kind": {"kind_action": {"type": "radio_buttons", "selected_option": option("bad")}},
        "tags": {"tags_action": {"type": "checkboxes", "selected_options": []}},
        "who": {"who_action": {"type": "users_select", "selected_user": BOB}},
    }
    await emulator.wait_for(lambda: not emulator.pending())
    assert await emulator.views(ALICE) == []


async def test_form_that_cannot_be_sent(emulator: SlackEmulator, app: RawApp, socket: RawSocket) -> None:
    """Slack's own client checks required fields, lengths and options before it sends anything."""
    menu = field("menu", {"type": "static_select", "options": [option("a")]}, optional=True)
    view = form(field("why", {"type": "plain_text_input", "min_length": 2}), menu)
    await app.result("views.open", trigger_id=await trigger(emulator, app, socket), view=view)
    for values, error in (({}, NotPossible), ({"why": "x"}, NotPossible), ({"why": "xx", "menu": "b"}, NotKnown)):
        with pytest.raises(error):
            await emulator.submit(ALICE, values)
    with pytest.raises(NotKnown, match="no field other"):
        await emulator.submit(ALICE, {"why": "xx", "other": "x"})
    with pytest.raises(NotKnown):
        await emulator.submit(BOB, {"why": "xx"})


async def test_acknowledgements_of_a_form(emulator: SlackEmulator, app: RawApp, socket: RawSocket) -> None:
    """Errors keep the form open, an update replaces it, a push covers it, clear closes everything."""
    await app.result("views.open", trigger_id=await trigger(emulator, app, socket), view=form())

    async def answered(payload: dict[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
        await emulator.submit(ALICE, values)
        await socket.take(payload)
        await emulator.wait_for(lambda: not emulator.pending())
        return await emulator.views(ALICE)

    found = await answered({"response_action": "errors", "errors": {"why": "No"}}, {"why": "xx"})
    assert [one["errors"] for one in found] == [{"why": "No"}]
    second = form(field("more", {"type": "plain_text_input"}))
    found = await answered({"response_action": "update", "view": second}, {"why": "xx"})
    assert [(one["blocks"][0]["block_id"], one["errors"]) for one in found] == [("more", {})]
    found = await answered({"response_action": "push", "view": form()}, {"more": "yy"})
    assert [one["previous_view_id"] for one in found] == [None, found[0]["id"]]
    assert await answered({"response_action": "clear"}, {"why": "xx"}) == []
    emulator.assert_clean()


@pytest.mark.parametrize(
    "answer",
    [
        {"response_action": "errors", "errors": {"other": "No"}},
        {"response_action": "errors"},
        {"response_action": "dance"},
        {"response_action": "update", "view": {"type": "modal"}},
    ],
)
async def test_wrong_acknowledgements_are_violations(
    emulator: SlackEmulator, app: RawApp, socket: RawSocket, answer: dict[str, Any]
) -> None:
    """Slack shows the person an error and tells the app nothing; the emulator tells."""
    await app.result("views.open", trigger_id=await trigger(emulator, app, socket), view=form())
    await emulator.submit(ALICE, {"why": "xx"})
    await socket.take(answer)
    await emulator.wait_for(lambda: emulator.violations)
    assert [one.name for one in emulator.violations] == ["invalid_acknowledgement"]
    assert len(await emulator.views(ALICE)) == 1


async def test_update_push_and_close(emulator: SlackEmulator, app: RawApp, socket: RawSocket) -> None:
    """A view is updated under its hash, at most three lie on each other, and closing tells who asked."""
    view = form(section("x"), buttons("more"), notify_on_close=True)
    opened = (await app.result("views.open", trigger_id=await trigger(emulator, app, socket), view=view))["view"]
    assert await app.error("views.update", view_id=opened["id"], hash="old", view=view) == "hash_conflict"
    updated = (await app.result("views.update", view_id=opened["id"], hash=opened["hash"], view=view))["view"]
    assert updated["hash"] != opened["hash"]
    assert await app.error("views.update", view_id="V0NONE", view=view) == "not_found"
    for left in (1, 0):
        await emulator.press_in_view(ALICE, "more")
        pushed = (await socket.take())["payload"]["trigger_id"]
        await app.result("views.push", trigger_id=pushed, view=view)
        assert len(await emulator.views(ALICE)) == 3 - left
    await emulator.press_in_view(ALICE, "more")
    last = (await socket.take())["payload"]["trigger_id"]
    assert await app.error("views.push", trigger_id=last, view=view) == "push_limit_reached"
    await emulator.close(ALICE)
    payload = (await socket.take())["payload"]
    assert (payload["type"], payload["is_cleared"]) == ("view_closed", False)


async def test_home_tab(emulator: SlackEmulator, app: RawApp, socket: RawSocket) -> None:
    """A home tab is published and published again."""
    home = {"type": "home", "blocks": [section("hi")]}
    first = (await app.result("views.publish", user_id=ALICE, view=home))["view"]
    second = (await app.result("views.publish", user_id=ALICE, view=home, hash=first["hash"]))["view"]
    assert second["id"] == first["id"]
    assert await app.error("views.publish", user_id="U0NONE", view=home) == "invalid_arguments"
    await emulator.open_home(ALICE)
    assert (await socket.event())["type"] == "app_home_opened"
