"""What the demo model does next: a pure function from the conversation to a plan.

It reads plain requests by pattern, asks for the real tools, and tells what came of them. It takes nothing for done that
no tool result says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runtime.protocol.context import (
    AssistantMessage,
    ContextItem,
    JsonValue,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolResult,
    UserMessage,
)

ABOUT = (
    "I am the built-in demo model of pilothouse: no account, no key, nothing leaves this machine. I know a handful of "
    "plain requests and understand nothing else."
)
HELP = """I know these requests:
- `note in todo.txt that the release is on Friday`, or `add milk to todo.txt`
- `read todo.txt`, `list files`, `search for milk`
- `replace milk with bread in todo.txt`
- `count to 20 slowly`, `write a long story`, `think for 10 seconds`: meanwhile you can write to me, or stop me
- `tell me about yourself`, `help`"""
NOTICE = "(I am the built-in demo model. Say `help` to see what I know.)"

MAX_READ = 4000
MAX_COUNT = 500
MAX_THINKING_SECONDS = 300
_SHOWN = 1500
_QUOTED = 120
_REMEMBERED = 60
_SLOW = 0.5
_STORY_WORD = 0.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Words to stream; `word_seconds` is the pause before each, None for the model's usual one."""

    text: str
    word_seconds: float | None = None
    silence_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One answer: what is said, in order, and the calls that follow it. Without calls the turn ends."""

    says: tuple[Say, ...]
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What one message asks for: something said, or a call to make with a word beforehand."""

    says: tuple[Say, ...] = ()
    tool: str = ""
    arguments: Mapping[str, JsonValue] | None = None


def plan(context: Sequence[ContextItem], tools: Collection[str]) -> Plan:
    """The next answer to the conversation, with the tools that there are."""
    if context and _asks_for_summary(context[-1]):
        return Plan(says=(Say(text=_summary(context), word_seconds=0),))
    tail = _since_last_answer(context)
    results = [item for item in tail if isinstance(item, ToolResult)]
    messages = [item for item in tail if isinstance(item, UserMessage)]
    says: list[Say] = []
    wanted: list[Intent] = []
    for result in results:
        _sort(_about(result, context), says, wanted)
    for message in messages:
        if results or len(messages) > 1:
            says.append(Say(text=f"You wrote: “{_brief(_words(message))}”."))
        _sort(_intent(message), says, wanted)
    calls = _calls(wanted, tools, says, f"demo-{len(context)}")
    if not says and not calls:
        says.append(Say(text="There is nothing new to answer."))
    if not calls and not _answered_before(context):
        says.append(Say(text=NOTICE))
    return Plan(says=tuple(says), calls=tuple(calls))


def _asks_for_summary(item: ContextItem) -> bool:
    return isinstance(item, UserMessage) and (item.id, item.author) == ("compaction", "system")


def _summary(context: Sequence[ContextItem]) -> str:
    """What was said last, line by line: the demo model cannot tell what of it matters."""
    lines: list[str] = []
    for item in context[:-1]:
        match item:
            case UserMessage():
                lines.append(f"{item.author} wrote: “{_brief(item.text)}”")
            case ToolResult():
                lines.append(f"{item.name} ({item.outcome}): {_brief(item.output)}")
            case AssistantMessage():
                lines += [f"I said: “{_brief(part.text)}”" for part in item.parts if isinstance(part, TextPart)]
            case SystemMessage():
                lines.append(_brief(item.text))
    left = f"{len(lines) - _REMEMBERED} earlier lines are left out.\n" if len(lines) > _REMEMBERED else ""
    return left + "\n".join(lines[-_REMEMBERED:])


def _since_last_answer(context: Sequence[ContextItem]) -> list[ContextItem]:
    tail: list[ContextItem] = []
    for index in range(len(context) - 1, -1, -1):
        if isinstance(context[index], AssistantMessage):
            break
        tail.append(context[index])
    return tail[::-1]


def _answered_before(context: Sequence[ContextItem]) -> bool:
    return any(isinstance(item, AssistantMessage) and not _calls_of(item) for item in context)


def _calls_of(message: AssistantMessage) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]


def _sort(intent: Intent, says: list[Say], wanted: list[Intent]) -> None:
    says.extend(intent.says)
    if intent.tool:
        wanted.append(intent)


def _calls(wanted: list[Intent], tools: Collection[str], says: list[Say], prefix: str) -> list[ToolCall]:
    calls: list[ToolCall] = []
    for number, intent in enumerate(wanted, 1):
        if intent.tool in tools:
            call_id = f"{prefix}-{number}"
            calls.append(ToolCall(call_id=call_id, name=intent.tool, arguments=intent.arguments or {}))
        else:
            says.append(Say(text=f"For that I would need the tool {intent.tool}, which I do not have here."))
    return calls


# --- what a person asks for

_POLITE = re.compile(
    r"(?:(?:please|hey|ok|okay|now|then|and|also|can you|could you|would you)[,:]?\s+)+", re.IGNORECASE
)
_NOTE = re.compile(
    r"(?:note|remember|write|write down)\s+(?:in|into|to)\s+[\"'`“]?(?P<file>[^\s\"'`“”:,]{1,200})[\"'`”]?"
    r"(?:\s*[:,]\s*|\s+)(?:that\s+)?",
    re.IGNORECASE,
)
_ADD = re.compile(r"(?:add|append|put)\s+", re.IGNORECASE)


def _intent(message: UserMessage) -> Intent:
    words = _words(message)
    if len(words) > MAX_READ:
        return Intent(says=(Say(text=f"That has {len(words)} characters, and I read only {MAX_READ}."),))
    polite = _POLITE.match(words)
    request = words[polite.end() :] if polite else words
    line = " ".join(request.split()).rstrip(" .!?")
    for understood in (_note(request), _add(request), _replace(line), _plain(line)):
        if understood is not None:
            return understood
    return Intent(says=(Say(text=f"I do not understand “{_brief(words)}”. Say `help` to see what I know."),))


def _note(request: str) -> Intent | None:
    found = _NOTE.match(request)
    return _append(found["file"], request[found.end() :]) if found and _is_file(found["file"]) else None


def _add(request: str) -> Intent | None:
    found = _ADD.match(request)
    for middle in (" to ", " into ", " in ") if found else ():
        text, _, file = request[found.end() :].rpartition(middle) if found else ("", "", "")
        file = _file(file)
        if text and _is_file(file):
            return _append(file, _unquoted(text))
    return None


def _append(file: str, text: str) -> Intent | None:
    text = text.strip()
    if "\n" not in text:
        text = text.removesuffix(".")
    if not text:
        return None
    return Intent(tool="write_file", arguments={"path": file, "content": f"{text}\n", "mode": "append"})


def _replace(line: str) -> Intent | None:
    verb, _, rest = line.partition(" ")
    what, _, file = rest.rpartition(" in ")
    if verb.casefold() not in ("replace", "change") or not _is_file(_file(file)):
        return None
    for middle in (" with ", " by ", " to "):
        old, found, new = what.partition(middle)
        if found:
            arguments: dict[str, JsonValue] = {"path": _file(file), "old": _unquoted(old), "new": _unquoted(new)}
            return Intent(tool="edit_file", arguments=arguments)
    return None


def _file(words: str) -> str:
    return words.removeprefix("the file ").strip().rstrip(".!?").strip("\"'`“”")


def _is_file(word: str) -> bool:
    return bool(re.fullmatch(r"\S{1,200}", word)) and ("." in word or "/" in word)


def _read(found: re.Match[str]) -> Intent:
    return Intent(tool="read_file", arguments={"path": _file(found["file"])})


def _list(found: re.Match[str]) -> Intent:
    return Intent(tool="list_files", arguments={"path": _file(found["file"] or ".") or "."})


def _search(found: re.Match[str]) -> Intent:
    return Intent(tool="search_files", arguments={"text": _unquoted(found["text"]), "path": "."})


def _count(found: re.Match[str]) -> Intent:
    last = min(int(found["number"]), MAX_COUNT)
    numbers = " ".join(str(number) for number in range(1, last + 1))
    return Intent(says=(Say(text=numbers or "0", word_seconds=_SLOW if found["slowly"] else None),))


def _think(found: re.Match[str]) -> Intent:
    seconds = min(int(found["number"]), MAX_THINKING_SECONDS)
    thought = f"I thought for {seconds} seconds, and nothing came of it."
    return Intent(says=(Say(text="Let me think."), Say(text=thought, silence_seconds=float(seconds))))


def _story(found: re.Match[str]) -> Intent:
    return Intent(says=(Say(text=STORY, word_seconds=_STORY_WORD),))


def _say(text: str) -> Callable[[re.Match[str]], Intent]:
    return lambda found: Intent(says=(Say(text=text),))


# On one line with single blanks, so that no pattern has two ways to match the same text.
_PLAIN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Intent]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), make)
    for pattern, make in (
        (r"help|what can you do|commands|", _say(HELP)),
        (r"(?:tell me )?about yourself|tell me about you|who are you|what are you|introduce yourself", _say(ABOUT)),
        (r"hi|hello|hey|good (?:morning|evening)", _say("Hello! Say `help` to see what I know.")),
        (r"thanks|thank you|thx|ok|okay|great", _say("You are welcome.")),
        (r"(?:search|look|grep|find)(?: for)? (?P<text>.+)", _search),
        (r"(?:list|show)(?: me)?(?: all| the| my| your)* files(?: (?:in|of) (?P<file>\S+))?", _list),
        (r"ls(?: (?P<file>\S+))?", _list),
        (r"(?:read|cat)(?: me)?(?: the file)? (?P<file>\S+)", _read),
        (r"(?:show|open|print)(?: me)?(?: the file)? (?P<file>\S*[./]\S*)", _read),
        (r"what(?:'s|’s| is| does)?(?: in)? (?P<file>\S*[./]\S*)(?: say)?", _read),
        (r"count (?:up )?to (?P<number>\d{1,9})(?P<slowly> slowly)?", _count),
        (r"think (?:about it )?for (?P<number>\d{1,9}) ?(?:s|sec|seconds?)", _think),
        (r"(?:write|tell)(?: me)? a (?:very )?(?:long )?story(?: .*)?", _story),
    )
)


def _plain(line: str) -> Intent | None:
    for pattern, make in _PLAIN:
        if found := pattern.fullmatch(line):
            return make(found)
    return None


def _words(message: UserMessage) -> str:
    """The message without the name before it, where several people speak."""
    words = message.text.strip()
    for prefix in (f"[{message.author}]", f"{message.author}:", f"<{message.author}>"):
        if message.author and words.startswith(prefix):
            return words[len(prefix) :].strip()
    return words


def _unquoted(words: str) -> str:
    words = words.strip()
    if len(words) > 1 and (words[0], words[-1]) in {('"', '"'), ("'", "'"), ("`", "`"), ("“", "”")}:
        return words[1:-1]
    return words


def _brief(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"


# --- what came of a call


def _about(result: ToolResult, context: Sequence[ContextItem]) -> Intent:
    call = _call_of(result, context)
    where = f"{result.name} ({_target(call)})" if call and _target(call) else result.name
    if checked := _checked_write(call, context):
        return _told(_verdict(result, checked))
    match result.outcome:
        case "unknown":
            return _check(result, call, where)
        case "denied":
            return _told(f"{where} was denied, so I did not do it. {_reason(result)}")
        case "expired":
            return _told(f"Nobody decided about {where} in time, so I did not do it.")
        case "skipped":
            return _told(f"I did not run {where}, because you wrote in between. Ask again if you still want it.")
        case "interrupted":
            return _told(f"{where} was interrupted; I cannot say how far it came. {_reason(result)}")
        case "failed" | "refused":
            return _told(f"{where} did not work. {_reason(result)}")
        case "completed":
            return _told(f"{where} did not work. {_reason(result)}" if result.is_error else _done(result, call))


def _told(text: str) -> Intent:
    return Intent(says=(Say(text=text.strip()),))


def _done(result: ToolResult, call: ToolCall | None) -> str:
    target, output = _target(call) if call else "", result.output.strip()
    match result.name:
        case "write_file" if found := _APPENDED.match(output):
            return f"Noted in {found['file']}: {found['text']}"
        case "read_file":
            return f"{target} says:\n{_fenced(output)}"
        case "list_files":
            return f"These files are there:\n{_fenced(output)}"
        case "search_files":
            return f"I found this:\n{_fenced(output)}"
        case _:
            return output[:_SHOWN] or f"{result.name} is done."


_APPENDED = re.compile(r"Appended \d+ lines? to (?P<file>[^:]+?)(?: \(a new file\))?: (?P<text>.*)", re.DOTALL)


def _fenced(text: str) -> str:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n[… {len(text)} characters in all]"
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`+", shown))])
    return f"{fence}\n{shown}\n{fence}"


def _check(result: ToolResult, call: ToolCall | None, where: str) -> Intent:
    lost = f"I was interrupted and do not know whether {where} took effect."
    if call is None or call.name not in ("write_file", "edit_file"):
        return _told(f"{lost} I will not repeat it by myself.")
    return Intent(says=(Say(text=f"{lost} I look at the file."),), tool="read_file", arguments={"path": _target(call)})


def _checked_write(call: ToolCall | None, context: Sequence[ContextItem]) -> ToolCall | None:
    """The write whose outcome was unknown, if `call` reads its file because of that."""
    if call is None or call.name != "read_file":
        return None
    for item in reversed(list(_before(call, context))):
        if isinstance(item, AssistantMessage):
            return None
        if isinstance(item, ToolResult) and item.outcome == "unknown":
            write = _call_of(item, context)
            if write is not None and _target(write) == _target(call):
                return write
    return None


def _before(call: ToolCall, context: Sequence[ContextItem]) -> Iterator[ContextItem]:
    for item in context:
        if isinstance(item, AssistantMessage) and call in item.parts:
            return
        yield item


def _verdict(result: ToolResult, write: ToolCall) -> str:
    target, wanted = _target(write), str(write.arguments.get("content", write.arguments.get("new", ""))).strip()
    if "does not exist" in result.output and result.is_error:
        return f"It is not there: {target} does not exist. Ask again if you still want it."
    if result.is_error or result.outcome != "completed":
        return f"I could not look: {_brief(result.output)} I still do not know whether it took effect."
    if wanted and wanted in result.output:
        return f"It is there: {target} holds “{_brief(wanted)}”. Nothing has to be repeated."
    return f"It is not there: {target} does not hold “{_brief(wanted)}”. Ask again if you still want it."


def _call_of(result: ToolResult, context: Sequence[ContextItem]) -> ToolCall | None:
    for item in reversed(context):
        if isinstance(item, AssistantMessage):
            for call in _calls_of(item):
                if call.call_id == result.call_id:
                    return call
    return None


def _target(call: ToolCall) -> str:
    return str(call.arguments.get("path", ""))[:_QUOTED]


def _reason(result: ToolResult) -> str:
    words = result.output.strip()
    return f"I was told: {words[:_SHOWN]}" if words else ""


_CHAPTERS = (
    "the harbour lay under fog, and the pilot waited in his house at the end of the pier",
    "a ship called from outside, three long tones, and the pilot took his lamp and his coat",
    "the tide turned before the engine had warmed, and the boat found its own way between the buoys",
    "the captain had a chart from another century, on which the sandbank was still an island with a church",
    "they steered by the bell of that church, which nobody on board could hear but the pilot",
    "at dawn the fog lifted, and the whole town stood on the quay with coffee and questions",
)
STORY = "\n\n".join(
    f"Chapter {number}. It was told that {chapter}. He wrote it into his book, line after line, so that whoever came "
    "after him would know what was done, what was left, and what must not be done twice."
    for number, chapter in enumerate(_CHAPTERS * 3, 1)
)
