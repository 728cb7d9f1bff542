"""Rich text of Slack: text and its looks as a structure, with no markup that could be broken out of.

What stands in a `text` element is shown as it is: `<!channel>`, `<@U1>` and backticks mean nothing there. People are
mentioned only by `user` elements (https://docs.slack.dev/reference/block-kit/blocks/rich-text-block).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from adapters.payload import Payload, a_text, an_object, objects

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text of one look: `bold`, `italic`, `strike`, `code`; a link if `url`, a mention if `user`."""

    text: str
    looks: frozenset[str] = frozenset()
    url: str = ""
    user: str = ""


def element(run: Run) -> Payload:
    """The run as Slack takes it within a section."""
    if run.user:
        return {"type": "user", "user_id": run.user}
    made: Payload = {"type": "text", "text": _LONE_SURROGATE.sub("\ufffd", run.text)}
    if run.url:
        made = {"type": "link", "url": run.url, "text": made["text"]}
    return {**made, "style": dict.fromkeys(sorted(run.looks), True)} if run.looks else made


def elements(runs: Iterable[Run]) -> list[Payload]:
    """The runs without empty ones, neighbours of one look as one."""
    return [element(run) for run in _joined(runs)]


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    last: Run | None = None
    for run in runs:
        if not run.text and not run.user:
            continue
        if last is not None and not (last.user or run.user) and replace(run, text="") == replace(last, text=""):
            last = replace(last, text=last.text + run.text)
            continue
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last


def section(runs: Iterable[Run]) -> Payload:
    """A paragraph, or several with line breaks between them."""
    return {"type": "rich_text_section", "elements": elements(runs)}


def quote(runs: Iterable[Run]) -> Payload:
    """Words of somebody else."""
    return {"type": "rich_text_quote", "elements": elements(runs)}


def preformatted(text: str) -> Payload:
    """A block of one width, in which nothing is interpreted."""
    return {"type": "rich_text_preformatted", "elements": elements([Run(text)])}


def items(style: str, sections: Sequence[Payload], *, indent: int = 0, offset: int = 0) -> Payload:
    """Items of a list, `bullet` or `ordered`, each a section; `offset` is how many came before the first."""
    made: Payload = {"type": "rich_text_list", "style": style, "indent": indent, "elements": list(sections)}
    return {**made, "offset": offset} if offset else made


def rich_text(parts: Sequence[Payload]) -> Payload:
    """The block. Parts without anything in them, which Slack refuses, are left out."""
    return {"type": "rich_text", "elements": [part for part in parts if part.get("elements")]}


# ----------------------------------------------------------------------------------------------------- reading it


def text_of(blocks: Sequence[Payload]) -> str:
    """What is to be read of blocks, for notifications and for clients that show no blocks."""
    return "\n".join(line for block in blocks if (line := _block_text(block)))


def _block_text(block: Payload) -> str:
    match block.get("type"):
        case "rich_text":
            return "\n".join(_part_text(part) for part in objects(block.get("elements")))
        case "section" | "header":
            return _object_text(block.get("text"))
        case "context":
            return " ".join(_object_text(one) for one in objects(block.get("elements")))
        case "plan":
            return "\n".join([a_text(block.get("title")), *map(_task_text, objects(block.get("tasks")))])
        case _:
            return ""


def _task_text(task: Payload) -> str:
    return f"{_SIGN.get(a_text(task.get('status')), '')} {a_text(task.get('title'))}".strip()


_SIGN = {"pending": "▢", "in_progress": "▸", "complete": "☑", "error": "✖"}


def _object_text(value: object) -> str:
    return a_text(an_object(value).get("text"))


def _part_text(part: Payload) -> str:
    inner = objects(part.get("elements"))
    if part.get("type") != "rich_text_list":
        return "".join(_element_text(one) for one in inner)
    indent = "  " * int(part.get("indent", 0))
    first = 1 + int(part.get("offset", 0))
    marks = [f"{first + at}." if part.get("style") == "ordered" else "•" for at in range(len(inner))]
    return "\n".join(f"{indent}{mark} {_part_text(one)}" for mark, one in zip(marks, inner, strict=True))


def _element_text(one: Payload) -> str:
    match one.get("type"):
        case "link":
            text, url = a_text(one.get("text")), a_text(one.get("url"))
            return text if text in (url, "") else f"{text} ({url})"
        case "user":
            return f"@{a_text(one.get('user_id'))}"
        case _:
            return a_text(one.get("text"))
