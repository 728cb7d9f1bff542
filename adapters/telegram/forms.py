"""Questions for a reason, which Telegram has no forms for; both ways, and pure.

A question is a message that is answered, or whose buttons are ready answers. It carries the form's token itself, in a
link, so that the answer fills the form in whatever has happened to our process meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import quote, unquote

from adapters.contract import Control, Form, Inbound, InboundKind, MessageRef
from adapters.errors import Refused
from adapters.telegram.formatted import Run, Style, formatted
from adapters.telegram.outbound import MAX_DATA_BYTES, Request, message
from adapters.telegram.payload import Payload, a_text, objects
from adapters.telegram.texts import number, short
from adapters.telegram.words import Me

FIELD = "reason"
_PRESET = "form:"
# The token, then `-` for no words, or `=` and the words, or `=` alone for those that the button shows.
_READY = re.compile(rf"{_PRESET}(?P<token>.+?)(?:(?P<none>-)|=(?P<value>.*))", re.DOTALL)


def form_link(token: str, me: Me) -> str:
    """The address that carries a token; tapped, it opens nothing but our own chat."""
    return f"https://t.me/{me.username}?form={quote(token, safe='')}"


def question(press: Inbound, form: Form, me: Me) -> Request:
    """The message that asks. The person is mentioned, so that it is plain who is meant.

    Where the person is alone with us, the app opens an answer to it by itself (Bot API 10.3 for messages with buttons).
    In groups that would happen to everybody, and can be asked of one person's app only without buttons.
    """
    person = Style(type="text_mention", number=1, user=number(press.sender.id, "person"))
    link = Style(type="text_link", number=2, url=form_link(form.token, me))
    runs = [Run(short(press.sender.name, 64) or "You", (person,)), Run(f": {form.title}\n"), Run(form.label, (link,))]
    if form.presets:
        runs.append(Run("\nChoose, or answer this message."))
    ready = [Control(label=label, token=preset_data(form.token, value, label)) for value, label in form.presets]
    asked = message(press.place, formatted(runs), reply_to=press.ref, controls=ready)
    if ready:
        forced = {"force_reply": True} if press.chat_kind == "private" else {}
        markup = {**asked.fields["reply_markup"], **forced}
    else:
        markup = {"force_reply": True, "selective": True, "input_field_placeholder": short(form.label, 64)}
    return Request(method="sendMessage", fields={**asked.fields, "reply_markup": markup})


def question_of(form: Inbound) -> MessageRef | None:
    """The question that a form answers: what was pressed, or what was answered."""
    return form.ref if form.handle is not None else form.reply_to


def preset_data(token: str, value: str, label: str) -> str:
    """What the button of a ready answer carries; Refused if that is more than a button can."""
    data = f"{_PRESET}{token}={value}" if value else f"{_PRESET}{token}-"
    if len(data.encode()) > MAX_DATA_BYTES and value == label:
        data = f"{_PRESET}{token}="
    if len(data.encode()) > MAX_DATA_BYTES:
        raise Refused(f"the ready answer {label!r} does not fit into a button: shorten its value, or make it the label")
    return data


def filled_in(inbound: Inbound, question: Payload, me: Me) -> Inbound:
    """The form that a message fills in, if it answers a question of ours; else the message."""
    prefix = form_link("", me)
    links = (a_text(entity.get("url")) for entity in objects(question.get("entities")))
    token = next((unquote(link.removeprefix(prefix)) for link in links if link.startswith(prefix)), "")
    if not token:
        return inbound
    return replace(inbound, kind=InboundKind.FORM, token=token, fields={FIELD: inbound.text}, quotes=())


def chosen(press: Inbound, label: str) -> Inbound:
    """The form that a press fills in with a ready answer, if it does; else the press. `label`: of the button."""
    found = _READY.fullmatch(press.token or "")
    if not found:
        return press
    value = "" if found["none"] else found["value"] or label
    return replace(press, kind=InboundKind.FORM, token=found["token"], text=value, fields={FIELD: value})
