"""S-02, S-03, S-08: a configuration that would let strangers in does not load."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import Config, ConfigurationInvalid, load
from gateway.config.model import AccessSection


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


@pytest.mark.parametrize("address", ["0.0.0.0:8642", "[::]:8642", ":8642", "8642", "example.org:8642", "10.0.0.1:80"])
@pytest.mark.parametrize("key", ["gateway.http", "slack.http_listen"])
def test_nothing_listens_beyond_this_machine(tmp_path: Path, key: str, address: str) -> None:
    """S-08: every listener is on loopback; a reverse proxy of the operator is the only way from outside."""
    section, _, name = key.partition(".")
    with pytest.raises(ConfigurationInvalid, match=rf"{key} must be"):
        load_text(tmp_path, f'[{section}]\n{name} = "{address}"\n')
