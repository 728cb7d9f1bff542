"""What a person wrote: Slack's text as plain text, without our name in it, and whether it is a command or said to us.

Slack sends `&`, `<` and `>` of a person as entities, so that every `<…>` is Slack's own and means a mention, a channel
or a link (https://docs.slack.dev/messaging/formatting-message-text).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from adapters.slack.identity import Me

_CONTROL = re.compile(r"<([^<>]*)>")
_COMMAND = re.compile(r"/([a-z0-9_]{1,32})(?=\s|\Z)", re.IGNORECASE)
_NO_BREAK_SPACE = "\u00a0"
_AFTER_A_NAME = " ,:;\n"
_BROADCASTS = ("here", "channel", "everyone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """`command` has no sign in front of it."""

    text: str = ""
    command: str | None = None
    arguments: str = ""
    mentions_us: bool = False


def read_words(text: str, me: Me) -> Words:
    """Read a text. A command is a word behind `/` at the beginning; Slack lets one pass behind our name or a space."""
    ours = re.compile(rf"<@{re.escape(me.user)}(?:\|[^<>]*)?>") if me.user else None
    mentions_us = bool(ours and ours.search(text))
    plain = plain_text(_without(text, ours) if ours and mentions_us else text)
    stripped = plain.strip()
    found = _COMMAND.match(stripped)
    if not found:
        return Words(text=plain, mentions_us=mentions_us)
    arguments = stripped[found.end() :].strip()
    return Words(text=stripped, command=found[1].lower(), arguments=arguments, mentions_us=mentions_us)


def _without(text: str, ours: re.Pattern[str]) -> str:
    """The text without our name, nor the gap that it would leave."""
    starts = ours.match(text.lstrip())
    joined = re.sub(rf"[ \t]*{ours.pattern}", "", text).strip()
    return joined.lstrip(_AFTER_A_NAME) if starts else joined


def plain_text(text: str) -> str:
    """What a person sees of a text: names, channels and links in words.

    Spaces that do not break, which Slack's editor puts into pasted code, become plain ones: code with them does not
    run.
    """
    shown = _CONTROL.sub(lambda found: _shown(found[1]), text)
    return _unescaped(shown).replace(_NO_BREAK_SPACE, " ")


def _shown(control: str) -> str:
    target, _, label = control.partition("|")
    match target[:1]:
        case "@":
            return f"@{(label or target[1:]).lstrip('@')}"
        case "#":
            return f"#{(label or target[1:]).lstrip('#')}"
        case "!":
            return _special(target[1:], label)
        case _:
            address = target.removeprefix("mailto:")
            told = label in ("", target, address) or address.endswith(f"//{label}")
            return address if told else f"{label} ({target})"


def _special(command: str, label: str) -> str:
    """`<!here>`, `<!subteam^S1|@team>`, `<!date^…|in words>`: what is behind the bar is for those who know it not."""
    name = command.partition("^")[0]
    return f"@{name}" if name in _BROADCASTS else label or f"@{name}"


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def unlinked(text: str) -> str:
    """The text with addresses that Slack makes no links of, for calls that have no switch for previews."""
    return text.replace("://", ":\u2060//")


def escaped(text: str) -> str:
    """Text with nothing in it that Slack would take for a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
