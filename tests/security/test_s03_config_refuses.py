"""S-02, S-03, S-08: a configuration that would let strangers in does not load."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import Config, ConfigurationInvalid, load
from gateway.config.model import AccessSection

TOKEN = "123456:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def load_text(folder: Path, text: str) -> Config:
    """Load a closed file with this text."""
    file = folder / "pilothouse.toml"
    file.touch(mode=0o600)
    file.write_text(text)
    return load(file, {})


NOBODY_IN_PARTICULAR = [
    "",
    " ",
    "*",
    "telegram:*",
    "telegram:",
    "telegram",
    "@alice",
    "alice",
    "42",
    "telegram:@alice",
    "telegram:alice",
    "telegram:042",
    "telegram:4 2",
    "telegram:42\n",
    "telegram:٤٢",
    "telegram:-1001234567890",
    "telegram:1087968824",
    "telegram:777000",
    "telegram:136817688",
    "Telegram:42",
    "slack:U1",
    "slack:T1:",
    "slack::U1",
    "slack:T1:U2:U3",
    "slack:T1:alice",
    "slack:T1:C2",
    "slack:T1:USLACKBOT",
    "slack:T1:*",
    "discord:alice",
    "discord:alice#1234",
    "discord:everyone",
    "alice@example.org",
    "everyone",
    "matrix:@a:example.org",
    "terminal:*",
]


@pytest.mark.parametrize("right", ["owners", "approvers", "users"])
@pytest.mark.parametrize("entry", NOBODY_IN_PARTICULAR)
def test_only_immutable_ids_of_people_are_taken(tmp_path: Path, right: str, entry: str) -> None:
    """Names, wildcards, blanks, chats and accounts of many people are refused in each list, naming line and list."""
    escaped = entry.replace("\n", "\\n")
    with pytest.raises(ConfigurationInvalid, match=rf"pilothouse\.toml:2: access\.{right}\[0\] has "):
        load_text(tmp_path, f'[access]\n{right} = ["{escaped}"]\n')


def test_ids_of_people_are_taken(tmp_path: Path) -> None:
    """The platforms' own ids are the way to name a person."""
    people = '["telegram:42", "slack:T1:U2", "slack:E0AB:W9Z", "discord:1234567890123456789", "terminal:local"]'
    config = load_text(tmp_path, f"[access]\nowners = {people}\n")
    assert len(config.access.owners) == 5


@pytest.mark.parametrize("text", ["", "[access]\n", "[access]\nowners = []\nusers = []\n"])
def test_empty_means_nobody(tmp_path: Path, text: str) -> None:
    """Absent and empty lists give nobody anything; being open to all is never a default."""
    access = load_text(tmp_path, text).access
    assert (access.users, access.approvers, access.owners, access.dangerously_open) == ((), (), (), False)


@pytest.mark.parametrize("value", ['"true"', "1", '"yes"', "[true]"])
def test_open_door_is_never_half_said(tmp_path: Path, value: str) -> None:
    """Only the word true opens the door; what looks like it is an error."""
    with pytest.raises(ConfigurationInvalid, match="dangerously_open must be true or false"):
        load_text(tmp_path, f"[access]\ndangerously_open = {value}\n")


@pytest.mark.parametrize("key", ["dangerously_open", "allow_all", "users_everywhere"])
@pytest.mark.parametrize("section", ["telegram", "slack", "discord", "gateway"])
def test_platforms_have_no_door_of_their_own(tmp_path: Path, section: str, key: str) -> None:
    """There is one place for access; a key for it elsewhere is an error and not a silent widening."""
    with pytest.raises(ConfigurationInvalid, match=f"{section}.{key} is not a key that pilothouse knows"):
        load_text(tmp_path, f"[{section}]\n{key} = true\n")


PEOPLE = st.lists(st.integers(1, 40).map("telegram:{}".format), max_size=6).map(tuple)


@given(PEOPLE, PEOPLE, PEOPLE, st.data())
def test_removing_an_entry_never_adds_one(
    users: tuple[str, ...], approvers: tuple[str, ...], owners: tuple[str, ...], data: st.DataObject
) -> None:
    """Whatever is taken out of a list, no list of the loaded policy gains a person by it."""
    lists = {"users": users, "approvers": approvers, "owners": owners}
    name = data.draw(st.sampled_from(sorted(lists)))
    if not lists[name]:
        return
    gone = data.draw(st.integers(0, len(lists[name]) - 1))
    fewer = lists | {name: lists[name][:gone] + lists[name][gone + 1 :]}
    before, after = (AccessSection.model_validate(value) for value in (lists, fewer))
    for right in lists:
        assert set(getattr(after, right)) <= set(getattr(before, right))


WEAK_SECRETS = ["", "   ", "short", "fifteen-letters", "has blank in the middle", "ä" * 20, "x" * 257]


@pytest.mark.parametrize(("secret", "source"), list(itertools.product(WEAK_SECRETS, ["inline", "file", "environment"])))
def test_weak_webhook_secret_is_refused(tmp_path: Path, secret: str, source: str) -> None:
    """S-08: a webhook secret that is blank, short or unusable stops the start, wherever it comes from."""
    text = f'[telegram]\ntoken = "{TOKEN}"\nmode = "webhook"\nwebhook_url = "https://bot.example.org/x"\n'
    environ: dict[str, str] = {}
    if source == "inline":
        text += f'webhook_secret = "{secret}"\n'
    elif source == "file":
        (tmp_path / "secret").write_text(secret)
        text += 'webhook_secret_file = "secret"\n'
    else:
        environ = {"PILOTHOUSE_TELEGRAM_WEBHOOK_SECRET": secret}
    file = tmp_path / "pilothouse.toml"
    file.touch(mode=0o600)
    file.write_text(text)
    with pytest.raises(ConfigurationInvalid, match=r"telegram\.webhook_secret") as caught:
        load(file, environ)
    assert caught.value.exit_code != 0
    assert len(secret.strip()) < 5 or secret.strip() not in str(caught.value)


def test_webhook_is_never_plain_or_public(tmp_path: Path) -> None:
    """S-08: Telegram calls only by https, and our own listener is on loopback, behind the operator's proxy."""
    start = f'[telegram]\ntoken = "{TOKEN}"\nmode = "webhook"\n'
    for more, key in [
        ("", "webhook_url"),
        ('webhook_url = "http://bot.example.org"\n', "webhook_url"),
        ('webhook_url = "https://b.example.org"\nwebhook_listen = "0.0.0.0:80"\n', "webhook_listen"),
        ('webhook_url = "https://b.example.org"\nwebhook_listen = "[::]:80"\n', "webhook_listen"),
        ('webhook_url = "https://b.example.org"\nwebhook_listen = "example.org:80"\n', "webhook_listen"),
    ]:
        with pytest.raises(ConfigurationInvalid, match=rf"telegram\.{key} must be"):
            load_text(tmp_path, start + more)
