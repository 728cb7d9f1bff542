"""Does what the Discord emulator answered look as Discord's API is published?"""

from __future__ import annotations

from adapters.emulators.discord import DiscordEmulator
from adapters.emulators.discord.schema import Problem, discord_api


def malformed_answers(emulator: DiscordEmulator) -> list[tuple[str, Problem]]:
    """Problems of all answers in the journal, by operation."""
    schema = discord_api()
    by_name = {one.id: one for one in schema.operations}
    found: list[tuple[str, Problem]] = []
    for call in emulator.calls():
        operation = by_name.get(call.method)
        if not call.ok or operation is None or operation.answer is None or call.result is None:
            continue
        checked = schema.check(operation.answer, call.result, numbers_as_ids=False)
        found += [(call.method, problem) for problem in checked.problems]
    return found
