"""The tool by which the model asks people something, and waits for their answer as an approval is waited for.

The question is a request of the session: durable, answered once, by its own buttons or in words, also after a restart.
The answer is put into the call's arguments by whoever answers; the model cannot put it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from runtime.errors import ToolError
from runtime.protocol.approvals import Action, ApproveWith, PendingApproval
from runtime.protocol.context import JsonValue, ToolCall
from runtime.tools.base import JsonSchema, Tool, ToolContext
from runtime.tools.paths import printable

NAME = "ask_user"
MAX_CHOICES = 6
MAX_CHOICE_CHARACTERS = 60
MAX_QUESTION_CHARACTERS = 1500
MAX_ANSWER_CHARACTERS = 32_768

_PROPERTIES: dict[str, JsonValue] = {
    "question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION_CHARACTERS},
    "choices": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": MAX_CHOICE_CHARACTERS},
        "maxItems": MAX_CHOICES,
        "default": [],
        "description": "Answers to choose from, as buttons; people may always answer in their own words.",
    },
}
_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": ["question"],
    "additionalProperties": False,
}


class AskUser(Tool):
    """Asks one question. Call it by itself: nothing else of its batch can be decided with it."""

    name = NAME
    description = (
        "Ask the people in this conversation one question and wait for the answer, for as long as it takes. Use it "
        "only when you cannot go on without it. Call it by itself."
    )
    parameters = _SCHEMA
    approval = "always"
    replay = "safe"
    question = True

    def validate(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The arguments, checked; an answer is none that the model may give."""
        return _checked(call, {"question": MAX_QUESTION_CHARACTERS})

    def edit(self, call: ToolCall) -> Mapping[str, JsonValue]:
        """The same with an answer, which only a person's decision brings."""
        return _checked(call, {"question": MAX_QUESTION_CHARACTERS, "answer": MAX_ANSWER_CHARACTERS})

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """The beginning of the question."""
        return printable(str(arguments.get("question", "")), 80)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """The answer."""
        answer = arguments.get("answer")
        if not isinstance(answer, str):
            raise ToolError("Nobody has answered the question.")
        return f"The answer: {answer}"


def _checked(call: ToolCall, limits: Mapping[str, int]) -> Mapping[str, JsonValue]:
    """The arguments; texts with at most so many characters, and the choices. ToolError names what does not fit."""
    for name in call.arguments:
        if name not in limits and name != "choices":
            raise ToolError(f"{NAME}: there is no argument {name[:40]!r}; it takes question and choices.")
    checked: dict[str, JsonValue] = {"question": "", "choices": []}
    for name, limit in limits.items():
        text = call.arguments.get(name)
        if not isinstance(text, str) or not text.strip() or len(text) > limit:
            raise ToolError(f"{NAME}: {name} must be a text of 1 to {limit} characters.")
        checked[name] = text
    return checked | {"choices": _choices(call.arguments.get("choices", []))}


def _choices(given: JsonValue) -> list[JsonValue]:
    if isinstance(given, list) and len(given) <= MAX_CHOICES and all(map(_is_choice, given)):
        return given
    raise ToolError(f"{NAME}: choices must be at most {MAX_CHOICES} texts of {MAX_CHOICE_CHARACTERS} characters.")


def _is_choice(given: JsonValue) -> bool:
    return isinstance(given, str) and bool(given.strip()) and len(given) <= MAX_CHOICE_CHARACTERS


def question_of(pending: PendingApproval | None) -> Action | None:
    """The question that waits for its answer, or None where something else waits, or nothing."""
    if pending is None or pending.decision is not None or len(pending.gated) != 1:
        return None
    action = pending.actions[pending.gated[0]]
    return action if action.tool == NAME else None


def choices_of(action: Action) -> tuple[str, ...]:
    """The answers that the question offers."""
    return tuple(str(choice) for choice in cast("list[JsonValue]", action.arguments.get("choices") or []))


def answered(pending: PendingApproval, answer: str) -> ApproveWith:
    """The decision that answers the question."""
    [call_id] = pending.gated
    arguments = {**pending.actions[call_id].arguments, "answer": answer[:MAX_ANSWER_CHARACTERS]}
    return ApproveWith(arguments={call_id: arguments})
