"""Questions for a reason as Slack's views; both ways, and pure.

A view carries what is needed to read it after a restart: the form's token, and where it was asked. Slack keeps that
(`private_metadata`) and gives it back with the submission; people neither see nor change it.
"""

from __future__ import annotations

import json
from typing import Any

from adapters.contract import Form, Inbound
from adapters.payload import Payload, a_text, an_object
from adapters.slack.identity import Me

CALLBACK = "pilothouse_form"
FIELD = "reason"
_CHOICE, _WORDS = "choice", "words"
_MAX_TITLE, _MAX_LABEL, _MAX_OPTION, _MAX_VALUE = 24, 2000, 75, 150
_LONGEST_REASON = 3000


def view_of(press: Inbound, form: Form) -> Payload:
    """The view that asks. Limits: https://docs.slack.dev/reference/views and the pages of its elements."""
    blocks = [_words(form)]
    if form.presets:
        blocks.insert(0, _choice(form))
    return {
        "type": "modal",
        "callback_id": CALLBACK,
        "private_metadata": _metadata(press, form.token),
        "title": _plain(form.title, _MAX_TITLE),
        "submit": _plain("Send", _MAX_TITLE),
        "close": _plain("Cancel", _MAX_TITLE),
        "blocks": blocks,
    }


def _metadata(press: Inbound, token: str) -> str:
    asked = {"token": token, "chat": press.place.chat, "thread": press.place.thread or ""}
    return json.dumps(asked, separators=(",", ":"))


def _choice(form: Form) -> Payload:
    """Ready answers. An option's value is its number: what it stands for need not fit into one."""
    options = [
        {"text": _plain(label, _MAX_OPTION), "value": f"{number}={value}"[:_MAX_VALUE]}
        for number, (value, label) in enumerate(form.presets)
    ]
    element = {"type": "radio_buttons", "action_id": _CHOICE, "options": options[:10]}
    return {
        "type": "input",
        "block_id": _CHOICE,
        "optional": True,
        "label": _plain(form.label, _MAX_LABEL),
        "element": element,
    }


def _words(form: Form) -> Payload:
    label = "In your words" if form.presets else form.label
    element = {"type": "plain_text_input", "action_id": _WORDS, "multiline": True, "max_length": _LONGEST_REASON}
    return {
        "type": "input",
        "block_id": _WORDS,
        "optional": bool(form.presets),
        "label": _plain(label, _MAX_LABEL),
        "element": element,
    }


def _plain(text: str, most: int) -> Payload:
    shown = " ".join(text.split()) or "–"
    return {"type": "plain_text", "text": shown if len(shown) <= most else f"{shown[: most - 1]}…", "emoji": False}


# ------------------------------------------------------------------------------------------------------------- back


def is_form(view: Payload, me: Me) -> bool:
    """Whether a submitted view is a question of ours."""
    return view.get("callback_id") == CALLBACK and a_text(view.get("app_id")) in ("", me.app)


def asked(view: Payload) -> Payload:
    """`token`, `chat` and `thread` of the press that the view answers; what is missing is empty."""
    try:
        told = an_object(json.loads(a_text(view.get("private_metadata")) or "{}"))
    except ValueError:
        told = {}
    return {name: a_text(told.get(name)) for name in ("token", "chat", "thread")}


def reason_in(view: Payload) -> str:
    """What was filled in: the person's own words, or else the ready answer."""
    values = an_object(an_object(view.get("state")).get("values"))
    words: Any = an_object(an_object(values.get(_WORDS)).get(_WORDS)).get("value")
    chosen = an_object(an_object(values.get(_CHOICE)).get(_CHOICE)).get("selected_option")
    ready = a_text(an_object(chosen).get("value")).partition("=")[2]
    return a_text(words).strip() or ready
