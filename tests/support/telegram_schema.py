"""Does what the Telegram emulator answered look as the Bot API is published?"""

from __future__ import annotations

from adapters.emulators.telegram import TelegramEmulator
from adapters.emulators.telegram.schema import Problem, bot_api


def malformed_results(emulator: TelegramEmulator) -> list[tuple[str, Problem]]:
    """Problems of all results in the journal, by method."""
    schema = bot_api()
    found: list[tuple[str, Problem]] = []
    for call in emulator.calls():
        if call.ok and (method := schema.method(call.method)) is not None:
            found += [(call.method, problem) for problem in schema.check(method.returns, call.result, "result")]
    return found
