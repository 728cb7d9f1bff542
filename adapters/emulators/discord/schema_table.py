"""Turn the published description of Discord's API into the smaller table that `schema` reads.

    python -m adapters.emulators.discord.schema_table SOURCE.json > adapters/emulators/discord/data/openapi.json

`SOURCE.json` is `openapi.json` of discord/discord-api-spec (see data/README.md). Every operation keeps its name, so
that a call of one that is not emulated is told from a call of one that does not exist; schemas are kept for operations
below `KEPT` and for whatever those refer to. Words for readers are dropped.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from adapters.emulators.wire_json import JsonObject, is_array, is_object

VERBS: Final = ("get", "put", "post", "patch", "delete")
KEPT: Final = re.compile(
    r"/gateway.*|/users/.*|/oauth2/applications/@me|/interactions/.*|/guilds/\{guild_id\}(/threads/active|/channels)?"
    r"|/applications/@me|/applications/\{application_id\}(/guilds/\{guild_id\})?/commands(/\{command_id\})?"
    r"|/channels/\{channel_id\}(/messages.*|/threads.*|/thread-members.*|/typing|/pins.*|/users/.*)?"
    r"|/webhooks/\{webhook_id\}/\{webhook_token\}(/messages.*)?"
    r"|/guilds/\{guild_id\}/(members|roles)(/\{(user|role)_id\})?"
)
DROPPED: Final = frozenset({"description", "title", "examples", "example", "x-discord-union", "contentEncoding"})
JSON: Final = "application/json"
REFERENCE: Final = "#/components/schemas/"
NAMED: Final = frozenset({"properties"})
"""Members whose keys are names and not words of the schema language."""


def compact(source: JsonObject) -> JsonObject:
    """The table: operations with their query, body and answer, and the schemas that these need."""
    operations = [
        _operation(verb, path, item[verb]) for path, item in source["paths"].items() for verb in VERBS if verb in item
    ]
    published: JsonObject = source["components"]["schemas"]
    return {
        "version": source["info"]["version"],
        "operations": sorted(operations, key=lambda one: (one["path"], one["method"])),
        "schemas": _closure(operations, published),
    }


def _operation(verb: str, path: str, described: JsonObject) -> JsonObject:
    kept: JsonObject = {"id": described["operationId"], "method": verb.upper(), "path": path}
    if KEPT.fullmatch(path) is None:
        return kept
    query = {one["name"]: _lean(one["schema"]) for one in described.get("parameters", []) if one.get("in") == "query"}
    if query:
        kept["query"] = query
    if body := described.get("requestBody", {}).get("content", {}).get(JSON):
        kept["body"] = _lean(body["schema"])
    for status in ("200", "201"):
        if answer := described["responses"].get(status, {}).get("content", {}).get(JSON):
            kept["answer"] = _lean(answer["schema"])
    return kept


def _lean(schema: Any, *, named: bool = False) -> Any:
    if is_array(schema):
        return [_lean(one) for one in schema]
    if not is_object(schema):
        return schema
    if not named and isinstance(reference := schema.get("$ref"), str):
        return {"$ref": reference.removeprefix(REFERENCE)}
    return {name: _lean(one, named=name in NAMED) for name, one in schema.items() if named or name not in DROPPED}


def _closure(operations: list[JsonObject], published: JsonObject) -> JsonObject:
    wanted = list(_references(operations))
    kept: JsonObject = {}
    while wanted:
        name = wanted.pop()
        if name in kept:
            continue
        kept[name] = _lean(published[name])
        wanted += _references(kept[name])
    return dict(sorted(kept.items()))


def _references(node: Any) -> Iterator[str]:
    if is_array(node):
        for one in node:
            yield from _references(one)
    elif is_object(node):
        if isinstance(reference := node.get("$ref"), str):
            yield reference
        for one in node.values():
            yield from _references(one)


def write(table: JsonObject) -> Iterator[str]:
    """The table as JSON with one operation or schema to a line."""
    yield f'{{"version":{json.dumps(table["version"])},\n"operations":[\n'
    yield ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in table["operations"])
    yield '\n],\n"schemas":{\n'
    yield ",\n".join(
        f"{json.dumps(name)}:{json.dumps(one, ensure_ascii=False, separators=(',', ':'))}"
        for name, one in table["schemas"].items()
    )
    yield "\n}}\n"


def main(path: str) -> None:
    """Print the table made from the file at `path`."""
    sys.stdout.writelines(write(compact(json.loads(Path(path).read_text(encoding="utf-8")))))


if __name__ == "__main__":
    main(sys.argv[1])
