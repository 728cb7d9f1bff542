"""The text of each platform as blocks of spans. Pure; nothing of it is ever HTML."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from adapters.emulators.wire_json import JsonObject
from gateway.trial.web.pane import Block, BlockKind, Span, Style

Names = Mapping[str, str]
"""Of people and bots, by id."""

_TELEGRAM: Mapping[str, Style] = {
    "bold": "bold",
    "italic": "italic",
    "code": "code",
    "strikethrough": "strike",
    "underline": "under",
    "text_link": "link",
    "url": "link",
    "mention": "mention",
    "text_mention": "mention",
}
_FENCE = re.compile(r"^```[\w+-]*\n(.*?)(?:\n```|\Z)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|`(?P<code>[^`\n]+)`"
    r"|\*\*(?P<bold>[^*\n]+)\*\*"
    r"|~~(?P<strike>[^~\n]+)~~"
    r"|\*(?P<italic>[^*\s][^*\n]*)\*"
    r"|<@!?(?P<mention>\w+)>"
    r"|\[(?P<link>[^\]\[\n]+)\]\((?P<target>[^)\s]+)\)"
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


# ---------------------------------------------------------------------------------------------------------- Telegram


def of_telegram(text: str, entities: Sequence[Mapping[str, Any]]) -> tuple[Block, ...]:
    """Text with Telegram's entities, whose offsets count UTF-16 units."""
    raw = text.encode("utf-16-le")
    edges = {0, len(raw) // 2}
    for one in entities:
        edges |= {one["offset"], one["offset"] + one["length"]}
    inside = sorted(edge for edge in edges if 0 <= edge <= len(raw) // 2)
    blocks: list[tuple[BlockKind, list[Span]]] = []
    for start, end in itertools.pairwise(inside):
        over = [one for one in entities if one["offset"] <= start and one["offset"] + one["length"] >= end]
        kinds = {str(one["type"]) for one in over}
        kind: BlockKind = "code" if "pre" in kinds else "quote" if any("blockquote" in one for one in kinds) else "text"
        span = Span(
            text=raw[2 * start : 2 * end].decode("utf-16-le", errors="replace"),
            styles=tuple(sorted({_TELEGRAM[one] for one in kinds & _TELEGRAM.keys()})),
            target=next((str(one["url"]) for one in over if "url" in one), ""),
        )
        if not blocks or blocks[-1][0] != kind:
            blocks.append((kind, []))
        blocks[-1][1].append(span)
    return tuple(Block(kind=kind, spans=_trimmed(spans)) for kind, spans in blocks)


def _trimmed(spans: list[Span]) -> tuple[Span, ...]:
    """Without the line breaks around it, which separated it from its neighbours."""
    first = replace(spans[0], text=spans[0].text.lstrip("\n"))
    rest = [first, *spans[1:]]
    return (*rest[:-1], replace(rest[-1], text=rest[-1].text.rstrip("\n")))


# ----------------------------------------------------------------------------------------------------------- Markdown


def of_markdown(text: str, names: Names) -> tuple[Block, ...]:
    """Discord's text, and Slack's Markdown blocks."""
    blocks: list[Block] = []
    done = 0
    for fence in _FENCE.finditer(text):
        blocks += _lines(text[done : fence.start()], names)
        blocks.append(Block(kind="code", spans=(Span(text=fence[1]),)))
        done = fence.end()
    blocks += _lines(text[done:], names)
    return tuple(blocks)


def _lines(text: str, names: Names) -> Iterator[Block]:
    plain: list[str] = []
    for line in text.strip("\n").split("\n"):
        kind, rest = _line(line)
        if kind == "text":
            plain.append(line)
            continue
        yield from _paragraph(plain, names)
        plain = []
        yield Block(kind=kind, spans=tuple(_spans(rest, names)))
    yield from _paragraph(plain, names)


def _line(line: str) -> tuple[BlockKind, str]:
    if line.startswith("-# "):
        return "small", line[3:]
    if line.startswith("> "):
        return "quote", line[2:]
    heading = line.lstrip("#")
    if heading.startswith(" ") and 0 < len(line) - len(heading) < 7:
        return "heading", heading[1:]
    return "text", line


def _paragraph(lines: list[str], names: Names) -> Iterator[Block]:
    if any(lines):
        yield Block(spans=tuple(_spans("\n".join(lines), names)))


def _spans(text: str, names: Names) -> Iterator[Span]:
    done = 0
    for found in _INLINE.finditer(text):
        if found.start() > done:
            yield Span(text=text[done : found.start()])
        yield _span(found, names)
        done = found.end()
    if done < len(text):
        yield Span(text=text[done:])


def _span(found: re.Match[str], names: Names) -> Span:
    words = _ESCAPE.sub(r"\1", found[found.lastgroup or 0]) if found.lastgroup != "code" else found["code"]
    match found.lastgroup:
        case "code" | "bold" | "strike" | "italic" as style:
            return Span(text=words, styles=(style,))
        case "mention":
            return Span(text=f"@{names.get(words, words)}", styles=("mention",))
        case "target":
            return Span(text=found["link"], styles=("link",), target=found["target"])
        case _:
            return Span(text=words)


# -------------------------------------------------------------------------------------------------------------- Slack


def of_slack(message: JsonObject, names: Names) -> tuple[Block, ...]:
    """A message of Slack: its blocks, or else its text."""
    sent: list[JsonObject] = message.get("blocks") or []
    blocks = [block for one in sent for block in _slack_block(one, names)]
    return tuple(blocks) or of_markdown(str(message.get("text") or ""), names)


def _slack_block(block: JsonObject, names: Names) -> Iterator[Block]:
    match block["type"]:
        case "rich_text":
            for part in block["elements"]:
                yield from _rich(part, names)
        case "markdown":
            yield from of_markdown(str(block["text"]), names)
        case "header":
            yield Block(kind="heading", spans=(Span(text=block["text"]["text"]),))
        case "divider":
            yield Block(kind="rule")
        case "section" | "context":
            texts = [block["text"]] if "text" in block else block.get("elements") or block.get("fields") or []
            for one in texts:
                yield from of_markdown(str(one.get("text") or one.get("alt_text") or ""), names)
        case "table":
            rows = [" │ ".join(_cell(cell, names) for cell in row) for row in block["rows"]]
            yield Block(kind="code", spans=(Span(text="\n".join(rows)),))
        case _:
            return


def _cell(cell: JsonObject, names: Names) -> str:
    if cell.get("type") == "rich_text":
        parts = [block for part in cell["elements"] for block in _rich(part, names)]
        return "".join(span.text for block in parts for span in block.spans)
    return str(cell.get("text", ""))


def _rich(part: JsonObject, names: Names) -> Iterator[Block]:
    kinds: Mapping[str, BlockKind] = {"rich_text_preformatted": "code", "rich_text_quote": "quote"}
    if part["type"] == "rich_text_list":
        for number, item in enumerate(part["elements"], 1):
            mark = f"{number}. " if part.get("style") == "ordered" else "• "
            indent = "    " * int(part.get("indent", 0))
            yield Block(spans=(Span(text=indent + mark), *(_rich_span(one, names) for one in item["elements"])))
        return
    spans = tuple(_rich_span(one, names) for one in part["elements"])
    yield Block(kind=kinds.get(part["type"], "text"), spans=spans)


def _rich_span(one: JsonObject, names: Names) -> Span:
    looks: Mapping[str, Style] = {"bold": "bold", "italic": "italic", "code": "code", "strike": "strike"}
    given: Mapping[str, bool] = one.get("style") or {}
    styles: tuple[Style, ...] = tuple(looks[name] for name, on in given.items() if on and name in looks)
    match one["type"]:
        case "user":
            return Span(text=f"@{names.get(one['user_id'], one['user_id'])}", styles=("mention",))
        case "link":
            return Span(text=str(one.get("text") or one["url"]), styles=(*styles, "link"), target=str(one["url"]))
        case "emoji":
            return Span(text=EMOJI.get(one["name"], f":{one['name']}:"))
        case _:
            return Span(text=str(one.get("text", "")), styles=styles)


EMOJI: Mapping[str, str] = {
    "+1": "👍",
    "thumbsup": "👍",
    "eyes": "👀",
    "white_check_mark": "✅",
    "x": "❌",
    "hourglass_flowing_sand": "⏳",
    "hourglass": "⌛",
    "warning": "⚠️",
    "fast_forward": "⏩",
    "thinking_face": "🤔",
}
"""Names that Slack has for what our gateway and this page react with."""
