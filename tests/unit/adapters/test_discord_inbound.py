"""Reading events: never an error, whatever comes, and keys that neither drop something new nor miss a repeat."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapters.contract import InboundKind, SenderKind, decode_inbound, encode_inbound
from adapters.discord.attachments import address_of, files_of, parts_of
from adapters.discord.channels import Channel, channel_of
from adapters.discord.inbound import EVENTS, Event, read
from adapters.discord.words import Me, plain_words, read_words

ME = Me(id="900")
CHANNEL = Channel(id="10", kind="text", name="general")

NAMES = st.sampled_from(
    ["id", "type", "content", "author", "member", "user", "channel_id", "guild_id", "mentions", "attachments", "data",
     "message", "message_reference", "referenced_message", "message_snapshots", "sticker_items", "webhook_id", "token",
     "custom_id", "components", "component", "options", "name", "value", "resolved", "messages", "target_id", "flags",
     "edited_timestamp", "emoji", "message_id", "user_id", "bot", "system", "nick", "global_name", "locale", "thread"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["1", "900", "<@900>", "\ud83d", "form:x"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)  # fmt: skip
KINDS = st.sampled_from(["dm", "group_dm", "thread", "text", "forum", "other"])


@given(st.sampled_from([*EVENTS, "TYPING_START"]), st.dictionaries(NAMES, VALUES, max_size=8), KINDS)
def test_no_payload_raises(name: str, data: dict[str, Any], kind: Any) -> None:
    """Whatever shape an event has, it gives one inbound with a key, which can be stored and read back."""
    channel = Channel(id="10", kind=kind, parent="9" if kind == "thread" else None)
    inbound = read(Event(name=name, data=data, mark="s:1"), channel, ME)
    assert inbound.keys
    assert all(inbound.keys)
    assert decode_inbound(encode_inbound(inbound)) == inbound


def message(**more: Any) -> dict[str, Any]:
    author = {"id": "42", "username": "ann"}
    return {"id": "77", "channel_id": "10", "type": 0, "content": "<@900> x", "author": author, **more}


def taken(name: str, mark: str = "s:1", **more: Any) -> Any:
    return read(Event(name=name, data=message(**more), mark=mark), CHANNEL, ME)


def test_message_has_one_name_whichever_way_it_comes() -> None:
    """From the gateway, again after a resume, or from history: the keys are the same."""
    assert taken("MESSAGE_CREATE", "s:1").keys == taken("MESSAGE_CREATE", "history").keys


def test_two_edits_are_two_things_and_one_edit_is_one() -> None:
    """An edit is named by its instant."""
    first = taken("MESSAGE_UPDATE", edited_timestamp="2026-11-30T20:00:00.000000+00:00")
    again = taken("MESSAGE_UPDATE", "t:9", edited_timestamp="2026-11-30T20:00:00.000000+00:00")
    other = taken("MESSAGE_UPDATE", edited_timestamp="2026-11-30T20:00:01.000000+00:00")
    assert first.keys == again.keys
    assert first.keys != other.keys


def test_reaction_that_is_set_again_is_another_thing() -> None:
    """What has no id is named by its number in the session, which a resumed one repeats."""
    data = {"user_id": "42", "message_id": "77", "channel_id": "10", "emoji": {"name": "x"}}
    marks = [
        read(Event(name="MESSAGE_REACTION_ADD", data=data, mark=mark), CHANNEL, ME).keys for mark in ("s:1", "s:2")
    ]
    assert marks[0] != marks[1]


def test_deletion_of_an_unknown_author_counts_for_nothing() -> None:
    """Discord does not say whose message is gone; if we do not remember, nobody's wish is assumed."""
    gone = read(Event(name="MESSAGE_DELETE", data={"id": "77", "channel_id": "10"}, mark="s:1"), CHANNEL, ME)
    assert gone.kind is InboundKind.OTHER
    assert gone.sender.kind is not SenderKind.PERSON


def test_name_in_a_message_is_taken_out() -> None:
    """In both spellings, wherever it stands; other people's names stay."""
    assert read_words("<@900>: do it", ME).text == "do it"
    assert read_words("do <@!900> it <@1>", ME).text == "do it <@1>"
    assert read_words("<@900>\n\n  code\n  more", ME).text == "code\n  more"
    assert not read_words("<@9001> do it", ME).mentions_us


def test_role_that_discord_made_for_us_is_our_name_too() -> None:
    """People pick it from the list by mistake; other roles are nobody."""
    me = Me(id="900", roles=frozenset({"901"}))
    assert read_words("<@&901> do it", me).text == "do it"
    assert read_words("<@&901> do it", me).mentions_us
    assert not read_words("<@&902> do it", me).mentions_us


def test_commands_are_words_behind_a_slash_at_the_beginning() -> None:
    """A path, an address and a slash in the middle are none."""
    assert read_words("/queue  do this\nand that ", ME).arguments == "do this\nand that"
    assert read_words("<@900> /Stop", ME).command == "stop"
    assert [read_words(text, ME).command for text in ("/usr/bin", "//x", "a /stop", "/", "/ x")] == [None] * 5


def test_thread_is_named_without_mentions() -> None:
    """Names of people and channels are ids in a message, which nobody wants to read."""
    assert plain_words("<@900> look at <#12> and\n<:party:5> tests <t:1:R>") == "look at and tests"


def test_file_is_a_handle() -> None:
    """The handle names channel, message and attachment; the address is asked for when it is opened."""
    told = message(
        attachments=[{"id": "5", "filename": "a/../b.txt", "size": -1, "url": "https://cdn.discordapp.com/x"}]
    )
    (file,) = files_of(told)
    assert (file.id, file.size, file.media_type) == ("10/77/5", 0, "application/octet-stream")
    assert parts_of(file.id) == ("10", "77", "5")
    assert address_of(told, "5") == "https://cdn.discordapp.com/x"
    assert address_of(told, "6") == ""


def test_thread_without_a_parent_is_not_placed() -> None:
    """A channel that does not tell enough is looked up, and not taken for another place."""
    assert channel_of({"id": "5", "type": 11}) is None
    assert channel_of({"id": "5", "type": 11, "parent_id": "4"}) == Channel(id="5", kind="thread", parent="4")
