"""The catalogue of sentences: every key that is used exists, gets its placeholders, and every sentence is used."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path

import gateway
from gateway.strings import TEXTS, say, some

ROOT = Path(gateway.__file__).parent


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Every `say` and `some` of the gateway: file, call, name."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "some"):
                yield str(path.relative_to(ROOT)), node, node.func.id


def keys_of(call: ast.Call, name: str) -> list[str]:
    """The keys that stand in the call as they are."""
    arguments = call.args[1:3] if name == "some" else call.args[:1]
    return [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_key_exists_and_gets_its_placeholders() -> None:
    """A sentence that is asked for is there, and nothing of it stays unfilled."""
    for path, call, name in calls():
        given = {keyword.arg for keyword in call.keywords} | ({"n"} if name == "some" else set())
        for key in keys_of(call, name):
            assert key in TEXTS, f"{path} asks for {key}"
            if None not in given:  # `**values` is filled at run time
                assert placeholders(TEXTS[key]) <= given, f"{path}: {key} lacks {placeholders(TEXTS[key]) - given}"


def test_every_sentence_is_used() -> None:
    """A key that nobody names in the gateway's code is dead."""
    texts = "".join(path.read_text() for path in ROOT.rglob("*.py") if path.name != "strings.py")
    made = tuple(re.findall(r"""f["']([a-z_.]+)\{""", texts))  # keys with a part that is filled in
    named = set(re.findall(r"""["']([a-z_]+\.[a-z_.]+)["']""", texts))
    assert [key for key in TEXTS if key not in named and not key.startswith(made)] == []


def test_one_and_many() -> None:
    """Counted words agree with their number."""
    assert some(1, "count.tool", "count.tools") == "1 tool"
    assert some(2, "count.tool", "count.tools") == "2 tools"
    assert say("count.tokens", n="5k") == "5k tokens"
