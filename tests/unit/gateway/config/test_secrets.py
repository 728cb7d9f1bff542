"""Secrets show themselves as three stars, in whatever form they are printed."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gateway.secrets import Secret, redact, redact_all

TOKEN = "987654:AAE_zz-Q0123456789abcdefghijklmnopq"
ODD = 'k"ey/with+odd=signs&\\and%ümlaut'


@pytest.fixture(autouse=True)
def nothing_else_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The register is the process' own: what a test puts there must not change what other tests print."""
    monkeypatch.setattr("gateway.secrets._forms", {})


class Model(BaseModel):
    """A place for a secret."""

    key: Secret


@pytest.mark.parametrize("show", [str, repr, "{:>3}".format, lambda value: f"{value!r:.9}", lambda value: f"{[value]}"])
def test_secret_shows_stars(show: object) -> None:
    """No way of printing the object shows its value."""
    assert callable(show)
    assert str(show(Secret(TOKEN))).strip("[]") == "***"


def test_secret_survives_copies_and_models_without_showing() -> None:
    """Copying, dumping and serialising keep it closed; pickling is refused."""
    model = Model(key=Secret(TOKEN))
    assert copy.deepcopy(model).key.reveal() == TOKEN
    assert model.model_dump_json() == '{"key":"***"}'
    assert TOKEN not in f"{model!r}{model.model_dump()}"
    with pytest.raises(TypeError):
        pickle.dumps(model.key)
    assert Secret(TOKEN) == Secret(TOKEN)
    assert Secret(TOKEN) != TOKEN
    assert len({Secret(TOKEN), Secret(TOKEN)}) == 1


FORMS = [
    str,
    repr,
    json.dumps,
    lambda value: json.dumps(value, ensure_ascii=False),
    lambda value: json.dumps(json.dumps({"text": f"x {value} y"})),
    quote,
    lambda value: quote(value, safe=""),
    quote_plus,
    lambda value: value.replace(":", "%3a"),
    lambda value: base64.b64encode(value.encode()).decode(),
    lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    lambda value: base64.b64encode(f"u:{value}".encode()).decode(),
    lambda value: base64.b64encode(f"us:{value}x".encode()).decode(),
    lambda value: base64.b64encode(f"use:{value}xy".encode()).decode(),
    lambda value: f"https://api.example/bot{value}/getMe",
    lambda value: value.rpartition(":")[2],
]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_secret_is_replaced(form: object) -> None:
    """Plain, quoted, escaped, URL-encoded, in base64 alone or inside: nothing of it stays."""
    assert callable(form)
    Secret(TOKEN)
    shown = redact(f"before {form(TOKEN)} after")
    assert "***" in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert TOKEN[8:] not in shown


@pytest.mark.parametrize("form", FORMS[:4])
def test_odd_signs_are_no_way_out(form: object) -> None:
    """A key with quotes, backslashes and foreign letters is found in its escaped forms as well."""
    assert callable(form)
    Secret(ODD)
    shown = redact(f"<{form(ODD)}>")
    assert shown.strip("<>'\"") == "***"


@given(st.text(st.characters(codec="utf-8"), min_size=6), st.binary(max_size=9), st.binary(max_size=9))
def test_base64_around_a_secret_keeps_no_byte_of_it(value: str, before: bytes, after: bytes) -> None:
    """What is left of a base64 text around a secret decodes to nothing of the secret but bits at its borders."""
    Secret(value)
    whole = base64.b64encode(before + value.encode() + after).decode()
    left, _, right = redact(whole).partition("***")
    bits_kept = (len(left) + len(right.rstrip("="))) * 6
    padding = len(whole.rstrip("=")) * 6 - len(before + value.encode() + after) * 8
    assert bits_kept <= (len(before) + len(after)) * 8 + padding


def test_telegram_addresses_are_closed_without_registration() -> None:
    """A bot token in an address is replaced even if nobody registered it."""
    stranger = "1234567:" + "A" * 35
    assert redact(f"GET https://x/file/bot{stranger}/a.txt") == "GET https://x/file/bot***/a.txt"
    assert redact("robot123: hello") == "robot123: hello"


def test_short_values_are_not_hunted() -> None:
    """A key like `demo` does not garble every text that has the word in it."""
    Secret("demo")
    assert redact("a demonstration") == "a demonstration"


def test_longer_secret_leaves_no_tail() -> None:
    """A secret that begins like another one is replaced as a whole."""
    Secret("prefix-secret")
    Secret("prefix-secret-and-more")
    assert redact("x prefix-secret-and-more y") == "x *** y"


def test_nested_values_are_redacted() -> None:
    """Values inside lists and mappings, and keys, are replaced; numbers pass."""
    Secret(TOKEN)
    value = {TOKEN: [1, (f"a{TOKEN}", None)], "s": Secret(TOKEN)}
    assert redact_all(value) == {"***": [1, ["a***", None]], "s": "***"}


@pytest.mark.parametrize("character", ["a", " ", "<", "‮", "bot1", "bot" + "1" * 40 + ":"])
def test_long_texts_cost_little(character: str) -> None:
    """64 KB of anything are looked through in well under 50 ms of CPU, with many secrets registered."""
    for number in range(20):
        Secret(f"{number:04}-some-secret-value-{number}")
    text = (character * 65_536)[:65_536]
    redact(text)
    started = time.process_time()
    redact(text)
    assert time.process_time() - started < 0.05
