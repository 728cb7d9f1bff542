"""Questions for a reason, which Telegram has no forms for; both ways, and pure.

A question is a message that is answered, or whose buttons are ready answers. It carries the form's token itself, in a
link, so that the answer fills the form in whatever has happened to our process meanwhile. A link alone makes no
question, since an agent can be brought to write one: the message must have the shape that only we give to one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import quote, unquote

from adapters.contract import Control, Form, Inbound, InboundKind, MessageRef
from adapters.errors import Refused
from adapters.telegram.formatted import Run, Style, formatted, is_visible
from adapters.telegram.outbound import MAX_DATA_BYTES, Request, message
from adapters.telegram.payload import Payload, a_number, a_text, objects
from adapters.telegram.texts import number, short
from adapters.telegram.words import Me

FIELD = "reason"
_PRESET = "form:"
_INVITATION = "\nChoose, or answer this message."
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
    name = short(press.sender.name, 64)
    runs = [Run(name if is_visible(name) else "You", (person,)), Run(f": {form.title}\n"), Run(form.label, (link,))]
    if form.presets:
        runs.append(Run(_INVITATION))
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
    token = asked_token(question, me)
    if not token:
        return inbound
    return replace(inbound, kind=InboundKind.FORM, token=token, fields={FIELD: inbound.text}, quotes=())


def asked_token(message: Payload, me: Me) -> str:
    """The token of the form that a message of ours asks for; empty if the message is no question.

    A question begins with the mention of a person, which no text of an agent can contain, and ends with its only link
    or with our invitation.
    """
    entities = objects(message.get("entities"))
    mentions = [entity for entity in entities if entity.get("type") == "text_mention"]
    links = [entity for entity in entities if entity.get("type") == "text_link"]
    if len(mentions) != 1 or len(links) != 1 or mentions[0].get("offset") != 0:
        return ""
    units = a_text(message.get("text")).encode("utf-16-le", "surrogatepass")
    named, start = a_number(mentions[0].get("length")), a_number(links[0].get("offset"))
    end = start + a_number(links[0].get("length"))
    title, rest = (part.decode("utf-16-le", "replace") for part in (units[2 * named : 2 * start], units[2 * end :]))
    if not (title.startswith(": ") and title.endswith("\n") and rest in ("", _INVITATION)):
        return ""
    link, prefix = a_text(links[0].get("url")), form_link("", me)
    return unquote(link.removeprefix(prefix)) if link.startswith(prefix) else ""


def chosen(press: Inbound, question: Payload, label: str, me: Me) -> Inbound:
    """The form that a press fills in with a ready answer of the question that it was made on; else the press.

    `label` is the button's. What a press carries is whatever the client sent, so it has to be the question's own token.
    """
    found = _READY.fullmatch(press.token or "")
    if not found or found["token"] != asked_token(question, me):
        return press
    value = "" if found["none"] else found["value"] or label
    return replace(press, kind=InboundKind.FORM, token=found["token"], text=value, fields={FIELD: value})
