"""Operations with which an application answers an interaction: the first answer, and what its token allows after it.

Source: docs.discord.com, "Receiving and Responding to Interactions". No operation here needs the bot's token.
"""

from __future__ import annotations

from typing import Any, Final

from adapters.emulators.discord.call import Call
from adapters.emulators.discord.components import nodes_of
from adapters.emulators.discord.errors import ApiError, bad_request, invalid_field, unknown
from adapters.emulators.discord.methods.messages import shown
from adapters.emulators.discord.platform import Platform
from adapters.emulators.discord.posting import changed, compose, fill, post, remove
from adapters.emulators.discord.rules import check_message
from adapters.emulators.discord.world import (
    AnswerType,
    Interaction,
    InteractionType,
    Message,
    MessageFlag,
    MessageType,
)
from adapters.emulators.wire_json import JsonObject, items_of, object_of

ON_COMPONENT: Final = frozenset({AnswerType.DEFERRED_UPDATE, AnswerType.UPDATE})
MAX_FORM_PARTS: Final = 5
MAX_TITLE: Final = 45
MAX_CHOICES: Final = 25
MESSAGE_MENU: Final = 3


# -- the first answer


def create_interaction_response(platform: Platform, call: Call) -> JsonObject | None:
    interaction = platform.world.interactions.get(call.path["interaction_token"])
    if interaction is None or interaction.id != call.path["interaction_id"]:
        raise unknown(10062)
    if interaction.answer is not None:
        raise bad_request(40060, "Interaction has already been acknowledged.")
    if interaction.failed or platform.clock.now() - interaction.at >= platform.knobs.interaction_deadline:
        raise unknown(10062)
    kind = AnswerType(call.given["type"])
    if not _fits(kind, interaction):
        words = "Interaction callback type is invalid for this interaction"
        raise invalid_field(["type"], "INTERACTION_APPLICATION_COMMAND_INVALID_CALLBACK_TYPE", words)
    _check(platform, call, kind, interaction)
    message = _do(platform, call, kind, interaction)
    interaction.answer = call.given
    interaction.answered_at = platform.clock.now()
    _show(platform, interaction, kind)
    return _answered(platform, call, interaction, kind, message) if call.query.get("with_response") else None


def _fits(kind: AnswerType, interaction: Interaction) -> bool:
    match kind:
        case AnswerType.PONG:
            return False
        case AnswerType.AUTOCOMPLETE:
            return interaction.type is InteractionType.AUTOCOMPLETE
        case _ if interaction.type is InteractionType.AUTOCOMPLETE:
            return False
        case AnswerType.DEFERRED_UPDATE | AnswerType.UPDATE:
            return interaction.message is not None and interaction.type is not InteractionType.COMMAND
        case AnswerType.FORM:
            return interaction.type is not InteractionType.FORM
        case _:
            return True


def _check(platform: Platform, call: Call, kind: AnswerType, interaction: Interaction) -> None:
    data: JsonObject = object_of(call.given, "data")
    match kind:
        case AnswerType.MESSAGE:
            _under_data(lambda: check_message(data, call.uploads, platform.knobs))
        case AnswerType.UPDATE:
            _under_data(lambda: check_message(data, call.uploads, platform.knobs, edited=interaction.message))
        case AnswerType.FORM:
            _check_form(data)
        case AnswerType.AUTOCOMPLETE:
            if len(items_of(data, "choices")) > MAX_CHOICES:
                words = f"Must be {MAX_CHOICES} or fewer in length."
                raise invalid_field(["data", "choices"], "BASE_TYPE_MAX_LENGTH", words)
        case _:
            return


def _under_data(check: Any) -> None:
    """Run a check of a message that stands below `data`."""
    try:
        check()
    except ApiError as error:
        if error.errors is not None:
            error.errors = {"data": error.errors}
        raise


def _check_form(data: JsonObject) -> None:
    parts: list[JsonObject] = items_of(data, "components")
    if not 1 <= len(parts) <= MAX_FORM_PARTS:
        words = f"Must be between 1 and {MAX_FORM_PARTS} in length."
        raise invalid_field(["data", "components"], "BASE_TYPE_BAD_LENGTH", words)
    seen: set[str] = set()
    for node in nodes_of(parts):
        if (custom_id := node.get("custom_id")) in seen:
            words = "Component custom id cannot be duplicated"
            raise invalid_field(["data", "components"], "COMPONENT_CUSTOM_ID_DUPLICATED", words)
        seen |= {custom_id} if custom_id is not None else set()


def _do(platform: Platform, call: Call, kind: AnswerType, interaction: Interaction) -> Message | None:
    data: JsonObject = object_of(call.given, "data")
    match kind:
        case AnswerType.MESSAGE | AnswerType.DEFERRED_MESSAGE:
            given = data if kind is AnswerType.MESSAGE else {"flags": data.get("flags")}
            message = _answer_message(platform, call, interaction, given)
            if kind is AnswerType.DEFERRED_MESSAGE:
                message.flags |= MessageFlag.LOADING
            interaction.original = post(platform, message)
        case AnswerType.UPDATE:
            message = _carrier(platform, interaction)
            fill(platform, platform.world.channels[message.channel], message, data, call.uploads)
            interaction.original = changed(platform, message)
        case AnswerType.DEFERRED_UPDATE:
            interaction.original = interaction.message
        case _:
            return None
    return interaction.original


def _answer_message(platform: Platform, call: Call, interaction: Interaction, given: JsonObject) -> Message:
    place = platform.world.channels[interaction.channel]
    kind = MessageType.DEFAULT
    if interaction.type is InteractionType.COMMAND:
        from_menu = interaction.data.get("type", 1) != 1
        kind = MessageType.CONTEXT_MENU_COMMAND if from_menu else MessageType.CHAT_INPUT_COMMAND
    elif interaction.message is not None:
        kind = MessageType.REPLY
    reference: JsonObject | None = None
    if kind is MessageType.REPLY and interaction.message is not None:
        reference = {"type": 0, "channel_id": interaction.message.channel, "message_id": interaction.message.id}
        reference |= {"guild_id": interaction.guild} if interaction.guild is not None else {}
        given = {"allowed_mentions": {"parse": ["users", "roles"]}, **given}
    return compose(
        platform, place, call.bot.id, given, call.uploads, type=kind, interaction=interaction, reference=reference
    )


def _carrier(platform: Platform, interaction: Interaction) -> Message:
    """The message whose component was pressed, if it is still there."""
    message = interaction.message
    if message is None or message.id not in platform.world.channels[message.channel].messages:
        raise unknown(10008)
    return message


def _show(platform: Platform, interaction: Interaction, kind: AnswerType) -> None:
    data: JsonObject = {"interaction": interaction.id, "type": int(kind), "user_id": interaction.user}
    if kind is AnswerType.FORM and interaction.answer is not None:
        data["form"] = interaction.answer["data"]
    platform.show("answer", interaction.channel, data)


def _answered(
    platform: Platform, call: Call, interaction: Interaction, kind: AnswerType, message: Message | None
) -> JsonObject:
    about: JsonObject = {"id": interaction.id, "type": int(interaction.type)}
    if message is None or kind is AnswerType.DEFERRED_UPDATE:
        return {"interaction": about}
    about |= {
        "response_message_id": message.id,
        "response_message_loading": kind is AnswerType.DEFERRED_MESSAGE,
        "response_message_ephemeral": message.ephemeral,
    }
    if kind is AnswerType.DEFERRED_MESSAGE:
        return {"interaction": about}
    return {"interaction": about, "resource": {"type": int(kind), "message": shown(platform, call.bot, message)}}


# -- by its token, for fifteen minutes


def _alive(platform: Platform, call: Call) -> Interaction:
    """The answered interaction behind a token. Raises ApiError 10015 or 50027."""
    interaction = platform.world.interactions.get(call.path["webhook_token"])
    if interaction is None or interaction.answer is None or call.path["webhook_id"] != interaction.bot:
        raise unknown(10015)
    if platform.clock.now() - interaction.at >= platform.knobs.interaction_life:
        raise ApiError(401, 50027, "Invalid Webhook Token")
    return interaction


def execute_webhook(platform: Platform, call: Call) -> JsonObject | None:
    interaction = _alive(platform, call)
    check_message(call.given, call.uploads, platform.knobs)
    original = interaction.original
    if original is not None and original.flags & MessageFlag.LOADING:
        # Documented: right after a deferred answer the first follow-up takes that answer's place.
        return _edit(platform, call, original)
    place = platform.world.channels[interaction.channel]
    reference: JsonObject | None = None
    message = compose(
        platform, place, call.bot.id, call.given, call.uploads, interaction=interaction, reference=reference
    )
    post(platform, message)
    # Follow-ups to an interaction answer with the message whether `wait` was asked for or not.
    return shown(platform, call.bot, message)


def _edit(platform: Platform, call: Call, message: Message) -> JsonObject:
    place = platform.world.channels[message.channel]
    check_message(call.given, call.uploads, platform.knobs, edited=message)
    was_loading = bool(message.flags & MessageFlag.LOADING)
    fill(platform, place, message, call.given, call.uploads)
    message.flags &= ~MessageFlag.LOADING
    changed(platform, message, edited=not was_loading)
    return shown(platform, call.bot, message)


def _original(platform: Platform, call: Call) -> Message:
    message = _alive(platform, call).original
    if message is None or message.id not in platform.world.channels[message.channel].messages:
        raise unknown(10008)
    return message


def _own(platform: Platform, call: Call) -> Message:
    interaction = _alive(platform, call)
    place = platform.world.channels[interaction.channel]
    message = place.messages.get(call.path["message_id"])
    belongs = message is not None and message.interaction is not None and message.application == interaction.bot
    if message is None or not (belongs or message is interaction.original):
        raise unknown(10008)
    return message


def get_original(platform: Platform, call: Call) -> JsonObject:
    return shown(platform, call.bot, _original(platform, call))


def edit_original(platform: Platform, call: Call) -> JsonObject:
    return _edit(platform, call, _original(platform, call))


def delete_original(platform: Platform, call: Call) -> None:
    remove(platform, _original(platform, call))


def get_follow_up(platform: Platform, call: Call) -> JsonObject:
    return shown(platform, call.bot, _own(platform, call))


def edit_follow_up(platform: Platform, call: Call) -> JsonObject:
    return _edit(platform, call, _own(platform, call))


def delete_follow_up(platform: Platform, call: Call) -> None:
    remove(platform, _own(platform, call))


HANDLERS = {
    "create_interaction_response": create_interaction_response,
    "execute_webhook": execute_webhook,
    "get_original_webhook_message": get_original,
    "update_original_webhook_message": edit_original,
    "delete_original_webhook_message": delete_original,
    "get_webhook_message": get_follow_up,
    "update_webhook_message": edit_follow_up,
    "delete_webhook_message": delete_follow_up,
}
