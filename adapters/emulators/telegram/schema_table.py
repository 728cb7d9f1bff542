"""Turn the published description of the Bot API into the small table that `schema` reads.

    python -m adapters.emulators.telegram.schema_table SOURCE.json > adapters/emulators/telegram/data/bot_api.json

`SOURCE.json` is `api.json` of PaulSonOfLars/telegram-bot-api-spec (see data/README.md).
A field becomes `"name": "!Integer|String"`: `!` means required, `[]X` an array of X.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from adapters.emulators.wire_json import JsonObject


def compact(source: JsonObject) -> JsonObject:
    """The table: version, fields of methods and of types, and which types are one of several."""
    types: dict[str, JsonObject] = source["types"]
    methods: dict[str, JsonObject] = source["methods"]
    return {
        "version": source["version"],
        "methods": {name: _fields(method) for name, method in methods.items()},
        "returns": {name: "|".join(_type(kind) for kind in method["returns"]) for name, method in methods.items()},
        "types": {name: _fields(kind) for name, kind in types.items() if "subtypes" not in kind},
        "unions": {name: kind["subtypes"] for name, kind in types.items() if "subtypes" in kind},
    }


def _fields(described: JsonObject) -> dict[str, str]:
    return {field["name"]: _code(field) for field in described.get("fields", [])}


def _code(field: JsonObject) -> str:
    types = "|".join(_type(kind) for kind in field["types"])
    return f"!{types}" if field["required"] else types


def _type(published: str) -> str:
    return published.replace("Array of ", "[]")


def main(path: str) -> None:
    """Print the table made from the file at `path`."""
    source = json.loads(Path(path).read_text(encoding="utf-8"))
    json.dump(compact(source), sys.stdout, ensure_ascii=False, indent=0, separators=(",", ":"))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
